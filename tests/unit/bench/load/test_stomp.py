"""The STOMP of the load generator: its frames, and its reading of answers."""

import pytest

from bench.load.frames import LoadError
from bench.load.stomp import StompWire, ack_ids, check_receipts, message_bodies


def test_a_send_frame_is_durable_and_asks_for_its_receipt() -> None:
    wire = StompWire.__new__(StompWire)
    frame = wire.message("/queue/a", 7, b"body")
    assert frame == (
        b"SEND\ndestination:/queue/a\npersistent:true\nreceipt:00000007\ncontent-length:4\n\nbody\0"
    )


def _receipt(number: int) -> bytes:
    return b"RECEIPT\nserver:x\nreceipt-id:%08d\n\n\0" % number


def test_receipts_may_come_in_any_order_and_cut_but_each_once() -> None:
    stream = b"\n".join(_receipt(number) for number in (2, 0, 1))
    check_receipts([stream[:30], stream[30:]], 3)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((0, 2), "1 never came, 0 came more than once"),
        ((0, 1, 2, 1), "0 never came, 1 came more than once"),
        ((0, 0, 2), "1 never came, 1 came more than once"),
        ((0, 1, 2, 3), "expected a RECEIPT"),
    ],
)
def test_receipts_that_are_missing_doubled_or_invented_are_found(
    numbers: tuple[int, ...], said: str
) -> None:
    with pytest.raises(LoadError, match=said):
        check_receipts([_receipt(number) for number in numbers], 3)


def test_bodies_are_cut_out_of_message_frames() -> None:
    block = b"MESSAGE\nack:1\n\none\0\nMESSAGE\nack:2\n\ntwo\0"
    assert message_bodies(block) == [b"one", b"two"]


def test_a_frame_that_is_no_message_is_found() -> None:
    with pytest.raises(LoadError, match="expected a MESSAGE"):
        message_bodies(b"MESSAGE\nack:1\n\none\0RECEIPT\nreceipt-id:1\n\n\0")


def test_a_frame_without_an_ack_header_is_found() -> None:
    with pytest.raises(LoadError, match="without an ack header"):
        ack_ids(b"MESSAGE\nack:1\n\none\0MESSAGE\nmessage-id:2\n\ntwo\0")
