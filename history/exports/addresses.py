"""The addresses that an export shows although it is redacted, by their names."""

from collections.abc import Sequence
from pathlib import Path

from daybook.errors import DaybookError
from daybook.history.initial_state import beginning, learn_names
from daybook.history.names import Names
from daybook.journal.disk import Disk
from daybook.texts import printable


class NoSuchAddress(DaybookError):
    """History has no address of a name."""


def ids_of_addresses(
    path: Path, disk: Disk, wanted: Sequence[str], last: int
) -> tuple[tuple[int, str], ...]:
    """Return the ids that addresses of these names had up to an event: one that was deleted and
    created again has several. Raises NoSuchAddress, JournalError and OSError."""
    names = Names()
    begun = beginning(path, disk)
    for event in begun.events:
        names.learn(event.row, event.detail)
    learn_names(names, disk, begun.lsn + 1, last)
    found = names.addresses
    for name in wanted:
        if name not in found.values():
            raise NoSuchAddress(f"there was no address {printable(name)} up to event {last}")
    return tuple(sorted((known, name) for known, name in found.items() if name in wanted))
