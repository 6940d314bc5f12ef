"""How long the questions of docs/forensics.md take: `python -m bench.questions SHOP`.

Runs each command of the section on the history that `bench.incident` made, as a user would: a new
process each. Prints a table of elapsed seconds, processor seconds and the peak of memory. Fault
model: a command that fails ends the run with what it said.
"""

import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

import click

from bench.frames import LoadError

PAGE: Final = Path(__file__).absolute().parent.parent / "docs" / "forensics.md"
SECTION: Final = "## Questions of an incident"
_QUESTION: Final = re.compile(r"^\*\*(.*?)\*\*.*?^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
KIB: Final = 1024


class Answered(NamedTuple):
    """A question, and what its answer took: seconds, processor seconds, and MiB at most."""

    question: str
    seconds: float
    processor: float
    mib: float


def questions() -> list[tuple[str, str]]:
    """Return the questions of the page, and their commands."""
    return _QUESTION.findall(PAGE.read_text("utf-8").partition(SECTION)[2])


def ask(question: str, command: str, folder: Path) -> Answered:
    """Run a command in a folder. Raises LoadError if it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    begin = time.perf_counter()
    shell = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert shell.stdout is not None
    said = shell.stdout.read()
    _, status, used = os.wait4(shell.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise LoadError(f"{question} {said[-2000:]}")
    return Answered(question, seconds, _processor(used), used.ru_maxrss / KIB)


def _processor(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime


@click.command()
@click.argument("shop", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(shop: Path) -> None:
    """Ask every question of SHOP, a directory of that name."""
    if shop.absolute().name != "shop":
        raise click.UsageError("the page calls the directory 'shop', so it must have that name")
    click.echo("| question | seconds | processor seconds | MiB |\n|---|---|---|---|")
    for question, command in questions():
        done = ask(question, command, shop.absolute().parent)
        click.echo(
            f"| {done.question} | {done.seconds:.1f} | {done.processor:.1f} | {done.mib:,.0f} |"
        )


if __name__ == "__main__":
    main()
