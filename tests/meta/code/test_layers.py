"""The rooms import each other only as agreed, and each contract notices when they do not."""

import ast
import graphlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta import tree
from tests.meta.code import tidy

LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def lint_imports(folder: Path) -> tuple[int, str]:
    """Check the contracts of the pyproject.toml in the folder; return exit code and report."""
    done = subprocess.run(
        [LINT_IMPORTS, "--no-cache"],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def skeleton(folder: Path) -> None:
    """Lay out the rooms with nothing in them, and the modules that contracts name, under the
    contracts of this repository."""
    (folder / "pyproject.toml").write_text((tree.ROOT / "pyproject.toml").read_text("utf-8"))
    for package in tree.packages():
        room = folder.joinpath("src", *package.split("."))
        room.mkdir(parents=True, exist_ok=True)
        (room / "__init__.py").write_text("")
    for contract in tree.project()["tool"]["importlinter"]["contracts"]:
        layers = [name for layer in contract.get("layers", ()) for name in layer.split(" | ")]
        inside = [f"{each}.{name}" for each in contract.get("containers", ()) for name in layers]
        for module in (*contract.get("source_modules", ()), *inside):
            path = folder.joinpath("src", *module.split("."))
            if not path.is_dir():
                path.with_suffix(".py").touch()
    for room in (folder / "src" / tree.PACKAGE).iterdir():
        if room.is_dir():
            room.rename(folder / room.name)
            room.symlink_to(folder / room.name)


def test_the_rooms_keep_their_contracts() -> None:
    code, report = lint_imports(tree.ROOT)
    assert code == 0, report
    assert " 0 broken" in report


def imports_of(path: Path, modules: frozenset[str]) -> set[str]:
    """Return the modules of the product that a source file imports, also for its types alone."""
    found: set[str] = set()
    for node in ast.walk(tree.parsed(path)):
        names = set(tidy.imported(node)) & modules
        # A package is meant only if none of its modules is.
        found |= {each for each in names if not any(n.startswith(f"{each}.") for n in names)}
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    paths = {
        tree.module_name(tree.ROOT, path): path for path in tree.sources(tree.ROOT, *tree.rooms())
    }
    modules = frozenset(paths)
    graph = {name: imports_of(path, modules) - {name} for name, path in paths.items()}
    assert graph["daybook.engine.broker"] >= {"daybook.engine.core.core"}
    # Raises CycleError, which names the modules.
    graphlib.TopologicalSorter(graph).prepare()


DIVIDED = ("engine", "journal", "paging", "server")
"""Rooms whose own rooms are in layers, too."""


def test_every_room_is_under_contract() -> None:
    linter = tree.project()["tool"]["importlinter"]
    assert linter["root_packages"] == [tree.PACKAGE]
    contracts = {each["containers"][0]: each for each in linter["contracts"] if "layers" in each}
    assert contracts.keys() == {tree.PACKAGE, *(f"{tree.PACKAGE}.{room}" for room in DIVIDED)}
    for container, contract in contracts.items():
        folder = tree.ROOT.joinpath(*container.split(".")[1:])
        inside = {path.parent for path in folder.glob("*/__init__.py")}
        there = {path.stem for path in (*folder.glob("*.py"), *inside)} - {"__init__"}
        listed = sorted(room for layer in contract["layers"] for room in layer.split(" | "))
        assert listed == (sorted(there) if container != tree.PACKAGE else tree.rooms()), container


def test_the_skeleton_alone_breaks_nothing(tmp_path: Path) -> None:
    skeleton(tmp_path)
    code, report = lint_imports(tmp_path)
    assert code == 0, report


RUNS_NOTHING = "The engine and the protocols are deterministic and do no I/O"
LAYERS = "Rooms import only the rooms below them"
ENGINE = "The engine's rooms import only the rooms below them"
PAGING = "The rooms of paging import only the rooms below them"
JOURNAL = "The journal draws no randomness and opens no sockets"

PLANTED = [
    ("engine", "import time", RUNS_NOTHING),
    ("engine", "def f():\n    from random import random", RUNS_NOTHING),
    ("engine", "import os.path", RUNS_NOTHING),
    ("protocols/stomp", "import threading", RUNS_NOTHING),
    ("protocols/stomp", "import socket", RUNS_NOTHING),
    ("engine", "import daybook.journal", LAYERS),
    ("engine/queues", "import daybook.engine.state", ENGINE),
    ("engine/messages", "import daybook.engine.settings", ENGINE),
    ("paging/tables", "import daybook.paging.content", PAGING),
    ("journal", "import daybook.engine", LAYERS),
    ("paging", "import daybook.recovery", LAYERS),
    ("paging", "import asyncio", "Only the server runs an event loop"),
    ("protocols/stomp", "import daybook.paging", "Protocols know the engine alone"),
    ("recovery", "import daybook.protocols", LAYERS),
    ("protocols", "import daybook.recovery", LAYERS),
    ("recovery", "import daybook.server", LAYERS),
    ("server", "import daybook.tools", LAYERS),
    ("protocols/stomp", "import daybook.journal", "Protocols know the engine alone"),
    ("journal", "import secrets", JOURNAL),
    ("journal", "import asyncio", "Only the server runs an event loop"),
    ("tools", "import uvloop", "Only the server runs an event loop"),
    ("server", "import pyspark", "Spark stays out of the broker"),
    ("tools", "import pyspark", "Spark stays out of the broker"),
    ("server", "import duckdb", "The broker runs without the pipeline's libraries"),
    ("history", "import pyarrow", "The broker runs without the pipeline's libraries"),
    ("pipeline", "import daybook.server", LAYERS),
    ("pipeline", "import daybook.tools", LAYERS),
    ("server", "import daybook.pipeline", LAYERS),
    ("history", "import daybook.client", LAYERS),
    ("server", "import daybook.protocols.stomp", "The server knows no single protocol"),
    ("server", "import daybook.protocols.probe.session", "The server knows no single protocol"),
    ("protocols/probe", "import daybook.protocols.stomp", "No protocol knows another"),
    ("protocols/probe", "import socket", RUNS_NOTHING),
    ("pipeline", "import asyncio", "Only the server runs an event loop"),
    ("recovery", "import daybook.replication", LAYERS),
    ("history", "import daybook.replication.arbiters", LAYERS),
    ("replication", "import daybook.server", LAYERS),
    ("server", "import daybook.replication", "A broker without standbys imports nothing of them"),
    ("server", "import aiohttp", "Only the gateway of etcd needs the extra for standbys"),
]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The report on each contract where every violation is planted, in a module of its own."""
    folder = tmp_path_factory.mktemp("planted")
    skeleton(folder)
    for number, (room, source, _) in enumerate(PLANTED):
        (folder / room / f"planted_{number}.py").write_text(source + "\n")
    code, report = lint_imports(folder)
    assert code == 1, report
    _, *parts = re.split(r"\n([^\n]+)\n-+\n", report)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("number", range(len(PLANTED)))
def test_planted_violation_is_reported(number: int, broken: dict[str, str]) -> None:
    room, _, contract = PLANTED[number]
    module = f"{tree.PACKAGE}.{room.replace('/', '.')}.planted_{number}"
    assert f"{module} -> " in broken[contract]


def test_a_protocol_that_imports_another_is_reported(tmp_path: Path) -> None:
    skeleton(tmp_path)
    other = tmp_path / "protocols" / "other"
    other.mkdir()
    (other / "__init__.py").write_text("import daybook.protocols.stomp\n")
    code, report = lint_imports(tmp_path)
    assert code == 1, report
    assert "No protocol knows another BROKEN" in report


def test_the_port_and_the_registry_are_no_protocols(tmp_path: Path) -> None:
    skeleton(tmp_path)
    protocols = tmp_path / "protocols"
    (protocols / "port.py").write_text("")
    (protocols / "registry.py").write_text(
        "import daybook.protocols.port\nimport daybook.protocols.stomp.planted\n"
    )
    (protocols / "stomp" / "planted.py").write_text("import daybook.protocols.port\n")
    (tmp_path / "server" / "planted.py").write_text(
        "import daybook.protocols.port\nimport daybook.protocols.registry\n"
    )
    code, report = lint_imports(tmp_path)
    assert code == 0, report


BANNED = [
    ("engine", "from time import monotonic_ns\n\nmonotonic_ns()"),
    ("protocols/stomp", "import random\n\nrandom.random()"),
    ("journal", "import time\n\ntime.time()"),
    ("journal", "import os\n\nos.urandom(16)"),
    ("journal", "import datetime\n\ndatetime.datetime.now()"),
]


def test_clocks_and_randomness_are_reported_and_the_server_may_read_clocks(tmp_path: Path) -> None:
    skeleton(tmp_path)
    for number, (room, source) in enumerate(BANNED):
        (tmp_path / room / f"planted_{number}.py").write_text(source + "\n")
    (tmp_path / "server" / "clock.py").write_text("import time\n\ntime.time()\n")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--select=TID251", "--no-cache", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(re.findall(r"--> (\S+?):", done.stdout)) == {
        f"{room}/planted_{number}.py" for number, (room, _) in enumerate(BANNED)
    }
