# SPDX-License-Identifier: Apache-2.0
"""tools/check_* on small repositories that have one fault each, and on sound ones."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


class Sample:
    """A repository in a temporary directory."""

    def __init__(self, files):
        self.path = tempfile.mkdtemp(prefix="space-checks-")
        for name, text in files.items():
            path = os.path.join(self.path, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)

    def run(self, tool):
        return subprocess.run([sys.executable, os.path.join(ROOT, "tools", tool), "--root", self.path],
                              capture_output=True, text=True)


class Checks(unittest.TestCase):
    def sample(self, files):
        sample = Sample(files)
        self.addCleanup(shutil.rmtree, sample.path)
        return sample

    # ---- check_layers ----

    def layers(self, file, include):
        with open(os.path.join(ROOT, "tools/layers.txt"), encoding="utf-8") as f:
            table = f.read()
        return self.sample({"tools/layers.txt": table, file: f"// first\n#include {include}\n"}).run("check_layers")

    def assert_refused(self, done, *parts):
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        for part in parts:
            self.assertIn(part, done.stdout)

    def test_allowed_include_passes(self):
        done = self.layers("src/node/agent.cc", '"lib/rpc/call.h"')
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_process_may_not_include_another_process(self):
        self.assert_refused(self.layers("src/control/a.cc", '"node/actions.h"'), "src/control/a.cc:2:", "control may not include node")

    def test_nothing_points_up(self):
        self.assert_refused(self.layers("src/lib/base/a.h", '"lib/os/fd.h"'), "src/lib/base/a.h:2:")

    def test_another_modules_internal_header_is_refused(self):
        self.assert_refused(self.layers("src/control/a.cc", '"lib/rpc/internal/core.h"'), "internal")

    def test_own_internal_header_passes(self):
        self.assertEqual(self.layers("src/lib/rpc/a.cc", '"lib/rpc/internal/core.h"').returncode, 0)

    def test_guest_uses_no_boost(self):
        self.assert_refused(self.layers("src/guest/a.cc", "<boost/json.hpp>"), "<boost/")

    def test_node_never_reads_the_guests_messages(self):
        self.assert_refused(self.layers("src/node/a.cc", '"api/guest_generated.h"'), "api/guest")

    def test_code_may_not_depend_on_tests(self):
        self.assert_refused(self.layers("src/node/a.cc", '"tests/testkit/http/scripted_server.h"'))

    def test_only_space_bench_uses_the_benches(self):
        self.assertEqual(self.layers("src/apps/space-bench/main.cc", '"bench/benches.h"').returncode, 0)
        self.assert_refused(self.layers("src/apps/space/main.cc", '"bench/benches.h"'), "nothing depends")

    def test_folder_without_a_row_is_reported(self):
        self.assert_refused(self.layers("src/surprise/a.cc", "<string>"), "no row")

    def test_broken_table_is_an_error_of_its_own(self):
        done = self.sample({"tools/layers.txt": "no colon\n"}).run("check_layers")
        self.assertEqual(done.returncode, 2)

    # ---- check_docs ----

    SOUND = {
        "SPECIFICATION.md": "| 1 | It works | `Thing.Works` |\n| 2 | It is fast | no test yet |\n",
        "SECURITY.md": "| 1 | a | b | c | d | `Thing.Works` |\n",
        "src/thing/CMakeLists.txt": "",
        "src/thing/README.md": "Posture: **internal**\n",
        "src/thing/thing.cc": 'return make_error(Code::kInternal, "node.broken", "x");\n',
        "src/thing/thing_test.cc": "TEST(Thing, Works) {}\n",
        "api/errors.yaml": "- {reason: node.broken, code: internal}\n",
    }

    def docs(self, **changes):
        files = dict(self.SOUND)
        for name, text in changes.items():
            files[name.replace("__", "/").replace("_md", ".md").replace("_yaml", ".yaml")] = text
        return self.sample(files).run("check_docs")

    def test_sound_documents_pass(self):
        done = self.docs()
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_promise_with_a_missing_test_is_reported(self):
        self.assert_refused(self.docs(SPECIFICATION_md="| 1 | x | `Thing.Sings` |\n"), "no test Thing.Sings")

    def test_promise_without_a_test_is_reported(self):
        self.assert_refused(self.docs(SPECIFICATION_md="| 1 | x | later |\n"), "SPECIFICATION.md:1")

    def test_number_used_twice_is_reported(self):
        self.assert_refused(self.docs(SPECIFICATION_md="| 1 | x | `Thing.Works` |\n" * 2), "two rows")

    def test_unlisted_reason_is_reported(self):
        self.assert_refused(self.docs(api__errors_yaml="node.other:\n"), "node.broken is not in api/errors.yaml")

    def test_module_without_a_posture_is_reported(self):
        self.assert_refused(self.docs(src__thing__README_md="Nothing\n"), "posture")

    def test_dead_link_is_reported(self):
        self.assert_refused(self.docs(README_md="[x](docs/none.md)\n"), "docs/none.md")


if __name__ == "__main__":
    unittest.main()
