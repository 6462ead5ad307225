"""Where the tests find the recorder: beside them in the repository, or where PYTHONPATH says."""

import importlib.util
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
if importlib.util.find_spec("foreshard") is None:
    sys.path.insert(0, str(REPOSITORY / "traces/pytorch/recorder"))
