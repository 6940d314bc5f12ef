"""Settlement in three steps, from a receiver to a sender of a direct address and back.

Rules: AMQP 1.0, 2.6.12 and 3.4; Interconnect, chapter 12.1.1.4.
"""

from itertools import product
from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import DistributionEntry
from daybook.protocols.amqp.wire.kinds import FIRST, RECEIVER, SECOND, SENDER, UNSETTLED
from daybook.protocols.amqp.wire.performatives import Attach, Detach, Disposition, Error, Transfer
from daybook.protocols.amqp.wire.termini import Accepted, Modified, Rejected, Released
from tests.support.amqp.peer import Peer, message
from tests.support.world import World

OUTCOMES = (Accepted(), Rejected(Error("app:bad", "it is bad")), Released(), Modified(True, True))
ANYCAST = "work"
MULTICAST = "news"


class Steps:
    """A sender of mode second, and receivers, each on a connection of its own."""

    def __init__(self, address: str, *modes: int, sends: int = SECOND) -> None:
        self.world = World()
        table = (
            DistributionEntry(prefix="work"),
            DistributionEntry(prefix="news", distribution="multicast"),
        )
        self.world.ok(c.ChangeDistributions(table))
        self.receivers = [Peer(self.world).open(f"r{at}") for at in range(len(modes))]
        for peer, mode in zip(self.receivers, modes, strict=True):
            peer.receiver(0, address, 10, settled=UNSETTLED, mode=mode)
            assert peer.hear(Attach).rcv_settle_mode == mode
        self.sender = Peer(self.world).open("s")
        self.sender.sender(0, address, mode=sends)
        self.sender.heard(Attach)
        self.sender.send(0, 0, message())
        self.settle()
        self.deliveries = [peer.hear(Transfer).delivery_id for peer in self.receivers]

    def settle(self) -> None:
        for _ in range(2):
            for peer in (self.sender, *self.receivers):
                peer.settle()

    def say(self, state: Any, at: int = 0, *, settled: bool = False) -> None:
        """A receiver says a state of what it got."""
        said = Disposition(RECEIVER, self.deliveries[at], settled=settled, state=state)
        self.receivers[at].say(said)
        self.settle()

    def confirm(self) -> None:
        """The sender settles."""
        self.sender.say(Disposition(SENDER, 0, settled=True))
        self.settle()

    def sender_hears(self) -> list[tuple[bool, Any]]:
        return [(each.settled, each.state) for each in self.sender.heard(Disposition)]

    def receiver_hears(self, at: int = 0) -> list[tuple[bool, Any]]:
        return [(each.settled, each.state) for each in self.receivers[at].heard(Disposition)]

    def outcomes(self) -> int:
        """How many ends of deliveries the journal has."""
        return len(self.world.events_named("ForwardSettled"))


def echo(state: Any) -> Any:
    return Rejected() if isinstance(state, Rejected) else state


@pytest.mark.parametrize("address", [ANYCAST, MULTICAST])
@pytest.mark.parametrize("state", OUTCOMES)
def test_the_receiver_hears_settled_when_the_sender_has_settled(address: str, state: Any) -> None:
    steps = Steps(address, SECOND)
    steps.say(state)
    assert steps.sender_hears() == [(False, state)]
    assert steps.receiver_hears() == []
    steps.confirm()
    assert steps.receiver_hears() == [(True, echo(state))]
    assert steps.sender_hears() == []
    steps.confirm()
    assert steps.receiver_hears() == []


def test_of_several_the_sender_hears_one_state_and_each_hears_that_it_settled() -> None:
    steps = Steps(MULTICAST, SECOND, SECOND, FIRST)
    steps.say(Released(), 0)
    steps.say(Accepted(), 2)
    assert steps.receiver_hears(2) == [(True, Accepted())]
    assert steps.sender_hears() == []
    steps.say(Modified(True), 1)
    assert steps.sender_hears() == [(False, Accepted())]
    assert steps.receiver_hears(0) == steps.receiver_hears(1) == []
    steps.confirm()
    assert steps.receiver_hears(0) == [(True, Released())]
    assert steps.receiver_hears(1) == [(True, Modified(True))]


@pytest.mark.parametrize(("one", "other"), [*product(range(4), repeat=2)])
def test_the_table_of_outcomes_holds_for_two_receivers(one: int, other: int) -> None:
    """Rejected, accepted, modified, released: the strongest of both is heard, when both ended."""
    strongest = next(each for each in (1, 0, 3, 2) if each in (one, other))
    steps = Steps(MULTICAST, FIRST, FIRST, sends=FIRST)
    steps.say(OUTCOMES[one], 0, settled=True)
    assert steps.sender_hears() == []
    steps.say(OUTCOMES[other], 1, settled=True)
    assert steps.sender_hears() == [(True, OUTCOMES[strongest])]


@pytest.mark.parametrize("address", [ANYCAST, MULTICAST])
def test_a_message_without_any_receiver_is_released(address: str) -> None:
    steps = Steps(address, FIRST, sends=FIRST)
    steps.say(Accepted(), settled=True)
    steps.receivers[0].say(Detach(0, closed=True))
    steps.sender_hears()
    steps.sender.send(0, 1, message())
    assert steps.sender_hears() == [(True, Released())]


@pytest.mark.parametrize("address", [ANYCAST, MULTICAST])
@pytest.mark.parametrize("state", OUTCOMES)
def test_the_outcome_of_one_receiver_is_that_of_the_sender(address: str, state: Any) -> None:
    steps = Steps(address, FIRST, sends=FIRST)
    steps.say(state, settled=True)
    assert steps.sender_hears() == [(True, state)]


def test_a_state_that_was_said_changes_no_more() -> None:
    steps = Steps(ANYCAST, SECOND)
    steps.say(Accepted())
    steps.say(Released())
    assert steps.sender_hears() == [(False, Accepted())]
    steps.confirm()
    assert steps.receiver_hears() == [(True, Accepted())]
    assert steps.sender_hears() == []


def test_a_receiver_that_settles_before_its_sender_hears_nothing_more() -> None:
    steps = Steps(ANYCAST, SECOND)
    steps.say(Accepted())
    steps.say(Accepted(), settled=True)
    assert steps.sender_hears() == [(False, Accepted())]
    steps.confirm()
    assert steps.receiver_hears() == []


def test_a_receiver_that_settles_at_once_is_heard_and_hears_nothing() -> None:
    steps = Steps(ANYCAST, SECOND)
    steps.say(Accepted(), settled=True)
    assert steps.sender_hears() == [(False, Accepted())]
    steps.confirm()
    assert steps.receiver_hears() == []


def test_a_sender_of_mode_first_settles_with_hearing() -> None:
    steps = Steps(ANYCAST, SECOND, sends=FIRST)
    steps.say(Accepted())
    assert steps.sender_hears() == [(True, Accepted())]
    assert steps.receiver_hears() == [(True, Accepted())]


def test_a_message_that_was_sent_settled_needs_no_more() -> None:
    steps = Steps(ANYCAST, SECOND)
    steps.say(Accepted(), settled=True)
    steps.sender.send(0, 1, message(), settled=True)
    steps.settle()
    steps.deliveries[0] = steps.receivers[0].hear(Transfer).delivery_id
    steps.say(Accepted())
    assert steps.receiver_hears() == [(True, Accepted())]


@pytest.mark.parametrize("is_before", [True, False])
def test_a_receiver_hears_settled_when_its_sender_dies(is_before: bool) -> None:
    steps = Steps(ANYCAST, SECOND)
    if is_before:
        steps.sender.say(Detach(0, closed=True))
    steps.say(Accepted())
    if not is_before:
        assert steps.receiver_hears() == []
        steps.sender.say(Detach(0, closed=True))
    steps.settle()
    assert steps.receiver_hears() == [(True, Accepted())]


def test_the_state_of_a_receiver_that_dies_stays_what_it_said() -> None:
    steps = Steps(MULTICAST, SECOND, SECOND)
    steps.say(Accepted(), 0)
    steps.receivers[0].say(Detach(0, closed=True))
    assert steps.sender_hears() == []
    steps.receivers[1].say(Detach(0, closed=True))
    steps.settle()
    assert steps.sender_hears() == [(False, Accepted())]
    steps.confirm()
    assert steps.receiver_hears(0) == steps.receiver_hears(1) == []


def test_a_receiver_that_dies_without_a_state_leaves_the_message_in_doubt() -> None:
    steps = Steps(ANYCAST, SECOND)
    steps.receivers[0].say(Detach(0, closed=True))
    steps.settle()
    assert steps.sender_hears() == [(False, Modified(True))]
    steps.confirm()
    assert steps.receiver_hears() == []


def test_the_journal_has_each_outcome_once() -> None:
    steps = Steps(MULTICAST, SECOND, SECOND)
    steps.say(Accepted(), 0)
    steps.say(Released(), 0)
    steps.say(Accepted(), 1)
    assert steps.outcomes() == 2
    steps.confirm()
    assert steps.outcomes() == 2
