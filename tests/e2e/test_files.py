# SPDX-License-Identifier: Apache-2.0
"""Files in and out of a real guest."""
import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest

from harness import BIN, SharedPlatformTest, wait_until


def digest(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            h.update(block)
    return h.hexdigest()


class FilesTest(SharedPlatformTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.s = cls.p.create()["id"]

    @classmethod
    def tearDownClass(cls):
        cls.p.kill(cls.s)

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="space-files-")
        self.addCleanup(shutil.rmtree, self.dir)

    def make(self, name, size):
        path = os.path.join(self.dir, name)
        with open(path, "wb") as f:
            left = size
            while left:
                block = os.urandom(min(left, 1 << 20))
                f.write(block)
                left -= len(block)
        return path

    def round_trip(self, size):
        source = self.make("up", size)
        self.p.ok("cp", source, f"{self.s}:/root/file", timeout=600)
        inside = self.p.sh(self.s, "sha256sum /root/file", timeout=600).split()[0]
        self.p.ok("cp", f"{self.s}:/root/file", os.path.join(self.dir, "down"), timeout=600)
        self.assertEqual(digest(source), inside)
        self.assertEqual(digest(source), digest(os.path.join(self.dir, "down")))

    def test_sizes_around_every_boundary(self):
        for size in (0, 1, 18 << 10, (32 << 10) - 1, 64 << 10, (1 << 20) + 1):
            with self.subTest(size=size):
                self.round_trip(size)

    def test_100_mib_round_trip(self):
        self.round_trip(100 << 20)

    def test_mode_is_kept(self):
        path = self.make("tool", 10)
        os.chmod(path, 0o755)
        self.p.ok("cp", path, f"{self.s}:/root/tool")
        self.assertEqual(self.p.sh(self.s, "stat -c %a /root/tool").strip(), "755")

    def test_directories_are_copied_whole(self):
        tree = os.path.join(self.dir, "tree")
        os.makedirs(os.path.join(tree, "a/b"))
        for name in ("one", "a/two", "a/b/three with space"):
            with open(os.path.join(tree, name), "w") as f:
                f.write(name)
        self.p.ok("cp", "-r", tree, f"{self.s}:/root/tree")
        self.p.ok("cp", "-r", f"{self.s}:/root/tree", os.path.join(self.dir, "back"))
        self.assertEqual(subprocess.run(["diff", "-r", tree, os.path.join(self.dir, "back")], capture_output=True).stdout, b"")

    def test_hostile_names_cannot_leave_the_target_directory(self):
        self.p.sh(self.s, "mkdir -p /root/evil && cd /root/evil && ln -sf /etc link && ln -sf ../../../../tmp/space-escape esc && echo x > 'a..b'")
        target = os.path.join(self.dir, "in")
        self.p.space("cp", "-r", f"{self.s}:/root/evil", target)
        for root, _, files in os.walk(self.dir):
            for name in files:
                path = os.path.join(root, name)
                self.assertTrue(os.path.realpath(path).startswith(os.path.realpath(self.dir)) or os.path.islink(path))
        self.assertFalse(os.path.lexists("/tmp/space-escape"))

    def test_write_is_atomic_and_a_broken_upload_leaves_the_old_file(self):
        self.p.sh(self.s, "echo old > /root/kept")
        import http.client
        connection = http.client.HTTPConnection("127.0.0.1", self.p.port)
        connection.putrequest("PUT", f"/v1/sessions/{self.s}/files?path=/root/kept")
        connection.putheader("Authorization", f"Bearer {self.p.key}")
        connection.putheader("Content-Length", "1000000")
        connection.endheaders()
        connection.send(b"x" * 300000)
        connection.close()
        wait_until(lambda: self.p.sh(self.s, "ls -A /root | grep -c -v -x -e kept -e '.*' || true").strip() == "0", "no temporary file stays")
        self.assertEqual(self.p.sh(self.s, "cat /root/kept"), "old\n")

    def test_ranges_resume_a_download(self):
        self.p.sh(self.s, "seq 1 100000 > /root/numbers")
        whole = self.p.ok("fs", "cat", self.s, "/root/numbers")
        status, headers, part = self.p.request("GET", f"/v1/sessions/{self.s}/files?path=/root/numbers", headers={"Range": "bytes=1000-1999"})
        self.assertEqual(status, 206)
        self.assertEqual(part, whole[1000:2000])

    def test_errors_name_the_problem(self):
        self.assert_error(self.p.space("fs", "cat", self.s, "/nowhere"), "guest.no_such_file")
        self.assert_error(self.p.space("fs", "cat", self.s, "/etc"), "guest.is_a_directory")
        self.assert_error(self.p.space("fs", "ls", self.s, "/etc/passwd"), "guest.not_a_directory")
        self.p.sh(self.s, "mkdir -p /root/full/x")
        self.assert_error(self.p.space("fs", "rm", self.s, "/root/full"), "guest.not_empty")

    def test_fs_commands(self):
        p, s = self.p, self.s
        p.ok("fs", "mkdir", s, "/root/d")
        p.ok("fs", "put", s, "/root/d/f", input=b"hello")
        self.assertEqual(p.ok("fs", "cat", s, "/root/d/f"), b"hello")
        self.assertEqual([e["path"] for e in p.json("fs", "ls", s, "/root/d")], ["f"])
        p.ok("fs", "mv", s, "/root/d/f", "/root/d/g")
        self.assertEqual(p.json("fs", "stat", s, "/root/d/g")["size"], 5)
        p.ok("fs", "rm", "-r", s, "/root/d")
        self.assertEqual(p.space("fs", "stat", s, "/root/d").returncode, 1)

    def test_watch_reports_changes(self):
        self.p.sh(self.s, "mkdir -p /root/w")
        watcher = subprocess.Popen([os.path.join(BIN, "space"), "fs", "watch", self.s, "/root/w", "--json"], env=self.p.environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            first = None
            def touched():
                nonlocal first
                self.p.sh(self.s, "touch /root/w/new; rm /root/w/new")
                os.set_blocking(watcher.stdout.fileno(), False)
                first = watcher.stdout.read()
                return first and b"new" in first
            wait_until(touched, "an event arrives")
        finally:
            watcher.terminate()
            watcher.wait()
            watcher.stdout.close()

    def test_full_guest_disk_is_the_guests_problem(self):
        with self.p.session() as s:
            out = self.p.sh(s, "fallocate -l 7500M /root/big || true; dd if=/dev/zero of=/root/more bs=1M 2>&1 || true")
            self.assertIn("No space left", out)
            self.assert_error(self.p.space("fs", "put", s, "/root/x", input=b"y" * (1 << 20)), "guest.disk_full")
            self.assertEqual(self.p.ok("exec", s, "--", "echo", "alive"), b"alive\n")


if __name__ == "__main__":
    unittest.main()
