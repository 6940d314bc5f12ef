"""Pages whose console blocks are run as they stand, and whose outputs are compared.

A block begins with ```console; a line with `$ ` is a command, with `> ` its next line, and what
follows is its output. All commands of a page run in one shell, one after the other. Numbers and the
padding of tables differ from run to run and are left out of the comparison.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

from bench.brokers.ports import free_port
from tests.support.process import DAYBOOK

_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK: Final = "=== end of command ==="
SHELL_SECONDS: Final = 300
PORT: Final = "61613"
"""The port of the broker on the pages; another one is used, and shown as this one."""


class Shown:
    """A command of a page, and the output that the page shows."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.output = ""


def commands_of(page: str) -> list[Shown]:
    """Return the commands in the console blocks of a page, in order."""
    found: list[Shown] = []
    for block in _BLOCK.findall(page):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Shown(line[2:]))
            elif line.startswith("> "):
                found[-1].command += "\n" + line[2:]
            else:
                found[-1].output += line + "\n"
    return found


def run_all(commands: list[Shown], folder: Path, variables: dict[str, str]) -> list[str]:
    """Run commands in one shell in a folder; return what each printed.

    Processes that a command leaves in the background are killed at the end. The shell's own line
    about a killed process is left out.
    """
    script = "".join(f"{{ {each.command}\n}} 2>&1\nprintf '%s\\n' '{_MARK}'\n" for each in commands)
    done = subprocess.run(
        ["bash", "-c", script + "kill -9 $(jobs -p) 2>/dev/null; wait 2>/dev/null"],
        cwd=folder,
        env=os.environ | {"COLUMNS": "200"} | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SHELL_SECONDS,
    )
    said = re.sub(r"^bash: line .*\n", "", done.stdout, flags=re.MULTILINE)
    return said.split(_MARK + "\n")[: len(commands)]


def staged(page: str, folder: Path) -> list[str]:
    """Run the commands of a page in a folder; return their outputs with the port of the page."""
    port = str(free_port())
    commands = commands_of(re.sub(rf"\b{PORT}\b", port, page))
    outputs = run_all(commands, folder, {"PATH": f"{Path(DAYBOOK).parent}:/usr/bin:/bin"})
    return [re.sub(rf"\b{port}\b", PORT, output) for output in outputs]


def without_numbers(text: str) -> str:
    """Return a text in which every number is `0`, and every gap one space; without the times
    between steps, which are not shown between steps of one turn."""
    text = re.sub(r"^ *\+[0-9.,]+ (?:us|ms|s|min|h)\n", "", text, flags=re.MULTILINE)
    numbers = re.sub(r"\b[0-9a-f]{32,}\b|[0-9]+(?:[,.:T-][0-9]+)*Z?", "0", text)
    return re.sub(r" +", " ", numbers).replace(" \n", "\n").strip()


def rewritten(page: str, outputs: list[str]) -> str:
    """Return a page with these outputs in place of those that it shows."""
    left = iter(outputs)

    def block(match: re.Match[str]) -> str:
        lines: list[str] = []
        for line in match[1].splitlines():
            if line.startswith("$ "):
                if lines:
                    lines.append(next(left).rstrip("\n"))
                lines.append(line)
            elif line.startswith("> "):
                lines.append(line)
        lines.append(next(left).rstrip("\n"))
        return "```console\n" + "".join(f"{line}\n" for line in lines if line) + "```"

    return _BLOCK.sub(block, page)
