"""The words of a drill about what its broker logged."""

from pathlib import Path
from typing import cast

import pytest

from daybook.tools.drills.scratch.broker import DrillBroker
from daybook.tools.drills.scratch.server import Serving

CALM = '{"event": "ready", "level": "info"}\n'
ERROR = """Traceback (most recent call last):
  File "a.py", line 1, in main
    act()

"""
LAST = "OSError: [Errno 28] No space left on device\n"


@pytest.mark.parametrize(
    ("log", "error"),
    [
        ("", ""), (CALM, ""), (CALM + ERROR + LAST + CALM, LAST.strip()), (ERROR, "it is cut off"),
        ("Traceback (most recent call last):\n" + "x" * 1000, "x" * 300),
    ],
)  # fmt: skip
def test_the_error_of_a_traceback_is_found(tmp_path: Path, log: str, error: str) -> None:
    file = tmp_path / "broker.log"
    broker = DrillBroker(cast("Serving", None), file)
    assert broker.traceback() == ""
    file.write_text(log)
    assert broker.traceback() == error
