"""Replay: sends messages of history again, in the order of their LSNs, each exactly once.

A replay has a fixed span, whose end is found when it first reads history. Messages are sent in
transactions. The saved state says where the next transaction begins, so after a kill the same
transaction is built again, with the same id, and the broker accepts it once
(`pipeline.publishing`). One process publishes, whichever engine reads, because the order must be
kept.

The engine reads history twice: first only a few columns, to count messages and to find windows with
about the same number of messages each; then window by window with headers and bodies, so memory is
bounded. The library (`history.replays.originals`) makes each message what it was, and puts large
bodies together from their chunks.

Fault model: those of `pipeline.publishing` and of the engine. Bodies that were never journaled, and
large ones of which a chunk has left the journal, are counted and skipped.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import pyarrow as pa

from daybook.client.bodies import Content
from daybook.engine.facts import events, reasons
from daybook.engine.names.names import host_and_name, plain
from daybook.history.replays.originals import LargeBodies, content_of
from daybook.history.replays.progress_file import ProgressFile
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.jobs.replay_state import Request, State, condition_of
from daybook.pipeline.parquet.segments import segments_of
from daybook.pipeline.publishing import ROUTING_TYPES, Message, Publisher, RoutingType, cut
from daybook.pipeline.selection import Selection, SelectionError
from daybook.times import EPOCH

FROM_HEADER: Final = "_DAYBOOK_REPLAYED_FROM"
"""Header of a replayed message: the id of the original message."""
ID_HEADER: Final = "_DAYBOOK_REPLAY"
"""Header of a replayed message: the id of the replay."""

BUCKET_LSNS: Final = 10_000
WINDOW_ROWS: Final = 50_000
WINDOW_BYTES: Final = 64 << 20
"""A window ends with the bucket that reaches this many messages or bytes."""

_THIN: Final = (
    "lsn", "time", "address", "reason", "flags", "headers", "headers_bytes", "body_bytes", "detail",
)  # fmt: skip
_WHOLE: Final = (
    "lsn", "address", "queue", "reason", "flags", "priority", "headers_raw", "body", "detail_raw",
)  # fmt: skip
_OMITTED: Final = f"(flags & {events.BODY_OMITTED}) <> 0"
_BODY_BYTES: Final = f"""(CASE WHEN (flags & {events.LARGE}) <> 0
    THEN CAST(json_extract_string(detail, '$.body_bytes') AS BIGINT) ELSE body_bytes END)"""
"""A large body is in chunks, and its Routed event has the length in its detail."""
_SENT: Final = reasons.REASONS[reasons.SENT][0]
_PREFIXES: Final = ("/queue/", "/topic/")
_SUBSCRIPTION: Final = "/dsub/"


class AddressCount(msgspec.Struct, frozen=True):
    """The messages of one address to replay; the bodies of `omitted` ones were never journaled.

    Times are microseconds since 1970 UTC. `bytes` counts bytes of bodies.
    """

    address: str
    messages: int
    bytes: int
    omitted: int
    first_lsn: int
    last_lsn: int
    first_time: int
    last_time: int


class Survey(msgspec.Struct, frozen=True):
    """The messages to replay; `copies` is the number left out because the request excludes them."""

    addresses: tuple[AddressCount, ...] = ()
    copies: int = 0
    windows: tuple[tuple[int, int], ...] = ()

    @property
    def messages(self) -> int:
        """How many messages are to be published."""
        return sum(each.messages for each in self.addresses)

    @property
    def omitted(self) -> int:
        """How many selected messages cannot be published."""
        return sum(each.omitted for each in self.addresses)

    @property
    def last_lsn(self) -> int:
        """LSN of the last message, 0 if there is none."""
        return max((each.last_lsn for each in self.addresses), default=0)


class Report(msgspec.Struct):
    """The result of one run: messages published now, or already by a run that was killed.

    `bytes` counts bytes of bodies published now.
    """

    published: int = 0
    already: int = 0
    bytes: int = 0
    incomplete: int = 0
    seconds: float = 0.0


def survey(engine: Engine, history: History, state: State) -> Survey:
    """Find the messages that are still to be replayed. Raises JournalError and SelectionError."""
    found = _look(engine, history, state)
    if not found.messages and state.end_lsn and not state.is_done:
        # It was killed after the last message of its span: continue with newer messages.
        state.done_lsn = state.end_lsn
        found = _look(engine, history, state)
    return found


def _look(engine: Engine, history: History, state: State) -> Survey:
    request = state.request
    condition = condition_of(request.where)
    span = _span(request, state)
    engine.load("replay_seen", history, _columns(_THIN, condition.columns), span)
    # Messages that this replay has sent may be in the history too.
    ours = f"coalesce(headers['{ID_HEADER}'], '') = '{state.id}'"
    engine.define(
        "replay_chosen", f"SELECT * FROM replay_seen WHERE ({condition.sql}) AND NOT {ours}"
    )
    wanted = "TRUE" if request.copies else f"reason = '{_SENT}'"
    engine.define("replay_wanted", f"SELECT * FROM replay_chosen WHERE {wanted}")
    counted = engine.ask(
        f"""SELECT address,
            sum(CASE WHEN {_OMITTED} THEN 0 ELSE 1 END) AS messages,
            sum(CASE WHEN {_OMITTED} THEN 0 ELSE {_BODY_BYTES} END) AS bytes,
            sum(CASE WHEN {_OMITTED} THEN 1 ELSE 0 END) AS omitted,
            min(lsn) AS first_lsn, max(lsn) AS last_lsn, min(time) AS first, max(time) AS last
        FROM replay_wanted GROUP BY address ORDER BY address"""
    )
    copies = engine.ask(f"SELECT count(*) AS count FROM replay_chosen WHERE NOT ({wanted})")
    buckets = engine.ask(
        f"""SELECT CAST(floor(lsn / {BUCKET_LSNS}) AS BIGINT) AS bucket, count(*) AS messages,
            sum(headers_bytes + body_bytes) AS bytes
        FROM replay_wanted WHERE NOT ({_OMITTED}) GROUP BY 1 ORDER BY 1"""
    )
    return Survey(
        tuple(_count(row) for row in _rows(counted)),
        int(copies.column(0)[0].as_py()),
        tuple(_windows(_rows(buckets), span)),
    )


def _columns(needed: Iterable[str], asked: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*needed, *asked)))


def _span(request: Request, state: State) -> Selection:
    """Return the part of the selection that is not done yet."""
    chosen = request.selection
    first = max(chosen.from_lsn, state.done_lsn + 1)
    last = chosen.to_lsn if state.is_done or not state.end_lsn else state.end_lsn
    name = events.BY_NUMBER[events.ROUTED].name
    return msgspec.structs.replace(chosen, kinds=(name,), from_lsn=first, to_lsn=last)


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return iter(rows)


def _count(row: dict[str, Any]) -> AddressCount:
    return AddressCount(
        row["address"] or "", int(row["messages"]), int(row["bytes"]), int(row["omitted"]),
        int(row["first_lsn"]), int(row["last_lsn"]), _micros(row["first"]), _micros(row["last"]),
    )  # fmt: skip


def _micros(when: datetime) -> int:
    return (when - EPOCH) // timedelta(microseconds=1)


def _windows(buckets: Iterator[dict[str, Any]], span: Selection) -> Iterator[tuple[int, int]]:
    """Return spans of LSNs that cover all messages, with about the same number in each."""
    first = last = -1
    messages = size = 0
    for row in buckets:
        start = int(row["bucket"]) * BUCKET_LSNS
        first = start if first < 0 else first
        last = start + BUCKET_LSNS - 1
        messages += int(row["messages"])
        size += int(row["bytes"])
        if messages >= WINDOW_ROWS or size >= WINDOW_BYTES:
            yield _within(first, last, span)
            first, messages, size = -1, 0, 0
    if first >= 0:
        yield _within(first, last, span)


def _within(first: int, last: int, span: Selection) -> tuple[int, int]:
    return max(first, span.from_lsn), last if span.to_lsn is None else min(last, span.to_lsn)


def replay(
    engine: Engine,
    history: History,
    state: State,
    found: Survey,
    publisher: Publisher,
    file: ProgressFile[State],
    told: Callable[[int], None] = lambda count: None,
) -> Report:
    """Publish the messages of a survey, beginning at the state's position.

    `told` is called with the number of messages done. Raises PublishError and the errors of the
    engine; calling it again with the saved state resumes.
    """
    begun = time.monotonic()
    report = Report()
    if state.is_done or not state.end_lsn:
        state.end_lsn = max(found.last_lsn, state.done_lsn)
    file.save(state)
    bodies = Bodies(history)
    try:
        for chunk in cut(
            _messages(engine, history, state, found, bodies), rows_max=state.request.rows
        ):
            _publish(chunk, state, publisher, bodies, report)
            file.save(state)
            told(report.published + report.already + report.incomplete)
    finally:
        bodies.close()
        report.seconds = time.monotonic() - begun
    # After the last message nothing is left of the span.
    state.done_lsn = state.end_lsn
    file.save(state)
    return report


def _publish(
    chunk: list[Message],
    state: State,
    publisher: Publisher,
    bodies: "Bodies",
    report: Report,
) -> None:
    """Publish one transaction; its id is made of the replay's id and its first and last message."""
    first, last = chunk[0].key, chunk[-1].key
    lost = bodies.incomplete([message for message in chunk if isinstance(message.body, Content)])
    whole = [message for message in chunk if message.key not in lost]
    report.incomplete += len(lost)
    if whole:
        size = sum(message.body_bytes for message in whole)
        if publisher.publish(f"{state.id}:{first}-{last}", whole):
            report.published += len(whole)
            report.bytes += size
        else:
            report.already += len(whole)
        state.bytes += size
    state.published += len(whole)
    state.incomplete += len(lost)
    state.done_lsn = int(last)


def _messages(
    engine: Engine, history: History, state: State, found: Survey, bodies: "Bodies"
) -> Iterator[Message]:
    """Yield messages in the order of their LSNs, window by window."""
    request = state.request
    condition = condition_of(request.where)
    columns = _columns(_WHOLE, condition.columns)
    wanted = "TRUE" if request.copies else f"reason = '{_SENT}'"
    sql = (
        f"SELECT {', '.join(_WHOLE)} FROM replay_rows WHERE ({condition.sql}) AND {wanted} "
        f"AND NOT ({_OMITTED}) ORDER BY lsn"
    )
    for first, last in found.windows:
        span = _span(request, state)
        span = msgspec.structs.replace(span, from_lsn=first, to_lsn=last)
        engine.load("replay_rows", history, columns, span)
        # Read at once, so that a run that ends in between leaves no result open.
        for batch in engine.ask(sql).to_batches():
            for row in zip(*(batch.column(name).to_pylist() for name in _WHOLE), strict=True):
                message = _message(request, state.id, bodies, *row)
                if message is not None:
                    yield message


def _message(
    request: Request,
    name: str,
    bodies: "Bodies",
    lsn: int,
    address: str,
    queue: str | None,
    reason: str,
    flags: int,
    priority: int,
    headers_raw: bytes | None,
    body: bytes | None,
    detail_raw: bytes | None,
) -> Message | None:
    """A row as the message that is sent; None if this replay has sent it.

    Raises UnknownFormat and SelectionError.
    """
    pairs, plain_body = content_of(lsn, flags, headers_raw or b"", body or b"")
    if (ID_HEADER, name) in pairs:
        return None
    kept = [pair for pair in pairs if pair[0] not in (FROM_HEADER, ID_HEADER)]
    destination: str = request.into
    routing_type: RoutingType = ""
    if not destination:
        host, address = host_and_name(address)
        if host != request.virtual_host:
            raise SelectionError(
                f"message {lsn} was sent on virtual host '{host}', and the replay goes to"
                f" '{request.virtual_host}'; choose addresses of one host, and name it in the URL"
                f" (?virtual-host={host})"
            )
        queue = plain(queue) if queue is not None else None
        destination, routing_type = destination_of(address, queue, reason, dict(reversed(pairs)))
    detail = events.routed_detail(detail_raw or b"")
    content: bytes | Content = plain_body
    if flags & events.LARGE:
        content = bodies.content(str(lsn), detail_raw or b"", detail.body_bytes)
    return Message(
        destination,
        content,
        (*kept, (FROM_HEADER, str(lsn)), (ID_HEADER, name)),
        priority,
        bool(flags & events.PERSISTENT),
        detail.expires if request.keep_expiry else 0,
        routing_type,
        str(lsn),
    )


def destination_of(
    address: str, queue: str | None, reason: str, given: dict[str, str]
) -> tuple[str, RoutingType]:
    """Return the destination in a message's headers if it matches the address, else the address."""
    destination = given.get("destination", "")
    if reason != _SENT:
        return address, ""
    if destination.startswith(_SUBSCRIPTION) and queue:
        return f"{address}::{queue}", ""
    prefix = next((each for each in _PREFIXES if destination.startswith(each)), "")
    if destination.removeprefix(prefix).partition("::")[0] != address:
        return address, ""
    wanted = given.get("destination-type", "").lower()
    for routing_type in ROUTING_TYPES:
        if wanted == routing_type:
            return destination, routing_type
    return destination, ""


class Bodies:
    """The bodies of large messages, read where history has them now."""

    def __init__(self, history: History) -> None:
        self._history: Final = history
        self._details: Final[dict[str, bytes]] = {}
        self._resources: Final = ExitStack()
        self._bodies = self._opened()

    def _opened(self) -> LargeBodies:
        """Open history again: since then, segments may have moved to its archive."""
        self._resources.close()
        disk = self._resources.enter_context(segments_of(self._history))
        return self._resources.enter_context(closing(LargeBodies(disk)))

    def content(self, key: str, detail: bytes, size: int) -> Content:
        """Return the body of the message with a key; it may be incomplete."""
        self._details[key] = detail
        return Content(size, lambda: self._bodies.pieces(detail))

    def incomplete(self, messages: list[Message]) -> set[str]:
        """Return the keys of the messages of which history does not have the whole body."""
        details = {each.key: self._details.pop(each.key) for each in messages}
        left = {key for key, detail in details.items() if not self._bodies.is_whole(detail)}
        if left:
            self._bodies = self._opened()
        return {key for key in left if not self._bodies.is_whole(details[key])}

    def close(self) -> None:
        """Close history."""
        self._resources.close()
