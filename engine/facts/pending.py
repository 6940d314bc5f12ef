"""The open batch: events that were decided and applied, and are not yet given to the journal.

It has the shape that the journal appends (rows, and the non-empty strings of each heap in row
order), so that nothing is packed twice. It knows neither blocks nor disks.
"""

from daybook.levels import LEVEL_MIN


class Pending:
    """Packed rows from `first_lsn` on, and their heaps: details, headers, bodies.

    `level` is the feature level that they need, once the batch is closed. `decisions` counts the
    events about messages to direct addresses, which nobody waits for.
    """

    __slots__ = (
        "bodies", "decisions", "details", "first_lsn", "headers", "heap_bytes", "level", "rows",
        "time",
    )  # fmt: skip

    def __init__(self, first_lsn: int) -> None:
        self.first_lsn = first_lsn
        self.rows: list[bytes] = []
        self.details: list[bytes] = []
        self.headers: list[bytes] = []
        self.bodies: list[bytes] = []
        self.heap_bytes = 0
        self.decisions = 0
        self.time = 0
        self.level = LEVEL_MIN

    @property
    def heaps(self) -> tuple[list[bytes], list[bytes], list[bytes]]:
        """The heaps in the order of `engine.facts.events.HEAPS`."""
        return (self.details, self.headers, self.bodies)

    @property
    def can_wait(self) -> bool:
        """Whether nothing is lost for anybody if the batch stays open for a while."""
        return self.decisions == len(self.rows)

    @property
    def raw_bytes(self) -> int:
        """Size before compression."""
        return self.heap_bytes + 72 * len(self.rows)

    @property
    def last_lsn(self) -> int:
        """LSN of the last event; `first_lsn - 1` if there is none."""
        return self.first_lsn + len(self.rows) - 1
