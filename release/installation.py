"""Installing the locked dependencies of some sets into the environment that runs this.

    python -m release.installation all test    # DAYBOOK_LOCK=required|ignored

By default, if the registry of this machine does not have a locked version, that is reported, and a
version that pyproject.toml allows is installed instead: a withdrawn version must not stop
everybody's work. Files that do not have their hash are never installed and never replaced by
others. Releases are built with DAYBOOK_LOCK=required.

Must use the standard library alone.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from release import lockfile

MODES: Final = ("preferred", "required", "ignored")
MODE: Final = "DAYBOOK_LOCK"
PIP: Final = (sys.executable, "-m", "pip", "install", "--quiet", "--no-compile")
NOT_SERVED: Final = "No matching distribution found for"
WRONG_HASH: Final = "DO NOT MATCH THE HASHES"

PIP_MIN: Final = (25, 1)
"""Older ones take several times as long to install with hashes."""
NEWER_PIP: Final = "pip>=25.1"

Runner = Callable[[Sequence[str]], tuple[int, str]]


def run(command: Sequence[str]) -> tuple[int, str]:
    """Run a command, show its output, and return its exit code and its errors."""
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(done.stderr)
    return done.returncode, done.stderr


def is_not_served(code: int, errors: str) -> bool:
    """Tell whether pip failed because the registry does not have a version that is asked for."""
    return code != 0 and NOT_SERVED in errors and WRONG_HASH not in errors


def is_old() -> bool:
    """Return whether the pip of this environment is too old to install quickly."""
    return tuple(map(int, re.findall(r"\d+", version("pip"))[:2])) < PIP_MIN


def install(requirements: Sequence[str], mode: str, runner: Runner = run) -> int:
    """Install requirements and their dependencies; return the exit code of pip."""
    unlocked = [*PIP, *requirements]
    if mode == "ignored":
        return runner(unlocked)[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "requirements.txt")
        path.write_text(lockfile.selected(requirements), "utf-8")
        code, errors = runner([*PIP, "--require-hashes", "--requirement", str(path)])
    if mode != "required" and is_not_served(code, errors):
        print(
            "requirements.lock has an unavailable version (above): a version that "
            "pyproject.toml allows is installed instead. `make lock` locks available versions.",
            file=sys.stderr,
        )
        return runner(unlocked)[0]
    return code


def main() -> None:
    """Install the dependencies of the named sets."""
    mode = os.environ.get(MODE) or MODES[0]
    if mode not in MODES:
        raise SystemExit(f"{MODE}={mode} is none of {', '.join(MODES)}")
    code = install([NEWER_PIP], mode) if is_old() else 0
    raise SystemExit(code or install(lockfile.requirements_of(sys.argv[1:]), mode))


if __name__ == "__main__":
    main()
