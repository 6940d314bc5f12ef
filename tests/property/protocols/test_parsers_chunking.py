"""Laws of the parsers: how bytes are cut does not matter, and no bytes raise anything."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.protocols.stomp.streams import (
    BROKEN,
    CONNECTS,
    FRAMES,
    LARGE_FRAMES,
    LARGE_OPTIONS,
    cut,
    run,
)

frames = st.sampled_from(FRAMES)
well_formed = st.builds(
    lambda connect, parts: connect + b"".join(parts),
    st.sampled_from(CONNECTS),
    st.lists(frames, max_size=12),
)
pieces = st.one_of(frames, st.sampled_from(BROKEN), st.binary(max_size=20))
any_stream = st.one_of(
    st.binary(max_size=200),
    st.builds(
        lambda connect, parts: connect + b"".join(parts),
        st.sampled_from((b"", *CONNECTS)),
        st.lists(pieces, max_size=8),
    ),
)
places = st.lists(st.integers(0, 1 << 20), max_size=30)


@given(well_formed, places)
def test_cuts_do_not_matter(stream: bytes, at: list[int]) -> None:
    assert run(cut(stream, at)) == run([stream])


@given(any_stream, places)
def test_cuts_do_not_matter_when_something_is_wrong(stream: bytes, at: list[int]) -> None:
    assert run(cut(stream, at)) == run([stream])


@given(any_stream, places, st.integers(1, 5))
def test_turns_do_not_matter(stream: bytes, at: list[int], units: int) -> None:
    assert run(cut(stream, at), units=units) == run([stream])


large_stream = st.builds(
    lambda connect, parts: connect + b"".join(parts),
    st.sampled_from(CONNECTS),
    st.lists(st.sampled_from(LARGE_FRAMES) | pieces, min_size=1, max_size=6),
)


@given(large_stream, places)
def test_cuts_do_not_matter_to_chunks(stream: bytes, at: list[int]) -> None:
    assert run(cut(stream, at), LARGE_OPTIONS) == run([stream], LARGE_OPTIONS)


@given(st.sampled_from(CONNECTS), st.lists(st.sampled_from(LARGE_FRAMES), max_size=4))
def test_chunks_byte_by_byte(connect: bytes, parts: list[bytes]) -> None:
    stream = connect + b"".join(parts)
    assert run([bytes([byte]) for byte in stream], LARGE_OPTIONS) == run([stream], LARGE_OPTIONS)


@given(st.sampled_from(CONNECTS), st.lists(pieces, min_size=1, max_size=4))
def test_byte_by_byte(connect: bytes, parts: list[bytes]) -> None:
    stream = (connect + b"".join(parts))[:3000]
    assert run([bytes([byte]) for byte in stream]) == run([stream])


@given(any_stream)
def test_an_end_is_told_by_one_error_or_a_disconnect(stream: bytes) -> None:
    commands, output, ended = run([stream])
    errors = output.count(b"ERROR\nmessage:")
    disconnects = sum(
        "CloseConnection" in command and "reason=10" in command for command in commands
    )
    assert errors + disconnects == (1 if ended else 0)
