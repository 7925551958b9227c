# SPDX-License-Identifier: Apache-2.0
"""space-control as a real process, with a scripted node and link behind it, and clients that hold every answer against
api/openapi.yaml. Environment: SPACE_BIN (folder of the binaries)."""
import base64
import hashlib
import http.client
import json
import os
import re
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import warnings

import yaml

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jsonschema

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
BIN = os.environ.get("SPACE_BIN") or os.path.join(ROOT, "build/dev/bin")
with open(os.path.join(ROOT, "api/openapi.yaml"), encoding="utf-8") as f:
    OPENAPI = yaml.load(f, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
with open(os.path.join(ROOT, "api/errors.yaml"), encoding="utf-8") as f:
    ERRORS = {entry["reason"]: entry for entry in yaml.load(f, getattr(yaml, "CSafeLoader", yaml.SafeLoader))}


def wait_until(condition, what, seconds=60.0):
    """Waits for a condition, never for time alone."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"did not happen within {seconds} s: {what}")
        time.sleep(0.01)


# ---- the description ----

def resolve(node):
    while isinstance(node, dict) and "$ref" in node and len(node) == 1:
        target = OPENAPI
        for part in node["$ref"].lstrip("#/").split("/"):
            target = target[part]
        node = target
    return node


def check_schema(schema, value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        resolver = jsonschema.RefResolver.from_schema(OPENAPI)
        jsonschema.Draft202012Validator(schema, resolver=resolver, format_checker=jsonschema.FormatChecker()).validate(value)


def find_operation(method, path):
    """The path template and operation that describe a request, or None."""
    segments = path.split("/")
    best = None
    for template, item in OPENAPI["paths"].items():
        parts = template.split("/")
        if len(parts) != len(segments):
            continue
        if all(p.startswith("{") and s or p == s for p, s in zip(parts, segments)):
            fixed = sum(not p.startswith("{") for p in parts)
            if best is None or fixed > best[0]:
                best = (fixed, template, item)
    if best is None or method.lower() not in best[2]:
        return None
    return best[1], best[2][method.lower()]


SEEN = set()  # (method, template, status): what has been exercised


def check_answer(method, target, answer):
    """Holds an answer against the description; every request of these tests goes through here."""
    path = urllib.parse.urlsplit(target).path
    found = find_operation(method, path)
    if answer.status >= 400 and method != "HEAD":
        check_schema(OPENAPI["components"]["schemas"]["Error"], answer.json())
        error = answer.json()["error"]
        listed = ERRORS.get(error["reason"])
        assert listed is not None, f"{error['reason']} is not in api/errors.yaml"
        assert listed["code"] != error["code"] or listed["status"] == answer.status, f"{error['reason']}: {answer.status}, api/errors.yaml says {listed['status']}"
    if found is None:
        assert answer.status in (400, 401, 404, 405), f"{method} {target} answered {answer.status} but is not described"
        return
    template, operation = found
    SEEN.add((method, template, answer.status))
    described = operation["responses"].get(str(answer.status), operation["responses"].get("default"))
    assert described is not None, f"{method} {template}: {answer.status} is not described"
    described = resolve(described)
    content = described.get("content", {})
    if method == "HEAD" or answer.status == 204:
        assert answer.body == b""
        return
    kind = answer.headers.get("Content-Type")
    assert kind in content, f"{method} {template} {answer.status}: {kind} is not described"
    if kind == "application/json":
        check_schema(resolve(content[kind]["schema"]), answer.json())


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body.decode("utf-8"))  # strictly UTF-8, whatever a guest sent

    def reason(self):
        return self.json()["error"]["reason"] if self.status >= 400 else ""

    def field(self):
        return self.json()["error"]["details"].get("field")


class WebSocket:
    """A blocking client, just enough of RFC 6455."""

    def __init__(self, port, target, key, timeout=60):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        nonce = base64.b64encode(secrets.token_bytes(16)).decode()
        authorization = f"Authorization: Bearer {key}\r\n" if key else ""
        self.socket.sendall((f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                             f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {nonce}\r\n{authorization}\r\n").encode())
        self.buffer = b""
        head = self._until(b"\r\n\r\n")
        self.status = int(head.split(b" ", 2)[1])
        self.code = None
        self.target = target
        if self.status != 101:
            length = int(re.search(rb"Content-Length: (\d+)", head).group(1))
            self.answer = Answer(self.status, {"Content-Type": "application/json"}, self._take(length))
        else:
            expected = base64.b64encode(hashlib.sha1((nonce + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
            assert expected in head
            found = find_operation("GET", urllib.parse.urlsplit(target).path)
            assert found and "101" in found[1]["responses"], f"{target} is not described as a WebSocket"
            SEEN.add(("GET", found[0], 101))

    def _more(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.buffer += data

    def _until(self, mark):
        while mark not in self.buffer:
            self._more()
        head, self.buffer = self.buffer.split(mark, 1)
        return head + mark

    def _take(self, size):
        while len(self.buffer) < size:
            self._more()
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def send_frame(self, opcode, data=b""):
        mask = secrets.token_bytes(4)
        size = len(data)
        head = bytes([0x80 | opcode])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 65536:
            head += bytes([0x80 | 126]) + struct.pack(">H", size)
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", size)
        repeated = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big") if size else b""
        self.socket.sendall(head + mask + masked)

    def send_json(self, value):
        self.send_frame(1, json.dumps(value).encode())

    def send_binary(self, data):
        self.send_frame(2, data)

    def receive(self):
        """The next message: a dict of a text frame, bytes of a binary frame, or None after the close."""
        fragments, kind = b"", None
        while True:
            first, second = self._take(2)
            size = second & 0x7F
            if size == 126:
                size = struct.unpack(">H", self._take(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self._take(8))[0]
            data = self._take(size)
            opcode = first & 0x0F
            if opcode < 8:  # a message may come in several frames, with control frames between
                fragments, kind = fragments + data, opcode or kind
                if not first & 0x80:
                    continue
                data, opcode = fragments, kind
            if opcode == 1:
                value = json.loads(data.decode("utf-8"))
                check_schema(OPENAPI["components"]["schemas"]["ServerFrame"], value)
                if value["type"] == "error":
                    assert value["error"]["reason"] in ERRORS, f"{value['error']['reason']} is not in api/errors.yaml"
                return value
            if opcode == 2:
                return data
            if opcode == 8:
                self.code = struct.unpack(">H", data[:2])[0] if len(data) >= 2 else None
                self.send_frame(8, data[:2])
                return None
            if opcode == 9:
                self.send_frame(10, data)

    def rest(self):
        """Everything until the close: text frames, and the bytes of each channel."""
        frames, channels = [], {}
        while True:
            message = self.receive()
            if message is None:
                return frames, channels
            if isinstance(message, dict):
                frames.append(message)
            else:
                channels[message[0]] = channels.get(message[0], b"") + message[1:]

    def close(self):
        self.socket.close()


class Control:
    """space-control on a data directory of its own, as space up starts it: with descriptors only."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="space-control-")
        self.run = os.path.join(self.directory, "run")
        self.state = os.path.join(self.directory, "control")
        os.mkdir(self.run)
        os.mkdir(self.state)
        self.key = "space_" + base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(128)
        self.port = self.listener.getsockname()[1]
        self.fake = subprocess.Popen([os.path.join(BIN, "space-fake-platform"), self.run], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)
        assert self.fake.stdout.readline() == "ready\n"
        self.process = None
        self.log = os.path.join(self.directory, "control.log")

    def tell(self, line):
        self.fake.stdin.write(line + "\n")
        self.fake.stdin.flush()
        answer = self.fake.stdout.readline().strip()
        assert answer != "unknown", line
        if line.startswith("start_"):
            self.user()  # a new socket belongs to whom space up gives it
        return answer

    def start(self, ready=True):
        state = os.open(self.state, os.O_RDONLY | os.O_DIRECTORY)
        run = os.open(self.run, os.O_RDONLY | os.O_DIRECTORY)
        fds = (self.listener.fileno(), state, run)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [os.path.join(BIN, "space-control"), "--api-fd", str(fds[0]), "--state-fd", str(state), "--run-fd", str(run),
                 "--admin-key-sha256", hashlib.sha256(self.key.encode()).hexdigest(), "--url", f"http://127.0.0.1:{self.port}"],
                pass_fds=fds, stderr=log, cwd="/", user=self.user(), group=self.user(), extra_groups=[] if self.user() is not None else None)
        os.close(state)
        os.close(run)
        if ready:
            self.wait_ready()
        return self

    def user(self):
        """An unprivileged user when the tests run as root: control needs nothing but its descriptors."""
        if os.geteuid() != 0:
            return None
        user = 61234
        for path in (self.state, self.run, *(os.path.join(self.run, n) for n in os.listdir(self.run)),
                     *(os.path.join(self.state, n) for n in os.listdir(self.state))):
            os.chown(path, user, user)
        return user

    def wait_ready(self):
        def ready():
            assert self.process.poll() is None, open(self.log).read()[-2000:]
            try:
                return self.request("GET", "/v1/health", key=None).json()["status"] == "ok"
            except OSError:
                return False
        wait_until(ready, "control is ready")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """As space up does: SIGTERM, exit code 0."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()
        self.fake.stdin.close()
        self.fake.wait(timeout=20)
        self.fake.stdout.close()
        self.listener.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # ---- HTTP ----

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def request(self, method, target, body=None, headers=None, key=True):
        headers = dict(headers or {})
        if key:
            headers["Authorization"] = "Bearer " + (self.key if key is True else key)
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        connection = self.connect()
        try:
            connection.request(method, target, body=body, headers=headers)
            response = connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
        finally:
            connection.close()
        check_answer(method, target, answer)
        return answer

    def websocket(self, target, key=True, timeout=60):
        return WebSocket(self.port, target, self.key if key is True else key, timeout)

    def create(self, **fields):
        answer = self.request("POST", "/v1/sessions", fields)
        assert answer.status == 201, answer.body
        return answer.json()

    def memory_kib(self):
        """The most that the process ever held."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmHWM:\s+(\d+)", status.read()).group(1))


class ControlTest(unittest.TestCase):
    """One control plane for the tests of a class."""
    @classmethod
    def setUpClass(cls):
        cls.control = Control().start()

    @classmethod
    def tearDownClass(cls):
        cls.control.close()

    def request(self, *arguments, **named):
        return self.control.request(*arguments, **named)

    def refused(self, answer, status, reason, field=None):
        self.assertEqual((answer.status, answer.reason()), (status, reason), answer.body)
        if field is not None:
            self.assertEqual(answer.field(), field)
