"""The rule for names of addresses and queues, the same for every way to create them.

A name that no protocol can spell would be a place that no client reaches. Names in a journal are
accepted as they are, because a journal must fold even after a rule became stricter: only new names
are checked. This module must never know which names exist.
"""

from typing import Final

from daybook.engine.names.syntax import DEFAULT, Syntax
from daybook.engine.names.words import without_regexes, words_of, wrong_with_words

NAME_BYTES_MAX: Final = 4096
"""Length of a name in UTF-8. With its prefix it has to fit into a header line of a protocol."""

DIVIDER: Final = "::"
"""Separates address and queue where both are named; and a virtual host from a name on it. No name
contains it."""

RESERVED: Final = "{},"
"""Wildcards of other brokers, and separators of several names. Those of the syntax of names come
before them."""

FOREIGN: Final = "&?>"
"""What some protocol or client cannot spell in a name (naming requirements of Artemis). Spaces and
parentheses are in names of Apollo (ADR 78)."""

HOST: Final = "default"
"""The virtual host whose names are spelled without it."""

UNKNOWN_HOST: Final = ""
"""Stands for a virtual host that does not exist, if a client asks for one."""

HOST_LENGTH_MAX: Final = 64

TEMPORARY: Final = "temp."
"""The prefix of the names of temporary destinations."""

OWNED: Final = f"{TEMPORARY}default."
"""The beginning of the names of temporary destinations, on every virtual host: the id of the
broker, as in Apollo. The id of their connection follows."""

DURABLE: Final = "dsub."
"""The prefix of the queues of durable subscriptions; the subscription's name follows."""

NUMBER: Final = "{"
"""What stands before the number in a name that the broker made unique. No name that anybody gave
ever had it, in any syntax."""

ID_DIGITS_MAX: Final = 20
"""Digits of the id of a connection, at most."""

INTERNAL: Final = "$.artemis.internal."
"""The prefix of the names of addresses and queues that the broker itself has, as in Artemis."""

RETAINED_PLACE: Final = f"{INTERNAL}retained"
"""The name of the address, and of the queue, with the retained messages of all addresses of a
virtual host."""

WILDCARD_WORDS_MAX: Final = 16
"""Words in the name of a wildcard address. Each takes memory, and time when a name is matched."""


def qualified(host: str, name: str) -> str:
    """Return the full name of something on a virtual host (ADR 58)."""
    return name if host == HOST else f"{host}{DIVIDER}{name}"


def host_and_name(full: str) -> tuple[str, str]:
    """Return the virtual host of a full name, and the name on that host."""
    host, divider, name = full.partition(DIVIDER)
    return (host, name) if divider else (HOST, full)


def plain(full: str) -> str:
    """Return the name on its virtual host of a full name."""
    return host_and_name(full)[1]


def beside(full: str, name: str) -> str:
    """Return the full name of something on the virtual host of another full name."""
    host, divider, _ = full.partition(DIVIDER)
    return f"{host}{DIVIDER}{name}" if divider else name


def numbered(full: str, number: int) -> str:
    """Return a full name that nobody else can give: another queue has the name itself (ADR 77)."""
    return f"{full}{NUMBER}{number}}}"


def unnumbered(full: str) -> str:
    """Return a full name as clients know it, without the number that makes it unique."""
    return full.partition(NUMBER)[0]


def wrong_with_host(host: str) -> str | None:
    """Return the fault in the name of a virtual host, None if it has none.

    It has only characters that mean nothing in any syntax of names.
    """
    fits = host.isascii() and host.replace("-", "").isalnum() and len(host) <= HOST_LENGTH_MAX
    if not fits or host[0] == "-":
        return (
            f"it must have 1 to {HOST_LENGTH_MAX} letters, digits and hyphens, and not begin with a"
            " hyphen"
        )
    return None


def length(name: str) -> int:
    """Return the length of a name in UTF-8, in bytes."""
    return len(name.encode("utf-8", "surrogatepass"))


def wrong_with_wildcards(name: str, syntax: Syntax = DEFAULT) -> str | None:
    """Return the fault in the name of an address that may be a wildcard address, as `wrong_with`
    does."""
    if not syntax.is_pattern(name):
        return wrong_with(name, syntax)
    wrong = wrong_with_words(name, syntax)
    words = len(words_of(name, syntax.delimiter))
    if wrong is None and words > WILDCARD_WORDS_MAX:
        wrong = f"has {words} words, and with wildcards {WILDCARD_WORDS_MAX} are the most"
    if wrong is None and length(name) > NAME_BYTES_MAX:
        wrong = f"has {length(name):,} bytes, and {NAME_BYTES_MAX:,} are the most"
    if wrong is None and DIVIDER in name:
        wrong = f"has '{DIVIDER}', which divides address and queue; write ':{{2}}' in expressions"
    if wrong is None and not name.isprintable():
        wrong = "holds control characters"
    # Whatever else is wrong with it has nothing to do with its wildcards.
    plain = without_regexes(name).replace(syntax.one_word, "-").replace(syntax.any_words, "-")
    return f"it {wrong}" if wrong else wrong_with(plain, syntax)


def wrong_with(name: str, syntax: Syntax = DEFAULT) -> str | None:
    """Return the fault in a new name and the remedy, as half a sentence; None if it has none.

    It follows the name or its key, as in "'a*' is not a name for a queue: ...".
    """
    wrong = wrong_to_spell(name, syntax)
    if wrong is not None:
        return wrong
    if name.startswith(INTERNAL):
        return f"names that begin with '{INTERNAL}' belong to the broker itself"
    for character in FOREIGN:
        if character in name and character != syntax.delimiter:
            return (
                f"it has '{character}'; not every protocol can spell names with & ? or >, so new"
                " names are without"
            )
    if is_temporary(name):
        return f"names that begin with '{TEMPORARY}' belong to temporary destinations"
    return None


def wrong_to_spell(name: str, syntax: Syntax = DEFAULT) -> str | None:
    """Return the fault in a name that need not be new, as `wrong_with` does.

    Names of earlier releases may have characters that new ones may not.
    """
    if not name:
        return "it is empty"
    if length(name) > NAME_BYTES_MAX:
        return f"it has {length(name):,} bytes, and {NAME_BYTES_MAX:,} are the most"
    if DIVIDER in name:
        return f"'{DIVIDER}' divides address and queue (ADDRESS::QUEUE)"
    if not name.isprintable():
        return "it holds control characters"
    if name != name.strip():
        return "it begins or ends with a space"
    wildcards = syntax.one_word + syntax.any_words if syntax.routed else ""
    reserved = (wildcards + RESERVED).replace(syntax.delimiter, "")
    for character in reserved:
        if character in name:
            return (
                f"'{character}' is reserved for wildcards and lists (as are {' '.join(reserved)})"
            )
    return None


def is_temporary(name: str) -> bool:
    """Whether a name belongs to temporary destinations."""
    return plain(name).startswith(TEMPORARY)


def temporary_name(connection: int, name: str) -> str:
    """Return the name of the temporary destination that a connection calls so."""
    return f"{OWNED}{connection}.{name}"


def owner_of(name: str) -> int:
    """Return the connection that owns a temporary destination; 0 for a name of another kind."""
    name = plain(name)
    if not name.startswith(OWNED):
        return 0
    number, _, rest = name[len(OWNED) :].partition(".")
    is_id = number.isascii() and number.isdigit() and len(number) <= ID_DIGITS_MAX
    # Each connection is written in one way only.
    return int(number) if rest and is_id and number[0] != "0" else 0
