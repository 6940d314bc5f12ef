"""The description of a command loads nothing that the command needs, so help is quick."""

import json
import os
import subprocess
import sys

import pytest

HEAVY = (
    "argon2", "asyncio", "duckdb", "fsspec", "lmdb", "multiprocessing", "numpy", "pyarrow",
    "pyspark", "rich", "sqlglot", "structlog", "uvloop", "zstandard", "daybook.paging",
    "daybook.recovery", "daybook.server.configuration.config", "daybook.server.service",
)  # fmt: skip
"""Packages that take long to import; only descriptions of the pipeline's jobs need some."""

DESCRIBING = """
import json, sys
import click
from importlib import import_module

def describe(command, parent, name):
    described.append(name)
    context = click.Context(command, info_name=name, parent=parent)
    command.get_help(context)
    if isinstance(command, click.Group) and name != "pipeline":
        for each in command.list_commands(context):
            describe(command.get_command(context, each), context, each)

described = []
for program, module in (("daybook", "daybook"), ("journal", "journal_cli")):
    describe(import_module(f"daybook.tools.{module}").cli, None, program)
print(json.dumps({"described": described, "modules": sorted(sys.modules)}))
"""
RUNNING = """
import json, sys
from daybook.tools import entry

sys.argv = sys.argv[1:]
try:
    getattr(entry, sys.argv[0])()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def python(code: str, *arguments: str, **environment: str) -> tuple[str, str]:
    """Run code with these arguments; return what it printed and what it said."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        capture_output=True, check=True, text=True, env=os.environ | environment,
    )  # fmt: skip
    return done.stdout, done.stderr


def heavy(modules: list[str]) -> list[str]:
    """Return the packages among these modules that take long to import."""
    return [name for name in modules if name in HEAVY]


def test_every_help_loads_little() -> None:
    told = json.loads(python(DESCRIBING)[0])
    assert {"serve", "queue", "purge", "send", "inspect", "verify", "fetch"} <= set(
        told["described"]
    )
    assert not heavy(told["modules"])


@pytest.mark.parametrize("program", ["daybook", "journal"])
@pytest.mark.parametrize("asked", ["--help", "--version"])
def test_a_program_that_says_what_it_is_loads_little(program: str, asked: str) -> None:
    printed, modules = python(RUNNING, program, asked)
    assert printed.startswith((f"Usage: {program}", f"{program}, version"))
    assert not heavy(json.loads(modules))


def test_the_version_loads_no_command() -> None:
    _, modules = python(RUNNING, "daybook", "--version")
    assert "daybook.tools.administration.broker_commands" not in json.loads(modules)


@pytest.mark.parametrize(
    ("program", "words", "expected"),
    [
        ("daybook", "daybook qu", "queue"),
        ("daybook", "daybook queue pu", "purge"),
        ("daybook", "daybook pipeline au", "audit"),
        ("journal", "journal ins", "inspect"),
        ("journal", "journal archive fe", "fetch"),
    ],
)
def test_completion_loads_little(program: str, words: str, expected: str) -> None:
    printed, modules = python(
        RUNNING, program, COMP_WORDS=words, COMP_CWORD=str(words.count(" ")),
        **{f"_{program.upper()}_COMPLETE": "bash_complete"},
    )  # fmt: skip
    assert expected in printed
    assert not heavy(json.loads(modules))


def test_what_is_heavy_is_found() -> None:
    assert heavy(
        json.loads(python("import json, sys, numpy; print(json.dumps([*sys.modules]))")[0])
    )
