# SPDX-License-Identifier: Apache-2.0
"""Sessions and operations: life, validation, idempotency, paging, crashes."""
import json
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from platform_under_test import Control, ControlTest, wait_until  # noqa: E402


class Life(ControlTest):
    def test_a_session_has_all_defaults_in_its_answer(self):
        answer = self.request("POST", "/v1/sessions")
        self.assertEqual(answer.status, 201)
        session = answer.json()
        self.assertEqual(session["state"], "running")
        self.assertEqual(session["template"], "base")
        self.assertEqual(session["resources"], {"vcpus": 1, "memory_bytes": 512 << 20, "disk_bytes": 8 << 30})
        self.assertEqual(session["ttl_seconds"], 3600)
        self.assertIsNone(session["name"])
        self.assertEqual(session["generation"], 1)
        self.assertEqual(session["sandbox"]["node"], "fakenode000000000001")
        self.assertGreater(session["expires_at"], session["created_at"])
        operation = self.request("GET", "/v1/operations/" + answer.headers["Space-Operation"]).json()
        self.assertEqual((operation["kind"], operation["state"], operation["session"]), ("create_session", "succeeded", session["id"]))
        self.assertEqual(operation["steps"][0]["step"], "accepted")

    def test_a_chunked_body_counts(self):
        def pieces():
            yield b'{"name":'
            yield b'"chunky"}'
        answer = self.request("POST", "/v1/sessions", pieces(), {"Content-Type": "application/json"})
        self.assertEqual(answer.json()["name"], "chunky")

    def test_an_empty_chunked_body_is_no_body(self):
        answer = self.request("POST", "/v1/sessions", iter([]), {"Content-Type": "application/json"})
        self.assertEqual(answer.status, 201)

    def test_without_waiting_the_session_is_creating(self):
        self.control.tell("hold")
        answer = self.request("POST", "/v1/sessions?wait=false", {"name": "later"})
        self.assertEqual((answer.status, answer.json()["state"], answer.json()["sandbox"]), (202, "creating", None))
        self.refused(self.request("GET", "/v1/sessions/later/metrics"), 409, "control.session_not_running")
        self.control.tell("release")
        wait_until(lambda: self.request("GET", "/v1/sessions/later").json()["state"] == "running", "it runs")

    def test_names_work_like_ids_and_are_unique_while_held(self):
        first = self.control.create(name="unique")
        self.assertEqual(self.request("GET", "/v1/sessions/unique").json()["id"], first["id"])
        refused = self.request("POST", "/v1/sessions", {"name": "unique"})
        self.refused(refused, 409, "control.name_taken", "name")
        self.request("DELETE", "/v1/sessions/unique")
        second = self.control.create(name="unique")
        self.assertNotEqual(first["id"], second["id"])
        self.assertEqual(self.request("GET", "/v1/sessions/unique").json()["id"], second["id"])

    def test_kill_is_idempotent_and_final(self):
        session = self.control.create(name="shortlived")
        killed = self.request("DELETE", "/v1/sessions/shortlived")
        self.assertEqual((killed.status, killed.json()["state"]), (200, "killed"))
        self.assertEqual(killed.json()["status"]["reason"], "control.killed")
        self.assertIsNotNone(killed.json()["ended_at"])
        again = self.request("DELETE", "/v1/sessions/" + session["id"])
        self.assertEqual((again.status, again.json()["id"], again.json()["state"]), (200, session["id"], "killed"))
        self.refused(self.request("PATCH", "/v1/sessions/" + session["id"], {"ttl_seconds": 5}), 409, "control.session_ended")
        self.refused(self.request("GET", f"/v1/sessions/{session['id']}/metrics"), 409, "control.session_not_running")

    def test_kill_cancels_a_create_under_way(self):  # cases/lifecycle 9
        self.control.tell("hold")
        creating = self.request("POST", "/v1/sessions?wait=false", {"name": "neverborn"})
        killed = self.request("DELETE", "/v1/sessions/neverborn")
        self.control.tell("release")
        self.assertEqual(killed.json()["state"], "killed")
        operation = self.request("GET", "/v1/operations/" + creating.headers["Space-Operation"]).json()
        self.assertEqual((operation["state"], operation["error"]["reason"]), ("failed", "control.cancelled"))
        self.assertNotIn(creating.json()["id"], self.control.tell("sandboxes"))

    def test_a_waiting_create_is_told_that_it_was_killed(self):
        self.control.tell("hold")
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.request("POST", "/v1/sessions", {"name": "contested"})))
        thread.start()
        wait_until(lambda: self.request("GET", "/v1/sessions?name=contested").json()["items"], "it is known")
        self.request("DELETE", "/v1/sessions/contested")
        thread.join()
        self.control.tell("release")
        self.refused(answers[0], 409, "control.cancelled")

    def test_the_deadline_moves_and_counts_from_now(self):
        session = self.control.create(name="longer", ttl_seconds=60)
        moved = self.request("PATCH", "/v1/sessions/longer", {"ttl_seconds": 7200}).json()
        self.assertEqual(moved["ttl_seconds"], 7200)
        self.assertGreater(moved["expires_at"], session["expires_at"])
        self.assertGreater(moved["version"], session["version"])
        self.refused(self.request("PATCH", "/v1/sessions/longer", {"ttl_seconds": 0}), 400, "model.bad_ttl", "ttl_seconds")  # case 32
        self.refused(self.request("PATCH", "/v1/sessions/longer", {}), 400, "control.bad_field", "ttl_seconds")

    def test_a_session_ends_at_its_deadline(self):
        session = self.control.create(ttl_seconds=1)
        ended = wait_until(lambda: (lambda s: s if s["state"] == "killed" else None)(self.request("GET", "/v1/sessions/" + session["id"]).json()), "expiry")
        self.assertEqual(ended["status"]["reason"], "control.expired")
        self.assertNotIn(session["sandbox"]["id"], self.control.tell("sandboxes"))

    def test_a_failed_create_says_why_and_can_be_removed(self):  # case 29
        self.control.tell("fail_create resource_exhausted node.no_memory")
        answer = self.request("POST", "/v1/sessions", {"name": "toolarge"})
        self.refused(answer, 429, "node.no_memory")
        details = answer.json()["error"]["details"]
        session = self.request("GET", "/v1/sessions/" + details["session"]).json()
        self.assertEqual((session["state"], session["status"]["reason"]), ("failed", "node.no_memory"))
        self.assertEqual(self.request("GET", "/v1/operations/" + details["operation"]).json()["state"], "failed")
        self.control.create(name="toolarge")  # a failed session does not hold its name
        killed = self.request("DELETE", "/v1/sessions/" + details["session"]).json()
        self.assertEqual((killed["state"], killed["status"]["reason"]), ("killed", "node.no_memory"))

    def test_a_full_disk_is_507(self):
        self.control.tell("fail_create resource_exhausted node.no_disk")
        self.refused(self.request("POST", "/v1/sessions"), 507, "node.no_disk")

    def test_a_sandbox_that_ends_by_itself_fails_its_session(self):
        session = self.control.create()
        self.control.tell(f"end {session['sandbox']['id']} node.vmm_exited")
        target = "/v1/sessions/" + session["id"]
        failed = wait_until(lambda: (lambda s: s if s["state"] == "failed" else None)(self.request("GET", target).json()), "it fails")
        self.assertEqual(failed["status"]["reason"], "node.vmm_exited")
        self.assertIsNone(failed["sandbox"])
        logs = self.request("GET", target + "/logs")
        self.assertEqual(logs.body, b"last words \xff\n")
        self.assertEqual(self.request("DELETE", target).json()["state"], "killed")

    def test_templates_are_built_listed_and_removed(self):
        names = {t["name"]: t["state"] for t in self.request("GET", "/v1/templates").json()["items"]}
        self.assertEqual(names, {"base": "ready", "dev": "recipe"})
        self.refused(self.request("POST", "/v1/sessions", {"template": "dev"}), 409, "control.template_not_ready", "template")
        begun = self.request("POST", "/v1/templates", {"name": "dev"})
        self.assertEqual((begun.status, begun.json()["kind"], begun.json()["template"]), (202, "build_template", "dev"))
        done = wait_until(lambda: (lambda o: o if o["state"] != "running" else None)(self.request("GET", "/v1/operations/" + begun.json()["id"]).json()), "built")
        self.assertEqual(done["state"], "succeeded")
        self.assertIn("unpacking", [s["detail"] for s in done["steps"]])
        built = self.request("POST", "/v1/templates?wait=true", {"name": "dev"})
        self.assertEqual((built.status, built.json()["state"]), (201, "ready"))
        self.control.create(template="dev", name="usesdev")
        self.refused(self.request("DELETE", "/v1/templates/dev"), 409, "node.template_in_use")
        self.request("DELETE", "/v1/sessions/usesdev")
        self.assertEqual(self.request("DELETE", "/v1/templates/dev?wait=false").status, 202)
        wait_until(lambda: self.request("GET", "/v1/templates/dev").status == 404, "it is gone")
        self.refused(self.request("DELETE", "/v1/templates/dev"), 404, "control.no_such_template")
        self.control.tell("fail_create internal template.tool_failed")
        self.refused(self.request("POST", "/v1/templates?wait=true", {"name": "base"}), 500, "template.tool_failed")

    def test_the_node_and_health_are_described(self):
        node = self.request("GET", "/v1/node").json()
        self.assertTrue(node["connected"])
        self.assertEqual(node["recovery"]["adopted"], [])
        health = self.request("GET", "/v1/health", key=None).json()
        self.assertEqual((health["status"], health["node"], health["link"]), ("ok", True, True))


class BadInput(ControlTest):
    """What can't be asked for, and the field that says so."""
    def bad(self, fields, reason, field):
        answer = self.request("POST", "/v1/sessions", fields)
        self.refused(answer, 400, reason, field)

    def test_names(self):
        for name in ("a/b", "../x", "a\0b", "a" * 300, "-a", "A", "a b", "ü", ""):
            with self.subTest(name=name[:20]):
                self.bad({"name": name}, "model.bad_name", "name")

    def test_memory(self):
        for memory in (0, 1 << 20, (512 << 20) + 1, 1 << 45, 2**63):
            with self.subTest(memory=memory):
                self.bad({"memory_bytes": memory}, "model.bad_memory", "memory_bytes")

    def test_vcpus_disk_and_ttl(self):
        self.bad({"vcpus": 0}, "model.bad_vcpus", "vcpus")
        self.bad({"vcpus": 5}, "model.bad_vcpus", "vcpus")
        self.bad({"disk_bytes": 1 << 30}, "model.bad_disk", "disk_bytes")
        self.bad({"ttl_seconds": 0}, "model.bad_ttl", "ttl_seconds")
        self.bad({"ttl_seconds": 604801}, "model.bad_ttl", "ttl_seconds")

    def test_types_and_unknown_fields(self):
        self.bad({"vcpus": "2"}, "control.bad_field", "vcpus")
        self.bad({"vcpus": -1}, "control.bad_field", "vcpus")
        self.bad({"vcpus": 1.5}, "control.bad_field", "vcpus")
        self.bad({"name": 7}, "control.bad_field", "name")
        self.bad({"labels": {"a": 1}}, "control.bad_field", "labels")
        self.bad({"labels": {"a b": "x"}}, "model.bad_labels", "labels")
        self.bad({"nmae": "x"}, "control.unknown_field", "nmae")

    def test_unknown_template(self):
        answer = self.request("POST", "/v1/sessions", {"template": "nothere"})
        self.refused(answer, 404, "control.no_such_template", "template")
        self.bad({"template": "../etc"}, "model.bad_template_name", "template")

    def test_what_is_not_there(self):
        self.refused(self.request("GET", "/v1/sessions/nothere"), 404, "control.no_such_session")
        self.refused(self.request("DELETE", "/v1/sessions/nothere"), 404, "control.no_such_session")
        self.refused(self.request("PATCH", "/v1/sessions/nothere", {"ttl_seconds": 5}), 404, "control.no_such_session")
        self.refused(self.request("GET", "/v1/operations/nothere"), 404, "control.no_such_operation")
        self.refused(self.request("GET", "/v1/templates/nothere"), 404, "control.no_such_template")
        self.refused(self.request("POST", "/v1/templates", {"name": "nothere"}), 404, "control.no_such_template")

    def test_parameters(self):
        self.refused(self.request("GET", "/v1/sessions?state=sleeping"), 400, "model.no_such_state", "state")
        self.refused(self.request("GET", "/v1/sessions?page_size=0"), 400, "control.bad_parameter", "page_size")
        self.refused(self.request("GET", "/v1/sessions?page_size=1001"), 400, "control.bad_parameter", "page_size")
        self.refused(self.request("GET", "/v1/sessions?page_token=zzz"), 400, "control.bad_parameter", "page_token")
        self.refused(self.request("POST", "/v1/sessions?wait=maybe"), 400, "control.bad_parameter", "wait")

    def test_nothing_half_made_is_left(self):
        before = self.control.tell("counts")
        self.request("POST", "/v1/sessions", {"memory_bytes": 0, "name": "halfmade"})
        self.assertEqual(self.control.tell("counts"), before)
        self.assertEqual(self.request("GET", "/v1/sessions?name=halfmade").json()["items"], [])


class Idempotency(ControlTest):
    def test_the_same_key_gives_the_same_session(self):  # case 30
        headers = {"Idempotency-Key": "key one"}
        first = self.request("POST", "/v1/sessions", {"name": "once", "vcpus": 1}, headers)
        again = self.request("POST", "/v1/sessions?wait=false", {"vcpus": 1, "name": "once"}, headers)  # order and wait don't matter
        self.assertEqual(first.json()["id"], again.json()["id"])
        self.assertEqual(first.headers["Space-Operation"], again.headers["Space-Operation"])
        self.refused(self.request("POST", "/v1/sessions", {"name": "twice"}, headers), 409, "control.idempotency_conflict")
        self.refused(self.request("DELETE", "/v1/sessions/once", headers=headers), 409, "control.idempotency_conflict")

    def test_twenty_at_once_make_one(self):
        before = int(self.control.tell("counts").split()[0])
        answers = []
        def create():
            answers.append(self.request("POST", "/v1/sessions", {}, {"Idempotency-Key": "crowd"}).json()["id"])
        threads = [threading.Thread(target=create) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(answers), len(set(answers))), (20, 1))
        self.assertEqual(int(self.control.tell("counts").split()[0]), before + 1)

    def test_a_failure_is_repeated_too(self):
        headers = {"Idempotency-Key": "doomed"}
        self.control.tell("fail_create resource_exhausted node.no_memory")
        first = self.request("POST", "/v1/sessions", {}, headers)
        again = self.request("POST", "/v1/sessions", {}, headers)
        self.assertEqual((first.status, first.json()), (again.status, again.json()))

    def test_a_bad_key_is_refused(self):
        for key in ("x" * 129, "tab\there"):
            self.refused(self.request("POST", "/v1/sessions", {}, {"Idempotency-Key": key}), 400, "control.bad_idempotency_key")

    def test_a_kill_is_idempotent_by_key(self):
        self.control.create(name="target")
        first = self.request("DELETE", "/v1/sessions/target", headers={"Idempotency-Key": "kill it"})
        self.control.create(name="target")  # the name is free again, the key still means the first
        again = self.request("DELETE", "/v1/sessions/target", headers={"Idempotency-Key": "kill it"})
        self.assertEqual(first.json()["id"], again.json()["id"])
        self.assertEqual(self.request("GET", "/v1/sessions/target").json()["state"], "running")


class Paging(ControlTest):
    def test_pages_join_to_the_whole_newest_first(self):
        ids = [self.control.create()["id"] for _ in range(7)]
        seen, token = [], ""
        while token is not None:
            page = self.request("GET", f"/v1/sessions?page_size=3&page_token={token}").json()
            seen += [s["id"] for s in page["items"]]
            self.assertLessEqual(len(page["items"]), 3)
            token = page["next_page_token"]
        self.assertEqual(seen, ids[::-1])
        operations, token = [], ""
        while token is not None:
            page = self.request("GET", f"/v1/operations?page_size=2&page_token={token}").json()
            operations += [o["session"] for o in page["items"]]
            token = page["next_page_token"]
        self.assertEqual(operations, ids[::-1])
        self.request("DELETE", "/v1/sessions/" + ids[0])
        states = self.request("GET", "/v1/sessions?state=killed,failed").json()["items"]
        self.assertEqual([s["id"] for s in states], [ids[0]])
        kinds = [o["kind"] for o in self.request("GET", "/v1/operations?session=" + ids[0]).json()["items"]]
        self.assertEqual(kinds, ["kill_session", "create_session"])
        self.refused(self.request("GET", "/v1/operations?session=nothere"), 404, "control.no_such_session")


class Crashes(unittest.TestCase):
    def setUp(self):
        self.control = Control().start()

    def tearDown(self):
        self.control.close()

    def session(self, name):
        return self.control.request("GET", "/v1/sessions/" + name).json()

    def test_a_create_is_finished_after_kill_9(self):
        self.control.tell("hold")
        headers = {"Idempotency-Key": "survives"}
        begun = self.control.request("POST", "/v1/sessions?wait=false", {"name": "survivor"}, headers)
        wait_until(lambda: self.control.tell("counts").startswith("1 "), "the node was asked")
        self.control.kill()
        self.control.tell("release")
        self.control.start()
        wait_until(lambda: self.session("survivor")["state"] == "running", "the create is finished")
        again = self.control.request("POST", "/v1/sessions", {"name": "survivor"}, headers)
        self.assertEqual(again.json()["id"], begun.json()["id"])
        self.assertEqual(len(self.control.tell("sandboxes").split()), 1)

    def test_a_kill_is_finished_after_kill_9(self):
        session = self.control.create(name="victim")
        self.control.tell("fail_destroys unavailable node.recovering")
        self.control.request("DELETE", "/v1/sessions/victim?wait=false")
        self.assertEqual(self.session("victim")["state"], "killing")
        self.control.kill()
        self.control.tell("heal")
        self.control.start()
        wait_until(lambda: self.session("victim")["state"] == "killed", "the kill is finished")
        self.assertNotIn(session["sandbox"]["id"], self.control.tell("sandboxes"))

    def test_a_kill_that_failed_is_taken_up_again(self):  # case 9
        self.control.create(name="stubborn")
        self.control.tell("fail_destroys internal node.program")
        refused = self.control.request("DELETE", "/v1/sessions/stubborn")
        self.assertEqual(refused.status, 500)
        self.assertEqual(self.session("stubborn")["state"], "killing")
        self.control.tell("heal")
        killed = self.control.request("DELETE", "/v1/sessions/stubborn")
        self.assertEqual(killed.json()["state"], "killed")

    def test_a_lost_sandbox_fails_its_session_and_a_stray_is_destroyed(self):  # case 27
        session = self.control.create(name="lost")
        kept = self.control.create(name="kept")
        self.control.kill()
        self.control.tell(f"end {session['sandbox']['id']} node.vmm_exited")
        self.control.tell("stray strayaaaaaaaaaaaaaaa")
        self.control.start()
        wait_until(lambda: self.session("lost")["state"] == "failed", "it is failed")
        self.assertEqual(self.session("lost")["status"]["reason"], "control.sandbox_lost")
        self.assertEqual(self.session("kept")["state"], "running")
        wait_until(lambda: "stray" not in self.control.tell("sandboxes"), "the stray is destroyed")
        self.assertIn(kept["sandbox"]["id"], self.control.tell("sandboxes"))
        self.assertEqual(self.control.request("DELETE", "/v1/sessions/lost").json()["state"], "killed")

    def test_the_recovery_report_of_the_node_is_kept(self):
        self.control.tell("stop_node")
        self.control.tell("recovered_adopted adoptedaaaaaaaaaaaaa")
        self.control.tell("start_node")
        node = wait_until(lambda: (lambda n: n if n["recovery"]["adopted"] else None)(self.control.request("GET", "/v1/node").json()), "the report")
        self.assertEqual(node["recovery"]["adopted"], ["adoptedaaaaaaaaaaaaa"])

    def test_a_restarting_node_is_waited_for_and_a_dead_one_is_an_error(self):
        self.control.tell("stop_node")
        refused = self.control.request("POST", "/v1/sessions")
        self.assertEqual((refused.status, refused.reason()), (503, "rpc.unreachable"))
        self.assertFalse(self.control.request("GET", "/v1/node").json()["connected"])
        self.assertEqual(self.control.request("GET", "/v1/health", key=None).json()["status"], "starting")
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.control.request("POST", "/v1/sessions", {"name": "patient"})))
        thread.start()
        self.control.tell("start_node")
        thread.join()
        self.assertEqual(answers[0].status, 201)

    def test_a_node_that_restarts_in_a_create_does_not_lose_it(self):
        self.control.tell("hold")
        self.control.request("POST", "/v1/sessions?wait=false", {"name": "tenacious"})
        wait_until(lambda: self.control.tell("counts").startswith("1 "), "the node was asked")
        self.control.tell("stop_node")
        self.control.tell("release")
        self.control.tell("start_node")
        wait_until(lambda: self.session("tenacious")["state"] == "running", "it runs")

    def test_sigterm_kills_the_sessions_and_exits_with_0(self):
        session = self.control.create(name="stopped")
        socket = self.control.websocket(f"/v1/sessions/{session['id']}/exec")
        socket.send_json({"argv": ["sleep"]})
        self.assertEqual(socket.receive()["type"], "started")
        self.assertEqual(self.control.stop(), 0)
        frames, _ = socket.rest()
        socket.close()
        self.assertEqual(frames[-1]["error"]["reason"], "link.sandbox_gone")
        self.assertEqual(self.control.tell("sandboxes"), "")
        self.control.start()
        ended = self.session("stopped")
        self.assertEqual((ended["state"], ended["status"]["reason"]), ("killed", "control.platform_stopped"))
        with open(self.control.log) as log:
            self.assertTrue(all(json.loads(line) for line in log))

    def test_another_admin_key_revokes_the_old_one(self):
        old = self.control.key
        self.control.kill()
        self.control.key = "space_" + "n" * 43
        self.control.start()
        self.assertEqual(self.control.request("GET", "/v1/sessions").status, 200)
        self.assertEqual(self.control.request("GET", "/v1/sessions", key=old).status, 401)


if __name__ == "__main__":
    unittest.main()
