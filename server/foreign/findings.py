"""The settings of another broker's configuration that are not taken over, in two groups.

`lost` has settings that its users will miss, and comes first. `needless` has settings for this
broker's normal behaviour, or without use here: they are counted, and listed on request. Must never
know any file.
"""

from pathlib import Path
from typing import Final

import msgspec


class Foreign(msgspec.Struct, frozen=True):
    """A sentence on the needless settings of another broker's configuration, and the users in files
    of `folder`; "" without any.
    """

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
        """Note a setting that is not needed here."""
        self.needless.append(f"{where}: {what}")

    def note_users(self, folder: Path, count: int) -> None:
        """Note how many users stand in files beside the configuration."""
        self._folder = str(folder.absolute()) if count else ""
        self._users = count

    def rest(self) -> Foreign:
        """Return all findings but lost settings."""
        return Foreign(tuple(self.needless), self._folder, self._users)
