# SPDX-License-Identifier: Apache-2.0
"""Sessions through the command line and the API: defaults, limits, bad input, ports, logs."""
import json
import os
import signal
import socket
import subprocess
import time
import unittest

from harness import BIN, Platform, SharedPlatformTest, pid_alive, wait_until


class SessionTest(SharedPlatformTest):
    def test_answer_states_every_default(self):
        made = self.p.create()
        try:
            self.assertEqual(made["state"], "running")
            self.assertEqual(made["resources"], {"vcpus": 1, "memory_bytes": 512 << 20, "disk_bytes": 8 << 30})
            self.assertEqual(made["template"], "base")
            self.assertEqual(made["ttl_seconds"], 3600)
            self.assertTrue(made["expires_at"])
            self.assertIn(made["sandbox"]["acceleration"], ("tcg", "kvm"))
        finally:
            self.p.kill(made["id"])

    def test_resources_are_what_was_asked(self):
        with self.p.session("--memory", "768MiB", "--vcpus", "2", "--disk", "10GiB") as s:
            out = self.p.sh(s, "nproc; awk '/MemTotal/{print int($2/1024)}' /proc/meminfo; df -B1G --output=size / | tail -1")
            cpus, memory, disk = map(int, out.split())
            self.assertEqual(cpus, 2)
            self.assertTrue(640 < memory <= 768, memory)
            self.assertTrue(9 <= disk <= 10, disk)

    def test_name_finds_the_session_and_is_unique_while_it_lives(self):
        with self.p.session("--name", "my-agent"):
            self.assertEqual(self.p.json("session", "show", "my-agent")["name"], "my-agent")
            self.assert_error(self.p.space("session", "create", "--name", "my-agent"), "control.name_taken")
        again = self.p.create("--name", "my-agent")
        self.p.kill(again["id"])

    def test_bad_values_name_their_field(self):
        cases = [({"name": "a/b"}, "name"), ({"name": "a\0b"}, "name"), ({"name": "x" * 300}, "name"), ({"name": ""}, "name"),
                 ({"memory_bytes": 0}, "memory_bytes"), ({"memory_bytes": 1 << 20}, "memory_bytes"), ({"memory_bytes": 1 << 50}, "memory_bytes"),
                 ({"memory_bytes": -1}, "memory_bytes"), ({"memory_bytes": "much"}, "memory_bytes"), ({"vcpus": 0}, "vcpus"), ({"vcpus": 1000}, "vcpus"),
                 ({"disk_bytes": 1}, "disk_bytes"), ({"ttl_seconds": 0}, "ttl_seconds"), ({"ttl_seconds": -5}, "ttl_seconds"),
                 ({"colour": "red"}, "colour"), ({"template": "../etc"}, "template")]
        before = len(self.p.json("session", "ls"))
        for body, field in cases:
            with self.subTest(body=str(body)[:60]):
                status, _, data = self.p.request("POST", "/v1/sessions", body)
                error = json.loads(data)["error"]
                self.assertIn(status, (400, 429), data)
                self.assertEqual(error["details"].get("field"), field, data)
        self.assertEqual(len(self.p.json("session", "ls")), before)

    def test_unknown_template_says_which_exist(self):
        text = self.assert_error(self.p.space("session", "create", "--template", "nope"), "template")
        self.assertIn("space template ls", text)

    def test_malformed_requests_get_clear_answers(self):
        r = self.p.request
        json_type = {"Content-Type": "application/json"}
        self.assertEqual(r("POST", "/v1/sessions", "{", json_type)[0], 400)
        self.assertEqual(r("POST", "/v1/sessions", "[]", json_type)[0], 400)
        self.assertEqual(r("POST", "/v1/sessions", "{}", {"Content-Type": "text/xml"})[0], 415)
        self.assertEqual(r("POST", "/v1/sessions", "x" * (2 << 20), json_type)[0], 413)
        self.assertEqual(r("GET", "/v1/sessions", key="wrong")[0], 401)
        self.assertEqual(r("GET", "/v1/nothing")[0], 404)
        self.assertEqual(r("PUT", "/v1/sessions")[0], 405)
        self.assertEqual(r("GET", "/v1/sessions/aaaaaaaaaaaaaaaaaaaa")[0], 404)

    def test_idempotency_key_makes_one_session(self):
        key = {"Idempotency-Key": f"k-{time.time_ns()}"}
        first = json.loads(self.p.request("POST", "/v1/sessions", {}, key)[2])
        second = json.loads(self.p.request("POST", "/v1/sessions", {}, key)[2])
        self.assertEqual(first["id"], second["id"])
        self.assertEqual(self.p.request("POST", "/v1/sessions", {"vcpus": 2}, key)[0], 409)
        self.p.kill(first["id"])

    def test_kill_is_accepted_while_creating_and_twice(self):
        made = json.loads(self.p.request("POST", "/v1/sessions?wait=false", {})[2])
        self.assertEqual(made["state"], "creating")
        self.p.kill(made["id"])
        self.p.kill(made["id"])
        self.assertEqual(self.p.json("session", "show", made["id"])["state"], "killed")

    def test_session_ends_at_its_deadline(self):
        made = self.p.create("--ttl", "5s")
        wait_until(lambda: self.p.json("session", "show", made["id"])["state"] == "killed", "the deadline ends it", 60)
        self.assertIn("expired", self.p.json("session", "show", made["id"])["status"]["reason"])

    def test_guest_that_stops_answering_can_still_be_killed(self):
        before = self.p.vmms()
        made = self.p.create()
        vmm = (self.p.vmms() - before).pop()
        os.kill(vmm, signal.SIGSTOP)
        done = self.p.space("exec", made["id"], "--", "true", timeout=60)
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"not_answering", done.stderr)
        self.p.kill(made["id"])
        wait_until(lambda: not pid_alive(vmm), "the VMM is gone")

    def test_death_of_the_vmm_is_reported(self):
        before = self.p.vmms()
        made = self.p.create()
        vmm = (self.p.vmms() - before).pop()
        os.kill(vmm, signal.SIGKILL)
        wait_until(lambda: self.p.json("session", "show", made["id"])["state"] == "failed", "the session fails")
        self.assertTrue(self.p.json("session", "show", made["id"])["status"]["reason"].startswith("node."))
        done = self.p.space("exec", made["id"], "--", "true")
        self.assertEqual(done.returncode, 125)
        self.p.kill(made["id"])  # an ended session can always be put away
    
    def test_guest_that_powers_off_ends_its_session(self):
        made = self.p.create()
        self.p.space("exec", made["id"], "--", "sh", "-c", "echo o > /proc/sysrq-trigger")
        wait_until(lambda: self.p.json("session", "show", made["id"])["state"] in ("failed", "killed"), "the session ends")

    def test_port_forward_carries_http(self):
        with self.p.session() as s:
            self.p.json("exec", "--detach", s, "--", "python3", "-m", "http.server", "8000", "--directory", "/usr/share/common-licenses")
            forward = subprocess.Popen([os.path.join(BIN, "space"), "port-forward", s, "0:8000"], env=self.p.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            try:
                line = forward.stdout.readline().decode()
                port = int("".join(c if c.isdigit() else " " for c in line.split("127.0.0.1", 1)[1]).split()[0])
                import urllib.request
                def fetched():
                    try:
                        return urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).read()
                    except OSError:
                        return None
                self.assertIn(b"Apache-2.0", wait_until(fetched, "the guest's server answers"))
            finally:
                forward.terminate()
                forward.wait()
                forward.stdout.close()

    def test_logs_show_the_console(self):
        with self.p.session() as s:
            self.p.sh(s, "echo hello-console > /dev/console")
            wait_until(lambda: b"hello-console" in self.p.ok("logs", s), "the line arrives")

    def test_sandbox_has_no_network(self):
        with self.p.session() as s:
            self.assertEqual(self.p.sh(s, "ls /sys/class/net").split(), ["lo"])

    def test_jail_shows_the_vmm_nothing_of_the_host(self):
        before = self.p.vmms()
        made = self.p.create()
        vmm = (self.p.vmms() - before).pop()
        try:
            with open(f"/proc/{vmm}/status") as f:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
            self.assertGreater(int(status["Uid"].split()[0]), 1 << 20)
            for capabilities in ("CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh"):
                self.assertEqual(int(status[capabilities], 16), 0, capabilities)
            self.assertEqual(status["NoNewPrivs"], "1")
            self.assertEqual(status["Seccomp"], "2")
            for kind in ("mnt", "pid", "net", "ipc"):
                self.assertNotEqual(os.readlink(f"/proc/{vmm}/ns/{kind}"), os.readlink(f"/proc/self/ns/{kind}"))
            root = os.listdir(f"/proc/{vmm}/root/")
            for hidden in ("etc", "home", "root", "var", "proc", "sys"):
                self.assertFalse(hidden in root and os.listdir(f"/proc/{vmm}/root/{hidden}"), hidden)
            for descriptor in os.listdir(f"/proc/{vmm}/fd"):
                target = os.readlink(f"/proc/{vmm}/fd/{descriptor}")
                self.assertFalse(target.startswith(("/etc", "/root", "/home", self.p.directory + "/control")), target)
        finally:
            self.p.kill(made["id"])

    def test_doctor_tells_the_truth_about_kvm(self):
        done = self.p.space("doctor", "--json")
        checks = {c["id"]: c for c in json.loads(done.stdout)["checks"]}
        acceleration = self.p.json("node", "ls")[0]["acceleration"]
        self.assertEqual(checks["kvm"]["status"] == "ok", acceleration == "kvm")
        for check in checks.values():
            self.assertTrue(check["means"], check)
            if check["status"] != "ok":
                self.assertTrue(check["mend"], check)


if __name__ == "__main__":
    unittest.main()
