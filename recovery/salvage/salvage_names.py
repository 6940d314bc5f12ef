"""Names for the report of a salvage: queues that gaps may concern, and messages that are not taken.

Must never change the salvaged data.
"""

from collections.abc import Mapping
from typing import Final

from daybook.engine.facts import details, events
from daybook.engine.facts.events import KIND, QUEUE
from daybook.engine.state.state import State
from daybook.journal.blocks.block import Block, queue_bit
from daybook.journal.segments.sound_blocks import Gap
from daybook.paging.retention.missing_content import entries
from daybook.paging.tables.tables import Tables
from daybook.recovery.salvage.fitting import Fitter
from daybook.recovery.salvage.salvage_report import Report

LISTED_MAX: Final = 10_000
"""How many lost messages are listed."""


class QueueNames:
    """The names of the queues that there may have been in each gap, while the blocks pass by."""

    def __init__(self) -> None:
        self._alive: Final[dict[int, str]] = {}
        self._gaps: Final[dict[int, dict[int, str]]] = {}

    def know(self, names: Mapping[int, str]) -> None:
        """Note queues of a state."""
        self._alive.update(names)

    def follow(self, block: Block) -> None:
        """Note the queues that a block creates, and those that it deletes."""
        kinds = block.columns()[0].tobytes()
        if events.QUEUE_CREATED not in kinds and events.QUEUE_DELETED not in kinds:
            return
        for _, row, detail, *_ in block.events():
            if row[KIND] == events.QUEUE_CREATED:
                decoded = events.decode_detail(events.QUEUE_CREATED, detail)
                assert isinstance(decoded, details.QueueDetail)
                self._alive[row[QUEUE]] = decoded.name
            elif row[KIND] == events.QUEUE_DELETED:
                self._alive.pop(row[QUEUE], None)

    def note(self, gap: Gap) -> None:
        """Note which of the queues that are there before a gap the footer speaks of."""
        queues = 0
        for entry in gap.blocks:
            queues |= entry.queues
        if queues:
            self._gaps[gap.first_lsn] = {
                queue: name for queue, name in self._alive.items() if queue_bit(queue) & queues
            }

    def of(self, gap: Gap, later: Mapping[int, str]) -> dict[int, str]:
        """Return the queues before a gap, and those that there are in the end."""
        return {**later, **self._gaps.get(gap.first_lsn, {})}


def name_untaken(report: Report, fitter: Fitter, state: State, tables: Tables) -> None:
    """Name the messages that events behind a gap speak of, and that are in no queue."""
    rest = [(queue, message) for message, queue in sorted(fitter.unsettled.items()) if queue]
    report.unknown_count = len(rest)
    report.unknown = [(_queue(state, queue), message) for queue, message in rest[:LISTED_MAX]]
    astray = {key: at for key, at in fitter.carried.items() if key not in fitter.unsettled}
    if astray:
        with tables.read() as txn:
            for entry in entries(tables, txn):
                astray.pop(entry.message, None)
    report.astray_count = len(astray)
    report.astray = [
        (state.addresses[address].name if address in state.addresses else str(address), message)
        for message, address in sorted(astray.items())[:LISTED_MAX]
    ]
    for queue, count in fitter.dropped.items():
        name = _queue(state, queue)
        report.dropped[name] = report.dropped.get(name, 0) + count


def _queue(state: State, queue: int) -> str:
    return state.queues[queue].name if queue in state.queues else str(queue)
