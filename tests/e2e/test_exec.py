# SPDX-License-Identifier: Apache-2.0
"""Commands in a real guest: streams, exit codes, terminals, signals, timeouts, reconnection."""
import hashlib
import json
import os
import pty
import select
import signal
import subprocess
import time
import unittest

from harness import BIN, SharedPlatformTest, wait_until


class ExecTest(SharedPlatformTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.s = cls.p.create()["id"]

    @classmethod
    def tearDownClass(cls):
        cls.p.kill(cls.s)

    def test_python_computes(self):
        self.assertEqual(self.p.ok("exec", self.s, "--", "python3", "-c", "print(2**100)"), b"1267650600228229401496703205376\n")

    def test_pipeline_through_stdin(self):
        data = b"b\na\nc\n" * 5000
        out = self.p.ok("exec", "-i", self.s, "--", "sort", "-u", input=data)
        self.assertEqual(out, b"a\nb\nc\n")

    def test_exit_code_is_passed_through(self):
        for code in (0, 1, 7, 255):
            self.assertEqual(self.p.space("exec", self.s, "--", "sh", "-c", f"exit {code}").returncode, code)

    def test_command_that_is_not_there_gives_127(self):
        self.assert_error(self.p.space("exec", self.s, "--", "no-such-program"), "guest.command_not_found", 127)

    def test_command_that_is_not_executable_gives_126(self):
        self.p.sh(self.s, "echo hi > /tmp/plain; chmod 644 /tmp/plain")
        self.assert_error(self.p.space("exec", self.s, "--", "/tmp/plain"), "guest.command_not_executable", 126)

    def test_death_by_signal_gives_128_plus_number(self):
        self.assertEqual(self.p.space("exec", self.s, "--", "sh", "-c", "kill -KILL $$").returncode, 137)
        self.assertEqual(self.p.space("exec", self.s, "--", "sh", "-c", "kill -TERM $$").returncode, 143)

    def test_streams_are_apart(self):
        done = self.p.space("exec", self.s, "--", "sh", "-c", "echo out; echo err >&2")
        self.assertEqual((done.stdout, done.stderr), (b"out\n", b"err\n"))

    def test_binary_output_is_unchanged(self):
        out = self.p.ok("exec", self.s, "--", "python3", "-c", "import sys; sys.stdout.buffer.write(bytes(range(256)) * 300)")
        self.assertEqual(out, bytes(range(256)) * 300)

    def test_environment_directory_and_user(self):
        out = self.p.ok("exec", "--env", "COLOR=deep blue", "--cwd", "/usr", "--user", "nobody", self.s, "--",
                        "sh", "-c", "echo $COLOR; pwd; id -un")
        self.assertEqual(out, b"deep blue\n/usr\nnobody\n")

    def test_timeout_kills_the_whole_tree(self):
        done = self.p.space("exec", "--timeout", "1s", self.s, "--", "sh", "-c", "setsid sleep 4242 & setsid sleep 4242 & sleep 4242")
        self.assertEqual(done.returncode, 124, done.stderr)
        left = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f 2>/dev/null | grep '^sleep 4242' || true; done"
        wait_until(lambda: self.p.sh(self.s, left) == "", "no child of the command lives on")

    def test_zero_timeout_means_none(self):
        self.assertEqual(self.p.space("exec", "--timeout", "0", self.s, "--", "sh", "-c", "sleep 2; exit 5").returncode, 5)

    def test_terminal_program_sees_a_terminal_and_its_size(self):
        pid, fd = pty.fork()
        if pid == 0:
            os.environ.update(self.p.environment())
            os.execv(os.path.join(BIN, "space"), ["space", "shell", self.s])
        try:
            import fcntl, struct, termios
            fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 97, 0, 0))
            os.kill(pid, signal.SIGWINCH)
            seen = b""

            def read_until(mark):
                nonlocal seen
                end = time.monotonic() + 60
                while mark not in seen:
                    self.assertLess(time.monotonic(), end, seen)
                    if select.select([fd], [], [], 0.2)[0]:
                        seen += os.read(fd, 65536)
            os.write(fd, b"until [ \"$(stty size)\" = '31 97' ]; do sleep 0.1; done; tty; echo mark$((40+2))\n")
            read_until(b"mark42")
            self.assertIn(b"/dev/pts/", seen)
            seen = b""
            os.write(fd, b"sleep 1000\n")
            wait_until(lambda: b"sleep 1000" in self.p.ok("exec", self.s, "--", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"), "sleep runs")
            os.write(fd, b"\x03")
            os.write(fd, b"echo back$((1+1))\n")
            read_until(b"back2")
            os.write(fd, b"exit 9\n")
            _, status = os.waitpid(pid, 0)
            pid = 0
            self.assertEqual(os.waitstatus_to_exitcode(status), 9)
        finally:
            if pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            os.close(fd)

    def test_detached_command_keeps_its_output_and_exit_code(self):
        command = self.p.json("exec", "--detach", self.s, "--", "sh", "-c", "echo early; sleep 1; echo late; exit 3")["id"]
        wait_until(lambda: self.p.json("command", "show", self.s, command)["state"] == "exited", "command ends")
        done = self.p.space("command", "attach", self.s, command)
        self.assertEqual((done.stdout, done.returncode), (b"early\nlate\n", 3))
        again = self.p.space("command", "attach", self.s, command)  # kept for a stated time, not for one reader
        self.assertEqual((again.stdout, again.returncode), (b"early\nlate\n", 3))

    def test_client_that_dies_leaves_a_command_to_reconnect_to(self):
        client = subprocess.Popen([os.path.join(BIN, "space"), "exec", self.s, "--", "sh", "-c",
                                   "echo first; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo second; exit 4"],
                                  env=self.p.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.assertEqual(client.stdout.readline(), b"first\n")
        client.kill()
        client.wait()
        client.stdout.close()
        running = [c for c in self.p.json("command", "ls", self.s) if c["state"] == "running" and "/tmp/go" in c["argv"][-1]]
        self.assertEqual(len(running), 1)
        self.p.sh(self.s, "touch /tmp/go")
        done = self.p.space("command", "attach", self.s, running[0]["id"])
        self.assertEqual((done.stdout, done.returncode), (b"first\nsecond\n", 4))

    def test_slow_reader_of_much_output_costs_nobody_memory(self):
        total = 256 << 20
        reader = subprocess.Popen([os.path.join(BIN, "space"), "exec", self.s, "--", "head", "-c", str(total), "/dev/zero"],
                                  env=self.p.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        services = [self.p.child(n) for n in ("space-control", "space-link", "space-node")]

        def resident():
            sizes = []
            for pid in [*services, reader.pid]:
                with open(f"/proc/{pid}/statm") as f:
                    sizes.append(int(f.read().split()[1]) * 4096)
            return max(sizes)
        count, peak = 0, 0
        while block := reader.stdout.read(4 << 20):
            count += len(block)
            peak = max(peak, resident())
            if count <= 40 << 20:
                time.sleep(0.05)  # a reader slower than the writer: what the case is about
        reader.stdout.close()
        self.assertEqual(reader.wait(), 0)
        self.assertEqual(count, total)
        self.assertLess(peak, 200 << 20)

    def test_interrupt_reaches_the_command(self):
        client = subprocess.Popen([os.path.join(BIN, "space"), "exec", self.s, "--", "sh", "-c", "trap 'echo got; exit 6' INT; echo up; while :; do sleep 0.1; done"],
                                  env=self.p.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.assertEqual(client.stdout.readline(), b"up\n")
        client.send_signal(signal.SIGINT)
        self.assertEqual(client.stdout.read(), b"got\n")
        client.stdout.close()
        self.assertEqual(client.wait(30), 6)

    def test_orphans_are_reaped(self):
        self.p.sh(self.s, "for i in $(seq 10); do (sh -c 'sleep 0.2 &' ) & done; wait")
        wait_until(lambda: self.p.sh(self.s, "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l").strip() == "0", "no zombie is left")

    def test_fork_bomb_leaves_the_daemon_answering(self):
        bomb = self.p.json("exec", "--detach", self.s, "--", "python3", "-c", "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass")["id"]
        self.assertEqual(self.p.ok("exec", self.s, "--", "echo", "alive"), b"alive\n")
        self.p.ok("command", "signal", self.s, bomb, "9")
        wait_until(lambda: self.p.json("command", "show", self.s, bomb)["state"] == "exited", "bomb ends")
        self.assertEqual(self.p.ok("exec", self.s, "--", "echo", "calm"), b"calm\n")

    def test_memory_hog_is_killed_and_named(self):
        done = self.p.space("exec", self.s, "--", "python3", "-c", "x=[]\nwhile True: x.append(bytearray(10**7))")
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertIn(b"memory", done.stderr)
        self.assertEqual(self.p.ok("exec", self.s, "--", "echo", "alive"), b"alive\n")


if __name__ == "__main__":
    unittest.main()
