"""Stories of several connections as bytes, which a fuzzer can change anywhere.

A step is a kind, two numbers and some bytes. Any bytes are a story: what makes no sense is read as
something that does.
"""

from random import Random
from typing import Final, NamedTuple

from tests.fuzz.guided.grammar import changed, frame, plain

SEND, BIT, TIME, LOSE, SETTLE, STALL, DISK, ADMIN = range(8)
KINDS: Final = 8
STEPS_MAX: Final = 60
CONNECTIONS: Final = 3
ONCE: Final = 250
TIMES: Final = 200
"""Bytes are sent so many times for each that the choice is above that number, else once."""
DATA_MAX: Final = 0xFFFF
WEIGHTS: Final = (SEND, SEND, SEND, SEND, BIT, TIME, LOSE, SETTLE, SETTLE, STALL, DISK, ADMIN)
CONNECTS: Final = (
    b"CONNECT\n\n\0",
    b"CONNECT\naccept-version:1.1\nhost:h\n\n\0",
    b"CONNECT\naccept-version:1.2\nhost:h\nclient-id:c\n\n\0",
    b"STOMP\naccept-version:1.2\nhost:h\nheart-beat:1000,1000\nlogin:late\npasscode:x\n\n\0",
    b"CONNECT\naccept-version:1.2\nhost:h\nlogin:wrong\npasscode:x\n\n\0",
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


def step(chance: Random) -> Step:
    """A step by chance."""
    kind = chance.choice(WEIGHTS)
    number = chance.randrange(CONNECTIONS)
    if kind == TIME:
        number = chance.randrange(24)
    data = b""
    if kind == SEND and chance.random() < 0.15:
        return Step(kind, number, 255, plain(chance))
    if kind in (SEND, BIT):
        data = b"".join(frame(chance) for _ in range(chance.choice((1, 1, 2, 3, 12))))
    return Step(kind, number, chance.randrange(256), data)


def story(chance: Random) -> list[Step]:
    """A story by chance, in which all connections log in."""
    begin = [Step(SEND, each, 0, chance.choice(CONNECTS[:3])) for each in range(CONNECTIONS)]
    return begin + [step(chance) for _ in range(chance.randint(1, 20))]


def changed_story(steps: list[Step], chance: Random) -> list[Step]:
    """The story with one change."""
    steps = list(steps)
    at = chance.randrange(len(steps) + 1)
    how = chance.randrange(10)
    if how < 3 or not steps or at == len(steps):
        steps.insert(at, step(chance))
    elif how < 6:
        old = steps[at]
        if old.kind in (SEND, BIT):
            steps[at] = old._replace(data=changed(old.data, chance))
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
        steps.insert(at, Step(SEND, number, 0, chance.choice(CONNECTS)))
    return steps
