"""`spark.readStream.format("journal")`: history as it grows, each event in one batch.

An offset is `{"lsn": n}`, the LSN to be read next; a batch is what lies between two of them. One
long-lived process next to the driver asks how far the journal is and plans; tasks read elsewhere,
and know nothing but what their partition says. So a batch that is planned again is the same.

Fault model: that of `pipeline.spark.datasource`. A stream that was stopped may find that history
has left, or meet another journal than the one of its checkpoint: both are told, never passed over.
Must never know what is done with the rows.
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
from daybook.engine.events import KIND, Row
from daybook.history.beginning import beginning
from daybook.history.names import Names
from daybook.history.scan import events_of, wanted_blocks
from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError, NoJournal
from daybook.journal.format import FIRST_LSN, segment_first_lsn
from daybook.journal.segment import first_lsn_of, segment_names
from daybook.pipeline.decoding import read_split
from daybook.pipeline.holding import Hold
from daybook.pipeline.naming import NO_NAMES, NameTables
from daybook.pipeline.planning import NAMING, Source, Split, durable_lsn, make_plan
from daybook.pipeline.schema import NAMED_COLUMNS
from daybook.pipeline.selection import Selection
from daybook.pipeline.spark.options import EARLIEST, LATEST, SourceOptions

LSN: Final = "lsn"
Offset = dict[str, Any]


class StreamPartition(InputPartition):
    """One task's share of a batch, with all that it needs."""

    def __init__(self, split: Split, selection: Selection, names: NameTables, hold: Hold) -> None:
        super().__init__(split)
        self.split: Final = split
        self.selection: Final = selection
        self.names: Final = names
        self.hold: Final = hold


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Says how far the journal is, plans batches, and reads them where it was sent to."""

    def __init__(self, options: SourceOptions) -> None:
        self._options: Final = options
        self._hold: Final = Hold(options.source, options.lease_seconds)
        self._names: Final = _NamesSoFar(options.source)
        self._final: int | None = None

    def initialOffset(self) -> Offset:
        """Where a query begins that has no checkpoint. Raises JournalError."""
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
        """Fix where a query ends that reads what is there now."""
        self._final = self._end()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Where the next batch ends: at what is durable, or after as many events as allowed.

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
        """How far the journal is, for those who watch the query."""
        return {LSN: self._end()}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The batch as splits. Raises JournalError."""
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
        # Names are known already: without them a plan looks at no more than the span.
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
        """What lies before is done with."""
        self._hold.take(end[LSN])

    def stop(self) -> None:
        self._hold.release()

    def _end(self) -> int:
        """The LSN behind what is durable and wanted."""
        last = last_lsn(self._options.source)
        ending = self._options.ending_lsn
        return (last if ending is None else min(last, ending)) + 1

    def _check(self, begin: int) -> None:
        """Raise JournalError unless the journal still has, or will have, what comes next."""
        source = self._options.source
        first = first_lsn_of(source.disk())
        if begin < first:
            raise JournalError(
                f"the stream is to go on with LSN {begin}, and history begins with LSN {first}: "
                "what lies between left the journal. Give the archive where it went, "
                'option("archive", "DIR or URL"), or begin with a new checkpoint'
            )
        last = last_lsn(source)
        # What a broker that runs wrote last is not known to be durable for a moment.
        if begin > last + 1 and not (source.directory and is_running(Path(source.directory))):
            raise JournalError(
                f"the stream is to go on with LSN {begin}, and history ends with LSN {last}: the "
                "checkpoint is that of another journal; name the right data directory, or begin "
                "with a new checkpoint"
            )


def last_lsn(source: Source) -> int:
    """LSN of the last durable event; looks at no more than the newest segment.

    Raises JournalError.
    """
    names = segment_names(source.disk())
    if not names:
        raise NoJournal("there is no segment to read: the journal or the archive is empty")
    return durable_lsn(source, segment_first_lsn(names[-1]) or FIRST_LSN)


def _known(selection: Selection, names: NameTables) -> Selection | None:
    """The selection with the names that are known so far; None if that can select nothing."""
    queues = tuple(set(selection.queues) & set(names.queues.names))
    addresses = tuple(set(selection.addresses) & set(names.addresses.names))
    if bool(selection.queues) > bool(queues) or bool(selection.addresses) > bool(addresses):
        return None
    return msgspec.structs.replace(selection, queues=queues, addresses=addresses)


class _NamesSoFar:
    """Names of addresses and queues, learned as the journal grows."""

    def __init__(self, source: Source) -> None:
        self._source: Final = source
        self._names: Final = Names()
        self._last_lsn = 0

    def up_to(self, lsn: int) -> NameTables:
        """The names that history gave up to an LSN, at least. Raises JournalError."""
        disk = self._source.disk()
        if not self._last_lsn:
            self._begin(disk)
        for block in wanted_blocks(
            disk, lambda entry: bool(entry.kinds & NAMING), from_lsn=self._last_lsn + 1, to_lsn=lsn
        ):
            for event in events_of(block, _names_something):
                self._names.learn(event.row, event.detail)
        self._last_lsn = max(self._last_lsn, lsn)
        return NameTables(self._names.addresses, self._names.queues)

    def _begin(self, disk: Disk) -> None:
        """Take in what was there before the first event."""
        if first_lsn_of(disk) > FIRST_LSN and self._source.directory:
            for event in beginning(Path(self._source.directory), disk).events:
                self._names.learn(event.row, event.detail)


def _names_something(lsn: int, row: Row) -> bool:
    return bool(NAMING >> row[KIND] & 1)
