# SPDX-License-Identifier: Apache-2.0
"""run.py MODULE [TEST]: one test method, for ctest."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
module = __import__(sys.argv[1])
suite = unittest.TestSuite()
for name in dir(module):
    case = getattr(module, name)
    if isinstance(case, type) and issubclass(case, unittest.TestCase) and case.__module__ == module.__name__:
        for test in unittest.defaultTestLoader.getTestCaseNames(case):
            if len(sys.argv) < 3 or test == sys.argv[2]:
                suite.addTest(case(test))
result = unittest.TextTestRunner(verbosity=2).run(suite)
sys.exit(0 if result.wasSuccessful() and result.testsRun else 1)
