"""The incident of `docs/forensics.md`, staged as the page stages it, with what it prints.

`python -m tests.interop.history.test_forensics_page` stages it and puts the outputs into the page.
"""

import re
import tempfile
from pathlib import Path

import pytest

from tests.meta import tree
from tests.support.brokers.console import commands_of, rewritten, staged, without_numbers

pytestmark = pytest.mark.interop

PAGE = tree.ROOT / "docs" / "forensics.md"


def test_the_incident_is_as_the_page_tells_it(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    commands = commands_of(page)
    outputs = staged(page, tmp_path)
    assert len(outputs) == len(commands) > 15
    for shown, output in zip(commands, outputs, strict=True):
        assert without_numbers(output) == without_numbers(shown.output), shown.command
    (trail,) = [
        output
        for shown, output in zip(commands, outputs, strict=True)
        if shown.command == "journal trail --header order=4711"
    ]
    assert len(re.findall(r"^ *\d+ .* Delivered ", trail, re.MULTILINE)) == 3


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        text = PAGE.read_text("utf-8")
        PAGE.write_text(rewritten(text, staged(text, Path(folder))), "utf-8")
