"""The meaning of SEND: a plan prepared from its head, which serves every frame with the same head.

A plan holds everything that does not change from one message to the next. Must never know
the session that uses it.
"""

import re
from collections.abc import Collection, Iterable
from typing import Final

from daybook.engine.commands import RETAIN_REMOVE, RETAIN_SET
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.facts.events import GROUPED
from daybook.engine.facts.formats import LINES
from daybook.engine.facts.own_headers import BLANKS, OWN_HEADERS, VALIDATED_USER
from daybook.engine.messages.headers import build, explicit_line, without
from daybook.protocols.stomp.wire import foreign, synonyms
from daybook.protocols.stomp.wire.destinations import (
    TEMPORARY_PREFIXES,
    Target,
    canonical,
    divided,
    resolve,
    with_own_names,
)
from daybook.protocols.stomp.wire.errors import StompError, shortened
from daybook.protocols.stomp.wire.frames import (
    Head,
    content_length,
    number,
    parse_head,
    required,
    truth,
)
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.protocols.stomp.wire.principals import value_of
from daybook.protocols.stomp.wire.versions import V10

RECEIPT_OUTCOME: Final = "receipt-outcome"
"""Header of SEND: its receipt is to report the outcome of the message."""

NOT_STORED: Final = frozenset(
    (
        "receipt", RECEIPT_OUTCOME, "transaction", "message-id", "subscription", "ack",
        "redelivered", "delivery-count", "ttl", "expiration", "heart-beat", "AMQ_SCHEDULED_DELAY",
        "retained",
    )
)  # fmt: skip
"""Headers that instruct the broker, or that the broker itself adds to MESSAGE: they do not belong
to the message. All others travel with it."""

_has_blanks: Final = re.compile(rb"(?:^|\n)[\s\x80-\xff]|[\s\x80-\xff]:").search
"""Finds a name that may begin or end with one, in a head as received."""

REPLY_TO: Final = "reply-to"
"""Header of SEND: where the receiver is to send its answer."""
_REPLY_TO_BYTES: Final = REPLY_TO.encode()
_DESTINATION_BYTES: Final = b"destination"

_DELIVERY_DELAY: Final = "AMQ_SCHEDULED_DELAY"

_GROUPS: Final = frozenset(synonyms.GROUP.names)
_GROUPS_BYTES: Final = frozenset(name.encode() for name in _GROUPS)
_DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
_DUPLICATE_ID_BYTES: Final = _DUPLICATE_ID.encode()
_DEFAULT_PRIORITY: Final = 4
RETAIN: Final = "retain"
"""Header of SEND: whether its topic is to remember the message for subscriptions to come."""
_RETAIN: Final = {"set": RETAIN_SET, "true": RETAIN_SET, "remove": RETAIN_REMOVE, "false": 0}
"""The meanings of its values."""


READ: Final = frozenset(
    (
        "destination", "destination-type", "priority", "persistent", "expires", "content-length",
        REPLY_TO, RETAIN, synonyms.ROUTING_TYPE, *synonyms.DELIVERY_TIME.names, *_GROUPS,
        *NOT_STORED,
    )
)  # fmt: skip
"""Headers of SEND that the broker reads, without those that it refuses, and the duplicate id."""

# The broker ignores all lines but these, byte for byte.
_KNOWN: Final = frozenset(name.encode() for name in (*READ, *foreign.ON_SEND))
_NOT_STORED_BYTES: Final = frozenset(name.encode() for name in NOT_STORED)

_PLANS_MAX: Final = 512
_PLAN_KEY_BYTES_MAX: Final = 2048
_PLANS_BYTES_MAX: Final = 256 * 1024
_PLAN_BYTES: Final = 400
"""The memory of a plan besides two copies of its head."""


class SendPlan:
    """A SEND without its body and receipt: its target, its attributes, and the headers to keep.

    `expires` is milliseconds since 1970 and `ttl` milliseconds from arrival, 0 for never; `due` and
    `delay` likewise say when it may be delivered, 0 for at once; `length` is the content-length or
    UNTIL_NUL. `duplicate_id` is empty if there is none. `tells_outcome` asks that the receipt says
    where the message went. `format` is as in `commands.Send`. `also` are plans for the other
    destinations of the message, which differ in address, queue, routing type and headers. `retain`
    is as in `commands.Send`. `is_special` says that a frame needs more than what is here.
    """

    __slots__ = (
        "address", "also", "delay", "due", "duplicate_id", "expires", "format", "headers",
        "is_special", "length", "persistent", "priority", "queue", "retain", "routing_type",
        "tells_outcome", "transaction", "ttl",
    )  # fmt: skip

    def __init__(
        self,
        address: str,
        queue: str | None,
        routing_type: str | None,
        priority: int,
        persistent: bool,
        ttl: int,
        expires: int,
        transaction: str | None,
        length: int,
        headers: bytes,
        duplicate_id: str,
        tells_outcome: bool = False,
        due: int = 0,
        delay: int = 0,
        format_flags: int = LINES,
    ) -> None:
        self.format: int = format_flags
        self.retain: int = 0
        self.also: tuple[SendPlan, ...] = ()
        self.tells_outcome: bool = tells_outcome
        self.is_special: bool = tells_outcome or ttl > 0 or due > 0 or delay > 0
        self.due: int = due
        self.delay: int = delay
        self.address: str = address
        self.queue: str | None = queue
        self.routing_type: str | None = routing_type
        self.priority: int = priority
        self.persistent: bool = persistent
        self.ttl: int = ttl
        self.expires: int = expires
        self.transaction: str | None = transaction
        self.length: int = length
        self.headers: bytes = headers
        self.duplicate_id: str = duplicate_id

    def retain_at_topics(self, retain: int) -> bool:
        """Make the topics among the destinations remember or forget a message; return whether there
        are any."""
        plans = [
            plan
            for plan in (self, *self.also)
            if plan.queue is None and plan.routing_type == MULTICAST
        ]
        for plan in plans:
            plan.retain = retain
        self.is_special = True
        return bool(plans)

    def send_also(self, others: Iterable[tuple[Target, bytes]]) -> None:
        """Send the same message elsewhere too: to targets, each with its own headers."""
        self.is_special = True
        self.also = tuple(
            SendPlan(
                target.address, target.queue, target.routing_type, self.priority,
                self.persistent, self.ttl, self.expires, self.transaction, self.length, headers,
                self.duplicate_id, self.tells_outcome, self.due, self.delay, self.format,
            )
            for target, headers in others
        )  # fmt: skip


def prepare(head: Head, options: StompOptions, connection: int) -> SendPlan:
    """The plan for a SEND of a connection. Raises StompError if there can be none."""
    foreign.refuse(head, foreign.ON_SEND)
    values = head.values
    names = divided(required(head, "destination"), options.spelling)
    wanted = _wanted_type(values)
    target, *others = (resolve(name, wanted, options, connection) for name in names)
    ttl = _time_to_live(values)
    due, delay = _delivery_time(values)
    plan = SendPlan(
        target.address,
        target.queue,
        target.routing_type,
        _priority(values.get("priority")),
        truth(head, "persistent", options.default_persistent),
        ttl,
        _milliseconds("expires", values.get("expires")),
        required(head, "transaction") if "transaction" in values else None,
        content_length(head, options),
        _stored(head, ttl > 0, options, connection),
        _duplicate_id(values.get(_DUPLICATE_ID)),
        truth(head, RECEIPT_OUTCOME, False),
        due,
        delay,
        _format(not _GROUPS.isdisjoint(values)),
    )
    if options.add_timestamp_header:
        plan.is_special = True
    if others:
        headers = plan.headers
        if not options.spelling.is_plain:
            names = [canonical(name, options) for name in names]
        plan.headers = _sent_to(names[0], headers)
        plan.send_also(
            (other, _sent_to(name, headers)) for name, other in zip(names[1:], others, strict=True)
        )
    if RETAIN in values:
        _set_retain(plan, values[RETAIN])
    return plan


def _set_retain(plan: SendPlan, value: str) -> None:
    """Do what the header `retain` says. Raises StompError."""
    retain = _RETAIN.get(value)
    if retain is None:
        raise StompError(
            f"{RETAIN} is {shortened(value)}", "write set (or true), remove, or no such header"
        )
    if not retain:
        return
    if not plan.retain_at_topics(retain):
        raise StompError(
            f"{RETAIN} is {value}, and only a topic remembers a message",
            "send it to /topic/NAME, or with destination-type:MULTICAST, or without the header",
        )
    if plan.due or plan.delay:
        raise StompError(
            f"{RETAIN} is {value}, and the message has a delivery time",
            "send it at that time, or without the header",
        )


def _sent_to(destination: str, headers: bytes) -> bytes:
    """Return headers of a message to several destinations for one of them."""
    return build([("destination", destination)]) + without(headers, ("destination",))


class Planner:
    """The plans of a session, remembered by head.

    `plans` knows whole heads. Senders that give every message a header of its own never repeat one;
    for them plans are also remembered by the lines that concern the broker alone. Both only cache
    the results of `prepare`, and both are cleared together when they have too many plans or, as
    `cached_bytes` estimates, too large ones.
    """

    __slots__ = (
        "_by_known_lines", "_connection", "_is_plain", "_options", "_ours", "_sender",
        "_version", "cached_bytes", "plans",
    )  # fmt: skip

    def __init__(
        self,
        version: int,
        options: StompOptions,
        connection: int = 0,
        user: str = "",
        roles: Collection[str] = (),
    ) -> None:
        """`user` is that of the connection, with these roles."""
        # The lines with the login of the sender, if messages are to carry it.
        names = [VALIDATED_USER] if options.populate_validated_user else []
        names += [options.add_user_header] if options.add_user_header else []
        said = [(name, user) for name in names]
        said += [(each.header, value_of(each, user, roles)) for each in options.principals]
        self._sender: bytes = build([(name, value) for name, value in said if value])
        # Headers that only the broker may set.
        self._ours: frozenset[bytes] = frozenset(name.encode() for name in ours(options))
        self._version: int = version
        self._options: StompOptions = options
        self._is_plain: bool = options.spelling.is_plain
        self._connection: int = connection
        self._by_known_lines: dict[bytes, SendPlan] = {}
        self.plans: dict[bytes, SendPlan] = {}
        self.cached_bytes: int = 0

    def plan(self, key: bytes) -> SendPlan:
        """The plan for a head that is not in `plans`, receipt cut out. Raises StompError."""
        plan = self._by_parts(key)
        if plan is None:
            plan = self._prepared(key)
        self._remember(self.plans, key, plan)
        return plan

    def _prepared(self, key: bytes) -> SendPlan:
        head = parse_head(key, self._version, self._options)
        plan = prepare(head, self._options, self._connection)
        for each in (plan, *plan.also):
            each.headers += self._sender
        return plan

    def _destination_line(self, line: bytes) -> bytes:
        """Return a destination line with the name that is stored."""
        if self._is_plain:
            return line
        value = line[len(_DESTINATION_BYTES) + 1 :].decode()
        return build([("destination", canonical(value, self._options))])[:-1]

    def _reply_line(self, line: bytes) -> bytes:
        """Return a reply-to line with names that mean the same to everybody."""
        value = line[len(_REPLY_TO_BYTES) + 1 :].decode()
        value = with_own_names(value, self._connection, self._options)
        return build([(REPLY_TO, value)])[:-1]

    def remembers(self, head_bytes: int) -> bool:
        """Whether the plan for a head so long, its receipt included, is remembered."""
        return head_bytes <= _PLAN_KEY_BYTES_MAX

    def _remember(self, plans: dict[bytes, SendPlan], key: bytes, plan: SendPlan) -> None:
        if len(key) > _PLAN_KEY_BYTES_MAX:
            return
        weight = (2 * len(key) + _PLAN_BYTES) * (1 + len(plan.also))
        if len(plans) >= _PLANS_MAX or self.cached_bytes + weight > _PLANS_BYTES_MAX:
            self.plans.clear()
            self._by_known_lines.clear()
            self.cached_bytes = 0
        plans[key] = plan
        self.cached_bytes += weight

    def _by_parts(self, key: bytes) -> SendPlan | None:
        """The plan by the lines that concern the broker; None where lines need a closer look."""
        if self._version == V10 or not key.isascii() or b"\\" in key or b"\r" in key:
            return None
        lines = key.split(b"\n")
        if len(lines) - 1 > self._options.max_headers or _has_blanks(key) is not None:
            return None
        longest = self._options.max_header_length
        known = [b"SEND"]
        kept = []
        duplicate_id = b""
        is_grouped = False
        for line in lines[1:]:
            colon = line.find(b":")
            if colon <= 0 or len(line) > longest:
                return None
            name = line[:colon]
            if name in self._ours:
                continue
            if name == _DUPLICATE_ID_BYTES:
                # Each message has another one, so it does not tell plans apart.
                if len(line) == colon + 1:
                    return None
                duplicate_id = duplicate_id or line[colon + 1 :]
            elif name in _GROUPS_BYTES:
                # Likewise: only the presence of a group matters.
                is_grouped = True
            elif name in _KNOWN:
                known.append(line)
                if name in _NOT_STORED_BYTES:
                    continue
                if name == _DESTINATION_BYTES:
                    line = self._destination_line(line)
                    colon = len(_DESTINATION_BYTES)
                if name == _REPLY_TO_BYTES:
                    kept.append(self._reply_line(line))
                    continue
            kept.append(line if line.find(b":", colon + 1) < 0 else explicit_line(line))
        known_key = b"\n".join(known)
        core = self._by_known_lines.get(known_key)
        if core is None:
            core = self._prepared(known_key)
            self._remember(self._by_known_lines, known_key, core)
        if core.ttl or core.delay or core.also or core.retain:
            return None
        kept.append(b"")
        headers = b"\n".join(kept) + self._sender
        plan = SendPlan(
            core.address, core.queue, core.routing_type, core.priority, core.persistent, 0,
            core.expires, core.transaction, core.length, headers, duplicate_id.decode(),
            core.tells_outcome, core.due, 0, _format(is_grouped),
        )  # fmt: skip
        plan.is_special = core.is_special
        return plan


def _wanted_type(values: dict[str, str]) -> str | None:
    """Return the routing type that the sender asks for, in either spelling. Raises StompError."""
    name = synonyms.DESTINATION_TYPE.chosen(values)
    if name != synonyms.ROUTING_TYPE:
        return values.get(name)
    wanted = synonyms.routing_type_of(values[name])
    if wanted not in (ANYCAST.upper(), MULTICAST.upper()):
        raise StompError(
            f"{name} is {shortened(values[name])}", "write 0 (ANYCAST) or 1 (MULTICAST)"
        )
    return wanted


def _format(is_grouped: bool) -> int:
    return LINES | GROUPED if is_grouped else LINES


def _duplicate_id(given: str | None) -> str:
    if given == "":
        raise StompError(
            f"{_DUPLICATE_ID} is empty", "give an id that no other message has, or no such header"
        )
    return given or ""


def _priority(given: str | None) -> int:
    if given is None:
        return _DEFAULT_PRIORITY
    if len(given) != 1 or given not in "0123456789":
        raise StompError(f"priority is {shortened(given)}", "give a number from 0 to 9")
    return int(given)


def _time_to_live(values: dict[str, str]) -> int:
    """Milliseconds from arrival, 0 for no limit: the shorter of `ttl` and RabbitMQ's
    `expiration`."""
    ttl = _milliseconds("ttl", values.get("ttl"))
    expiration = _milliseconds("expiration", values.get("expiration"))
    is_said_otherwise = "ttl" in values or "expires" in values
    if expiration == 0 and "expiration" in values and not is_said_otherwise:
        raise StompError(
            "expiration is 0, which means at once to some brokers and never to others",
            "give milliseconds from 1 on, or no such header for never",
        )
    return min(ttl, expiration) if ttl and expiration else ttl or expiration


def _delivery_time(values: dict[str, str]) -> tuple[int, int]:
    """Return the time of delivery and the delay from arrival, in milliseconds, 0 for none.

    A time overrides a delay; of two times the later one counts.
    """
    times = synonyms.DELIVERY_TIME.names
    due = max(_milliseconds(name, values.get(name), "for at once") for name in times)
    if due:
        return due, 0
    return 0, _milliseconds(_DELIVERY_DELAY, values.get(_DELIVERY_DELAY), "for at once")


def _milliseconds(name: str, given: str | None, zero: str = "for never") -> int:
    if given is None:
        return 0
    value = number(given)
    if value is None:
        raise StompError(
            f"{name} is {shortened(given)}",
            f"give milliseconds as a whole number of at most 16 digits, 0 {zero}",
        )
    return value


def ours(options: StompOptions) -> frozenset[str]:
    """Return the names of headers that only the broker may set: those of every protocol, and those
    that the options add."""
    added = {options.add_user_header, options.add_timestamp_header, options.add_redeliveries_header}
    added.update(each.header for each in options.principals)
    return frozenset({*OWN_HEADERS, *added} - {""})


def _stored(head: Head, expires_follows: bool, options: StompOptions, connection: int) -> bytes:
    kept = []
    without_ours = ours(options)
    is_plain = options.spelling.is_plain
    for line in head.lines:
        # Some clients trim names, and would take it for ours.
        name = line.name.strip(BLANKS)
        if name in NOT_STORED or name in without_ours:
            continue
        if expires_follows and line.name == "expires":
            continue
        if line.name == "destination" and not is_plain:
            kept.append(build([(line.name, canonical(line.value, options))]))
            continue
        if line.name == REPLY_TO and (
            not is_plain or any(each in line.value for each in TEMPORARY_PREFIXES)
        ):
            value = with_own_names(line.value, connection, options)
            kept.append(build([(REPLY_TO, value)]))
            continue
        kept.append(line.canonical + b"\n")
    return b"".join(kept)
