# SPDX-License-Identifier: Apache-2.0
"""HTTP itself: authentication, bodies, methods, clients that misbehave; and that every described operation is served."""
import gzip
import json
import os
import socket
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import platform_under_test as put  # noqa: E402
from platform_under_test import ControlTest, OPENAPI, wait_until  # noqa: E402


class Authentication(ControlTest):
    def test_everything_described_with_a_key_needs_one(self):
        for template, item in OPENAPI["paths"].items():
            for method, operation in item.items():
                if method == "parameters" or operation.get("security") == []:
                    continue
                target = template.replace("{port}", "80").replace("{", "x").replace("}", "x")
                for key in (None, "space_" + "w" * 43, "x" * 3000):
                    answer = self.request(method.upper(), target, key=key)
                    self.assertEqual(answer.status, 401, (method, template))
                    self.assertEqual(answer.headers["WWW-Authenticate"], "Bearer")

    def test_other_schemes_and_unknown_paths_are_401_too(self):
        answer = self.request("GET", "/v1/sessions", key=None, headers={"Authorization": "Basic " + self.control.key})
        self.refused(answer, 401, "control.unauthenticated")
        self.refused(self.request("GET", "/v1/nothere", key=None), 401, "control.unauthenticated")

    def test_a_stream_needs_a_key_before_the_upgrade(self):
        stream = self.control.websocket("/v1/sessions/x/exec", key=None)
        self.addCleanup(stream.close)
        self.assertEqual(stream.status, 401)

    def test_health_and_description_are_open(self):
        self.assertEqual(self.request("GET", "/v1/health", key=None).status, 200)
        served = self.request("GET", "/v1/openapi.yaml", key=None)
        with open(os.path.join(put.ROOT, "api/openapi.yaml"), "rb") as file:
            self.assertEqual(served.body, file.read())

    def test_the_key_is_nowhere_in_the_log_and_the_database(self):
        self.request("GET", "/v1/sessions")
        for folder, _, files in os.walk(self.control.directory):
            for name in files:
                if name.endswith(".sock"):
                    continue
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertNotIn(self.control.key.encode(), file.read(), name)


class Bodies(ControlTest):
    def test_malformed_json(self):
        for body in (b"{", b"[1]", b'"x"', b"{\"name\":\"\xff\"}", b"{} {}", b"nonsense", b"[" * 100000):
            answer = self.request("POST", "/v1/sessions", body, {"Content-Type": "application/json"})
            self.refused(answer, 400, "control.malformed_json")

    def test_wrong_content_type(self):
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            self.refused(self.request("POST", "/v1/sessions", b"{}", {"Content-Type": kind}), 415, "http.wrong_content_type")
        answer = self.request("POST", "/v1/sessions", b"{}", {"Content-Type": "Application/JSON; charset=utf-8"})
        self.assertEqual(answer.status, 201)

    def test_oversized_bodies(self):
        large = b'{"name":"' + b"x" * (1 << 20) + b'"}'
        self.refused(self.request("POST", "/v1/sessions", large, {"Content-Type": "application/json"}), 413, "http.body_too_large")
        pieces = (b"x" * 65536 for _ in range(32))
        self.refused(self.request("POST", "/v1/sessions", pieces, {"Content-Type": "application/json"}), 413, "http.body_too_large")
        bomb = gzip.compress(b" " * (200 << 20), 1)
        answer = self.request("POST", "/v1/sessions", bomb, {"Content-Type": "application/json", "Content-Encoding": "gzip"})
        self.refused(answer, 413, "http.body_too_large")

    def test_compressed_json(self):
        answer = self.request("POST", "/v1/sessions", gzip.compress(b'{"ttl_seconds":60}'),
                              {"Content-Type": "application/json", "Content-Encoding": "gzip"})
        self.assertEqual((answer.status, answer.json()["ttl_seconds"]), (201, 60))


class Paths(ControlTest):
    def test_wrong_methods_say_what_is_allowed(self):
        answer = self.request("PUT", "/v1/sessions")
        self.refused(answer, 405, "http.method_not_allowed")
        self.assertEqual(set(answer.headers["Allow"].split(", ")), {"GET", "POST"})
        self.refused(self.request("POST", "/v1/health"), 405, "http.method_not_allowed")

    def test_unknown_paths(self):
        for path in ("/", "/v1", "/v1/", "/v2/sessions", "/v1/sessions/", "/v1/sessions//exec", "/v1/sessions/x/y/z"):
            self.refused(self.request("GET", path), 404, "http.no_such_route")

    def test_a_stream_asked_plainly_says_what_it_wants(self):
        for path in ("exec", "commands/c/attach", "files/watch?path=/", "ports/80"):
            self.refused(self.request("GET", "/v1/sessions/x/" + path), 426, "http.upgrade_required")

    def test_every_described_operation_is_served(self):
        for template, item in OPENAPI["paths"].items():
            for method in item:
                if method != "parameters":
                    target = template.replace("{port}", "80").replace("{", "x").replace("}", "x")
                    answer = self.request(method.upper(), target + "?path=/x", headers={"Content-Type": "application/json"})
                    self.assertNotIn(answer.status, (405, 500, 501), (method, template))
                    if method != "head" and answer.status == 404:
                        self.assertNotEqual(answer.reason(), "http.no_such_route", (method, template))

    def test_nothing_is_served_that_is_not_described(self):
        with open(os.path.join(put.ROOT, "src/control/api/api.cc"), encoding="utf-8") as source:
            import re
            served = set(re.findall(r'add\("([A-Z]+)", "([^"]+)"', source.read()))
        described = {(m.upper(), t) for t, item in OPENAPI["paths"].items() for m in item if m != "parameters"}
        self.assertEqual(served, described)


class Misbehaviour(ControlTest):
    def raw(self, data, half_close=True):
        with socket.create_connection(("127.0.0.1", self.control.port), timeout=30) as client:
            try:
                client.sendall(data)
                if half_close:
                    client.shutdown(socket.SHUT_WR)
                answer = b""
                while piece := client.recv(65536):
                    answer += piece
                return answer
            except ConnectionError:
                return b""

    def test_garbage_gets_a_proper_error(self):
        answer = self.raw(b"\x16\x03\x01 hello\r\n\r\n")
        head, body = answer.split(b"\r\n\r\n", 1)
        self.assertTrue(head.startswith(b"HTTP/1.1 400 "))
        self.assertEqual(json.loads(body)["error"]["reason"], "http.malformed_request")
        self.assertIn(b" 431 ", self.raw(b"GET / HTTP/1.1\r\nX: " + b"y" * 70000 + b"\r\n\r\n"))

    def test_headers_can_not_be_injected(self):
        answer = self.raw(b"GET /v1/sessions/a%0d%0aX-Evil:%201/files?path=/%0d%0aX-Evil:%201 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                          + self.control.key.encode() + b"\r\n\r\n")
        self.assertNotIn(b"X-Evil: 1\r\n", answer)

    def test_clients_that_leave_at_any_point_leave_nothing_behind(self):
        def descriptors():
            return len(os.listdir(f"/proc/{self.control.process.pid}/fd"))
        self.control.create(name="left")
        key = self.control.key.encode()
        before = descriptors()
        whole = (b"POST /v1/sessions/left/commands HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer " + key
                 + b"\r\nContent-Length: 22\r\n\r\n" + b'{"argv":["true","xx"]}')
        for cut in range(0, len(whole), 7):
            with socket.create_connection(("127.0.0.1", self.control.port)) as client:
                client.sendall(whole[:cut])
                if cut % 2:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        wait_until(lambda: descriptors() <= before, "descriptors are closed")
        self.assertEqual(self.request("GET", "/v1/health", key=None).status, 200)

    def test_a_waiting_client_that_leaves_does_not_stop_the_create(self):
        self.control.tell("hold")
        with socket.create_connection(("127.0.0.1", self.control.port)) as client:
            client.sendall(b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer "
                           + self.control.key.encode() + b"\r\nContent-Length: 17\r\n\r\n" + b'{"name":"orphan"}')
            wait_until(lambda: self.request("GET", "/v1/sessions?name=orphan").json()["items"], "it is accepted")
        self.control.tell("release")
        wait_until(lambda: self.request("GET", "/v1/sessions/orphan").json()["state"] == "running", "it runs all the same")


if __name__ == "__main__":
    unittest.main()
