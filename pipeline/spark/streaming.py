"""`spark.readStream.format("journal")`: history as it grows, each event in one batch.

An offset is `{"lsn": n}`, the LSN to read next; a batch is the events between two offsets. One
long-lived process next to the driver finds the end of the journal and plans; tasks read in other
processes, with only the data of their partition. So a batch that is planned again is the same.

Fault model: that of `pipeline.spark.datasource`. When a stream resumes, its history may have left,
or the journal may not be that of its checkpoint: both are errors, never skipped. Must never know
what is done with the rows.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from daybook.client.control import is_running
from daybook.history.initial_state import beginning, learn_names
from daybook.history.names import Names
from daybook.journal.blocks.format import FIRST_LSN, segment_first_lsn
from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError, NoJournal
from daybook.journal.segments.segment import first_lsn_of, segment_names
from daybook.pipeline.decoding import read_split
from daybook.pipeline.holding import Hold
from daybook.pipeline.naming import NO_NAMES, NameTables
from daybook.pipeline.planning import Source, Split, durable_lsn, make_plan
from daybook.pipeline.schema import NAMED_COLUMNS
from daybook.pipeline.selection import Selection
from daybook.pipeline.spark.options import EARLIEST, LATEST, SourceOptions

LSN: Final = "lsn"
Offset = dict[str, Any]


class StreamPartition(InputPartition):
    """The split of one task in a batch, with everything that it needs."""

    def __init__(self, split: Split, selection: Selection, names: NameTables, hold: Hold) -> None:
        super().__init__(split)
        self.split: Final = split
        self.selection: Final = selection
        self.names: Final = names
        self.hold: Final = hold


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Finds the end of the journal and plans batches next to the driver; reads in the executors."""

    def __init__(self, options: SourceOptions) -> None:
        self._options: Final = options
        self._hold: Final = Hold(options.source, options.lease_seconds)
        self._names: Final = _NamesSoFar(options.source)
        self._final: int | None = None

    def initialOffset(self) -> Offset:
        """Return the first offset of a query without a checkpoint. Raises JournalError."""
        self._hold.take(FIRST_LSN)
        starting = self._options.starting_lsn
        if starting == LATEST:
            return {LSN: self._end()}
        first = first_lsn_of(self._options.source.disk())
        return {LSN: first if starting == EARLIEST else int(starting)}

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._options.max_rows
        return ReadMaxRows(rows) if rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of a query that reads only the events that exist now."""
        self._final = self._end()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the end of the next batch: the end of durable events, or the limit of rows.

        Raises JournalError.
        """
        begin = start[LSN]
        self._hold.take(begin)
        self._check(begin)
        end = self._end() if self._final is None else self._final
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        return {LSN: max(begin, end)}

    def reportLatestOffset(self) -> Offset:
        """Return the end of the journal, for the progress of the query."""
        return {LSN: self._end()}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the splits of a batch. Raises JournalError."""
        options = self._options
        self._hold.take(start[LSN])
        self._check(start[LSN])
        span = Selection(from_lsn=start[LSN], to_lsn=end[LSN] - 1)
        wanted = options.selection
        names = NO_NAMES
        if wanted.needs_names or not NAMED_COLUMNS.isdisjoint(options.columns):
            names = self._names.up_to(end[LSN] - 1)
            known = _known(wanted, names)
            if known is None:
                return []
            wanted = known
        # Names are already known; a plan without names reads only the span.
        selection = msgspec.structs.replace(wanted, from_lsn=span.from_lsn, to_lsn=span.to_lsn)
        bare = msgspec.structs.replace(selection, queues=(), addresses=())
        plan = make_plan(options.source, bare, names=False, split_bytes=options.split_bytes)
        return [StreamPartition(split, selection, names, self._hold) for split in plan.splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of one split. Raises JournalError."""
        assert isinstance(partition, StreamPartition)
        batches = read_split(
            self._options.source.disk(), partition.split, partition.selection,
            self._options.columns, partition.names,
        )  # fmt: skip
        partition.hold.renew()
        for batch in batches:
            yield batch
            partition.hold.renew()

    def commit(self, end: Offset) -> None:
        """Release the events before an offset."""
        self._hold.take(end[LSN])

    def stop(self) -> None:
        self._hold.release()

    def _end(self) -> int:
        """Return the LSN after the last durable event that is wanted."""
        last = last_lsn(self._options.source)
        ending = self._options.ending_lsn
        return (last if ending is None else min(last, ending)) + 1

    def _check(self, begin: int) -> None:
        """Raise JournalError if the journal does not have, and will not get, the next event."""
        source = self._options.source
        first = first_lsn_of(source.disk())
        if begin < first:
            raise JournalError(
                f"the stream must resume with LSN {begin}, but history begins with LSN {first}: "
                "the events between left the journal. Name the archive that has them, "
                'option("archive", "DIR or URL"), or start with a new checkpoint'
            )
        last = last_lsn(source)
        # The last block of a running broker is not known to be durable for a moment.
        if begin > last + 1 and not (source.directory and is_running(Path(source.directory))):
            raise JournalError(
                f"the stream must resume with LSN {begin}, but history ends with LSN {last}: the "
                "checkpoint is that of another journal; name the right data directory, or start "
                "with a new checkpoint"
            )


def last_lsn(source: Source) -> int:
    """Return the LSN of the last durable event; reads only the newest segment.

    Raises JournalError.
    """
    names = segment_names(source.disk())
    if not names:
        raise NoJournal("there is no segment to read: the journal or the archive is empty")
    return durable_lsn(source, segment_first_lsn(names[-1]) or FIRST_LSN)


def _known(selection: Selection, names: NameTables) -> Selection | None:
    """Reduce a selection to names that are known so far; None if it then selects nothing."""
    queues = tuple(set(selection.queues) & set(names.queues.names))
    addresses = tuple(set(selection.addresses) & set(names.addresses.names))
    if bool(selection.queues) > bool(queues) or bool(selection.addresses) > bool(addresses):
        return None
    return msgspec.structs.replace(selection, queues=queues, addresses=addresses)


class _NamesSoFar:
    """Names of addresses and queues, collected as the journal grows."""

    def __init__(self, source: Source) -> None:
        self._source: Final = source
        self._names: Final = Names()
        self._last_lsn = 0

    def up_to(self, lsn: int) -> NameTables:
        """Return the names up to an LSN, or more. Raises JournalError."""
        disk = self._source.disk()
        if not self._last_lsn:
            self._begin(disk)
        learn_names(self._names, disk, self._last_lsn + 1, lsn)
        self._last_lsn = max(self._last_lsn, lsn)
        return NameTables(self._names.addresses, self._names.queues)

    def _begin(self, disk: Disk) -> None:
        """Add the names from before the first event."""
        if first_lsn_of(disk) > FIRST_LSN and self._source.directory:
            for event in beginning(Path(self._source.directory), disk).events:
                self._names.learn(event.row, event.detail)
