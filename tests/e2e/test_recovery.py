# SPDX-License-Identifier: Apache-2.0
"""Death of every process, alone and together: adopted or destroyed, reported, nothing left over."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from harness import BIN, OwnPlatformTest, Platform, free_port, pid_alive, wait_until


class RecoveryTest(OwnPlatformTest):
    def kill_child(self, name):
        pid = self.p.child(name)
        os.kill(pid, signal.SIGKILL)
        return wait_until(lambda: (new := self.p.child(name)) and new != pid and new, f"{name} is restarted")

    def works(self, session):
        said = []

        def answered():
            done = self.p.space("exec", session, "--", "cat", "/root/mark")
            said.append(done.stderr)
            return done.stdout == b"kept\n"
        try:
            return wait_until(answered, "the session answers")
        except AssertionError as late:
            raise AssertionError(f"{late}; last words: {said[-1]}\n{self.p.log_text()[-1500:]}") from None

    def marked_session(self):
        s = self.p.create()["id"]
        self.p.sh(s, "echo kept > /root/mark")
        return s

    def test_each_service_process_may_die(self):
        s = self.marked_session()
        vmms = self.p.vmms()
        for name in ("space-control", "space-link", "space-node"):
            with self.subTest(name):
                self.kill_child(name)
                self.works(s)
                self.assertEqual(self.p.vmms(), vmms)
                self.assertEqual(self.p.json("session", "show", s)["state"], "running")
        self.p.kill(s)
        wait_until(lambda: not self.p.vmms(), "the VMM is gone")

    def test_all_processes_die_and_the_vmm_is_adopted(self):
        s = self.marked_session()
        running = self.p.json("exec", "--detach", s, "--", "sh", "-c", "echo before; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo after; exit 8")["id"]
        vmm = self.p.vmms().pop()
        for name in ("space", "space-control", "space-link", "space-node"):
            for pid, found in self.p.processes().items():
                if found == name:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        self.p.process.wait()
        self.p.process.stdout.close()
        self.assertTrue(pid_alive(vmm))
        self.p.start()
        self.works(s)
        self.assertEqual(self.p.vmms(), {vmm})
        self.assertIn("adopted", self.p.log_text())
        self.assertTrue(self.p.json("session", "show", s)["sandbox"]["adopted"])
        self.p.sh(s, "touch /tmp/go")
        done = self.p.space("command", "attach", s, running)
        self.assertEqual((done.stdout, done.returncode), (b"before\nafter\n", 8))

    def test_everything_dies_with_the_vmm_and_the_remains_are_removed(self):
        s = self.marked_session()
        empty = None
        for pid in list(self.p.processes()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.p.process.wait()
        self.p.process.stdout.close()
        wait_until(lambda: not self.p.processes(), "all are dead")
        self.p.start()
        wait_until(lambda: self.p.json("session", "show", s)["state"] == "failed", "the session is failed")
        self.assertTrue(self.p.json("session", "show", s)["status"]["reason"])
        self.assertIn("destroyed", self.p.log_text())
        census = self.p.census()
        self.assertEqual(census["mounts"], 0)
        self.p.kill(s)
        t = self.p.create()["id"]  # and the platform goes on
        self.p.kill(t)

    def test_node_dies_while_a_session_is_created(self):
        for _ in range(3):
            made = json.loads(self.p.request("POST", "/v1/sessions?wait=false", {})[2])
            wait_until(lambda: self.p.vmms(), "the VMM starts")
            self.kill_child("space-node")
            state = wait_until(lambda: (x := self.p.json("session", "show", made["id"])["state"]) in ("running", "failed") and x, "it is decided", 60)
            if state == "running":
                self.assertEqual(self.p.ok("exec", made["id"], "--", "echo", "hi"), b"hi\n")
            self.p.kill(made["id"])
            wait_until(lambda: not self.p.vmms(), "no VMM is left")

    def test_control_dies_while_a_session_is_created(self):
        made = json.loads(self.p.request("POST", "/v1/sessions?wait=false", {})[2])
        self.kill_child("space-control")
        wait_until(lambda: self.p.space("session", "show", made["id"]).returncode == 0, "control answers")
        state = wait_until(lambda: (x := self.p.json("session", "show", made["id"])["state"]) in ("running", "failed") and x, "it is decided", 60)
        self.p.kill(made["id"])
        wait_until(lambda: not self.p.vmms(), "no VMM is left")

    def test_sigterm_leaves_nothing(self):
        self.marked_session()
        node = self.p.node_id
        self.assertEqual(self.p.stop(), 0)
        self.assertEqual(self.p.processes(), {})
        census = self.p.census()
        self.assertEqual((census["mounts"], census["cgroups"]), (0, 0), node)
        self.p.start()

    def test_second_up_on_the_same_data_is_refused(self):
        done = subprocess.run([os.path.join(BIN, "space"), "up", "--data", self.p.directory, "--listen", f"127.0.0.1:{free_port()}"],
                              capture_output=True, timeout=30)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(self.p.pid).encode(), done.stderr)
        self.assertEqual(self.p.space("session", "ls").returncode, 0)

    def test_port_in_use_is_said(self):
        other = tempfile.mkdtemp(prefix="space-e2e-")
        self.addCleanup(shutil.rmtree, other, True)
        done = subprocess.run([os.path.join(BIN, "space"), "up", "--data", other, "--listen", f"127.0.0.1:{self.p.port}"], capture_output=True, timeout=30)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"in use", done.stderr)

    def test_link_flood_of_garbage_ends_one_channel_only(self):
        s, t = self.marked_session(), self.marked_session()
        self.p.sh(s, "for p in /dev/vport*; do dd if=/dev/urandom of=$p bs=64k count=20 2>/dev/null; done || true")
        self.works(t)
        self.p.kill(s)


class StartTest(unittest.TestCase):
    def test_without_root_the_reason_is_said(self):
        done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", os.path.join(BIN, "space"), "up", "--data", "/tmp/space-no-root", "--listen", f"127.0.0.1:{free_port()}"],
                              capture_output=True, timeout=30)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"root", done.stderr)

    def test_no_disk_space_is_a_clear_error_and_not_a_crash(self):
        directory = tempfile.mkdtemp(prefix="space-e2e-")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", directory], check=True)
        try:
            p = Platform(directory)
            try:
                p.start(seconds=60)
                done = p.space("session", "create")
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"space", done.stderr.lower())
                self.assertEqual(p.json("session", "ls"), [s for s in p.json("session", "ls") if s["state"] != "running"])
            except AssertionError as refused:
                self.assertIn("space", str(refused).lower())
            finally:
                with contextlib.suppress(Exception):
                    p.stop()
        finally:
            subprocess.run(["umount", "-l", directory])
            os.rmdir(directory)


if __name__ == "__main__":
    unittest.main()
