"""The tags of deliveries are known again, and nobody can invent one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.protocols.amqp.tags import TAG_BYTES, Tags

messages = st.integers(1, (1 << 63) - 1)
texts = st.text(max_size=4)


@given(messages, st.lists(texts, max_size=4), st.binary(min_size=1, max_size=32))
def test_a_tag_is_known_again(message: int, identity: list[str], secret: bytes) -> None:
    tag = Tags(secret, *identity).tag(message)
    assert len(tag) == TAG_BYTES
    assert Tags(secret, *identity).message(tag) == message


@given(messages, st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_it_is_of_one_link(message: int, one: list[str], other: list[str]) -> None:
    found = Tags(b"secret", *other).message(Tags(b"secret", *one).tag(message))
    assert found == (message if one == other else 0)


@given(messages, st.integers(0, 8 * TAG_BYTES - 1))
def test_no_bit_of_it_can_be_another(message: int, bit: int) -> None:
    tags = Tags(b"secret", "link")
    changed = int.from_bytes(tags.tag(message)) ^ 1 << bit
    assert not tags.message(changed.to_bytes(TAG_BYTES))


def test_proofs_of_neighbours_differ() -> None:
    tags = Tags(b"secret", "link")
    assert len({tags.proof(message) for message in range(1000)}) == 1000


def test_it_is_of_one_broker() -> None:
    assert not Tags(b"a", "link").message(Tags(b"b", "link").tag(7))


def test_without_a_secret_none_is_known_again() -> None:
    assert not Tags(b"", "link").message(Tags(b"", "link").tag(7))


@pytest.mark.parametrize("tag", [None, "text", b"", bytes(8), bytes(32), 7, [bytes(16)]])
def test_other_values_are_no_tags(tag: Any) -> None:
    assert not Tags(b"secret").message(tag)
