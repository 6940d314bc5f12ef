"""Requests about the messages of a queue: how many there are, and what administrators do with them.

Rows of the table of administration. Must never know how a request is transported.
"""

from typing import Annotated, Any, Final

import msgspec

from daybook.engine import commands
from daybook.engine.administration.message_moves import RETRY
from daybook.engine.commands import Command
from daybook.engine.queues.queue import StoreError
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.permissions import Actor
from daybook.engine.state.state import State
from daybook.server.administration import message_counts, views
from daybook.server.administration.broker_requests import OfSeen, Sliced, sorting
from daybook.server.administration.deaths import (
    CRITERIA,
    GRAVE_ORDERS,
    grouping,
    listing_graves,
)
from daybook.server.administration.deaths import LOOKED_AT_MAX as DEATHS_MAX
from daybook.server.administration.request_rows import (
    Answer,
    Argument,
    Change,
    Filtered,
    OnQueue,
    Option,
    Reading,
    Request,
    Table,
    ViewSource,
    Way,
)
from daybook.server.process.slices import Slices
from daybook.texts import moment

CHOSEN_MAX: Final = 1000
"""How many messages one request names at most."""
Id = Annotated[int, msgspec.Meta(ge=0)]
Chosen = Annotated[tuple[Id, ...], msgspec.Meta(min_length=1, max_length=CHOSEN_MAX)]
Matching = Annotated[
    str,
    Option(
        "--filter",
        "Only messages for which this is true, as in SQL-92 (docs/filters.md).",
        "CONDITION",
    ),
]


class MessagesCount(OnQueue, Reading, frozen=True, tag="count"):
    """Count the messages of a queue with which something could be done: those that a filter
    chooses, and that are not in flight.

    With a filter so many messages are looked at; more may match where a queue has more.
    """

    filter: Matching = ""
    ways = (
        Way(
            "queue count",
            table=Table("counts", ("queue", "matching", "in_flight", "looked_at", "in_queue")),
        ),
    )

    def look(self, source: ViewSource) -> Slices[Answer | Refusal]:
        """Return the counts of the queue."""
        try:
            return (yield from message_counts.counting(source.state, self.queue, self.filter))
        except StoreError as error:
            return Refusal(Code.NOT_FOUND, f"a message cannot be read back: {error}")


class DeathsOf(OnQueue, Reading, frozen=True, tag="deaths"):
    """Count the messages of a queue by an attribute of their deaths, and by the hour of these.

    So many messages are looked at, those in flight first, then in delivery order.
    """

    by: Annotated[
        str,
        Option(
            "--group-by",
            "Count messages by an attribute of their death: its reason, the queue or address they"
            " were in, the error or the user of the consumer, how the last delivery ended, or the"
            " hour or day.",
            choices=CRITERIA,
            is_required=True,
        ),
    ]
    filter: Matching = ""
    limit: Annotated[
        int,
        msgspec.Meta(ge=1, le=DEATHS_MAX),
        Option("--limit", "Look at this many messages.", "N"),
    ] = DEATHS_MAX
    offset: Annotated[
        int,
        msgspec.Meta(ge=0, le=views.OFFSET_MAX),
        Option("--offset", "Pass over this many messages first.", "N"),
    ] = 0
    ways = (Way("queue messages", written="without --group-by it shows the messages"),)

    def look(self, source: ViewSource) -> Slices[Answer | Refusal]:
        """Return the groups."""
        if self.by not in CRITERIA:
            text = f"by must be one of {', '.join(CRITERIA)}, and is '{self.by}'"
            return Refusal(Code.INVALID, text)
        try:
            return (
                yield from grouping(
                    source.state, self.queue, self.by, self.filter, self.limit, self.offset
                )
            )
        except StoreError as error:
            return Refusal(Code.NOT_FOUND, f"a message cannot be read back: {error}")


class Graves(OfSeen, frozen=True, tag="dead-letters"):
    """List the queues of dead letters and expired messages that the user may browse.

    They are the queues of all addresses that some setting names as dead letter address or expiry
    address. The messages of those for dead letters are `dead_letters_waiting` of the status.
    """

    sort: Annotated[str, sorting(GRAVE_ORDERS)] = ""
    ways = (
        Way(
            "queue dead-letters",
            table=Table(
                "queues",
                ("queue", "address", "sent_here", "messages", "ready", "in_flight"),
                ("bytes",),
                named_by="queue",
            ),
        ),
    )

    def needed(self, state: State) -> list[str]:
        """Return nothing: everybody may ask that, and sees the queues that they may browse."""
        return []

    def look(self, source: ViewSource) -> Sliced:
        """Return a page of the queues."""
        return listing_graves(
            source.state, source.seen_queues(), self.offset, self.limit, self.order(source)
        )


class MessagePeek(OnQueue, Reading, frozen=True, tag="peek"):
    """Show one message of a queue: its headers with their types, and its body, a large one by
    pieces."""

    message: Annotated[Id, Argument("MESSAGE", 1)]
    piece: Annotated[
        int, msgspec.Meta(ge=1), Option("--piece", "This piece of the body, from 1 on.", "N")
    ] = 1
    ways = (Way("queue peek", written="people see a body in the form that fits it"),)

    def look(self, source: ViewSource) -> Answer | Refusal:
        """Return the message."""
        try:
            return views.peek(source.state, self.queue, self.message, self.piece, source.piece)
        except StoreError as error:
            return Refusal(Code.NOT_FOUND, f"the message cannot be read back: {error}")


def _readable(row: Answer) -> Answer:
    times = {key: moment(row[key] * 1000)[:19] if row[key] else "" for key in ("begun", "ended")}
    return row | times | {"acted": _acted(row)}


def _acted(row: Answer) -> int | str:
    """Return how many messages a retry has sent, of how many, in words where a number alone would
    be wrong or says less."""
    least = "at least " if row["at_least"] else ""
    of = f" of {row['of']:,}" if row["of"] is not None else ""
    return f"{least}{row['acted']:,}{of}" if least or of else row["acted"]


class RetriesList(Filtered, frozen=True, tag="retries"):
    """List the retries with a limit of rate, of queues that the user may browse: those that run,
    and the last ones that are over.

    A retry ends with the broker. One that this cut off is listed until another retry of its queue
    begins: the messages that it did not reach are still in the queue, which `in_queue` counts.
    After a crash it had sent at least so many (`at_least`), because this is noted once a second. A
    retry without a filter says of how many messages (`of`): those in the queue at its beginning.
    """

    needs_broker = True
    ways = (
        Way(
            "queue retries",
            table=Table(
                "retries",
                ("queue", "state", "rate", "acted", "in_queue", "passed_over", "begun", "by"),
                ("ended", "filter", "why"),
                named_by="queue",
                shape=_readable,
            ),
        ),
    )

    def look(self, source: ViewSource) -> Answer:
        """Return a row for each, with how many messages its queue has now; None if it is gone."""
        queues, seen = source.state.queue_by_name, source.seen_queues()
        rows = []
        for row in source.retries():
            queue = queues.get(row["queue"])
            if seen.has(queue) if queue is not None else seen.is_everything:
                rows.append(row | {"in_queue": queue.message_count if queue is not None else None})
        return {"retries": rows}


class RetryStop(OnQueue, Request, frozen=True, tag="stop-retry"):
    """Stop a retry with a limit of rate; the rest of the messages stays in the queue."""

    ways = (Way("queue stop-retry", "stopped the retry of queue '{queue}' after {acted}"),)


def _acting(action: str, done: str, doc: str, *more: str, **checks: Any) -> Way:
    """Return a command that does something with messages of a queue; `more` are fields it takes."""
    return Way(
        f"queue {action}", done, doc, fixed={"action": action},
        fields=("queue", *more, "filter", "message", "limit"),
        either=("filter", "message"), **checks,
    )  # fmt: skip


class MessagesAction(OnQueue, Change, frozen=True, tag="act-on-messages"):
    """Do something with messages of a queue: all of them, those that a filter chooses, or some by
    their ids."""

    action: str
    filter: Matching = ""
    message: Annotated[
        Id | Chosen, Option("--message", "Only this message; may be given several times.", "ID")
    ] = 0
    target: Annotated[str, Argument("TARGET")] = ""
    priority: Annotated[int, Argument("PRIORITY", 0, 9)] = -1
    rate: Annotated[
        str, Option("--rate", "At most so many messages in a second: 50/s; or 30/m, 100/h.", "N/s")
    ] = ""
    limit: Annotated[
        int,
        msgspec.Meta(ge=0),
        Option("--limit", "Only the first N messages: of all, or of those for a filter.", "N"),
    ] = 0
    ways = (
        _acting(
            "move", "moved {acted} to queue '{target}'",
            "Move messages to another queue, past its filter and limits.", "target",
        ),
        _acting(
            "copy", "copied {acted} to queue '{target}'",
            "Copy messages to another queue, past its filter and limits.", "target",
        ),
        _acting(
            "retry", "sent {acted} back",
            """Send dead letters and expired messages back to the queues that they were in.

            The journal says where that was, whatever a message says of itself. Messages whose queue
            does not exist any more stay, and so do those for queues that you may not manage.

            With --rate the broker sends them in the background, one by one, in their order: see
            `queue retries` for how far it is, and `queue stop-retry` ends it. It also ends with the
            broker; the rest of the messages stays.
            """,
            "rate",
            begun="sending messages of queue '{queue}' back, at most {rate}; `daybook queue"
            " retries` shows how far it is, `daybook queue stop-retry` ends it",
        ),
        _acting(
            "expire", "expired {acted}",
            "Expire messages now: they go to the expiry address, or are dropped.",
        ),
        _acting(
            "remove", "removed {acted}",
            "Remove messages that --filter or --message chooses; `purge` removes all.",
            one_of=("filter", "message"),
            missing="choose messages with --filter or --message, or purge the queue",
        ),
        _acting(
            "priority", "gave {acted} priority {priority}",
            "Give messages another priority: they go behind the others that have it.", "priority",
        ),
    )  # fmt: skip

    def flaw(self) -> str:
        """Return why the limit or the rate does not fit, "" if they do."""
        if self.limit and self.message:
            return "a limit is for all messages, or for those that a filter chooses"
        if not self.rate:
            return ""
        from daybook.server.administration.retries import rate_in  # noqa: PLC0415 (slow to import)

        if self.action != RETRY or self.message:
            return "a rate is for retries of all messages, or of those that a filter chooses"
        rate = rate_in(self.rate)
        return rate.text if isinstance(rate, Refusal) else ""

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        one, some = (0, self.message) if isinstance(self.message, tuple) else (self.message, ())
        return commands.ActOnMessages(
            self.queue, self.action, self.filter, one, self.target, self.priority, through,
            actor=actor, chosen=some, total=self.limit,
        )  # fmt: skip
