"""Counting the events of a journal: by kind, and for each queue."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from daybook.engine.facts import events
from daybook.engine.facts.events import KIND, QUEUE
from daybook.engine.facts.kinds import OF_ENTRIES, TOPOLOGY
from daybook.history.names import Names
from daybook.history.scan import Picker
from daybook.history.search import queues_of
from daybook.journal.blocks.block import Block
from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT

QUEUE_KINDS = tuple(sorted(OF_ENTRIES))
"""The kinds that are counted for each queue, in the order of the columns."""


class Totals:
    """Counts over a whole journal. Queues have their last names."""

    def __init__(self) -> None:
        self.kinds: Counter[int] = Counter()
        self._queues: Counter[tuple[int, int]] = Counter()
        self._names = Names()

    def count(self, disk: Disk, progress: Callable[[int], None]) -> None:
        """Count all events; `progress` gets the LSN reached."""
        for block in read_blocks(disk, LAYOUT):
            if not block.is_mark:
                self._count_block(block)
                progress(block.last_lsn)

    def _count_block(self, block: Block) -> None:
        columns = block.columns()
        kinds, queues = columns[KIND].tolist(), columns[QUEUE].tolist()
        self.kinds.update(kinds)
        self._queues.update(zip(kinds, queues, strict=True))
        # Names, and the queues of messages that went to several queues, are in the details.
        if not TOPOLOGY.isdisjoint(kinds) or (events.ROUTED, 0) in self._queues:
            self._read_details(block, kinds, queues)

    def _read_details(self, block: Block, kinds: list[int], queues: list[int]) -> None:
        picker = Picker(block)
        for at, (kind, queue) in enumerate(zip(kinds, queues, strict=True)):
            if kind in TOPOLOGY:
                event = picker.event(at)
                self._names.learn(event.row, event.detail)
                self._names.forget(event.row)
            elif kind == events.ROUTED and not queue:
                several = queues_of(picker.event(at))
                self._queues.update((events.ROUTED, each) for each in several)
        del self._queues[events.ROUTED, 0]

    def by_kind(self) -> list[tuple[str, int]]:
        """(name of the kind, number of events), the most frequent first."""
        names = events.BY_NUMBER
        return [
            (names[kind].name if kind in names else f"kind {kind}", count)
            for kind, count in self.kinds.most_common()
        ]

    def by_queue(self) -> list[dict[str, Any]]:
        """For each queue that ever existed: its name and how many events of each kind it had."""
        told = []
        for queue_id, name in sorted(self._names.queues.items()):
            counts = {
                events.BY_NUMBER[kind].name: self._queues[kind, queue_id] for kind in QUEUE_KINDS
            }
            told.append({"queue": name, "id": queue_id} | counts)
        return told
