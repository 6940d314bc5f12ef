"""A network of namespaces, whose packets a switch delays, loses and blocks.

The namespaces have no names, so that nothing is left of them when the processes in them have ended.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.crash.machines.network import ADDRESSES, CLIENTS, MACHINES, PORTS, Network, Place
from tests.crash.machines.switch import CLONE_NEWNET

ROOT: Final = Path(__file__).parents[3]
WITH_US: Final = ("setpriv", "--pdeathsig", "KILL", "--")
"""The beginning of a command that is killed when the thread that started it ends."""


class NoSpaces(Exception):
    """Namespaces cannot be had here; the text says why."""


class Spaces(Network):
    """The network of a cluster. Make and use it in the main thread."""

    is_exposed = True

    def __init__(self) -> None:
        """Raises NoSpaces."""
        super().__init__()
        self._number = 0
        command = [*WITH_US, sys.executable, "-m", "tests.crash.machines.switch"]
        try:
            self._switch: Final = subprocess.Popen(
                [*command, *MACHINES, CLIENTS], cwd=ROOT, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
        except OSError as error:
            raise NoSpaces(str(error)) from error
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        assert self._switch.stderr is not None
        said = self._switch.stdout.readline()
        if not said:
            self._switch.wait()
            why = self._switch.stderr.read().strip().rpartition("\n")[2]
            self.close()
            raise NoSpaces(why)
        self._spaces: Final = {
            name: f"/proc/{self._switch.pid}/fd/{space}" for name, space in json.loads(said).items()
        }

    def apply(self) -> None:
        """See Network."""
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        self._number += 1
        wanted = {
            "blocked": sorted(self.blocked), "delay": self.delay, "loss": self.loss,
            "number": self._number,
        }  # fmt: skip
        print(json.dumps(wanted), file=self._switch.stdin, flush=True)
        assert self._switch.stdout.readline() == f"{self._number}\n"

    def command(self, name: str) -> list[str]:
        """See Network."""
        return [*WITH_US, "nsenter", f"--net={self._spaces[name]}"]

    def listens(self, name: str, service: str) -> Place:
        """See Network."""
        return Place(ADDRESSES[name], PORTS[service])

    def reaches(self, source: str, name: str, service: str) -> Place:
        """See Network."""
        return self.listens(name, service)

    def visit(self) -> None:
        """See Network."""
        space = os.open(self._spaces[CLIENTS], os.O_RDONLY | os.O_CLOEXEC)
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(space, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "the namespace of clients cannot be entered")
        finally:
            os.close(space)

    def close(self) -> None:
        """See Network."""
        self._switch.kill()
        self._switch.wait()
        for stream in (self._switch.stdin, self._switch.stdout, self._switch.stderr):
            assert stream is not None
            stream.close()
