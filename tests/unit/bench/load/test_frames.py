"""What the generator sends is what it later recognises, and harm does not pass unseen."""

import json
import random

import pytest

from bench.load.frames import (
    LoadError,
    SendFrames,
    check_body,
    check_receipts,
    make_body,
    message_bodies,
)


@pytest.mark.parametrize("body_bytes", [200, 256, 257, 10_000])
def test_bodies_are_json_of_the_exact_size_and_pass_their_check(body_bytes: int) -> None:
    source = random.Random(7)
    for sequence in range(200):
        body = make_body(3, sequence, body_bytes, source)
        assert len(body) == body_bytes
        assert json.loads(body)["key"] == f"03-{sequence:08d}"
        assert check_body(body, body_bytes) == (3, sequence)


def test_bodies_vary() -> None:
    source = random.Random(7)
    tails = {make_body(0, 0, 256, source)[50:] for _ in range(500)}
    assert len(tails) == 500


@pytest.mark.parametrize("place", [60, 150, 255, 35])
def test_a_changed_byte_is_found(place: int) -> None:
    body = bytearray(make_body(0, 1, 256, random.Random(1)))
    body[place] ^= 1
    with pytest.raises(LoadError, match="checksum"):
        check_body(bytes(body), 256)


def test_a_short_body_is_found() -> None:
    body = make_body(0, 1, 256, random.Random(1))
    with pytest.raises(LoadError, match="255 bytes arrived where 256"):
        check_body(body[:-1], 256)


def _frames(count: int = 50, producer: int = 2, seed: int = 1) -> SendFrames:
    return SendFrames("/queue/a", producer=producer, count=count, body_bytes=256, seed=seed)


def test_frames_have_one_length_and_ask_for_their_receipts_in_order() -> None:
    frames = _frames()
    for number in range(frames.count):
        at = number * frames.frame_bytes
        frame = bytes(frames.view[at : at + frames.frame_bytes])
        head, _, body = frame.partition(b"\n\n")
        assert head.split(b"\n") == [
            b"SEND",
            b"destination:/queue/a",
            b"persistent:true",
            b"receipt:%08d" % number,
            b"content-length:256",
        ]
        assert body.endswith(b"\0")
        assert check_body(body[:-1], 256) == (2, number)


def test_frames_depend_on_the_seed_alone() -> None:
    assert _frames().view == _frames().view
    assert _frames(seed=2).view != _frames().view
    assert _frames(producer=3).view != _frames().view


def test_sizes_that_do_not_fit_the_fields_are_refused() -> None:
    with pytest.raises(LoadError, match="at least 200"):
        SendFrames("/queue/a", producer=0, count=1, body_bytes=199, seed=1)
    with pytest.raises(LoadError, match="out of range"):
        SendFrames("/queue/a", producer=100, count=1, body_bytes=256, seed=1)


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
