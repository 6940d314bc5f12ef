"""The windows of a session: both ends agree whatever is on the way, and none is overrun."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.protocols.amqp.wire.errors import WINDOW_VIOLATION, AmqpError
from daybook.protocols.amqp.wire.performatives import Begin, Flow
from daybook.protocols.amqp.wire.serial import MODULUS, after
from daybook.protocols.amqp.wire.windows import SessionWindows

NEAR_THE_END = MODULUS - 3


def begin(first: int = 5, incoming: int = 2, outgoing: int = 9) -> Begin:
    return Begin(next_outgoing_id=first, incoming_window=incoming, outgoing_window=outgoing)


def flow(seen: int | None, incoming: int, following: int = 5, outgoing: int = 9) -> Flow:
    return Flow(
        next_incoming_id=seen, incoming_window=incoming, next_outgoing_id=following,
        outgoing_window=outgoing,
    )  # fmt: skip


def test_transfers_of_the_peer_use_up_its_window() -> None:
    windows = SessionWindows(begin(NEAR_THE_END), 2, 0)
    windows.transfer_came()
    windows.transfer_came()
    assert (windows.next_incoming_id, windows.incoming_window) == (MODULUS - 1, 0)
    assert windows.remote_outgoing_window == 7
    with pytest.raises(AmqpError) as found:
        windows.transfer_came()
    assert found.value.condition == WINDOW_VIOLATION
    windows.widen()
    windows.transfer_came()
    assert (windows.next_incoming_id, windows.incoming_window) == (0, 1)


def test_transfers_of_the_broker_use_up_the_room() -> None:
    windows = SessionWindows(begin(incoming=2), 9, NEAR_THE_END)
    windows.transfer_left()
    assert windows.outgoing_room == 1
    windows.flow_came(flow(NEAR_THE_END, 5), NEAR_THE_END)
    assert windows.outgoing_room == 4
    windows.flow_came(flow(None, 5), NEAR_THE_END)
    assert windows.outgoing_room == 4
    windows.flow_came(flow(NEAR_THE_END + 1, 5), NEAR_THE_END)
    assert windows.outgoing_room == 5
    windows.flow_came(flow(NEAR_THE_END, 0, following=77, outgoing=3), NEAR_THE_END)
    assert (windows.outgoing_room, windows.remote_incoming_window) == (0, -1)
    assert (windows.next_incoming_id, windows.remote_outgoing_window) == (77, 3)
    with pytest.raises(AssertionError):
        windows.transfer_left()


def test_a_peer_cannot_have_seen_what_was_not_sent() -> None:
    windows = SessionWindows(begin(), 9, 0)
    with pytest.raises(AmqpError) as found:
        windows.flow_came(flow(1, 5), 0)
    assert found.value.condition == WINDOW_VIOLATION


@given(
    st.integers(0, MODULUS - 1), st.integers(1, 9), st.lists(st.sampled_from("srf"), max_size=60)
)
def test_no_transfer_is_beyond_the_window_of_its_receiver(
    first: int, size: int, story: str
) -> None:
    """The broker sends (s), its peer receives in order (r) and says so (f), late or early."""
    sender = SessionWindows(begin(incoming=size), 9, first)
    receiver = SessionWindows(begin(first), size, 5)
    on_the_way = 0
    for step in story:
        if step == "s" and sender.outgoing_room:
            sender.transfer_left()
            on_the_way += 1
        elif step == "r" and on_the_way:
            receiver.transfer_came()
            on_the_way -= 1
        elif step == "f":
            receiver.widen()
            sender.flow_came(flow(receiver.next_incoming_id, receiver.incoming_window), first)
        assert on_the_way <= receiver.incoming_window
        assert after(receiver.next_incoming_id, on_the_way) == sender.next_outgoing_id
        assert on_the_way + sender.outgoing_room <= receiver.incoming_window
