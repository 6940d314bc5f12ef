"""Checks that the transactions of a span are complete: their events directly precede the commits.

Must never know SQL.
"""

from typing import Any, Final

import msgspec

from daybook.engine.facts import events
from daybook.pipeline.jobs.audit_lives import Fault, Lives

Row = dict[str, Any]


class _Part(msgspec.Struct):
    """The detail of a commit, or of a message of a transaction, as far as it is needed."""

    transaction: str = ""
    first: int = 0
    events: int = 0


class Transactions:
    """Processes commits and the messages of transactions, in order."""

    def __init__(self, lives: Lives) -> None:
        self._lives: Final = lives
        self._pending: list[tuple[Row, str]] = []

    def take(self, row: Row) -> list[Fault]:
        """Process a row; return its faults."""
        part = msgspec.json.decode(row["detail"] or "{}", type=_Part)
        if row["kind_id"] != events.TRANSACTION_COMMITTED:
            self._pending.append((row, part.transaction))
            return []
        lsn, connection = row["lsn"], row["connection"]
        faults = []
        if part.first + part.events != lsn:
            text = (
                f"event {lsn} commits transaction '{part.transaction}' of {part.events} events "
                f"from event {part.first} on, which does not lead up to it"
            )
            faults.append(Fault("transaction", (lsn,), text))
        for each, name in self._pending:
            covered = part.first <= each["lsn"] < lsn or part.first + part.events != lsn
            if not (covered and name == part.transaction and each["connection"] == connection):
                faults.append(self._uncommitted(each, name))
        self._pending.clear()
        return faults

    def end(self, *, is_cut: bool) -> list[Fault]:
        """Return the faults of uncommitted messages; none if the commit may be after a cut span."""
        left = [] if is_cut else self._pending
        return [self._uncommitted(row, name) for row, name in left]

    def _uncommitted(self, row: Row, name: str) -> Fault:
        lsn = row["lsn"]
        queue, address = self._lives.place(row["queue_id"]) if row["queue_id"] else ("", "")
        text = (
            f"event {lsn} is of transaction '{name}' of connection {row['connection']}, but no "
            "commit covers it"
        )
        return Fault("transaction", (lsn,), text, row["message"], queue, address)
