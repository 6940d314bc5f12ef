"""Names of destinations: the meaning of a `destination` header.

`/queue/NAME` is anycast, `/topic/NAME` multicast, `/dsub/ID` the queue of a durable subscription.
For any other NAME `destination-type` or the address gives the routing type. An acceptor may have
further prefixes (`anycast-prefix`, `multicast-prefix`). NAME may be ADDRESS::QUEUE, one queue of an
address; for SUBSCRIBE it may have wildcards: `*` for a word, `#` (Artemis) or `**` (Apollo) for any
number of words, and words that match in part (`engine.names.words`). Acceptors may spell all this
otherwise (`spelling`). Must never know which addresses exist.
"""

from typing import Final

from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.names.names import (
    DIVIDER,
    HOST,
    TEMPORARY,
    is_temporary,
    plain,
    qualified,
    temporary_name,
    wrong_to_spell,
    wrong_with_wildcards,
)
from daybook.engine.names.words import without_regexes, words_of
from daybook.protocols.stomp.wire.errors import StompError, shortened
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.protocols.stomp.wire.spelling import SEPARATOR, Spelling

_TYPES: Final[dict[str, str]] = {"ANYCAST": ANYCAST, "MULTICAST": MULTICAST}
COMPOSITE_MAX: Final = 64
"""How many names a composite destination may have."""
QUEUE: Final = "/queue/"
TOPIC: Final = "/topic/"
"""The prefixes of destinations in stored messages."""
_PREFIXES: Final[dict[str, str]] = {ANYCAST: QUEUE, MULTICAST: TOPIC}
TEMPORARY_PREFIXES: Final[dict[str, str]] = {"/temp-queue/": ANYCAST, "/temp-topic/": MULTICAST}


class Target:
    """The meaning of a destination: an address, maybe one queue of it, maybe a routing type. Names
    are full names, with the virtual host of the session (ADR 58).

    `durable_id` names the durable subscription for `/dsub/ID`; its queue is then `queue`.
    """

    __slots__ = ("address", "durable_id", "queue", "routing_type")

    def __init__(
        self, address: str, queue: str | None, routing_type: str | None, durable_id: str = ""
    ) -> None:
        self.address: str = address
        self.queue: str | None = queue
        self.routing_type: str | None = routing_type
        self.durable_id: str = durable_id


def resolve(
    destination: str,
    wanted_type: str | None,
    options: StompOptions,
    connection: int,
    *,
    is_subscribed: bool = False,
) -> Target:
    """Resolve a destination with the value of `destination-type`, for a connection. Raises
    StompError."""
    found = _resolved(destination, wanted_type, options, connection, is_subscribed=is_subscribed)
    if options.host != HOST:
        found.address = qualified(options.host, found.address) if found.address else ""
        found.queue = qualified(options.host, found.queue) if found.queue is not None else None
    return found


def _resolved(
    destination: str,
    wanted_type: str | None,
    options: StompOptions,
    connection: int,
    *,
    is_subscribed: bool,
) -> Target:
    """Resolve a destination to names without a virtual host."""
    hint = None
    if wanted_type is not None:
        hint = _TYPES.get(wanted_type.upper())
        if hint is None:
            raise StompError(
                f"destination-type is {shortened(wanted_type)}", "write ANYCAST or MULTICAST"
            )
    syntax = options.syntax
    spelling = options.spelling
    for prefix, routing_type in TEMPORARY_PREFIXES.items():
        if destination.startswith(prefix):
            name = spelling.name_of(destination[len(prefix) :])
            return _temporary(
                destination,
                name,
                _routing_type(destination, routing_type, hint),
                connection,
                options,
            )
    if destination.startswith(options.dsub_prefix):
        durable_id = spelling.id_of(destination[len(options.dsub_prefix) :])
        return _durable(destination, durable_id, options)
    name, by_prefix = _without_prefix(destination, options)
    name = spelling.name_of(name)
    if is_subscribed and syntax.is_pattern(name) and DIVIDER not in without_regexes(name):
        return _pattern(destination, name, _routing_type(destination, by_prefix, hint), options)
    return _named(destination, name, _routing_type(destination, by_prefix, hint), options)


def divided(destination: str, spelling: Spelling) -> list[str]:
    """Divide a composite destination into its names; any other is one. Raises StompError."""
    parts = spelling.divided(destination)
    if len(parts) == 1:
        return parts
    names = [name.strip() for name in parts]
    wrong = ""
    if not all(names):
        wrong = "has an empty name"
    elif len(set(names)) < len(names):
        wrong = "has a name twice"
    elif len(names) > COMPOSITE_MAX:
        wrong = f"has {len(names)} names, and {COMPOSITE_MAX} are the most"
    if wrong:
        what = "commas" if spelling.between == SEPARATOR else f"'{spelling.between}'"
        raise StompError(
            f"composite destination {shortened(destination)} {wrong}",
            f"name each destination once, divided by {what}",
        )
    return names


def _without_prefix(destination: str, options: StompOptions) -> tuple[str, str | None]:
    """Return the name behind the longest prefix that fits, and the routing type that this fixes."""
    for prefix, routing_type in options.prefixes:
        if destination.startswith(prefix):
            name = destination[len(prefix) :]
            # `anycast://foo/` is the same as `anycast://foo`, as in every URL of that form.
            is_url = prefix.endswith("//") and len(name) > 1
            return name.removesuffix("/") if is_url else name, routing_type
    return destination, None


def _temporary(
    destination: str, name: str, routing_type: str | None, connection: int, options: StompOptions
) -> Target:
    """Resolve a temporary destination of a connection."""
    if DIVIDER in name:
        raise StompError(
            f"destination {shortened(destination)} names a queue of a temporary destination",
            "write /temp-queue/NAME; it has one queue",
        )
    _check(destination, name, options)
    if is_temporary(name):
        raise StompError(
            f"destination {shortened(destination)}: its name begins with {TEMPORARY}",
            "use another name; the broker adds that itself",
        )
    return Target(temporary_name(connection, name), None, routing_type)


def with_own_names(destinations: str, connection: int, options: StompOptions) -> str:
    """Return destinations, divided by commas, with names that mean the same to everybody.

    Each temporary destination of the connection becomes the queue or topic that it is.
    """
    if not options.spelling.is_plain:
        parts = options.spelling.divided(destinations)
        return SEPARATOR.join(_own_name(each, connection, options) for each in parts)
    if not any(prefix in destinations for prefix in TEMPORARY_PREFIXES):
        return destinations
    return SEPARATOR.join(
        _own_name(each, connection, options) for each in destinations.split(SEPARATOR)
    )


def _own_name(destination: str, connection: int, options: StompOptions) -> str:
    is_plain = options.spelling.is_plain
    for prefix, routing_type in TEMPORARY_PREFIXES.items():
        name = destination.strip()
        if name.startswith(prefix):
            address = plain(resolve(name, None, options, connection).address)
            if routing_type == ANYCAST:
                return (options.queue_prefix if is_plain else QUEUE) + address
            return (options.topic_prefix if is_plain else TOPIC) + address
    return destination if is_plain else canonical(destination.strip(), options)


def canonical(destination: str, options: StompOptions) -> str:
    """Return a destination as an acceptor without options spells it, for messages that are stored.

    Clients may write anything in headers, so a text that is not a destination stays unchanged.
    """
    spelling = options.spelling
    try:
        for prefix in TEMPORARY_PREFIXES:
            if destination.startswith(prefix):
                return prefix + spelling.name_of(destination[len(prefix) :])
        if destination.startswith(options.dsub_prefix):
            return destination
        name, by_prefix = _without_prefix(destination, options)
        return _PREFIXES.get(by_prefix or "", "") + spelling.name_of(name)
    except StompError:
        return destination


def respelled(destination: str, options: StompOptions) -> str:
    """Return a destination of a stored message as the clients of an acceptor spell it."""
    own = {QUEUE: options.queue_prefix, TOPIC: options.topic_prefix}
    for prefix in (QUEUE, TOPIC, *TEMPORARY_PREFIXES):
        if destination.startswith(prefix):
            name = destination[len(prefix) :]
            return own.get(prefix, prefix) + options.spelling.shown(name)
    if destination.startswith("/"):
        # An id of a durable subscription, or something with a prefix of another acceptor.
        return destination
    return options.spelling.shown(destination)


def _durable(destination: str, durable_id: str, options: StompOptions) -> Target:
    _check(destination, durable_id, options)
    return Target("", f"dsub.{durable_id}", None, durable_id)


def _pattern(
    destination: str, name: str, routing_type: str | None, options: StompOptions
) -> Target:
    """Resolve a destination with wildcards, to subscribe to."""
    syntax, spelling = options.syntax, options.spelling
    any_descendant = syntax.one_word * 2
    name = syntax.delimiter.join(
        syntax.any_words if word == any_descendant else word
        for word in words_of(name, syntax.delimiter)
    )
    wrong = wrong_with_wildcards(name, syntax)
    if wrong is not None:
        raise StompError(
            f"destination {shortened(destination)}: {wrong}",
            f"write {spelling.any_child} for one word or a part of one,"
            f" {spelling.any_descendant} or {syntax.any_words} for any number of words, and"
            f" {spelling.regex_start}REGEX{spelling.regex_end} for what a regular expression"
            " matches within a word",
        )
    return Target(name, None, routing_type or MULTICAST)


def _routing_type(destination: str, by_prefix: str | None, hint: str | None) -> str | None:
    if by_prefix and hint and by_prefix != hint:
        raise StompError(
            f"destination {shortened(destination)} is {by_prefix}, destination-type says {hint}",
            "leave destination-type out, or use a destination without a prefix",
        )
    return by_prefix or hint


def _named(destination: str, name: str, routing_type: str | None, options: StompOptions) -> Target:
    address, separator, queue = name.partition(DIVIDER)
    if not separator:
        _check(destination, name, options)
        return Target(name, None, routing_type)
    if not address or not queue or DIVIDER in queue:
        raise StompError(
            f"destination {shortened(destination)} does not name one queue of an address",
            "write ADDRESS::QUEUE",
        )
    _check(destination, address, options)
    _check(destination, queue, options)
    return Target(address, queue, routing_type)


def _check(destination: str, name: str, options: StompOptions) -> None:
    """Check a name by the engine's rule, with errors about destinations. Raises StompError."""
    if not name:
        raise StompError(
            f"destination {shortened(destination)} names nothing", "give a name after the prefix"
        )
    syntax = options.syntax
    if syntax.is_pattern(name):
        raise StompError(
            f"destination {shortened(destination)} has wildcards",
            "name one destination; wildcards are for SUBSCRIBE to queues and topics",
        )
    wrong = wrong_to_spell(name, syntax)
    if wrong is not None:
        raise StompError(f"destination {shortened(destination)}: {wrong}", "use another name")
