# SPDX-License-Identifier: Apache-2.0
"""A running platform for end-to-end tests: real processes, real guests, driven through the command line.

One platform is shared by most tests (fixture `e2e_platform` of ctest); tests that kill things start their own.
Environment: SPACE_BIN (folder of the binaries), SPACE_E2E (folder that holds the shared platform's state).
"""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BIN = os.environ.get("SPACE_BIN") or os.path.join(os.path.dirname(__file__), "../../build/dev/bin")
STATE = os.environ.get("SPACE_E2E") or os.path.join(BIN, "../e2e")


def wait_until(condition, what, seconds=30.0):
    """Waits for a condition, never for time alone."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"did not happen within {seconds} s: {what}")
        time.sleep(0.02)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pid_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return f.read().rsplit(b")", 1)[1].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


class Platform:
    def __init__(self, directory=None, port=None, arguments=()):
        self.directory = directory or tempfile.mkdtemp(prefix="space-e2e-")
        self.port = port or free_port()
        self.arguments = list(arguments)
        self.process = None
        self.pid = None

    # ---- life ----

    def start(self, seconds=60):
        self.log = open(os.path.join(self.directory + ".log"), "ab")
        self.process = subprocess.Popen(
            [os.path.join(BIN, "space"), "up", "--data", self.directory, "--listen", f"127.0.0.1:{self.port}", *self.arguments],
            stdout=subprocess.PIPE, stderr=self.log, start_new_session=True)
        self.pid = self.process.pid
        line = b""
        end = time.monotonic() + seconds
        os.set_blocking(self.process.stdout.fileno(), False)
        while not line.startswith(b"ready "):
            if self.process.poll() is not None:
                raise AssertionError(f"space up ended with {self.process.returncode}: {self.log_text()[-2000:]}")
            if time.monotonic() > end:
                raise AssertionError(f"space up was not ready within {seconds} s: {self.log_text()[-2000:]}")
            line = self.process.stdout.readline() or b""
            if not line:
                time.sleep(0.02)
        self.url = line.split()[1].decode()
        return self

    def log_text(self):
        with open(self.directory + ".log", "rb") as f:
            return f.read().decode(errors="replace")

    def stop(self):
        """Graceful; returns the exit code."""
        if self.process is None:
            return None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(40)
        finally:
            self.process.stdout.close()
            self.process = None

    def discard(self):
        with contextlib.suppress(Exception):
            self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.unlink(self.directory + ".log")

    def save(self, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            json.dump({"directory": self.directory, "port": self.port, "url": self.url, "pid": self.pid}, f)

    @classmethod
    def load(cls, path):
        with open(path) as f:
            saved = json.load(f)
        platform = cls(saved["directory"], saved["port"])
        platform.url, platform.pid = saved["url"], saved["pid"]
        return platform

    # ---- use ----

    @property
    def key(self):
        with open(os.path.join(self.directory, "admin.key")) as f:
            return f.read().strip()

    def environment(self):
        return dict(os.environ, SPACE_URL=self.url, SPACE_KEY=self.key)

    def space(self, *arguments, **options):
        """Runs the command line; output as bytes."""
        options.setdefault("timeout", 120)
        options.setdefault("capture_output", True)
        if "input" not in options and "stdin" not in options:
            options["stdin"] = subprocess.DEVNULL
        return subprocess.run([os.path.join(BIN, "space"), *map(str, arguments)], env=self.environment(), **options)

    def ok(self, *arguments, **options):
        done = self.space(*arguments, **options)
        if done.returncode != 0:
            raise AssertionError(f"space {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr.decode(errors='replace')[-2000:]}")
        return done.stdout

    def json(self, *arguments, **options):
        words = list(arguments)
        words.insert(words.index("--") if "--" in words else len(words), "--json")  # what follows -- is the guest's
        return json.loads(self.ok(*words, **options))

    def create(self, *arguments, **options):
        return self.json("session", "create", *arguments, **options)

    def kill(self, session):
        self.ok("session", "kill", session)

    @contextlib.contextmanager
    def session(self, *arguments):
        made = self.create(*arguments)
        try:
            yield made["id"]
        finally:
            self.space("session", "kill", made["id"])

    def sh(self, session, script, **options):
        """A shell script in the guest; returns stdout as text."""
        return self.ok("exec", session, "--", "sh", "-c", script, **options).decode()

    def request(self, method, path, body=None, headers=None, key=None):
        """Raw HTTP: (status, headers, body)."""
        import http.client
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        fields = {"Authorization": f"Bearer {self.key if key is None else key}", **(headers or {})}
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            fields.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, fields)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), data

    # ---- what is there ----

    @property
    def node_id(self):
        with open(os.path.join(self.directory, "node.id")) as f:
            return f.read().strip()

    def processes(self):
        """pid -> name of everything that belongs to this platform."""
        found = {}
        marks = (self.node_id.encode(), self.directory.encode())
        for pid in filter(str.isdigit, os.listdir("/proc")):
            if int(pid) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    command = f.read()
                with open(f"/proc/{pid}/cgroup", "rb") as f:
                    group = f.read()
                parent = self._parent(pid)
                if any(m in command or m in group for m in marks) or parent == self.pid:
                    if b"python3" not in command.split(b"\0")[0]:
                        found[int(pid)] = os.path.basename(command.split(b"\0")[0].decode(errors="replace"))
        return found

    @staticmethod
    def _parent(pid):
        with open(f"/proc/{pid}/stat", "rb") as f:
            return int(f.read().rsplit(b")", 1)[1].split()[1])

    def child(self, name):
        """pid of a service process."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if self._parent(pid) == self.pid and os.path.basename(os.readlink(f"/proc/{pid}/exe")) == name and pid_alive(pid):
                    return int(pid)
        return None

    def vmms(self):
        return {pid for pid, name in self.processes().items() if name.startswith("qemu-system")}

    def census(self):
        """What could leak, counted."""
        processes = self.processes()
        spaces = set()
        for pid in processes:
            for kind in ("mnt", "pid", "net", "ipc", "uts"):
                with contextlib.suppress(OSError):
                    spaces.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
        with open("/proc/self/mountinfo") as f:
            mounts = sum(self.directory in line for line in f)
        groups = 0
        for root, directories, _ in os.walk("/sys/fs/cgroup"):
            groups += sum(1 for d in directories if self.node_id in os.path.join(root, d))
        files = sum(len(d) + len(f) for root, d, f in os.walk(self.directory) if "/log" not in root)
        descriptors = {name: len(os.listdir(f"/proc/{pid}/fd")) for pid, name in processes.items()
                       if name in ("space", "space-node", "space-link", "space-control")}
        return {"processes": len(processes), "namespaces": len(spaces), "mounts": mounts, "cgroups": groups,
                "files": files, "descriptors": descriptors}


class SharedPlatformTest(unittest.TestCase):
    """Tests on the platform that the ctest fixture started."""
    @classmethod
    def setUpClass(cls):
        cls.p = Platform.load(os.path.join(STATE, "platform.json"))

    def assert_error(self, done, reason, code=1):
        text = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, text)
        self.assertIn(reason, text)
        return text


class OwnPlatformTest(unittest.TestCase):
    """Tests that break things: each starts and discards its own platform."""
    def setUp(self):
        self.p = Platform().start()
        self.addCleanup(self.p.discard)


if __name__ == "__main__":
    path = os.path.join(STATE, "platform.json")
    if sys.argv[1:] == ["start"]:
        Platform().start().save(path)
    elif sys.argv[1:] == ["stop"]:
        shared = Platform.load(path)
        os.kill(shared.pid, signal.SIGTERM)
        wait_until(lambda: not pid_alive(shared.pid), "space up ends", 40)
        left = {pid: name for pid, name in shared.processes().items()}
        shared.discard()
        os.unlink(path)
        if left:
            sys.exit(f"left behind after SIGTERM: {left}")
    else:
        sys.exit("usage: harness.py start|stop")
