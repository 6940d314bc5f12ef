"""What a configuration of another broker says that is not taken over, in two groups.

`lost` is what its users will miss, and comes first. `needless` is what this broker does without
being told, or has no use for: it is counted, and listed on request. Must never know any file.
"""

from pathlib import Path
from typing import Final

import msgspec


class Foreign(msgspec.Struct, frozen=True):
    """What is needless in a configuration of another broker, and how many users stand in files in
    `folder`; "" without any."""

    needless: tuple[str, ...] = ()
    folder: str = ""
    users: int = 0


class Findings:
    """The sentences of both groups, each with file and line."""

    def __init__(self) -> None:
        self.lost: Final[list[str]] = []
        self.needless: Final[list[str]] = []
        self._folder = ""
        self._users = 0

    def lose(self, where: str, what: str) -> None:
        """Note something that is not there any more."""
        self.lost.append(f"{where}: {what}")

    def spare(self, where: str, what: str) -> None:
        """Note something that nobody will miss."""
        self.needless.append(f"{where}: {what}")

    def note_users(self, folder: Path, count: int) -> None:
        """Note how many users stand in files beside the configuration."""
        self._folder = str(folder.absolute()) if count else ""
        self._users = count

    def rest(self) -> Foreign:
        """Return everything but what is lost."""
        return Foreign(tuple(self.needless), self._folder, self._users)
