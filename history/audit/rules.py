"""The rules that an audit asks, and what it says when one is broken (ADR 65).

Each rule is a name, the place where it is written, and a sentence. The functions of the engine
decide what it demands; the modules beside this one call them. Must never know events.
"""

from typing import Final, NamedTuple, TypeAlias

import msgspec


class Rule(NamedTuple):
    """A rule: its name, where it is written, and what it says."""

    name: str
    source: str
    says: str


class Breach(msgspec.Struct, frozen=True):
    """An event that a rule does not allow.

    `lsns` are the events that prove it, in order, the event itself among them. `message` is 0 and
    names are empty where the event is about none.
    """

    rule: str
    source: str
    lsn: int
    text: str
    lsns: tuple[int, ...]
    message: int = 0
    queue: str = ""
    address: str = ""


Wrong: TypeAlias = tuple[Rule, str, tuple[int, ...]]
"""A broken rule, why, and earlier events that prove it."""

FITS: Final = Rule("fits", "ADR 2", "an event fits the state before it")
KNOWN: Final = Rule("known", "DESIGN 4", "kinds and reasons are those that the engine has")
NUMBERED: Final = Rule("numbered", "ADR 23", "an id is given once, in order, by the event it names")
NAMED_ONCE: Final = Rule("named-once", "ADR 32", "a name stands for one address, or one queue")
CHANGED: Final = Rule(
    "changed", "DESIGN 4", "an event that changes a thing says all that it changes"
)
TIME: Final = Rule("time", "ADR 65", "times do not go back, and are not in the future")
SENDER: Final = Rule("sender", "DESIGN 4", "messages come from connections that are open")
COLUMNS: Final = Rule(
    "facts", "DESIGN 4", "address, priority and persistence of a message never change"
)
ROUTING: Final = Rule(
    "routing", "ADR 35", "a message enters the queues that bindings and filters choose"
)
EXPIRY_SET: Final = Rule("expiry-set", "ADR 39", "settings limit when a message expires")
PAUSED: Final = Rule("paused", "DESIGN 4", "nothing is delivered from a queue that is paused")
WAITING: Final = Rule("waiting", "DESIGN 12", "a queue waits for its consumers before it delivers")
EXPIRED: Final = Rule("expired", "ADR 39", "nothing is delivered after its time, or expires before")
ORDER: Final = Rule(
    "order",
    "DESIGN 12",
    "the highest priority is delivered first, and then in the order of arrival",
)
FILTERED: Final = Rule("filtered", "ADR 43", "a consumer gets what passes its filter")
HOLDER: Final = Rule("exclusive", "DESIGN 12", "an exclusive queue delivers to one consumer")
TAKER: Final = Rule("taker", "DESIGN 4", "a delivery, and its end, is of the consumer it names")
READING: Final = Rule("reading", "ADR 44", "a browser, and a non-destructive queue, take nothing")
GROUP: Final = Rule("group", "ADR 48", "a message goes to the consumer that has its group")
ENDED: Final = Rule(
    "ended", "DESIGN 4", "what a connection had ends for the reason for which the connection does"
)
COUNT: Final = Rule("count", "ADR 24", "the delivery count grows by one for each attempt")
ENDING: Final = Rule("ending", "ADR 34", "what follows a failed delivery is what its end means")
NOTED: Final = Rule(
    "annotated", "ADR 100", "a message has what its consumers noted on it, and so has its copy"
)
AUTOMATIC: Final = Rule(
    "automatic", "ADR 34", "a consumer acknowledges always itself, or never, at the delivery"
)
TOO_EARLY: Final = Rule("too-early", "ADR 25", "a dead letter had its last attempt")
HELD: Final = Rule("held", "ADR 25", "a message is held only if it has to leave and cannot")
DROPPING: Final = Rule("dropped", "ADR 80", "a message is dropped for a reason that was there")
DIVERTS: Final = Rule("diverted", "ADR 47", "each divert that takes a message makes its copies")
ONCE: Final = Rule("duplicate", "DESIGN 7", "a message with a duplicate id is taken once")
COPY: Final = Rule("copy", "ADR 25", "a copy is what its original was, where the settings say")
REMOVAL: Final = Rule("removal", "ADR 31", "a message is removed for a reason that was there")
REQUESTED: Final = Rule(
    "requested", "ADR 56", "what an administrator did is covered by an Administered"
)
SCHEDULE: Final = Rule(
    "schedule", "ADR 39", "a message is set aside until the time that its sender asked for"
)
LAST_VALUE: Final = Rule(
    "last-value", "ADR 45", "a message replaces the one before with the same value"
)
DUE: Final = Rule("due", "ADR 39", "a scheduled message is ready when its time has come")
COMMIT: Final = Rule("commit", "ADR 2", "a transaction is all of its events, and nothing else")
CHUNKS: Final = Rule("chunks", "ADR 9", "a large message has all of its chunks")
ADMITTED: Final = Rule("admitted", "ADR 32", "a queue takes the consumers that it may have")
LIFETIME: Final = Rule(
    "lifetime", "ADR 102", "a queue that nobody uses stays for its time, and its owner ends once"
)
PAGING: Final = Rule("paging", "ADR 10", "paging begins and ends in turn, at the size recorded")
HISTORY: Final = Rule("history", "ADR 49", "what a new queue gets of before is in a history")
DIRECT: Final = Rule(
    "direct", "ADR 109", "a name is a direct address if the distributions in force make it one"
)
FORWARDED: Final = Rule(
    "forwarded", "ADR 109", "a message to a direct address goes to whom its distribution chooses"
)
EPOCHS: Final = Rule(
    "epochs", "ADR 118", "each lead of a cluster has an epoch, newer than those of all before"
)
CONSERVED: Final = Rule(
    "conserved", "ADR 65", "what was in a queue or entered it left it, or is still there"
)

RULES: Final = tuple(each for each in tuple(globals().values()) if isinstance(each, Rule))
