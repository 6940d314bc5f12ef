"""Attaching and detaching links: what sources and targets ask for becomes commands of the broker.

An attach that is refused is answered as the specification says: an attach without a terminus, then
a detach with the error. Must never know how messages are transferred.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from daybook.engine.commands import (
    NOTHING,
    AttachSender,
    Command,
    CreateTemporary,
    DeleteSubscription,
    EndOwner,
    Resume,
    RouteLink,
    StaysWith,
)
from daybook.engine.commands import (
    Attach as AttachConsumer,
)
from daybook.engine.commands import (
    Detach as DetachConsumer,
)
from daybook.engine.facts.definitions import (
    ANYCAST,
    BEYOND_CONSUMERS,
    CONNECTION_CLOSE,
    LINK_DETACH,
    MULTICAST,
    NEVER,
)
from daybook.engine.facts.settlements import BY_GRANT
from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.described import Described
from daybook.engine.names.names import (
    DURABLE,
    NAME_BYTES_MAX,
    plain,
    qualified,
    temporary_name,
)
from daybook.engine.refusals import Refusal
from daybook.engine.settings.setting_key import DELAY_MAX
from daybook.protocols.amqp import tracing
from daybook.protocols.amqp.addressing import Place, place_of
from daybook.protocols.amqp.coordinator import CAPABILITIES, Coordinator
from daybook.protocols.amqp.faults import DIRECT, DROPPED, LinkFault, SessionFault, error_of
from daybook.protocols.amqp.incoming import Incoming
from daybook.protocols.amqp.outcomes import OUTCOMES, ending_of, settlement_of, transaction_of
from daybook.protocols.amqp.outgoing import Outgoing
from daybook.protocols.amqp.routed import RoutedLink, Wanted, address_to_route
from daybook.protocols.amqp.sessions import AmqpSession, Link
from daybook.protocols.amqp.wire.errors import (
    FRAME_SIZE_TOO_SMALL,
    FRAMING_ERROR,
    HANDLE_IN_USE,
    INVALID_FIELD,
    NOT_FOUND,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
    AmqpError,
)
from daybook.protocols.amqp.wire.kinds import (
    COPY,
    NOT_DURABLE,
    RECEIVER,
    SECOND,
    SENDER,
    SETTLED,
    UNSETTLED,
    UNSETTLED_STATE,
)
from daybook.protocols.amqp.wire.performatives import Attach, Detach, Error
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import Coordinator as CoordinatorTarget
from daybook.protocols.amqp.wire.termini import (
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    Modified,
    Source,
    Target,
)

_MS_PER_S: Final = 1000
_SELECTORS: Final = (Symbol("apache.org:selector-filter:string"), 0x0000_468C_0000_0004)
_NO_LOCAL: Final = (Symbol("apache.org:no-local-filter:list"), 0x0000_468C_0000_0003)
ANSWER_BYTES: Final = 200
"""More than the answer to an attach has besides its contents, with the head of the frame."""
_LIFETIME: Final = "lifetime-policy"
_ON_CLOSE: Final = Described(0x2B, [])
_POLICIES: Final = {
    DeleteOnNoLinks: StaysWith(links=True),
    DeleteOnNoMessages: StaysWith(messages=True),
    DeleteOnNoLinksOrMessages: StaysWith(links=True, messages=True),
}
"""What keeps a node when the link that made it has ended (3.5.11 to 3.5.13)."""
"""The lifetime policy delete-on-close (part 3, 3.5.10)."""
UNKNOWN_TAGS_MAX: Final = 100
"""How many tags of deliveries that a link was not given are looked at."""
PRIORITY_MAX: Final = (1 << 31) - 1
_TOPIC: Final = ("topic", "temporary-topic")


def attach(session: AmqpSession, asked: Attach, now: int) -> None:
    """Attach a link, or refuse it. Raises SessionFault, and AmqpError."""
    if asked.handle in session.links or asked.handle in session.leaving:
        raise SessionFault(HANDLE_IN_USE, f"handle {asked.handle} is in use")
    if asked.handle >= session.output.options.max_links:
        raise AmqpError(FRAMING_ERROR, f"handle {asked.handle} is above handle-max")
    try:
        if not session.output.lets_attach:
            text = "this connection is one of the broker's own, whose connector names no user"
            raise LinkFault(UNAUTHORIZED_ACCESS, text)
        if session.output.attached >= session.output.options.max_links:
            raise LinkFault(RESOURCE_LIMIT_EXCEEDED, "there are too many links: see max-links")
        if _answer_bytes(asked) > session.output.max_frame_size:
            raise LinkFault(FRAME_SIZE_TOO_SMALL, "the answer would be longer than max-frame-size")
        if len(asked.name) > NAME_BYTES_MAX:
            raise LinkFault(RESOURCE_LIMIT_EXCEEDED, "the name of the link is too long")
        _route(session, asked, now)
    except LinkFault as fault:
        _refuse(session, asked, Error(fault.condition, fault.text))


def _route(session: AmqpSession, asked: Attach, now: int) -> None:
    """Pass a link on to another container, if its address has a route; else attach it here."""
    output = session.output
    address = address_to_route(asked)
    if not address or not output.broker.routes_links:
        _attach_here(session, asked, now)
        return
    # The queue that a full name has does not matter, nor does a prefix.
    place = place_of(address, output.host, (), output.prefixes)
    link = RoutedLink(
        session, asked.handle, asked.name, output.number_link(), address,
        sends=asked.role == SENDER, initial_count=asked.initial_delivery_count or 0,
    )  # fmt: skip

    def answered(answer: int | Refusal, now: int) -> None:
        if isinstance(answer, Refusal):
            _refuse(session, asked, error_of(answer))
        elif answer:
            link.id = answer
            session.attach(link)
        else:
            try:
                _attach_here(session, asked, now)
            except LinkFault as fault:
                _refuse(session, asked, Error(fault.condition, fault.text))

    command = RouteLink(
        output.connection, place.address, asked.role == SENDER, asked.name,
        Wanted(asked, output.container), link,
    )  # fmt: skip
    output.ask(command, answered, now)


def _attach_here(session: AmqpSession, asked: Attach, now: int) -> None:
    if asked.role == RECEIVER:
        _attach_receiver(session, asked, now)
    else:
        _attach_sender(session, asked, now)


def _answer_bytes(asked: Attach) -> int:
    """Return how long the answer may be; it says nothing of unsettled deliveries."""
    if asked.unsettled:
        asked = msgspec.structs.replace(asked, unsettled=None)
    return len(COMPOSITES.encoded(asked)) + ANSWER_BYTES


def _refuse(session: AmqpSession, asked: Attach, problem: Error) -> None:
    """Answer an attach whose terminus does not exist (2.6.3)."""
    output = session.output
    first = 0 if asked.role == RECEIVER else None
    answer = Attach(asked.name, asked.handle, not asked.role, initial_delivery_count=first)
    if len(COMPOSITES.encoded(answer)) + ANSWER_BYTES > output.max_frame_size:
        raise SessionFault(FRAME_SIZE_TOO_SMALL, "the name of the link is too long for a frame")
    output.say(session.channel, answer)
    session.end_link(asked.handle, problem)


# ---- the peer sends


def _attach_sender(session: AmqpSession, asked: Attach, now: int) -> None:
    output = session.output
    number = output.number_link()
    target = asked.target
    if isinstance(target, CoordinatorTarget):
        first = asked.initial_delivery_count or 0
        coordinator = Coordinator(session, asked.handle, asked.name, number, first)
        _begin_receiving(session, asked, coordinator, CoordinatorTarget(CAPABILITIES))
        return
    if not isinstance(target, Target):
        raise LinkFault(INVALID_FIELD, "a link of a sender needs a target")
    if target.dynamic:
        _make_node(session, asked, target, number, now)
        return
    place = None
    if target.address:
        place = place_of(target.address, output.host, target.capabilities, output.prefixes)
    link = _incoming(session, asked, place, number)

    def answered(answer: int | Refusal, now: int) -> None:
        if isinstance(answer, Refusal):
            _refuse(session, asked, error_of(answer))
            return
        link.attached(answer)
        _begin_receiving(session, asked, link)

    address, queue, routing_type = place or ("", None, None)
    command = AttachSender(
        output.connection, address, queue, routing_type, number, asked.name, link
    )
    output.ask(command, answered, now)


def _incoming(session: AmqpSession, asked: Attach, place: Place | None, number: int) -> Incoming:
    first = asked.initial_delivery_count or 0
    link = Incoming(session, asked.handle, asked.name, number, place, first)
    link.is_traced = tracing.TRACED in asked.offered_capabilities
    if DROPPED in asked.desired_capabilities:
        link.tell_drops()
    return link


def _offered(link: Incoming) -> tuple[str, ...]:
    """Return what a sender may know of its link."""
    found = (DROPPED,) if link.tells_drops else ()
    return (*found, DIRECT) if link.sender and link.place is not None else found


def _begin_receiving(
    session: AmqpSession, asked: Attach, link: Incoming, target: Any = None, gate: int = 0
) -> None:
    link.mode = asked.rcv_settle_mode
    session.attach(link)
    session.output.say(
        session.channel,
        Attach(
            asked.name, asked.handle, RECEIVER,
            snd_settle_mode=asked.snd_settle_mode, rcv_settle_mode=link.mode,
            source=asked.source, target=target if target is not None else asked.target,
            max_message_size=session.output.options.max_message_size,
            offered_capabilities=_offered(link),
        ),
        gate,
    )  # fmt: skip
    link.refill()


def _make_node(session: AmqpSession, asked: Attach, target: Target, number: int, now: int) -> None:
    """Attach a sender to a temporary destination that is made for the link."""

    def made(place: Place, gate: int, now: int) -> None:
        link = _incoming(session, asked, place, number)
        link.owns = True
        named = _named(target, place)
        _begin_receiving(session, asked, link, named, gate)

    _make(session, asked, target, number, made, now)


def _make(
    session: AmqpSession,
    asked: Attach,
    terminus: Source | Target,
    number: int,
    made: Callable[[Place, int, int], None],
    now: int,
) -> None:
    """Make a temporary destination that ends with a link, or later, as its lifetime policy says;
    `made` gets its place, the event to wait for, and the time."""
    output = session.output
    own = temporary_name(output.connection, f"amqp-{number}")
    address = qualified(output.host, own)
    routing_type = _routing_type_of(terminus.capabilities)

    def answered(answer: int | Refusal, now: int) -> None:
        if isinstance(answer, Refusal):
            _refuse(session, asked, error_of(answer))
        else:
            made(Place(address, None, routing_type), answer, now)

    command = CreateTemporary(
        output.connection, address, routing_type, link=number, stays_with=_stays_with(terminus)
    )
    output.ask(command, answered, now)


def _stays_with(terminus: Source | Target) -> StaysWith:
    policy = (terminus.dynamic_node_properties or {}).get(_LIFETIME)
    return _POLICIES.get(type(COMPOSITES.struct_of(policy)), NOTHING)


def _named(terminus: Source | Target, place: Place) -> Any:
    """Return the terminus of a node that was made: it says how long the node lives in fact."""
    properties = dict(terminus.dynamic_node_properties or {})
    if properties.get(_LIFETIME) is not None and _stays_with(terminus) == NOTHING:
        properties[_LIFETIME] = _ON_CLOSE
    return msgspec.structs.replace(
        terminus,
        address=plain(place.address),
        dynamic_node_properties=properties or None,
    )


def _routing_type_of(capabilities: tuple[str, ...]) -> str:
    return MULTICAST if any(each in _TOPIC for each in capabilities) else ANYCAST


# ---- the peer receives


def _attach_receiver(session: AmqpSession, asked: Attach, now: int) -> None:
    output = session.output
    number = output.number_link()
    source = asked.source
    if source is None:
        _find_subscription(session, asked, number, now)
        return
    if not isinstance(source, Source):
        raise LinkFault(INVALID_FIELD, "a link of a receiver needs a source")
    if source.dynamic:
        _make_source(session, asked, source, number, now)
        return
    if not source.address:
        raise LinkFault(INVALID_FIELD, "the source has no address")
    place = place_of(source.address, output.host, source.capabilities, output.prefixes)
    _consume(session, asked, source, place, number, now)


def _make_source(
    session: AmqpSession, asked: Attach, source: Source, number: int, now: int
) -> None:
    """Attach a receiver to a temporary destination that is made for the link."""

    def made(place: Place, gate: int, now: int) -> None:
        named = _named(source, place)
        _consume(session, asked, named, place, number, now, owns=True)

    _make(session, asked, source, number, made, now)


def _consume(
    session: AmqpSession,
    asked: Attach,
    source: Source,
    place: Place,
    number: int,
    now: int,
    *,
    owns: bool = False,
) -> None:
    is_settled = asked.snd_settle_mode == SETTLED
    link = Outgoing(session, asked.handle, asked.name, number, place.address, is_settled=is_settled)
    link.owns = owns
    if tracing.TRACED in asked.desired_capabilities:
        link.mark = tracing.mark_of(place.address, place.queue)
    command, granted = _command_of(session, asked, source, place, link)
    link.default = granted.default_outcome

    def attached(answer: int | Refusal, now: int) -> None:
        if isinstance(answer, Refusal):
            _refuse(session, asked, error_of(answer))
            return
        link.consumer = answer
        session.output.work(
            _resumed(link, asked.unsettled or {}),
            lambda now: _begin_sending(session, asked, link, granted, answer),
            now,
        )

    session.output.ask(command, attached, now)


def _resumed(link: Outgoing, unsettled: dict[Any, Any]) -> Iterator[Command]:
    """Yield what settles the deliveries of an earlier link whose outcome the peer says (2.6.13).

    Those without an outcome are delivered again, as new ones. So is the rest behind many tags that
    the link was not given: looking at them costs the broker more than it costs the peer.
    """
    unknown = 0
    for tag, state in unsettled.items():
        said = COMPOSITES.struct_of(state)
        ending = ending_of(said)
        if ending is None or transaction_of(said) is not None or link.is_settled:
            continue
        message = link.tags.message(tag)
        if not message:
            unknown += 1
            if unknown == UNKNOWN_TAGS_MAX:
                return
        else:
            yield Resume(link.consumer, message)
            yield settlement_of(link.consumer, message, ending)


def _begin_sending(
    session: AmqpSession, asked: Attach, link: Outgoing, granted: Source, gate: int
) -> None:
    session.attach(link)
    if session.output.broker.is_direct(link.consumer):
        granted = _without_state(granted)
        link.awaits_sender = asked.rcv_settle_mode == SECOND
    session.output.say(
        session.channel,
        Attach(
            asked.name, asked.handle, SENDER,
            snd_settle_mode=SETTLED if link.is_settled else UNSETTLED,
            rcv_settle_mode=asked.rcv_settle_mode,
            source=granted, target=asked.target, initial_delivery_count=0,
            max_message_size=session.output.options.max_message_size,
            offered_capabilities=(tracing.TRACED,) if link.mark else (),
        ),
        gate,
    )  # fmt: skip


def _without_state(source: Source) -> Source:
    """Return the source of a direct address: nothing of it outlives its link (3.5.3)."""
    lasts = source.durable != NOT_DURABLE or source.timeout
    if not lasts and source.expiry_policy not in (NEVER, CONNECTION_CLOSE):
        return source
    return msgspec.structs.replace(
        source, durable=NOT_DURABLE, expiry_policy=LINK_DETACH, timeout=0
    )  # fmt: skip


def _command_of(
    session: AmqpSession, asked: Attach, source: Source, place: Place, link: Outgoing
) -> tuple[AttachConsumer, Source]:
    """Return the command for a consumer, and the source that it gets. Raises LinkFault."""
    output = session.output
    selector, no_local, granted_filter = _filters_of(source)
    # A topic gives every subscriber a copy anyway, and some of them say so.
    kind = _kind_of(session, place)
    browses = source.distribution_mode == COPY and kind != MULTICAST
    command = AttachConsumer(
        output.connection, place.address, subscription=asked.name,
        routing_type=place.routing_type, queue=place.queue, filter=selector,
        acknowledges=not link.is_settled, credit_policy=BY_GRANT, credit_messages=0,
        credit_bytes=0, no_local=no_local, browses=browses, listens=True, receiver=link,
        session=session.number, priority=_priority_of(asked), traced=bool(link.mark),
    )  # fmt: skip
    subscription = _subscription_of(session, asked, source, kind if place.queue is None else None)
    policy = source.expiry_policy
    if subscription:
        is_shared = "shared" in source.capabilities
        command.durable_name = subscription
        command.durable = source.durable != NOT_DURABLE
        link.subscription = subscription if command.durable else ""
        if not command.durable and policy != NEVER and is_shared:
            policy = LINK_DETACH
        command.steals = not is_shared
        command.expiry_policy = policy
        command.expiry_ms = 0 if policy == NEVER else min(source.timeout * _MS_PER_S, DELAY_MAX)
    elif policy in BEYOND_CONSUMERS:
        command.expiry_policy = policy
    # A queue that its client names is nobody's alone.
    link.is_subscription = place.queue is None
    link.outlives_session = bool(subscription) or policy == CONNECTION_CLOSE
    granted = msgspec.structs.replace(
        source, filter=granted_filter or None, outcomes=OUTCOMES,
        default_outcome=source.default_outcome or Modified(delivery_failed=True),
    )  # fmt: skip
    return command, granted


def _priority_of(asked: Attach) -> int:
    """Return the priority of a consumer, among the properties of its link as Artemis has it.
    Raises LinkFault."""
    said = (asked.properties or {}).get("priority")
    if said is None:
        return 0
    if not isinstance(said, int) or isinstance(said, bool) or abs(said) > PRIORITY_MAX:
        raise LinkFault(INVALID_FIELD, "the priority of a link is a number of 32 bits")
    return said


def _kind_of(session: AmqpSession, place: Place) -> str | None:
    """Return the routing type of a source: that which it says, or else that which its address and
    the settings give it; None for a queue alone."""
    if place.routing_type is not None or place.queue is not None:
        return place.routing_type
    return session.output.broker.routing_type(place.address)


def _subscription_of(session: AmqpSession, asked: Attach, source: Source, kind: str | None) -> str:
    """Return the name of the subscription that a source of a routing type is about; empty for one
    that ends with its connection at the latest."""
    if kind != MULTICAST:
        return ""
    is_shared = "shared" in source.capabilities
    lasts = source.durable != NOT_DURABLE or source.expiry_policy == NEVER or source.timeout
    if not (lasts or is_shared):
        return ""
    # Clients of JMS number the links of a shared subscription: NAME|2.
    name = asked.name.partition("|")[0]
    kind = "" if source.durable != NOT_DURABLE or not is_shared else ":volatile"
    return _full_name(session, name, is_global="global" in source.capabilities) + kind


def _full_name(session: AmqpSession, name: str, *, is_global: bool) -> str:
    """Return the name of a subscription: that of its container, or one for all of them. Marks of
    ours in what the peer calls them are escaped, so that two names are never one."""
    own = _escaped(name, ":")
    return f"{own}:global" if is_global else f"{_escaped(session.output.container, '.')}.{own}"


def _escaped(text: str, mark: str) -> str:
    return text.replace("\\", "\\\\").replace(mark, f"\\{mark}")


def _filters_of(source: Source) -> tuple[str, bool, dict[str, Any]]:
    """Return the selector of a source, whether it takes no messages of its own connection, and the
    filters that are granted. Raises LinkFault."""
    selector, no_local, granted = "", False, {}
    for name, each in (source.filter or {}).items():
        if not isinstance(each, Described):
            continue
        if each.descriptor in _SELECTORS:
            if not isinstance(each.value, str):
                raise LinkFault(INVALID_FIELD, "a selector is a text")
            selector = each.value
        elif each.descriptor in _NO_LOCAL:
            no_local = True
        else:
            continue
        granted[name] = each
    return selector, no_local, granted


def _find_subscription(session: AmqpSession, asked: Attach, number: int, now: int) -> None:
    """Attach to a subscription that is named by its link alone, so that it can be closed: its
    messages are only read."""
    output = session.output
    name, _, suffix = asked.name.partition("|")
    is_global = suffix.partition("|")[0] == "global"
    subscription = _full_name(session, name, is_global=is_global)
    link = Outgoing(session, asked.handle, asked.name, number, is_settled=True)
    link.subscription = subscription
    command = AttachConsumer(
        output.connection, "", subscription=asked.name, durable_name=subscription, browses=True,
        listens=True, routing_type=MULTICAST, credit_policy=BY_GRANT, credit_messages=0,
        credit_bytes=0, receiver=link, acknowledges=False,
    )  # fmt: skip

    def attached(answer: int | Refusal, now: int) -> None:
        if isinstance(answer, Refusal):
            problem = Error(NOT_FOUND, f"there is no subscription '{name}' of this container")
            _refuse(session, asked, problem)
            return
        link.consumer = answer
        source = Source(f"{DURABLE}{subscription}", durable=UNSETTLED_STATE, expiry_policy=NEVER)
        _begin_sending(session, asked, link, source, answer)

    output.ask(command, attached, now)


# ---- the end


def detach(session: AmqpSession, asked: Detach, now: int) -> None:
    """Detach a link, or close it. Raises SessionFault."""
    if asked.handle in session.leaving:
        session.leaving.discard(asked.handle)
        return
    link = session.link(asked.handle)
    if isinstance(link, RoutedLink):
        if not link.is_held(partial(detach, session, asked)):
            session.output.broker.handle(link.end(asked), now)
            _say_detached(link, asked, 0)
        return
    if isinstance(link, Incoming):
        link.give_up(now)
        _end_owned(link, asked, now)
        return
    assert isinstance(link, Outgoing)
    closes = asked.closed and bool(link.subscription)
    link.drop()

    def ended(answer: int | Refusal, now: int) -> None:
        if closes:
            _delete(link, asked, now)
        else:
            _end_owned(link, asked, now)

    closes_it = link.is_subscription and (asked.closed or link.owns)
    command = DetachConsumer(link.consumer, closes=closes_it)
    session.output.ask(command, ended, now)


def _delete(link: Outgoing, asked: Detach, now: int) -> None:
    """End the subscription of a link that is closed, unless others use it."""
    output = link.session.output
    command = DeleteSubscription(link.subscription, output.connection)
    output.ask(command, lambda answer, now: _say_detached(link, asked, answer), now)


def _end_owned(link: Incoming | Outgoing, asked: Detach, now: int) -> None:
    if not link.owns:
        _say_detached(link, asked, 0)
        return
    output = link.session.output
    command = EndOwner(output.connection, link=link.number)
    output.ask(command, lambda answer, now: _say_detached(link, asked, answer), now)


def _say_detached(link: Link, asked: Detach, answer: int | Refusal) -> None:
    session = link.session
    session.detach(asked.handle, asked.error)
    problem, gate = None, 0
    if isinstance(answer, Refusal):
        problem = error_of(answer)
    else:
        gate = answer
    session.output.say(session.channel, Detach(link.handle, asked.closed, problem), gate)
