"""Help, completion and the version import nothing slow: by `sys.modules`, never by a clock."""

import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import packages_distributions
from types import ModuleType

import pytest

from daybook.tools import daybook, journal_cli
from tests.meta import tree

LIGHT = {"click", "msgspec"}
"""Dependencies that every command may import."""

ASK = """
import contextlib, io, sys
import click
from click.shell_completion import ShellComplete
from daybook.tools import daybook, journal_cli
from daybook.tools.terminal.version_option import version_option

def walk(command, context):
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            yield from walk(child, click.Context(child, context, name))

slow = set(sys.argv[1:])
for group, name in ((daybook.cli, "daybook"), (journal_cli.cli, "journal")):
    for context in walk(group, click.Context(group, info_name=name)):
        path = context.command_path.split()
        print("COMMAND", *path)
        context.command.get_help(context)
        for start in ("", "-"):
            ShellComplete(group, {}, name, "_COMPLETE").get_completions(path[1:], start)
        print("SLOW", *sorted(slow & sys.modules.keys()))
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        group(["--version"])
    print("COMMAND", name, "--version")
    print("SLOW", *sorted(slow & sys.modules.keys()))
"""


def slow_modules() -> set[str]:
    """All that the project depends on, with all extras, and what only a broker needs of Python."""
    project = tree.project()["project"]
    extras = project["optional-dependencies"].values()
    texts = [*project["dependencies"], *(text for extra in extras for text in extra)]
    names = {re.split(r"[^\w.-]", text)[0].lower() for text in texts}
    found = {
        module
        for module, distributions in packages_distributions().items()
        if names & {distribution.lower() for distribution in distributions}
    }
    return (found | {"asyncio", "multiprocessing"}) - LIGHT - {tree.PACKAGE}


@pytest.fixture(scope="module")
def answers() -> list[tuple[str, list[str]]]:
    """Each command, and what is imported once it was asked."""
    asked = subprocess.run(
        [sys.executable, "-P", "-c", ASK, *sorted(slow_modules())],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    lines = asked.stdout.splitlines()
    return [
        (command.removeprefix("COMMAND "), slow.split()[1:])
        for command, slow in zip(lines[::2], lines[1::2], strict=True)
    ]


def test_what_counts_as_slow() -> None:
    assert {"duckdb", "lmdb", "numpy", "pyarrow", "pyspark", "rich", "uvloop"} <= slow_modules()


def test_help_and_completion_import_nothing_slow(answers: list[tuple[str, list[str]]]) -> None:
    assert [(command, slow) for command, slow in answers if slow][:1] == []


def test_every_command_is_asked(answers: list[tuple[str, list[str]]]) -> None:
    asked = {command for command, _ in answers}
    assert {
        "daybook serve", "daybook --version", "daybook pipeline audit", "daybook pipeline replay",
        "daybook queue list", "journal archive verify", "journal sql", "journal verify",
    } <= asked  # fmt: skip


@pytest.mark.parametrize("module", [daybook, journal_cli])
def test_a_command_is_in_one_place(module: ModuleType) -> None:
    """One that is loaded when it is called would be hidden by one that is defined beside it."""
    for name in module.PLACES.keys() & module.cli.commands.keys():
        # Another test called it; it is kept from then on.
        place, _, attribute = module.PLACES[name].partition(":")
        assert module.cli.commands[name] is getattr(import_module(place), attribute), name
