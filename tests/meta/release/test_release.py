"""A release needs its section of the changelog, and says everywhere which version it is."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from daybook.levels import FEATURES
from release import artifacts, base, changelog, manuals
from tests.meta import tree

VERSION = tree.project()["project"]["version"]
PAGE = """\
# Changelog

## [Unreleased]

### Added

- A thing.

## [0.1.0] - 2026-01-02

- All.
"""


def test_pages_name_this_version() -> None:
    named = re.compile(r"daybook_broker-(\d[\w.]*?)-|server:daybook/([\d.]+\w)")
    found = {
        (path.name, one or other)
        for path in tree.pages()
        if path.parent.name != "adr"
        for one, other in named.findall(path.read_text("utf-8"))
    }
    assert len(found) > 2
    assert {version for _, version in found} == {VERSION}


def test_no_feature_is_of_a_later_release() -> None:
    def numbers(version: str) -> list[int]:
        return [int(part) for part in version.split(".")]

    assert all(numbers(each.release) <= numbers(VERSION) for each in FEATURES)


def test_the_changelog_is_one_that_can_be_released() -> None:
    found = changelog.sections(changelog.PAGE.read_text("utf-8"))
    assert VERSION in found or found["Unreleased"][1]


def test_what_is_unreleased_becomes_a_section() -> None:
    made = changelog.dated(PAGE, "0.2.0", "2026-11-26")
    found = changelog.sections(made)
    assert list(found) == ["Unreleased", "0.2.0", "0.1.0"]
    assert found["Unreleased"] == ("", "")
    assert found["0.2.0"] == ("2026-11-26", "### Added\n\n- A thing.")
    assert changelog.check(made, "0.2.0") == "2026-11-26"


@pytest.mark.parametrize(
    ("page", "version", "said"),
    [
        (PAGE, "0.2.0", r"no section \[0.2.0\] with a date and entries: run `make changelog"),
        (PAGE, "0.1.0", r"unreleased entries besides \[0.1.0\]"),
        (PAGE.replace(" - 2026-01-02", ""), "0.1.0", "no section"),
        (PAGE.replace("- All.", ""), "0.1.0", "no section"),
    ],
)
def test_a_changelog_that_is_not_ready_refuses_the_release(
    page: str, version: str, said: str
) -> None:
    with pytest.raises(changelog.Refused, match=said):
        changelog.check(page, version)


def test_a_section_is_made_once() -> None:
    with pytest.raises(changelog.Refused, match="already"):
        changelog.dated(PAGE, "0.1.0", "2026-11-26")
    with pytest.raises(changelog.Refused, match="nothing unreleased"):
        changelog.dated(PAGE.replace("### Added\n\n- A thing.", ""), "0.2.0", "2026-11-26")


def test_every_command_has_a_manual_page() -> None:
    pages = dict(manuals.pages("1.2.3", "2026-11-26"))
    assert dict(manuals.pages("1.2.3", "2026-11-26")) == pages
    assert {"daybook.1", "daybook-queue-purge.1", "journal-trail.1"} <= pages.keys()
    for name, text in pages.items():
        program = name.partition(".")[0].partition("-")[0]
        assert re.search(r'^\.TH "[A-Z -]+" "1" "2026-11-26" "1\.2\.3"', text, re.MULTILINE), name
        assert program in text
    for name in ("queue", "serve", "health"):
        assert f"daybook-{name}(1)" in pages["daybook.1"]
    assert "daybook-queue-purge(1)" in pages["daybook-queue.1"]
    assert "passcode\\-stdin" in pages["daybook-user-add.1"]


@pytest.mark.parametrize("shell", manuals.COMPLETIONS)
@pytest.mark.parametrize("program", manuals.PROGRAMS)
def test_each_shell_has_completions(program: str, shell: str) -> None:
    text = manuals.completion(program, shell)
    assert f"_{program.upper()}_COMPLETE={shell}_complete" in text
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_the_sums_are_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "b.whl").write_bytes(b"b")
    (tmp_path / "a.tar.gz").write_bytes(b"a")
    (tmp_path / artifacts.SUMS).write_text("old")
    expected = [(hashlib.sha256(each).hexdigest()) for each in (b"a", b"b")]
    assert artifacts.sums(tmp_path) == f"{expected[0]}  a.tar.gz\n{expected[1]}  b.whl\n"


def test_interpreters_are_those_that_run(tmp_path: Path) -> None:
    version = ".".join(map(str, sys.version_info[:2]))
    assert artifacts.runs(Path(sys.executable), version)
    assert not artifacts.runs(Path(sys.executable), "3.9")
    broken = tmp_path / "python3.12"
    broken.write_text("#!/bin/sh\necho nonsense\n")
    broken.chmod(0o755)
    assert not artifacts.runs(broken, "3.12")


def test_a_wheel_that_says_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*command: str | Path, **_: object) -> str:
        if "wheel" in command:
            (tmp_path / "made.whl").touch()
        return "daybook, version 0.0.1"

    monkeypatch.setattr(artifacts, "run", run)
    with pytest.raises(artifacts.Failed, match=r"made\.whl says that it is daybook, version 0\.0"):
        artifacts.wheel(Path(sys.executable), tmp_path, tmp_path, compiled=False)


@pytest.mark.parametrize(
    ("name", "pinned"),
    [
        (f"3.11-slim-bookworm@sha256:{'0a' * 32}", True),
        ("3.11-slim-bookworm", False),
        ("3.11-slim-bookworm@sha256:0a", False),
        ("", False),
    ],
)
def test_a_base_image_needs_a_digest(name: str, pinned: bool) -> None:
    assert bool(base.PINNED.fullmatch(name)) is pinned


def test_the_commands_are_those_of_the_project() -> None:
    assert manuals.PROGRAMS.keys() == tree.project()["project"]["scripts"].keys()
    assert all(isinstance(each, click.Group) for each in manuals.PROGRAMS.values())
