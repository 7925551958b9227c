# SPDX-License-Identifier: Apache-2.0
"""What reaches into a sandbox: commands, files, ports, console. The guest is scripted (tests/testkit/platform)."""
import gzip
import hashlib
import os
import socket
import sys
import threading
import unittest
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from platform_under_test import Control, ControlTest, wait_until  # noqa: E402


class GuestTest(ControlTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.session = cls.control.create(name="guest")
        cls.base = "/v1/sessions/guest"

    def stream(self, target, first=None):
        stream = self.control.websocket(self.base + target)
        self.addCleanup(stream.close)
        self.assertEqual(stream.status, 101)
        if first is not None:
            stream.send_json(first)
        return stream

    def run_command(self, *argv, **fields):
        return self.stream("/exec", {"argv": list(argv), **fields}).rest()

    def error_of(self, stream):
        frames, _ = stream.rest()
        self.assertEqual(frames[-1]["type"], "error")
        self.assertFalse(any(f["type"] == "exited" for f in frames))
        return frames[-1]["error"]["reason"]


class Exec(GuestTest):
    def test_output_and_exit_code(self):
        frames, channels = self.run_command("echo", "hello", "world")
        self.assertEqual([f["type"] for f in frames], ["started", "exited"])
        self.assertEqual(channels, {1: b"hello world\n"})
        self.assertEqual((frames[1]["exit_code"], frames[1]["signal"]), (0, 0))
        frames, _ = self.run_command("exit", "42")
        self.assertEqual(frames[-1]["exit_code"], 42)

    def test_stderr_has_its_own_channel(self):
        _, channels = self.run_command("err", "oops")
        self.assertEqual(channels, {2: b"oops\n"})

    def test_a_signal_is_no_exit_code(self):
        frames, _ = self.run_command("signal", "9")
        self.assertEqual((frames[-1]["exit_code"], frames[-1]["signal"]), (-1, 9))

    def test_binary_output_is_untouched(self):
        _, channels = self.run_command("bytes")
        self.assertEqual(channels[1], bytes(range(256)))

    def test_environment_directory_user_and_timeout_arrive(self):
        _, channels = self.run_command("env", env={"A": "1=2", "B": "ü"}, cwd="/work", user="nobody", timeout_ms=1234)
        self.assertEqual(channels[1].decode(), "/work|nobody|1234|A=1=2|B=ü")

    def test_stdin_flows_until_its_end(self):
        stream = self.stream("/exec", {"argv": ["cat"], "stdin": True})
        self.assertEqual(stream.receive()["type"], "started")
        data = os.urandom(3_000_000)
        received = {}
        reader = threading.Thread(target=lambda: received.update(zip(("frames", "channels"), stream.rest())))
        reader.start()
        for at in range(0, len(data), 1_000_000):
            stream.send_binary(b"\0" + data[at:at + 1_000_000])
        stream.send_json({"type": "stdin_end"})
        reader.join()
        self.assertEqual(hashlib.sha256(received["channels"][1]).digest(), hashlib.sha256(data).digest())
        self.assertEqual(received["frames"][-1]["exit_code"], 0)

    def test_a_terminal_is_resized_and_signalled(self):
        stream = self.stream("/exec", {"argv": ["pty"], "pty": {"rows": 30, "cols": 100, "term": "xterm"}})
        self.assertEqual(stream.receive()["type"], "started")
        stream.send_json({"type": "resize", "rows": 50, "cols": 132})
        self.assertEqual(stream.receive(), b"\x0150x132\n")
        stream.send_json({"type": "signal", "signal": 2})
        frames, _ = stream.rest()
        self.assertEqual(frames[-1]["signal"], 2)

    def test_a_broken_stream_is_never_a_success(self):  # case 35
        self.assertEqual(self.error_of(self.stream("/exec", {"argv": ["no_exit"]})), "control.no_exit_status")
        self.assertEqual(self.error_of(self.stream("/exec", {"argv": ["drop"]})), "control.guest_unreachable")
        self.assertEqual(self.error_of(self.stream("/exec", {"argv": ["hostile"]})), "wire.unexpected_message")
        self.assertEqual(self.error_of(self.stream("/exec", {"argv": ["missing"]})), "guest.command_not_found")

    def test_errors_after_the_upgrade_are_frames(self):  # case 11
        stream = self.control.websocket("/v1/sessions/nothere/exec")
        self.addCleanup(stream.close)
        stream.send_json({"argv": ["true"]})
        self.assertEqual(self.error_of(stream), "control.no_such_session")
        self.assertEqual(stream.code, 1000)
        self.assertEqual(self.error_of(self.stream("/exec", {"argv": []})), "model.bad_argv")
        self.assertEqual(self.error_of(self.stream("/exec", {"argv": ["a\0b"]})), "model.bad_argv")
        self.assertEqual(self.error_of(self.stream("/exec", {"argv": ["x" * 60000]})), "model.command_too_large")
        self.assertEqual(self.error_of(self.stream("/exec", {"argv": ["true"], "tty": True})), "control.unknown_field")
        stream = self.stream("/exec")
        stream.send_frame(1, b"{nonsense")
        self.assertEqual(self.error_of(stream), "control.malformed_json")
        stream = self.stream("/exec")
        stream.send_binary(b"\0abc")
        self.assertEqual(self.error_of(stream), "control.bad_frame")

    def test_nonsense_in_the_middle_ends_the_stream_but_not_the_command(self):
        for frame in (b"{}", b'{"type":"dance"}', b'{"type":"resize","rows":0,"cols":1}', b'{"type":"signal","signal":99}'):
            stream = self.stream("/exec", {"argv": ["sleep"]})
            command = stream.receive()["command_id"]
            stream.send_frame(1, frame)
            self.assertTrue(self.error_of(stream).startswith(("control.", "model.")))
            self.assertEqual(stream.code, 1002)
            self.assertEqual(self.request("GET", f"{self.base}/commands/{command}").json()["state"], "running")

    def test_a_client_that_leaves_can_attach_again(self):  # case 31
        stream = self.stream("/exec", {"argv": ["cat"], "stdin": True, "command_id": "stays"})
        stream.receive()
        stream.send_binary(b"\0one")
        self.assertEqual(stream.receive(), b"\x01one")
        stream.socket.shutdown(socket.SHUT_RDWR)
        stream.close()
        again = self.stream("/commands/stays/attach?stdout_from=1")
        attached = again.receive()
        self.assertEqual((attached["type"], attached["stdout_from"]), ("attached", 1))
        self.assertEqual(again.receive(), b"\x01ne")
        again.send_json({"type": "stdin_end"})
        frames, _ = again.rest()
        self.assertEqual(frames[-1]["exit_code"], 0)
        ended = self.stream("/commands/stays/attach")
        frames, channels = ended.rest()
        self.assertEqual(([f["type"] for f in frames], channels), (["attached", "exited"], {1: b"one"}))
        self.assertEqual(self.error_of(self.stream("/commands/nothere/attach")), "guest.no_such_command")
        self.assertEqual(self.error_of(self.stream("/commands/stays/attach?stdout_from=x")), "control.bad_parameter")
        self.assertEqual(self.error_of(self.stream("/commands/UPPER/attach")), "model.bad_command_id")

    def test_a_detached_start_ends_the_stream(self):
        frames, _ = self.run_command("sleep", detached=True, command_id="background")
        self.assertEqual([f["type"] for f in frames], ["started"])
        self.assertEqual(self.request("GET", self.base + "/commands/background").json()["state"], "running")

    def test_a_silent_guest_is_an_error_in_time(self):
        self.control.tell("silent 1")
        reason = self.error_of(self.stream("/exec", {"argv": ["true"]}))
        refused = self.request("GET", self.base + "/metrics")
        self.control.tell("silent 0")
        self.assertEqual(reason, "link.guest_not_answering")
        self.refused(refused, 504, "link.guest_not_answering")

    def test_an_attachment_that_is_coming_is_waited_for(self):
        self.control.tell("forgetful 1")
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.request("GET", self.base + "/metrics")))
        thread.start()
        self.control.tell("forgetful 0")
        thread.join()
        self.assertEqual(answers[0].status, 200)
        self.control.tell("forgetful 1")
        refused = self.request("GET", self.base + "/metrics")
        self.control.tell("forgetful 0")
        self.refused(refused, 503, "control.guest_unreachable")

    def test_a_link_that_restarts_breaks_streams_with_an_error(self):
        stream = self.stream("/exec", {"argv": ["sleep"]})
        stream.receive()
        self.control.tell("stop_link")
        self.assertEqual(self.error_of(stream), "control.guest_unreachable")
        self.refused(self.request("GET", self.base + "/metrics"), 503, "control.guest_unreachable")
        self.assertFalse(self.request("GET", "/v1/health", key=None).json()["link"])
        self.control.tell("start_link")
        self.assertEqual(self.request("GET", self.base + "/metrics").status, 200)


class Commands(GuestTest):
    def test_start_show_list_and_signal(self):
        started = self.request("POST", self.base + "/commands", {"argv": ["sleep"], "command_id": "job"})
        self.assertEqual((started.status, started.json()["state"], started.json()["exit"]), (201, "running", None))
        self.assertIn("job", [c["id"] for c in self.request("GET", self.base + "/commands").json()["items"]])
        self.assertEqual(self.request("POST", self.base + "/commands/job/signal", {"signal": 15}).status, 204)
        ended = self.request("GET", self.base + "/commands/job").json()
        self.assertEqual((ended["state"], ended["exit"]["signal"]), ("exited", 15))
        self.refused(self.request("POST", self.base + "/commands/job/signal", {"signal": 0}), 400, "model.bad_signal", "signal")
        self.refused(self.request("POST", self.base + "/commands/nothere/signal", {"signal": 9}), 404, "guest.no_such_command")
        self.refused(self.request("GET", self.base + "/commands/nothere"), 404, "guest.no_such_command")
        self.refused(self.request("POST", self.base + "/commands", {"argv": ["missing"]}), 404, "guest.command_not_found")
        self.refused(self.request("POST", self.base + "/commands", {"argv": ["x"], "command_id": "job"}), 409, "guest.command_exists")

    def test_a_retried_start_is_one_command(self):
        headers = {"Idempotency-Key": "start once"}
        first = self.request("POST", self.base + "/commands", {"argv": ["sleep"]}, headers)
        again = self.request("POST", self.base + "/commands", {"argv": ["sleep"]}, headers)
        self.assertEqual((first.status, first.body), (again.status, again.body))
        self.refused(self.request("POST", self.base + "/commands", {"argv": ["true"]}, headers), 409, "control.idempotency_conflict")

    def test_a_start_survives_a_crash_between_doing_and_keeping(self):
        headers = {"Idempotency-Key": "start across a crash"}
        command = hashlib.sha256(f"{self.session['tenant']} start across a crash".encode()).hexdigest()[:20]
        self.run_command("sleep", detached=True, command_id=command)  # as a try that was not recorded left it
        again = self.request("POST", self.base + "/commands", {"argv": ["sleep"]}, headers)
        self.assertEqual((again.status, again.json()["id"]), (201, command))


class Files(GuestTest):
    def target(self, path, suffix="", **query):
        return self.base + "/files" + suffix + "?" + urllib.parse.urlencode({"path": path, **query})

    def test_sizes_around_the_limits_go_both_ways(self):  # case 34
        for size in (0, 18 << 10, (1 << 20) + 1, 5_000_000):
            data = os.urandom(size)
            written = self.request("PUT", self.target(f"/data{size}", mode="0600"), data)
            self.assertEqual((written.status, written.json()["size"], written.json()["mode"]), (201, size, "0600"))
            read = self.request("GET", self.target(f"/data{size}"))
            self.assertEqual((read.status, read.body == data), (200, True))
            self.assertEqual((read.headers["Content-Length"], read.headers["Space-File-Size"]), (str(size), str(size)))

    def test_chunked_and_compressed_uploads(self):
        data = os.urandom(100_000) * 5
        self.request("PUT", self.target("/chunked"), iter([data[:100], data[100:]]))
        self.assertEqual(self.request("GET", self.target("/chunked")).body, data)
        self.request("PUT", self.target("/packed"), gzip.compress(data), {"Content-Encoding": "gzip"})
        self.assertEqual(self.request("GET", self.target("/packed")).body, data)
        self.refused(self.request("PUT", self.target("/packed"), gzip.compress(data)[:-9], {"Content-Encoding": "gzip"}), 400, "http.malformed_gzip")
        self.refused(self.request("PUT", self.target("/packed"), b"x", {"Content-Encoding": "br"}), 415, "http.unsupported_encoding")
        self.assertEqual(self.request("GET", self.target("/packed")).body, data)  # as it was

    def test_an_upload_resumes_where_it_stopped(self):
        self.request("PUT", self.target("/resumed"), b"hello wor###")
        self.request("PUT", self.target("/resumed", offset=9), b"ld")
        self.assertEqual(self.request("GET", self.target("/resumed")).body, b"hello world")

    def test_ranges(self):
        self.request("PUT", self.target("/range"), bytes(range(100)))
        part = self.request("GET", self.target("/range"), headers={"Range": "bytes=10-19"})
        self.assertEqual((part.status, part.body, part.headers["Content-Range"]), (206, bytes(range(10, 20)), "bytes 10-19/100"))
        self.assertEqual(self.request("GET", self.target("/range"), headers={"Range": "bytes=90-"}).body, bytes(range(90, 100)))
        self.assertEqual(self.request("GET", self.target("/range"), headers={"Range": "bytes=-5"}).body, bytes(range(95, 100)))
        self.assertEqual(self.request("GET", self.target("/range"), headers={"Range": "bytes=95-500"}).body, bytes(range(95, 100)))
        self.refused(self.request("GET", self.target("/range"), headers={"Range": "bytes=100-"}), 416, "http.range_not_satisfiable")
        self.refused(self.request("GET", self.target("/range"), headers={"Range": "bytes=-0"}), 416, "http.range_not_satisfiable")
        self.assertEqual(self.request("GET", self.target("/range"), headers={"Range": "lines=1-2"}).status, 200)

    def test_head_has_size_and_mode(self):
        self.request("PUT", self.target("/headed", mode="0755"), b"12345")
        head = self.request("HEAD", self.target("/headed"))
        self.assertEqual((head.status, head.headers["Content-Length"], head.headers["Space-File-Mode"]), (200, "5", "0755"))
        self.assertEqual(self.request("HEAD", self.target("/nothere")).status, 404)
        self.assertEqual(self.request("HEAD", self.target("/")).status, 409)

    def test_files_that_lie_about_their_size(self):
        self.assertEqual(self.request("GET", self.target("/proc/x")).body, b"\0" * 5)  # says 0
        self.assertEqual(self.request("GET", self.target("/grown")).body, b"\0" * 10)  # cut where it ended
        with self.assertRaises(Exception):  # shorter than promised: broken, not complete
            self.request("GET", self.target("/shrunk"))

    def test_a_full_guest_disk_is_said_early(self):
        refused = self.request("PUT", self.target("/full"), b"x" * 5_000_000)
        self.refused(refused, 507, "guest.disk_full")

    def test_an_upload_that_breaks_off_leaves_the_file_as_it_was(self):
        self.request("PUT", self.target("/atomic"), b"old")
        with socket.create_connection(("127.0.0.1", self.control.port)) as client:
            client.sendall((f"PUT {self.target('/atomic')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.control.key}\r\n"
                            "Content-Length: 1000000\r\n\r\n").encode() + b"y" * 500_000)
        self.assertEqual(self.request("GET", self.target("/atomic")).body, b"old")

    def test_names_of_any_bytes(self):
        odd = "/odd %2f\xff\n\"".encode("latin-1")
        quoted = self.base + "/files?path=" + urllib.parse.quote(odd)
        self.request("PUT", quoted, b"odd")
        self.assertEqual(self.request("GET", quoted).body, b"odd")
        listed = self.request("GET", self.target("/hostile", "/list")).json()["items"]
        self.assertEqual([f["path"] for f in listed], ["a\ufffd\ufffd\ufffd", "b\n\"\\", "c\ufffd\ufffd\ufffd"])
        self.refused(self.request("GET", self.base + "/files?path=/a%00b"), 400, "model.bad_path", "path")
        self.refused(self.request("GET", self.base + "/files?path=relative"), 400, "model.bad_path", "path")
        self.refused(self.request("GET", self.base + "/files"), 400, "control.bad_parameter", "path")
        self.refused(self.request("GET", self.base + "/files?path=/%zz"), 400, "http.malformed_target")

    def test_listing_is_streamed(self):
        many = self.request("GET", self.target("/big/25000", "/list")).json()["items"]
        self.assertEqual((len(many), many[-1]["path"]), (25000, "file24999"))
        self.assertEqual(self.request("GET", self.target("/big/0", "/list")).json()["items"], [])
        self.refused(self.request("GET", self.target("/missing", "/list")), 404, "guest.no_such_file")

    def test_stat_move_mkdir_and_remove(self):
        self.request("PUT", self.target("/from"), b"x")
        self.assertEqual(self.request("GET", self.target("/from", "/stat", follow="false")).json()["size"], 1)
        move = {"from": "/from", "to": "/to"}
        headers = {"Idempotency-Key": "move once"}
        self.assertEqual(self.request("POST", self.base + "/files/move", move, headers).status, 204)
        self.assertEqual(self.request("POST", self.base + "/files/move", move, headers).status, 204)  # remembered
        self.refused(self.request("POST", self.base + "/files/move", move), 404, "guest.no_such_file")
        self.refused(self.request("POST", self.base + "/files/move", {"from": "/a"}), 400, "control.bad_field", "to")
        self.refused(self.request("POST", self.base + "/files/move", {"from": "a", "to": "/b"}), 400, "model.bad_path", "from")
        self.assertEqual(self.request("POST", self.base + "/files/mkdir", {"path": "/d", "mode": "0700", "parents": True}).status, 204)
        self.refused(self.request("POST", self.base + "/files/mkdir", {"path": "/exists"}), 409, "guest.exists")
        self.refused(self.request("POST", self.base + "/files/mkdir", {"path": "/d", "mode": "9"}), 400, "model.bad_mode", "mode")
        removed = {"Idempotency-Key": "remove once"}
        self.assertEqual(self.request("DELETE", self.target("/to", recursive="true"), headers=removed).status, 204)
        self.assertEqual(self.request("DELETE", self.target("/to", recursive="true"), headers=removed).status, 204)
        missing = {"Idempotency-Key": "remove nothing"}
        for _ in range(2):
            self.refused(self.request("DELETE", self.target("/to"), headers=missing), 404, "guest.no_such_file")
        self.refused(self.request("GET", self.target("/to", "/stat")), 404, "guest.no_such_file")

    def test_watching(self):
        watch = self.stream("/files/watch?path=/w&recursive=true")
        self.assertEqual(watch.receive(), {"type": "watching"})
        self.assertEqual(watch.receive(), {"type": "event", "kind": "created", "path": "/w/new\ufffd", "directory": True})
        watch.send_json({"type": "stdin_end"})
        self.assertEqual(self.error_of(watch), "control.bad_frame")
        self.assertEqual(self.error_of(self.stream("/files/watch?path=w")), "model.bad_path")


class Ports(GuestTest):
    def test_bytes_go_both_ways_and_each_side_ends(self):
        port = self.stream("/ports/7")
        self.assertEqual(port.receive(), {"type": "connected"})
        port.send_binary(b"ping\0\xff")
        self.assertEqual(port.receive(), b"ping\0\xff")
        port.send_json({"type": "end"})
        self.assertEqual(port.receive(), {"type": "end"})
        self.assertIsNone(port.receive())
        frames, _ = self.stream("/ports/8").rest()
        self.assertEqual([f["type"] for f in frames], ["connected", "end"])

    def test_errors(self):
        self.assertEqual(self.error_of(self.stream("/ports/9")), "guest.connection_refused")
        for port in ("0", "65536", "http"):
            self.assertEqual(self.error_of(self.stream("/ports/" + port)), "model.bad_port")
        after = self.stream("/ports/7")
        after.receive()
        after.send_json({"type": "end"})
        after.send_binary(b"too late")
        frames, _ = after.rest()
        self.assertIn(frames[-1]["type"], ("error", "end"))


class Console(GuestTest):
    def test_the_console_as_it_is(self):
        logs = self.request("GET", self.base + "/logs")
        self.assertIn(b"\x1b[31mred", logs.body)
        self.assertEqual(logs.headers["Content-Type"], "text/plain; charset=binary")

    def test_following_ends_with_the_sandbox(self):
        session = self.control.create(name="followed")
        connection = self.control.connect()
        connection.request("GET", "/v1/sessions/followed/logs?follow=true", headers={"Authorization": "Bearer " + self.control.key})
        response = connection.getresponse()
        self.assertTrue(response.read1().startswith(b"[    0.0] booting"))
        self.request("DELETE", "/v1/sessions/followed")
        response.read()
        connection.close()
        kept = self.request("GET", f"/v1/sessions/{session['id']}/logs")
        self.assertEqual(kept.body, f"console of {session['sandbox']['id']}\n".encode())

    def test_a_follower_that_leaves_is_noticed(self):
        def followers():
            with open(f"/proc/{self.control.process.pid}/net/tcp") as table:
                return sum(f":{self.control.port:04X}" in line.split()[1] and line.split()[3] in ("01", "08") for line in table.readlines()[1:])
        before = followers()
        with socket.create_connection(("127.0.0.1", self.control.port)) as client:
            client.sendall(f"GET {self.base}/logs?follow=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.control.key}\r\n\r\n".encode())
            client.recv(1000)
        wait_until(lambda: followers() <= before, "the connection is closed")


class Streams(GuestTest):
    """Constant memory, whatever the size. The long suite takes the sizes of the specification."""
    LONG = bool(os.environ.get("SPACE_LONG"))
    # Frames in flight, buffers of both directions and the allocator's reserve; far below any of the sizes moved.
    GROWTH_KIB = 48 << 10

    def test_output_into_a_slow_reader(self):
        size = (1 << 30) if self.LONG else (128 << 20)
        before = self.control.memory_kib()
        stream = self.stream("/exec", {"argv": ["flood", str(size)]})
        stream.receive()
        def stalled():  # nothing is read until the writer has nowhere to write any more
            with open(f"/proc/{self.control.process.pid}/stat") as stat:
                ticks = sum(int(n) for n in stat.read().rsplit(")", 1)[1].split()[11:13])
            changed, self.ticks = ticks != getattr(self, "ticks", None), ticks
            return not changed
        wait_until(lambda: all(stalled() or False for _ in range(3)), "the writer stands still")
        self.assertLess(self.control.memory_kib() - before, self.GROWTH_KIB)
        total = 0
        while True:
            message = stream.receive()
            if isinstance(message, dict):
                self.assertEqual((message["type"], message["exit_code"]), ("exited", 0))
                break
            total += len(message) - 1
        self.assertEqual(total, size)
        self.assertLess(self.control.memory_kib() - before, self.GROWTH_KIB)

    def test_a_large_upload(self):
        size = (2 << 30) if self.LONG else (96 << 20)
        before = self.control.memory_kib()
        block = os.urandom(1 << 20)
        answer = self.request("PUT", self.base + "/files?path=/large", (block for _ in range(size >> 20)), {"Content-Length": str(size)})
        self.assertEqual((answer.status, answer.json()["size"]), (201, size))
        self.assertLess(self.control.memory_kib() - before, self.GROWTH_KIB)

    def test_a_large_download(self):
        size = (2 << 30) if self.LONG else (96 << 20)
        before = self.control.memory_kib()
        connection = self.control.connect()
        connection.request("GET", f"{self.base}/files?path=/zeros/{size}", headers={"Authorization": "Bearer " + self.control.key})
        response = connection.getresponse()
        total = 0
        while piece := response.read(1 << 20):
            total += len(piece)
        connection.close()
        self.assertEqual(total, size)
        self.assertLess(self.control.memory_kib() - before, self.GROWTH_KIB)


if __name__ == "__main__":
    unittest.main()
