"""`format("daybook")` for writing: rows become messages in a broker, each exactly once.

A task publishes its partition in transactions (`pipeline.publishing`), each with the id
`ID:BATCH:PARTITION:CHUNK`. A retried task, a task that runs twice, and a micro-batch that Spark
repeats after a crash make the same chunks with the same ids, and the broker accepts each once. For
that a partition must have its rows in the same order every time: rows are sorted by `orderBy`, and
the values of these columns are part of the id, so if a source gives other rows the second time,
messages are duplicated, but never lost.

Fault model: that of `pipeline.publishing`. A task that gives up fails, and Spark retries it. Must
never know where rows come from.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from itertools import repeat
from typing import Any, Final, cast
from uuid import uuid4

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from daybook.client.endpoint import ClientError, Endpoint, parse_url
from daybook.pipeline.publishing import (
    BYTES_MAX,
    DEFAULT_PRIORITY,
    ROUTING_TYPES,
    ROWS_MAX,
    TIMEOUT_SECONDS,
    Message,
    Publisher,
    PublishError,
    RoutingType,
    cut,
    forgets,
    remembers_ids,
)
from daybook.pipeline.selection import SelectionError

BATCH_PROPERTY: Final = "streaming.sql.batchId"
"""The property with the id of a task's micro-batch."""
DEFAULT_ORDER: Final = "lsn"
BLOCK_ROWS: Final = 4096
"""Rows that are turned into messages at a time."""

_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "address": ("string",),
    "headers": ("map<string,string>",),
    "priority": _WHOLE,
    "persistent": ("boolean",),
    "expires": ("bigint", "timestamp"),
}
"""The columns that the sink uses, and their allowed types."""
OPTIONS: Final = (
    "url", "id", "address", "routingType", "orderBy", "rate", "timeout", "maxRowsPerTransaction",
    "maxBytesPerTransaction",
)  # fmt: skip
_OF_SPARK: Final = frozenset({"checkpointlocation"})


class SinkOptions(msgspec.Struct, frozen=True):
    """Where and how to publish; rows are sorted by the columns in `order`, if any."""

    url: str
    id: str
    address: str
    routing_type: RoutingType
    order: tuple[str, ...]
    rate: float
    timeout: float
    rows_max: int
    bytes_max: int


class Published(WriterCommitMessage):
    """The result of a task; `known` transactions had already been committed before."""

    def __init__(self, rows: int, transactions: int, known: int) -> None:
        self.rows: Final = rows
        self.transactions: Final = transactions
        self.known: Final = known


class DaybookSink(DataSource):
    """The data sink `daybook`."""

    @classmethod
    def name(cls) -> str:
        return "daybook"

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":
        """For `df.write.mode("append")`. Raises SelectionError and PublishError."""
        if overwrite:
            raise SelectionError(
                'messages of a broker cannot be overwritten; write with mode("append")'
            )
        # Drawn once, when the job is planned, because a retried task must use the same id.
        return BatchWriter(read_options(self.options, schema, str(uuid4())))

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":
        """For `df.writeStream`. Raises SelectionError and PublishError."""
        if overwrite:
            raise SelectionError(
                'a stream of all results cannot be published; write with outputMode("append")'
            )
        return StreamWriter(read_options(self.options, schema, ""))


class BatchWriter(DataSourceArrowWriter):
    """Publishes the partitions of a frame."""

    def __init__(self, options: SinkOptions) -> None:
        self._options: Final = options
        _check_address(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        """Publish one partition. Raises PublishError."""
        return _publish(self._options, "batch", iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Publishes the partitions of micro-batches."""

    def __init__(self, options: SinkOptions) -> None:
        self._options: Final = options
        _check_address(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        """Publish one partition of a micro-batch. Raises PublishError."""
        batch = _context().getLocalProperty(BATCH_PROPERTY)
        if batch is None:
            raise PublishError(
                f"Spark does not say which micro-batch this is ({BATCH_PROPERTY} is not set), so "
                "nothing can be published exactly once; this sink needs Spark 4"
            )
        return _publish(self._options, batch, iterator)


def read_options(options: Mapping[str, str], schema: StructType, drawn_id: str) -> SinkOptions:
    """Check options and columns; `drawn_id` is the default id. Raises SelectionError."""
    given = {
        _spelled(name): text for name, text in options.items() if name.lower() not in _OF_SPARK
    }
    url = given.get("url", "")
    if not url:
        raise SelectionError('name the broker: option("url", "stomp://LOGIN:PASSCODE@HOST:PORT")')
    try:
        parse_url(url)
    except ValueError as error:
        raise SelectionError(f"option url: {error}") from None
    name = given.get("id", drawn_id)
    if not name or not name.isprintable():
        raise SelectionError(
            'name the query: option("id", "NAME"); no other query that publishes to the same '
            "addresses may have this id, and it must not change as long as the checkpoint is used"
        )
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    order = _order(given.get("orderBy"), types)
    _check_columns(types, order, given.get("address", ""))
    routing_type = given.get("routingType", "").lower()
    if routing_type not in ROUTING_TYPES:
        raise SelectionError(
            f"option routingType is '{routing_type}'; write anycast or multicast, or leave it out"
        )
    return SinkOptions(
        url, name, given.get("address", ""), cast("RoutingType", routing_type), order,
        _number(given, "rate", 0.0),
        _number(given, "timeout", TIMEOUT_SECONDS),
        int(_number(given, "maxRowsPerTransaction", ROWS_MAX)),
        int(_number(given, "maxBytesPerTransaction", BYTES_MAX)),
    )  # fmt: skip


def _spelled(name: str) -> str:
    known = {each.lower(): each for each in OPTIONS}
    spelled = known.get(name.lower())
    if spelled is None:
        close = get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean {known[close[0]]}?" if close else f"options: {', '.join(OPTIONS)}"
        raise SelectionError(f"the sink has no option '{name}'; {hint}")
    return spelled


def _number(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name, "")
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf") or (name.startswith("max") and number != int(number)):
        raise SelectionError(f"option {name} is '{text}'; write a number above 0")
    return number


def _order(asked: str | None, types: Mapping[str, str]) -> tuple[str, ...]:
    if asked is None:
        return (DEFAULT_ORDER,) if DEFAULT_ORDER in types else ()
    names = tuple(name.strip() for name in asked.split(",") if name.strip())
    for name in names:
        if name not in types:
            raise SelectionError(f"option orderBy names '{name}'; columns: {', '.join(types)}")
        if types[name].startswith(("map", "array", "struct")):
            raise SelectionError(f"rows cannot be sorted by '{name}', which is {types[name]}")
    return names


def _check_columns(types: Mapping[str, str], order: tuple[str, ...], address: str) -> None:
    """Refuse missing columns, wrong types, and columns that would be silently ignored."""
    if "body" not in types:
        raise SelectionError("there is no column body, the content of a message")
    if not (address or "address" in types):
        raise SelectionError('name the address: a column address, or option("address", "NAME")')
    for name, type_name in types.items():
        if name in COLUMNS:
            if type_name not in COLUMNS[name]:
                wanted = " or ".join(COLUMNS[name])
                raise SelectionError(f"column {name} is {type_name}; make it {wanted}")
        elif name != DEFAULT_ORDER and name not in order:
            close = get_close_matches(name, COLUMNS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"columns: {', '.join(COLUMNS)}"
            raise SelectionError(
                f"the sink has no use for column {name}: drop it, or name it in orderBy; {hint}"
            )


def _check_address(options: SinkOptions) -> None:
    """Refuse an address for all rows that does not detect duplicates."""
    if not options.address:
        return
    endpoint = parse_url(options.url)
    try:
        remembers = _remembers(endpoint, options.address, options.routing_type)
    except ClientError:
        # Tasks wait for an unreachable broker, and report a wrong login.
        return
    if remembers is False:
        raise forgets(endpoint, options.address)


@cache
def _remembers(endpoint: Endpoint, address: str, routing_type: RoutingType) -> bool | None:
    """Cache `remembers_ids` in each process: Spark makes two writers for every micro-batch."""
    return remembers_ids(endpoint, address, routing_type)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "only tasks write"
    return context


def _publish(options: SinkOptions, batch: str, batches: Iterator[pa.RecordBatch]) -> Published:
    """Publish a partition, chunk after chunk."""
    prefix = f"{options.id}:{batch}:{_context().partitionId()}"
    rows = transactions = known = 0
    ordered = _sorted(batches, options.order) if options.order else batches
    chunks = cut(
        messages_of(ordered, options), rows_max=options.rows_max, bytes_max=options.bytes_max
    )
    with Publisher(
        parse_url(options.url), rate=options.rate, timeout=options.timeout, told=_say
    ) as publisher:
        for chunk in chunks:
            name = f"{prefix}:{transactions}"
            if options.order:
                keys = "\0".join(message.key for message in chunk)
                name += ":" + sha256(keys.encode()).hexdigest()[:16]
            known += not publisher.publish(name, chunk)
            rows += len(chunk)
            transactions += 1
    return Published(rows, transactions, known)


def _say(text: str) -> None:
    """Write to the log of the executor."""
    print(f"daybook: {text}", file=sys.stderr, flush=True)


def _sorted(batches: Iterator[pa.RecordBatch], order: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Sort a partition, in memory, so that it has the same order every time."""
    read = list(batches)
    if read:
        table = pa.Table.from_batches(read)
        yield from table.sort_by([(name, "ascending") for name in order]).to_batches()


def messages_of(batches: Iterable[pa.RecordBatch], options: SinkOptions) -> Iterator[Message]:
    """Convert rows to messages. Raises PublishError for an invalid row."""
    for batch in batches:
        for start in range(0, batch.num_rows, BLOCK_ROWS):
            part = batch.slice(start, BLOCK_ROWS)
            columns = [_values(part, name) for name in COLUMNS]
            keys = zip(*(part.column(name).to_pylist() for name in options.order), strict=True)
            for *values, key in zip(*columns, keys if options.order else repeat(()), strict=False):
                yield _message(options, key, *values)


def _values(part: pa.RecordBatch, name: str) -> Iterable[Any]:
    if name not in part.schema.names:
        return repeat(None)
    column = part.column(name)
    if pa.types.is_timestamp(column.type):
        # The broker expects milliseconds since 1970 UTC.
        column = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False).cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _message(
    options: SinkOptions,
    key: tuple[Any, ...],
    body: bytes | str | None,
    address: str | None,
    headers: list[tuple[str, str | None]] | None,
    priority: int | None,
    persistent: bool | None,
    expires: int | None,
) -> Message:
    destination = address or options.address
    shown = f"a row with {', '.join(options.order)} = {key}" if key else "a row"
    if body is None:
        raise PublishError(f"{shown} has no body: column body is null; make it empty, or filter it")
    if not destination:
        raise PublishError(f"{shown} has no address: column address is null or empty")
    if priority is not None and not 0 <= priority <= 9:
        raise PublishError(f"{shown} has the priority {priority}; it goes from 0 to 9")
    if expires is not None and expires < 0:
        raise PublishError(f"{shown} expires before 1970")
    return Message(
        destination,
        body.encode() if isinstance(body, str) else body,
        tuple((name, value) for name, value in headers or () if value is not None),
        DEFAULT_PRIORITY if priority is None else priority,
        persistent is not False,
        expires or 0,
        options.routing_type,
        repr(key),
    )
