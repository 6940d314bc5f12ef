"""The generator recognises the frames that it sent, and notices damage."""

import json
import random

import pytest

from bench.load.frames import (
    LoadError,
    SendFrames,
    check_answers,
    check_body,
    make_body,
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


def _message(number: int, body: bytes) -> bytes:
    return b"%08d" % number + body


def _frames(count: int = 50, producer: int = 2, seed: int = 1) -> SendFrames:
    return SendFrames(_message, producer=producer, count=count, body_bytes=256, seed=seed)


def test_frames_have_one_length_and_number_their_messages() -> None:
    frames = _frames()
    assert frames.count * frames.frame_bytes == len(frames.view)
    for number in range(frames.count):
        at = number * frames.frame_bytes
        frame = bytes(frames.view[at : at + frames.frame_bytes])
        assert frame[:8] == b"%08d" % number
        assert check_body(frame[8:], 256) == (2, number)


def test_frames_of_unequal_length_are_refused() -> None:
    with pytest.raises(LoadError, match="unequal length"):
        SendFrames(
            lambda number, body: b"%d" % number + body,
            producer=0, count=11, body_bytes=256, seed=1,
        )  # fmt: skip


def test_frames_depend_on_the_seed_alone() -> None:
    assert _frames().view == _frames().view
    assert _frames(seed=2).view != _frames().view
    assert _frames(producer=3).view != _frames().view


def test_sizes_that_do_not_fit_the_fields_are_refused() -> None:
    with pytest.raises(LoadError, match="at least 200"):
        SendFrames(_message, producer=0, count=1, body_bytes=199, seed=1)
    with pytest.raises(LoadError, match="out of range"):
        SendFrames(_message, producer=100, count=1, body_bytes=256, seed=1)


def test_each_message_needs_one_receipt() -> None:
    check_answers(bytearray(b"\1\1\1"))
    with pytest.raises(LoadError, match="of 4 receipts 2 never came, 1 came more than once"):
        check_answers(bytearray(b"\0\1\2\0"))
