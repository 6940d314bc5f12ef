"""The commands as they are installed: quiet about Ctrl-C, at home in any locale."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from daybook.times import parse_time
from daybook.tools import daybook

ROOT = Path(daybook.__file__).resolve().parent.parent

WHILE_LOADING = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "daybook.tools.administration.request_commands":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from daybook.tools.entry import daybook
daybook()
"""
WHILE_WORKING = """
import os, signal
from daybook.tools.history import verify

def interrupted(*arguments, **options):
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()

verify.verdict_on = interrupted
from daybook.tools.entry import journal
journal()
"""
SHOWING = """
import click
from daybook.tools.terminal.failures import run
from daybook.tools.terminal.printing import print_line

@click.group()
def cli(): pass

@cli.command()
def show(): print_line("\\u00e4\\u20ac\\U0001f600")

run(cli, "x")
"""
READING = """
import sys
from daybook.tools.entry import journal

def ended(*words):
    sys.argv[1:] = [*words, data]
    try:
        journal()
    except SystemExit as end:
        return str(end.code)

data = sys.argv[1]
commands = [("stat",), ("stat", "--json"), ("inspect",), ("inspect", "--json")]
print("ended with", ", ".join(ended(*words) for words in commands))
"""


def python(code: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT, capture_output=True, check=False, env=os.environ | environment,
    )  # fmt: skip


def test_an_interrupt_while_loading_is_quiet() -> None:
    done = python(WHILE_LOADING, "status")
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_an_ignored_interrupt_stays_ignored() -> None:
    code = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{WHILE_LOADING}"
    done = python(code, "status", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(b"Usage: daybook status")


def test_an_interrupted_verify_is_no_damage(history: Any) -> None:
    done = python(WHILE_WORKING, "verify", history.data)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, b"", b"")


@pytest.mark.parametrize(
    ("encoding", "shown"), [("ascii", b"\\u00e4\\u20ac"), ("latin-1", b"\xe4\\u20ac")]
)
def test_what_a_terminal_cannot_show_is_escaped(
    history: Any, tmp_path: Path, encoding: str, shown: bytes
) -> None:
    done = python(SHOWING, "show", PYTHONIOENCODING=encoding)
    assert done.stdout == shown + b"\\ud83d\\ude00\n", done
    escaped = done.stdout.strip().replace(b"\xe4", b"\\u00e4")
    assert json.loads(b'"' + escaped + b'"') == "\u00e4\u20ac\U0001f600"
    data = tmp_path / "\u00e4\u20ac\U0001f600"
    data.symlink_to(history.data)
    done = python(READING, data, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"ended with 0, 0, 0, 0\n")


@pytest.mark.parametrize(("text", "days"), [("30d", 30), ("2w", 14)])
def test_times_ago_have_days_and_weeks(text: str, days: int) -> None:
    from datetime import UTC, datetime, timedelta  # noqa: PLC0415 (this test alone)

    now = datetime(2026, 3, 1, tzinfo=UTC)
    then = now - timedelta(days=days)
    assert parse_time(text, now) == int(then.timestamp() * 1_000_000)


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ("100", 1, "the limit for untrusted data is 100; if you trust it, set DAYBOOK_"),
        ("1 GB", 2, "DAYBOOK_BLOCK_BYTES_MAX is '1 GB'; it must be a number of bytes"),
        ("10000000", 0, "intact"),
    ],
)
def test_blocks_that_claim_much_are_not_decompressed(
    history: Any, given: str, code: int, words: str
) -> None:
    script = "from daybook.tools.entry import journal; journal()"
    done = python(script, "verify", history.data, DAYBOOK_BLOCK_BYTES_MAX=given)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == code, said
    assert words in said
    assert "Traceback" not in said
