"""What tools/torch_collectives/killed.py lets pass: the codes that its cases promise, and nothing else. No GPU."""

import importlib.util
import os
import subprocess
import sys
import unittest

from recorder_path import REPOSITORY

PATH = REPOSITORY / "tools/torch_collectives/killed.py"
SPEC = importlib.util.spec_from_file_location("killed", PATH)
killed = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(killed)


class PromisedTest(unittest.TestCase):
    def expect(self, good, how, *codes):
        with self.subTest(how=how, codes=codes):
            self.assertEqual(killed.promised(how, list(codes)), good)

    def test_the_killed_rank_is_killed_and_the_others_end_with_14(self):
        for how in ("issuing", "waiting", "replaying"):
            self.expect(True, how, 14, -9)
            self.expect(True, how, 14, 14, 14, -9)
            for codes in ((1, 1), (1, -9), (14, 1), (0, -9), (15, -9), (-9, -9), (-6, -9), (14, 1, -9), (14, 14)):
                self.expect(False, how, *codes)

    def test_a_rank_that_differs_is_refused_with_its_memory_untouched(self):
        for codes in ((14, 40), (40, 14), (40, 40), (40, 40, 14)):
            self.expect(True, "differing", *codes)
        for codes in ((14, 14), (1, 1), (14, 1), (1, 40), (40, -9), (14, 4), (0, 40)):
            self.expect(False, "differing", *codes)

    def test_of_those_that_wait_for_a_stopped_rank_one_ends_with_15(self):
        for codes in ((15, -9), (15, 14, -9), (14, 15, -9), (15, 15, -9)):
            self.expect(True, "stopped", *codes)
        for codes in ((14, -9), (1, -9), (1, 1), (15, 1), (15, 1, -9), (-9, -9)):
            self.expect(False, "stopped", *codes)


class CrashTest(unittest.TestCase):
    def test_no_case_passes_where_every_rank_crashes_at_once(self):
        hidden = {**os.environ, "PYTHONPATH": "", "CUDA_VISIBLE_DEVICES": ""}
        hidden.pop("RANK", None)
        for how in ("issuing", "waiting", "replaying", "differing", "stopped"):
            with self.subTest(how=how):
                ended = subprocess.run([sys.executable, PATH, how], capture_output=True, text=True, env=hidden)
                self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
                self.assertIn("not the codes that are promised", ended.stdout)


if __name__ == "__main__":
    unittest.main()
