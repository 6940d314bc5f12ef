"""The credit of links: both ends agree whatever is on the way, and drains give it back once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.protocols.amqp.wire.credit import ReceiverCredit
from daybook.protocols.amqp.wire.errors import TRANSFER_LIMIT_EXCEEDED, AmqpError
from daybook.protocols.amqp.wire.performatives import Flow
from daybook.protocols.amqp.wire.serial import MODULUS, after
from tests.support.amqp.sender_credit import SenderCredit

NEAR_THE_END = MODULUS - 2


def flow(count: int | None = None, credit: int | None = None, drain: bool = False) -> Flow:
    return Flow(
        incoming_window=1, next_outgoing_id=0, outgoing_window=1, handle=0, delivery_count=count,
        link_credit=credit, drain=drain,
    )  # fmt: skip


def test_a_receiver_grants_and_takes_back() -> None:
    credit = SenderCredit(NEAR_THE_END)
    assert credit.flow_came(flow(None, 3)) == 3
    credit.delivery_left()
    credit.delivery_left()
    assert (credit.delivery_count, credit.link_credit) == (0, 1)
    assert credit.flow_came(flow(NEAR_THE_END, 5)) == 2
    assert credit.flow_came(flow(None, 2)) == -3
    assert credit.flow_came(flow(NEAR_THE_END, 1)) == 0
    assert credit.flow_came(flow()) == credit.link_credit == 0
    with pytest.raises(AssertionError):
        credit.delivery_left()


def test_a_drain_uses_up_what_is_left() -> None:
    credit = SenderCredit()
    credit.flow_came(flow(0, 10, drain=True))
    credit.delivery_left()
    assert credit.drain
    assert (credit.drained(), credit.link_credit, credit.delivery_count) == (9, 0, 10)
    assert credit.drained() == 0
    credit.flow_came(flow(10, 4))
    assert (credit.drain, credit.link_credit) == (False, 4)


def test_a_sender_without_credit_is_refused() -> None:
    credit = ReceiverCredit(NEAR_THE_END)
    credit.grant(3)
    for _ in range(3):
        credit.delivery_came()
    assert (credit.delivery_count, credit.link_credit) == (1, 0)
    with pytest.raises(AmqpError) as found:
        credit.delivery_came()
    assert found.value.condition == TRANSFER_LIMIT_EXCEEDED


def test_a_sender_gives_credit_back() -> None:
    credit = ReceiverCredit(0)
    credit.grant(5)
    credit.delivery_came()
    assert credit.flow_came(flow()) == credit.flow_came(flow(0)) == credit.flow_came(flow(1)) == 0
    assert (credit.flow_came(flow(3)), credit.link_credit, credit.delivery_count) == (2, 2, 3)
    with pytest.raises(AmqpError):
        credit.flow_came(flow(6))


@given(st.integers(0, MODULUS - 1), st.lists(st.sampled_from("gsrd"), max_size=60))
def test_both_ends_agree_when_nothing_is_on_the_way(first: int, story: str) -> None:
    """A receiver grants (g) and drains (d), a sender sends (s), and it arrives in order (r)."""
    sender, receiver = SenderCredit(first), ReceiverCredit(first)
    on_the_way = 0
    for step in story:
        if step == "g":
            receiver.grant(7)
            sender.flow_came(flow(receiver.delivery_count, receiver.link_credit))
        elif step == "s" and sender.link_credit:
            sender.delivery_left()
            on_the_way += 1
        elif step == "r" and on_the_way:
            receiver.delivery_came()
            on_the_way -= 1
        elif step == "d":
            while on_the_way:
                receiver.delivery_came()
                on_the_way -= 1
            unused = sender.drained()
            assert receiver.flow_came(flow(sender.delivery_count)) == unused
        assert on_the_way + sender.link_credit == receiver.link_credit
        assert after(receiver.delivery_count, on_the_way) == sender.delivery_count
