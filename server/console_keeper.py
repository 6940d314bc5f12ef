"""Keeps the console of `[console]` running: beside a broker, or beside a node of a cluster,
whichever node leads (ADR 112).

Must never know what the console shows, nor which node leads.
"""

from typing import Any, Final

from daybook.server.configuration.console_section import ConsoleSection, command_of
from daybook.server.process.companion import Companion
from daybook.server.process.supervision import Supervisor

CONSOLE: Final = "console"


class ConsoleKeeper:
    """The console of a process, as its configuration says."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor: Final = supervisor
        self._companion: Final = Companion(CONSOLE)

    def keep(self, section: ConsoleSection, data_directory: str, name: str) -> None:
        """Start, restart or end it, as configured; `name` is that of the broker."""
        command = command_of(section, data_directory, name)
        is_same = command == self._companion.command
        # At SIGHUP a console over TLS reads its certificate again; one that does not serve yet is
        # started again.
        if is_same and (not section.certificate or self._companion.hang_up()):
            return
        self._supervisor.end(CONSOLE)
        self._companion.command = command
        if command:
            self._supervisor.run(CONSOLE, self._companion.run)

    def status(self) -> dict[str, Any]:
        """Return where it is, for `daybook status`; nothing without a console."""
        return self._companion.status()

    def trouble(self) -> str:
        """Return why it does not run; "" if it does, or if there is to be none."""
        work = (each for each in self._supervisor.status() if each["name"] == CONSOLE)
        return next((str(each["trouble"]) for each in work), "")
