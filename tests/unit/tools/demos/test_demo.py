"""The demo itself: two kills, and every number right."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from daybook.tools.demos import demo, demo_clients

ROOT = Path(demo.__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.crash
def test_the_demo_proves_what_it_says(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "daybook.tools.demos.demo",
        "--orders",
        "1200",
        "--json",
        "--keep",
    ]
    done = subprocess.run(
        [*command, str(tmp_path / "kept")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout)
    assert [row for row in rows if not row["right"]] == []
    assert rows[0]["value"] == 1200
    assert (tmp_path / "kept" / "data" / "journal").is_dir()


@pytest.mark.slow
@pytest.mark.crash
def test_producers_that_never_pause_leave_orders_for_the_second_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order in doubt is not sent again, so too many of them would leave too few receipts."""
    monkeypatch.setattr(demo_clients, "PAUSE_SECONDS", 0)
    told: list[str] = []
    demo.Demo(tmp_path / "data", 1200, told.append).run()
    assert len([each for each in told if each.startswith("kill -9")]) == 2


def test_the_demo_does_not_work_in_somebody_elses_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    command = [sys.executable, "-m", "daybook.tools.demos.demo", "--keep", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is not empty" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
