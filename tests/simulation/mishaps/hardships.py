"""Mishaps that last for a while: hanging processes, no descriptors, damage.

Fault model: the indexer or the writer does nothing for a while and resumes as if nothing had
happened (SIGSTOP, a disk that does not answer); no file can be opened, because there are no
descriptors; a bit turns in a durable block while the broker runs, and is restored from a copy some
time later. Earlier reads of the block stay right. The very last block never turns bad: that
cannot be told from a torn one, as docs/journal-format.md says.

All chance is its own, so that the rest of a seed is what it would be without.
"""

import errno
import os
import random
from bisect import bisect_right
from typing import TYPE_CHECKING

from daybook.engine.queues.queue import StoreError
from daybook.journal.blocks.block import Block
from daybook.journal.errors import Corruption, JournalError
from tests.simulation.counts import HardCounts

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

LASTS_US = (200_000, 1_000_000, 5_000_000, 20_000_000)
NEWEST_BLOCKS = 6
"""How many blocks are the live tail, where everybody reads."""


class Hardships:
    """The lasting faults of a run; `step` begins one now and then, and ends those that are over."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self.chance = chance = random.Random(f"hardships {simulation.seed}")
        self.counts = HardCounts()
        self._likely = chance.choice((0.0, 0.001, 0.003))
        everything = (self.hang_indexer, self.hang_writer, self.take_descriptors, self.damage)
        self._kinds = chance.sample(everything, chance.randint(1, 4))
        self._until: dict[str, int] = {}
        self._damaged: dict[tuple[str, int], None] = {}

    def only_damage(self) -> None:
        """Let nothing else go wrong, and this often: for a run that looks for what comes of it."""
        self._kinds, self._likely = [self.damage], 0.02

    def step(self) -> None:
        """Perhaps let something begin, and let end what is over."""
        if self.chance.random() < self._likely:
            self.chance.choice(self._kinds)()
        if self._until:
            now = self._simulation.clock.now
            for what in [what for what, until in self._until.items() if until <= now]:
                self._end(what)

    def end(self) -> None:
        """All is well from now on."""
        self._likely = 0.0
        for what in list(self._until):
            self._end(what)

    @property
    def writer_hangs(self) -> bool:
        """Whether the writer does nothing."""
        return "writer" in self._until

    @property
    def indexer_hangs(self) -> bool:
        """Whether the indexer does nothing."""
        return "indexer" in self._until

    def explains(self, error: Exception) -> bool:
        """Whether an error is what a hardship of now must lead to, and says what is damaged."""
        text = str(error)
        if isinstance(error, Corruption):
            return any(name == error.segment for name, _ in self._damaged)
        if os.strerror(errno.EMFILE) in text:
            return True
        return any(name in text for name, _ in self._damaged)

    def refused(self, error: JournalError | StoreError) -> None:
        """Restore what is damaged, because a start, or the judge of one, could not do without."""
        self.counts.refused_starts += isinstance(error, Corruption)
        if "damage" in self._until:
            self._end("damage")

    def _begin(self, what: str) -> None:
        if what not in self._until:
            self._simulation.note(f"hardship: {what}")
            self._until[what] = self._simulation.clock.now + self.chance.choice(LASTS_US)

    def _end(self, what: str) -> None:
        del self._until[what]
        self._simulation.note(f"hardship over: {what}")
        if what == "descriptors":
            self._simulation.disk.refuses_opens = 0
        elif what == "damage":
            for name, bit in self._damaged:
                self.counts.restored += self._flip(name, bit)
            self._damaged.clear()

    def hang_indexer(self) -> None:
        """The indexer does nothing for a while."""
        self.counts.indexer_hangs += 1
        self._begin("indexer")

    def hang_writer(self) -> None:
        """The writer does nothing for a while."""
        self.counts.writer_hangs += 1
        self._begin("writer")

    def take_descriptors(self) -> None:
        """For a process that lives: the next one has descriptors again."""
        if self._simulation.life is not None:
            self._simulation.disk.refuses_opens = errno.EMFILE
            self.counts.refused_opens += 1
            self._begin("descriptors")

    def damage(self) -> None:
        """Turn a bit of a block."""
        block = self._block_to_damage()
        if block is None or not self._simulation.disk.has(block.segment):
            return
        header = block.header
        first, size = block.offset, header.block_bytes
        if header.heap_stored_bytes and self.chance.random() < 0.7:
            first, size = first + size - header.heap_stored_bytes, header.heap_stored_bytes
        bit = 8 * first + self.chance.randrange(8 * size)
        if (block.segment, bit) in self._damaged:
            return
        self._begin("damage")
        self._simulation.note(f"damage in {block.segment}, of LSN {block.first_lsn}")
        self._damaged[block.segment, bit] = None
        self.counts.damages += self._flip(block.segment, bit)

    def _block_to_damage(self) -> Block | None:
        """Mostly one with a message that is queued, so that somebody is going to read it."""
        judge, chance = self._simulation.judge, self.chance
        blocks = judge.blocks[:-1]
        if not blocks:
            return None
        queued = [message for queue in judge.folded.queues.values() for message in queue.entries]
        if queued and chance.random() < 0.7:
            message = chance.choice(queued)
            place = bisect_right(blocks, message, key=lambda block: block.first_lsn) - 1
            return blocks[max(place, 0)]
        return chance.choice(blocks[-NEWEST_BLOCKS:] if chance.random() < 0.5 else blocks)

    def _flip(self, name: str, bit: int) -> bool:
        """Whether the file is there still: what left is neither damaged nor restored."""
        disk = self._simulation.disk
        there = disk.has(name)
        if there:
            disk.flip(name, bit)
        return there
