"""A process of the benchmark that reads commands line by line, and answers in JSON.

Its work takes no time of its owner's interpreter. Its first answer says that it is ready. An answer
with `wrong` is an error of the child, and so is its end.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from bench.load.frames import LoadError

ROOT: Final = Path(__file__).absolute().parents[2]


def environment() -> dict[str, str]:
    """Return the environment of a process that runs a module of this checkout from any folder."""
    return os.environ | {"PYTHONPATH": str(ROOT)}


class Child:
    """The owner's handle of a child. Entering the context waits until the child is ready."""

    def __init__(self, name: str, module: str, *words: str) -> None:
        """Start a module with these arguments; `name` is its name in errors."""
        self._name: Final = name
        self._process: Final = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def say(self, text: str) -> None:
        """Send a line. Raises LoadError."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{text}\n".encode())
            self._process.stdin.flush()
        except OSError as error:
            raise self._ended() from error

    def answer(self) -> dict[str, Any]:
        """Wait for the next answer. Raises LoadError if it reports a fault."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        if "wrong" in answer:
            raise LoadError(str(answer["wrong"]))
        return answer

    def _ended(self) -> LoadError:
        return LoadError(f"{self._name} has ended")

    def __enter__(self) -> Self:
        try:
            self.answer()
        except LoadError:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()
