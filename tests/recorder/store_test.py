"""foreshard.open: a store that foreshard has written, and files that are none. FORESHARD_BINARY names the program."""

import os
import sqlite3
import subprocess
import tempfile
import unittest
from pathlib import Path

import recorder_path  # noqa: F401 (finds foreshard)

import foreshard


class StoreTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "a store?.db")

    def test_a_plan(self):
        binary = os.environ.get("FORESHARD_BINARY")
        if not binary:
            self.skipTest("FORESHARD_BINARY is not set")
        command = [binary, "plan", "mlp", "--gpus", "4", "--quiet", "-o", str(self.path)]
        subprocess.run(command, check=True, capture_output=True)
        connection = foreshard.open(self.path)
        self.addCleanup(connection.close)
        row = connection.execute("SELECT max(bytes) AS peak FROM memory_by_category").fetchone()
        self.assertGreater(row["peak"], 0)
        with self.assertRaisesRegex(sqlite3.OperationalError, "readonly"):
            connection.execute("DELETE FROM run")

    def test_no_file(self):
        with self.assertRaisesRegex(FileNotFoundError, "no such file"):
            foreshard.open(self.path)
        self.assertFalse(self.path.exists())

    def test_other_files(self):
        self.path.write_text("not SQLite at all, by a long way")
        with self.assertRaisesRegex(ValueError, "no run store"):
            foreshard.open(self.path)
        self.path.unlink()
        other = sqlite3.connect(self.path)
        other.execute("CREATE TABLE t(x)")
        other.close()
        with self.assertRaisesRegex(ValueError, "no run store of foreshard"):
            foreshard.open(self.path)


if __name__ == "__main__":
    unittest.main()
