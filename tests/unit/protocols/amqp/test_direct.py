"""A sender to a direct address hears its receiver, and a source is granted as it is."""

from collections.abc import Callable
from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import LINK_DETACH, NEVER, SESSION_END, DistributionEntry
from daybook.engine.messages.annotations import BYTES_MAX
from daybook.protocols.amqp.connection import AmqpConnection
from daybook.protocols.amqp.outcomes import ERROR_BYTES_MAX
from daybook.protocols.amqp.wire.errors import NOT_ALLOWED
from daybook.protocols.amqp.wire.frames import FRAME_SIZE_MIN, frame
from daybook.protocols.amqp.wire.kinds import (
    NOT_DURABLE,
    RECEIVER,
    UNSETTLED,
    UNSETTLED_STATE,
)
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Transfer,
)
from daybook.protocols.amqp.wire.termini import Modified, Rejected
from tests.support.amqp.peer import Peer, message
from tests.support.world import World


class Pair:
    """A sender and a receiver of a direct address, each on a connection of its own."""

    def __init__(self) -> None:
        self.world = World()
        self.world.ok(c.ChangeDistributions((DistributionEntry(prefix="work"),)))
        self.receiving = Peer(self.world).open("receiving")
        self.sending = Peer(self.world).open("sending")
        self.receiving.receiver(0, "work", 10, settled=UNSETTLED)
        self.sending.sender(0, "work")
        self.sending.heard(Attach)

    def pass_on(self, state: Any, number: int = 0) -> Any:
        """Send a message, let the receiver end it, and return the state that the sender hears."""
        self.sending.send(0, number, message())
        self.receiving.settle()
        delivery = self.receiving.hear(Transfer).delivery_id
        self.receiving.say(Disposition(RECEIVER, delivery, settled=True, state=state))
        self.sending.settle()
        return self.sending.hear(Disposition).state


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_the_sender_hears_all_of_the_error_of_its_receiver(pair: Pair) -> None:
    info = {"line": 7, "where": ["a", {"b": None}], "at": b"\0\1"}
    state = Rejected(Error("app:bad", "it is bad", info))
    assert pair.pass_on(state) == state


def test_an_error_that_is_too_large_comes_without_its_map(pair: Pair) -> None:
    error = Error("app:bad", "it is bad", {"page": "x" * ERROR_BYTES_MAX})
    assert pair.pass_on(Rejected(error)) == Rejected(Error("app:bad", "it is bad"))


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (
            Rejected(Error("app:bad", "it is bad", {"page": "x" * FRAME_SIZE_MIN})),
            Rejected(Error("app:bad", "it is bad")),
        ),
        (Rejected(Error("x" * FRAME_SIZE_MIN)), Rejected()),
        (Modified(True, False, {"x-opt-page": "x" * FRAME_SIZE_MIN}), Modified(True, False)),
    ],
)
def test_what_has_no_room_in_a_frame_of_the_sender_is_left_out(
    pair: Pair, said: Any, heard: Any
) -> None:
    pair.sending.connection.max_frame_size = FRAME_SIZE_MIN
    assert pair.pass_on(said) == heard


def test_annotations_that_are_too_large_are_left_out(pair: Pair) -> None:
    state = Modified(True, True, {"x-opt-page": "x" * BYTES_MAX})
    assert pair.pass_on(state) == Modified(True, True)
    state = Modified(True, True, {"x-opt-page": "x" * (BYTES_MAX >> 1)})
    assert pair.pass_on(state, 1) == state


@pytest.mark.parametrize(
    "asked",
    [
        {"durable": UNSETTLED_STATE, "expiry_policy": NEVER},
        {"durable": UNSETTLED_STATE},
        {"expiry_policy": NEVER},
        {"timeout": 60},
    ],
)
def test_a_source_that_is_to_last_is_granted_as_one_that_does_not(asked: dict[str, Any]) -> None:
    pair = Pair()
    pair.receiving.heard(Attach)
    pair.receiving.receiver(1, "work", **asked)
    granted = pair.receiving.hear(Attach).source
    assert (granted.durable, granted.expiry_policy, granted.timeout) == (
        NOT_DURABLE, LINK_DETACH, 0,
    )  # fmt: skip


def test_another_source_is_granted_as_it_is(pair: Pair) -> None:
    source = pair.receiving.hear(Attach).source
    assert (source.durable, source.expiry_policy) == (NOT_DURABLE, SESSION_END)


def test_a_durable_subscription_is_refused(pair: Pair) -> None:
    pair.receiving.receiver(
        1, "work", durable=UNSETTLED_STATE, expiry_policy=NEVER, capabilities=("topic",)
    )
    refused = pair.receiving.hear(Detach).error
    assert refused.condition == NOT_ALLOWED
    assert "a durable subscription needs a queue" in refused.description


@pytest.mark.parametrize(
    "end",
    [
        lambda connection, now: connection.receive(frame(0, Close()), now),
        lambda connection, now: connection.receive(frame(0, End()), now),
        lambda connection, now: connection.receive(b"nonsense", now),
        lambda connection, now: connection.connection_lost(now),
        lambda connection, now: connection.dismiss("it goes", "", now),
    ],
    ids=["close", "end", "nonsense", "lost", "dismissed"],
)
def test_credit_is_taken_back_when_all_receivers_end_in_slices(
    end: Callable[[AmqpConnection, int], None],
) -> None:
    pair = Pair()
    pair.receiving.flow(0, 50)
    pair.receiving.receiver(1, "work", 50, settled=UNSETTLED)
    for number in range(100):
        pair.sending.send(0, number, message())
    pair.receiving.settle()
    pair.sending.heard(Flow)
    broker, now = pair.world.broker, pair.world.now
    broker.budget.allow(20)
    end(pair.receiving.connection, now)
    assert broker.direct.receivers
    while broker.has_more:
        broker.budget.allow(20)
        broker.go_on(now)
    pair.receiving.settle()
    pair.sending.settle()
    assert not broker.direct.receivers
    assert pair.sending.heard(Flow)[-1].drain
    states = [each.state for each in pair.sending.heard(Disposition)]
    assert states == [Modified(True, False)] * 100
