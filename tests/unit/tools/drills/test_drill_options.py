"""The options of drills: what is no number is refused, and a finding's command repeats them all."""

import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from daybook.journal.archive.archive import Archive
from daybook.tools import daybook
from daybook.tools.drills import bit_rot, campaigns, crash_points, restore
from daybook.tools.drills.campaigns import Asked
from daybook.tools.drills.command import drill_group


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e400", "-1", "0", "1e9", "many"])
@pytest.mark.parametrize(
    ("name", "option"),
    [("kill", "--minutes"), ("slow-disk", "--delay-ms"), ("bit-rot", "--minutes"),
     ("crash-points", "--minutes")],
)  # fmt: skip
def test_what_is_no_number_is_refused(tmp_path: Path, name: str, option: str, value: str) -> None:
    words = ["drill", name, f"{option}={value}"]
    words += [str(tmp_path)] if name in ("bit-rot", "crash-points") else []
    done = CliRunner().invoke(daybook.cli, words)
    assert done.exit_code == 2
    assert option in done.output
    assert "Traceback" not in done.output


NOT_REPEATED = {"html", "as_json", "data", "keep", "points"}
"""Where things are written; another name of DATA; the sample, of which one point is named."""


def test_the_command_of_a_finding_has_all_options(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    for name in ("kill", "power-cut", "slow-disk", "disk-full"):
        check(name, campaigns._again(Asked(name, config, 3, 2.5, 7, 30.0)))
    flipping = bit_rot.Asked(tmp_path, config, 3, 2.5, 7)
    check("bit-rot", bit_rot.again(flipping))
    check("restore", restore.Asked(Archive(str(tmp_path)), tmp_path, config, 7).again())
    point = crash_points.Asked(tmp_path, 3, 7, 2.5, 2, ("inside",))
    check("crash-points", crash_points.again(point, "a.seg:4096", "inside"))


def check(name: str, again: str) -> None:
    words = shlex.split(again)
    assert words[:3] == ["daybook", "drill", name]
    command = drill_group.commands[name]
    for option in command.params:
        if isinstance(option, click.Option) and option.name not in NOT_REPEATED:
            assert set(option.opts) & set(words), f"{again} lacks {option.opts}"
    if "--seed" in words:
        assert words[words.index("--seed") + 1] == "7"
    if "--minutes" in words:
        assert words[words.index("--minutes") + 1] == "2.5"
    if "--delay-ms" in words:
        assert words[words.index("--delay-ms") + 1] == "30"
