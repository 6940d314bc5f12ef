"""The code base keeps its own rules, and the checks of these rules can fail."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.meta import tree
from tests.meta.code import tidy

Check = Callable[[Path], Iterable[str]]
ROOT = tree.ROOT
EVERYTHING = [*tree.rooms(), "tests", "bench", "release"]


def findings(check: Check, *folders: str) -> str:
    paths = tree.sources(ROOT, *folders)
    assert paths, f"no sources below {folders}: the check would prove nothing"
    return "\n".join(line for path in paths for line in check(path))


@pytest.mark.parametrize(
    "check",
    [tidy.long_functions, tidy.long_files, tidy.markers, tidy.missing_module_docstring],
    ids=lambda check: check.__name__,
)
def test_all_sources(check: Check) -> None:
    assert not findings(check, *EVERYTHING)


def test_no_folder_is_full() -> None:
    assert not list(tidy.full_folders(ROOT, *EVERYTHING))


def test_a_full_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    for name in ("__init__", *range(20)):
        (tmp_path / "room" / f"{name}.py").touch()
    assert not list(tidy.full_folders(tmp_path, "room"))
    (tmp_path / "room" / "one_more.py").touch()
    (found,) = tidy.full_folders(tmp_path, "room")
    assert "has 21 modules" in found


def test_no_clock_and_no_randomness() -> None:
    assert not findings(tidy.clocks_and_randomness, "engine", "protocols", "journal")


def test_engine_and_protocols_are_the_same_in_every_run() -> None:
    assert not findings(tidy.impurities, "engine", "protocols")


def test_public_names_of_journal_and_engine_are_explained() -> None:
    assert not findings(tidy.missing_docstrings, "journal", "engine")


def test_no_dead_modules() -> None:
    assert not tidy.dead_modules(ROOT)


def test_a_registered_protocol_is_awaited_no_longer() -> None:
    registry = (ROOT / "protocols" / "registry.py").read_text("utf-8")
    assert not [name for name in tidy.AWAITED if name.rpartition(".")[0] in registry]


def test_pages_and_settings_have_no_marks_of_unfinished_work() -> None:
    named = ("Makefile", "pyproject.toml", ".ci/run")
    paths = [*tree.pages(), *(ROOT / name for name in named), *(ROOT / "etc").glob("*.*")]
    assert not "\n".join(line for path in paths for line in tidy.markers(path))


PLANTED: list[tuple[Check, str, str]] = [
    (tidy.long_functions, "def f():\n" + "    pass\n" * 70, "f has 71 lines"),
    (tidy.long_functions, "class C:\n    async def g(self):\n" + "        pass\n" * 70, "g has 71"),
    (tidy.long_files, "\n" * 1001, "has 1001 lines"),
    (tidy.markers, "# TO" + "DO later\n", ":1: TO" + "DO"),
    (tidy.markers, "x = 1  # FIX" + "ME\n", ":1: FIX" + "ME"),
    (tidy.missing_module_docstring, "x = 1\n", "no module docstring"),
    (tidy.clocks_and_randomness, "import time\nnow = time.time()\n", ":2: time.time"),
    (tidy.clocks_and_randomness, "from time import monotonic\n", ":1: time.monotonic"),
    (tidy.clocks_and_randomness, "import datetime as d\nd.datetime.now()\n", ":2: datetime.now"),
    (tidy.clocks_and_randomness, "import random\n", ":1: random"),
    (tidy.clocks_and_randomness, "from uuid import uuid4\n", ":1: uuid"),
    (tidy.clocks_and_randomness, "import os\nos.urandom(8)\n", ":2: os.urandom"),
    (tidy.impurities, "def f():\n    import time\n", ":2: time"),
    (tidy.impurities, "open('x')\n", ":1: open()"),
    (tidy.impurities, "hash('x')\n", ":1: hash()"),
    (tidy.missing_docstrings, "def f(): ...\n", "f has no docstring"),
    (tidy.missing_docstrings, "class C:\n    '''D.'''\n    def m(self): ...\n", "C.m has no"),
    (tidy.missing_docstrings, "class C:\n    def _m(self): ...\n", "C has no docstring"),
]


@pytest.mark.parametrize(("check", "source", "expected"), PLANTED)
def test_planted_violation_is_found(
    check: Check, source: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "planted.py"
    path.write_text(source)
    found = list(check(path))
    assert found
    assert expected in found[0]


CLEAN: list[tuple[Check, str]] = [
    (tidy.long_functions, "def f():\n" + "    pass\n" * 69),
    (tidy.long_files, "\n" * 600),
    (tidy.markers, "TODOS = 'a word that only begins like the mark'\n"),
    (tidy.clocks_and_randomness, "def f(now: int, time: int) -> int:\n    return now + time\n"),
    (tidy.impurities, "class R:\n    id: int\n\ndef f(r: R) -> int:\n    return r.id\n"),
    (tidy.missing_docstrings, "def _f(): ...\n\ndef g():\n    '''D.'''\n    def h(): ...\n"),
]


@pytest.mark.parametrize(("check", "source"), CLEAN)
def test_what_is_allowed_is_not_reported(check: Check, source: str, tmp_path: Path) -> None:
    path = tmp_path / "clean.py"
    path.write_text(source)
    assert not list(check(path))


def test_planted_dead_module_is_found(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nscripts = {run = "daybook.room.main:main"}\n'
        '[tool.setuptools]\npackages = ["daybook", "daybook.room", "daybook.room.part"]\n'
    )
    (tmp_path / "room" / "part").mkdir(parents=True)
    sources = {
        "room/__init__.py": "",
        "room/main.py": "from daybook.room.part import used\n",
        "room/part/__init__.py": "",
        "room/part/used.py": "def f():\n    import daybook.room.late\n",
        "room/late.py": "",
        "room/dead.py": "import daybook.room.also_dead\n",
        "room/also_dead.py": "import daybook.room.dead\n",
    }
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    found = tidy.dead_modules(tmp_path)
    assert [Path(line.partition(":")[0]).name for line in found] == ["also_dead.py", "dead.py"]
