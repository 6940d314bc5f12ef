"""Stories of several connections as bytes, which a fuzzer can change anywhere.

A step is a kind, two numbers and some bytes. Any bytes are a story: what makes no sense is read as
something that does.
"""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from tests.fuzz.guided import conversation, grammar

SEND, BIT, TIME, LOSE, SETTLE, STALL, DISK, ADMIN = range(8)
KINDS: Final = 8
STEPS_MAX: Final = 60
CONNECTIONS: Final = 3
ONCE: Final = 250
TIMES: Final = 200
"""Bytes are sent so many times for each that the choice is above that number, else once."""
DATA_MAX: Final = 0xFFFF
WEIGHTS: Final = (SEND, SEND, SEND, SEND, BIT, TIME, LOSE, SETTLE, SETTLE, STALL, DISK, ADMIN)


class Language(NamedTuple):
    """What connections say: how they begin, in right and in wrong ways, what they say by chance,
    what they say many times, and changes of that."""

    connects: tuple[bytes, ...]
    frame: Callable[[Random], bytes]
    plain: Callable[[Random], bytes]
    changed: Callable[[bytes, Random], bytes]


STOMP: Final = Language(
    (
        b"CONNECT\n\n\0",
        b"CONNECT\naccept-version:1.1\nhost:h\n\n\0",
        b"CONNECT\naccept-version:1.2\nhost:h\nclient-id:c\n\n\0",
        b"STOMP\naccept-version:1.2\nhost:h\nheart-beat:1000,1000\nlogin:late\npasscode:x\n\n\0",
        b"CONNECT\naccept-version:1.2\nhost:h\nlogin:wrong\npasscode:x\n\n\0",
    ),
    grammar.frame, grammar.plain, grammar.changed,
)  # fmt: skip
AMQP: Final = Language(
    conversation.CONNECTS, conversation.said, conversation.said, conversation.changed
)


class Step(NamedTuple):
    """What happens next: to connection `number`, or so much of it; `choice` says the rest.

    SEND gives bytes to a connection, and everything has time to happen; BIT does not wait. TIME
    passes. LOSE ends a connection, and another one takes its place. SETTLE acknowledges a delivery.
    STALL begins or ends to read nothing. DISK begins or ends to be slow. ADMIN gives a command.
    """

    kind: int
    number: int
    choice: int
    data: bytes


def decoded(case: bytes) -> list[Step]:
    """The steps of a story."""
    steps = []
    at = 0
    while at + 5 <= len(case) and len(steps) < STEPS_MAX:
        kind, number, choice, high, low = case[at : at + 5]
        stop = at + 5 + (high << 8 | low)
        steps.append(Step(kind % KINDS, number, choice, case[at + 5 : stop]))
        at = stop
    return steps


def encoded(steps: list[Step]) -> bytes:
    """The bytes of a story."""
    parts = []
    for kind, number, choice, data in steps[:STEPS_MAX]:
        data = data[:DATA_MAX]
        parts.append(bytes((kind, number, choice, len(data) >> 8, len(data) & 0xFF)) + data)
    return b"".join(parts)


def step(chance: Random, language: Language) -> Step:
    """A step by chance."""
    kind = chance.choice(WEIGHTS)
    number = chance.randrange(CONNECTIONS)
    if kind == TIME:
        number = chance.randrange(24)
    data = b""
    if kind == SEND and chance.random() < 0.15:
        return Step(kind, number, 255, language.plain(chance))
    if kind in (SEND, BIT):
        data = b"".join(language.frame(chance) for _ in range(chance.choice((1, 1, 2, 3, 12))))
    return Step(kind, number, chance.randrange(256), data)


def story(chance: Random, language: Language) -> list[Step]:
    """A story by chance, in which all connections log in."""
    begin = [
        Step(SEND, each, 0, chance.choice(language.connects[:3])) for each in range(CONNECTIONS)
    ]
    return begin + [step(chance, language) for _ in range(chance.randint(1, 20))]


def changed_story(steps: list[Step], chance: Random, language: Language) -> list[Step]:
    """The story with one change."""
    steps = list(steps)
    at = chance.randrange(len(steps) + 1)
    how = chance.randrange(10)
    if how < 3 or not steps or at == len(steps):
        steps.insert(at, step(chance, language))
    elif how < 6:
        old = steps[at]
        if old.kind in (SEND, BIT):
            steps[at] = old._replace(data=language.changed(old.data, chance))
        else:
            steps[at] = old._replace(number=chance.randrange(256), choice=chance.randrange(256))
    elif how == 6:
        del steps[at : at + chance.choice((1, 1, 2, 5))]
    elif how == 7:
        old = steps[at]
        place = chance.randrange(len(old.data) + 1)
        steps[at : at + 1] = [
            old._replace(kind=BIT, data=old.data[:place]),
            old._replace(data=old.data[place:]),
        ]
    elif how == 8:
        steps.insert(chance.randrange(len(steps) + 1), steps[at])
    else:
        number = chance.randrange(CONNECTIONS)
        steps.insert(at, Step(SEND, number, 0, chance.choice(language.connects)))
    return steps


def mutated(case: bytes, chance: Random, language: Language) -> bytes:
    """The story with a few changes."""
    steps = decoded(case)
    for _ in range(chance.choice((1, 1, 2, 4))):
        steps = changed_story(steps, chance, language)
    return encoded(steps)


def crossed(one: bytes, other: bytes, chance: Random) -> bytes:
    """The beginning of a story and the end of another."""
    first, last = decoded(one), decoded(other)
    return encoded(
        first[: chance.randrange(len(first) + 1)] + last[chance.randrange(len(last) + 1) :]
    )


def without(case: bytes, at: int, count: int) -> bytes:
    """The story without a step, or with less in one."""
    steps = decoded(case)
    if count > 64:
        number = at * len(steps) // max(1, len(case))
        few = max(1, count * len(steps) // max(1, len(case)))
        return encoded(steps[:number] + steps[number + few :])
    for number, step in enumerate(steps):
        size = 5 + len(step.data)
        if at < size:
            place = max(0, at - 5)
            shorter = step._replace(data=step.data[:place] + step.data[place + count :])
            return encoded(steps[:number] + ([shorter] if at >= 5 else []) + steps[number + 1 :])
        at -= size
    return case


def shown(case: bytes) -> str:
    """The story for people."""
    return "\n".join(str(step) for step in decoded(case))
