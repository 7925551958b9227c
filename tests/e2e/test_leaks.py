# SPDX-License-Identifier: Apache-2.0
"""Long: many rounds of create and kill with zero growth; many sessions at once; two gibibytes through the channel."""
import concurrent.futures
import hashlib
import os
import subprocess
import time
import unittest

from harness import BIN, OwnPlatformTest, wait_until


class LeaksTest(OwnPlatformTest):
    def rounds(self, count):
        for _ in range(2):  # the first rounds fill caches and pools
            self.p.kill(self.p.create()["id"])
        wait_until(lambda: not self.p.vmms(), "quiet")
        before = self.p.census()
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda _: self.p.kill(self.p.create()["id"]), range(count)))
        wait_until(lambda: not self.p.vmms(), "quiet")
        after = wait_until(lambda: (c := self.p.census()) if self.p.census() == before else None, "counts return", 10) if self.p.census() != before else before
        self.assertEqual(before, after)

    def test_200_rounds_of_create_and_kill(self):
        self.rounds(200)

    def test_20_sessions_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            sessions = list(pool.map(lambda _: self.p.create(timeout=600)["id"], range(20)))
            answers = list(pool.map(lambda s: self.p.ok("exec", s, "--", "python3", "-c", "print(6*7)", timeout=300), sessions))
        self.assertEqual(answers, [b"42\n"] * 20)
        self.assertEqual(len(self.p.vmms()), 20)
        for name in ("space", "space-control", "space-node", "space-link"):
            pid = self.p.pid if name == "space" else self.p.child(name)
            with open(f"/proc/{pid}/smaps_rollup") as f:
                pss = next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
            print(f"{name}: {pss / 1024:.1f} MiB with 20 idle sessions")
        for s in sessions:
            self.p.kill(s)

    def test_two_gibibyte_upload(self):
        s = self.p.create()["id"]
        size = 2 << 30
        h = hashlib.sha256()
        block = os.urandom(1 << 20)
        writer = subprocess.Popen([os.path.join(BIN, "space"), "fs", "put", s, "/root/big"], stdin=subprocess.PIPE, env=self.p.environment())
        for i in range(size >> 20):
            part = i.to_bytes(8, "little") + block[8:]
            h.update(part)
            writer.stdin.write(part)
        writer.stdin.close()
        self.assertEqual(writer.wait(900), 0)
        self.assertEqual(self.p.sh(s, "sha256sum /root/big", timeout=900).split()[0], h.hexdigest())


if __name__ == "__main__":
    unittest.main()
