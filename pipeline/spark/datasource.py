"""`spark.read.format("journal")`: history for Spark, one task for each split of a plan.

The plan is made once for each `load()`, in a short-lived process next to the driver; all queries
over the frame see that snapshot. Executors run the same decoder on their splits, so the path must
be that of the same journal for all of them. Options select the events: `pushFilters` would give
wrong results in PySpark 4.3 (ADR 14).

Fault model: that of `pipeline.planning` and `pipeline.decoding`. Must never know the queries.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from daybook.journal.blocks.format import FIRST_LSN
from daybook.pipeline.decoding import read_split
from daybook.pipeline.holding import Hold
from daybook.pipeline.planning import Split, make_plan
from daybook.pipeline.schema import NAMED_COLUMNS, spark_ddl
from daybook.pipeline.selection import SelectionError
from daybook.pipeline.spark.options import (
    BATCH_ONLY,
    STREAM_ONLY,
    SourceOptions,
    read_options,
    refuse,
)
from daybook.pipeline.spark.streaming import JournalStreamReader


class SplitPartition(InputPartition):
    """The split of one task."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)
        self.split: Final = split


class JournalReader(DataSourceReader):
    """Plans next to the driver, where it is created; reads in the executors."""

    def __init__(self, options: SourceOptions) -> None:
        """Raises JournalError and SelectionError."""
        self._options: Final = options
        # The plan is made here and not in `partitions`: Spark pickles the reader for the executors
        # before it calls that, and the reader needs the plan's names.
        self._hold: Final = Hold(options.source, options.lease_seconds)
        self._hold.take(FIRST_LSN)
        plan = make_plan(
            options.source,
            options.selection,
            names=not NAMED_COLUMNS.isdisjoint(options.columns),
            split_bytes=options.split_bytes,
        )
        self._hold.take_for(plan)
        self._names: Final = plan.names
        self._splits: tuple[Split, ...] = plan.splits

    def partitions(self) -> Sequence[InputPartition]:
        """Return a partition for each split; none if no block can match."""
        return [SplitPartition(split) for split in self._splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of one split. Raises JournalError."""
        # Spark makes one empty partition if there are none.
        if not isinstance(partition, SplitPartition):
            return
        options = self._options
        disk = options.source.disk_of(partition.split)
        batches = read_split(disk, partition.split, options.selection, options.columns, self._names)
        self._hold.renew()
        for batch in batches:
            yield batch
            self._hold.renew()

    def __getstate__(self) -> dict[str, object]:
        """Omit the splits: each is sent to its own task."""
        return {**self.__dict__, "_splits": ()}


class JournalSource(DataSource):
    """The data source `journal`; docs/pipeline.md describes its options."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Raises SelectionError."""
        super().__init__(options)
        self._read: Final = read_options(options)

    @classmethod
    def name(cls) -> str:
        return "journal"

    def schema(self) -> str:
        return spark_ddl(self._read.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Raises JournalError and SelectionError."""
        refuse(self.options, STREAM_ONLY, "it is for streams; name a span by lsn = FROM..TO")
        self._check(schema)
        return JournalReader(self._read)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Raises SelectionError."""
        refuse(self.options, BATCH_ONLY, "a stream has startingLsn and endingLsn")
        self._check(schema)
        return JournalStreamReader(self._read)

    def _check(self, schema: StructType) -> None:
        """Raise SelectionError for a schema that is not that of the columns."""
        if tuple(schema.fieldNames()) != self._read.columns:
            raise SelectionError(
                f"the schema names {', '.join(schema.fieldNames())}: choose columns with the "
                "option "
                'columns instead, like option("columns", "lsn, time, kind")'
            )
