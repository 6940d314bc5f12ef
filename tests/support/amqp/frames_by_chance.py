"""Frames of an open connection by chance: right ones, nearly right ones, and few that are wrong.

Numbers are small, so that links, deliveries and transactions of one frame are met by others.
"""

import random
from typing import Any, Final

from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.writer import section_of
from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
)
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import (
    Accepted,
    Coordinator,
    Declare,
    Discharge,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
    TransactionalState,
)
from tests.support.amqp.peer import message

ADDRESSES: Final = ("a", "topic://t", "a::q", "", "queue://b", "bad{", "temp.default.99.x", None)
TXN_IDS: Final = tuple(number.to_bytes(8, "big") for number in range(4))
STATES: Final[tuple[Any, ...]] = (
    None, Accepted(), Released(), Rejected(), Modified(True), Modified(undeliverable_here=True),
    Modified(message_annotations={"n": 1}),
    *(TransactionalState(each, Accepted()) for each in TXN_IDS),
)  # fmt: skip


def a_source(chance: random.Random) -> Any:
    """A source, or none."""
    return chance.choice(
        [
            None,
            Source(
                chance.choice(ADDRESSES),
                durable=chance.randrange(3),
                expiry_policy=chance.choice(
                    ["link-detach", "session-end", "connection-close", "never"]
                ),
                timeout=chance.choice([0, 1]),
                dynamic=chance.random() < 0.2,
                distribution_mode=chance.choice([None, "copy", "move"]),
                filter=chance.choice(
                    [
                        None,
                        {"s": Described(Symbol("apache.org:selector-filter:string"), "n > 1")},
                        {"s": Described(0x468C00000004, "((")},
                        {"x": Described(Symbol("unknown"), [1])},
                    ]
                ),
                capabilities=chance.choice([(), ("topic",), ("shared",), ("shared", "global")]),
            ),
        ]
    )


def a_target(chance: random.Random) -> Any:
    """A target, a coordinator, or none."""
    return chance.choice(
        [
            None,
            Coordinator(),
            Target(chance.choice(ADDRESSES), dynamic=chance.random() < 0.2),
            Target(chance.choice(ADDRESSES)),
        ]
    )


def an_unsettled_map(chance: random.Random) -> dict[bytes, Any] | None:
    """Tags of deliveries that there may have been, with their states."""
    if chance.random() < 0.5:
        return None
    tags = [chance.randrange(200).to_bytes(8, "big") for _ in range(9)]
    data = [COMPOSITES.encoded(chance.choice(STATES[1:])) for _ in tags]
    return {
        tag: Reader(each, 0, len(each)).value() for tag, each in zip(tags, data, strict=True)
    } | {b"x": None}


def a_payload(chance: random.Random) -> bytes:
    """The bytes of a transfer behind its performative."""
    return chance.choice(
        [
            message(b"x"), message("text", durable=True), message({"a": 1}), b"", b"\0\x53\x75",
            bytes(chance.randrange(256) for _ in range(chance.randrange(30))),
            section_of(0x77, COMPOSITES.encoded(Declare())),
            section_of(0x77, COMPOSITES.encoded(Discharge(chance.choice(TXN_IDS), True))),
            section_of(0x77, COMPOSITES.encoded(Discharge(chance.choice(TXN_IDS)))),
            message(bytes(3000)),
        ]
    )  # fmt: skip


def a_frame(chance: random.Random) -> bytes:
    """A frame."""
    handle, channel = chance.randrange(4), chance.randrange(2)
    number = chance.randrange(6)
    kind = chance.randrange(12)
    payload = b""
    said: Any
    if kind < 2:
        said = Attach(
            f"l{chance.randrange(4)}|{chance.choice(['global', '1', ''])}", handle,
            chance.choice([SENDER, RECEIVER]), snd_settle_mode=chance.randrange(3),
            rcv_settle_mode=chance.randrange(2), source=a_source(chance), target=a_target(chance),
            unsettled=an_unsettled_map(chance), initial_delivery_count=0,
            properties=chance.choice([None, None, {"priority": number}]),
        )  # fmt: skip
    elif kind < 5:
        said = Transfer(
            handle, chance.choice([number, None]), b"t", 0, chance.choice([None, True, False]),
            chance.random() < 0.3, state=chance.choice(STATES), aborted=chance.random() < 0.1,
            rcv_settle_mode=chance.choice([None, None, 0, 1]), resume=chance.random() < 0.1,
        )  # fmt: skip
        payload = a_payload(chance)
    elif kind < 7:
        said = Flow(
            next_incoming_id=chance.choice([None, number]),
            incoming_window=chance.choice([0, 1, 99]),
            next_outgoing_id=number, outgoing_window=9,
            handle=chance.choice([None, handle]), delivery_count=chance.choice([None, number]),
            link_credit=chance.choice([None, 0, 5]), drain=chance.random() < 0.3,
            echo=chance.random() < 0.3,
        )  # fmt: skip
    elif kind < 9:
        said = Disposition(
            chance.choice([SENDER, RECEIVER]),
            number,
            chance.choice([None, number + 2, 0]),
            chance.random() < 0.7,
            chance.choice(STATES),
        )
    elif kind == 9:
        said = Detach(handle, chance.random() < 0.5)
    elif kind == 10:
        said = chance.choice(
            [
                End(), Begin(next_outgoing_id=number, incoming_window=9, outgoing_window=9),
                Begin(next_outgoing_id=number, incoming_window=9, outgoing_window=9),
            ]
        )  # fmt: skip
    else:
        said = chance.choice([Close(), Open("again"), *[Detach(handle)] * 8])
    return frame(channel, said, payload)
