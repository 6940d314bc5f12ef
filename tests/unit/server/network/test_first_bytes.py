"""Telling protocols apart by the first bytes of a peer."""

import pytest

from daybook.protocols.registry import OFFERS
from daybook.server.network.first_bytes import (
    FOREIGN,
    NEEDS_MORE,
    Unclear,
    of_subprotocol,
    recognised,
)

SPOKEN = [offer for offer in OFFERS.values() if offer.beginnings]


@pytest.mark.parametrize("offer", SPOKEN, ids=lambda offer: str(offer.scheme))
def test_a_beginning_is_known_as_soon_as_it_is_whole(offer: object) -> None:
    for beginning in offer.beginnings:  # type: ignore[attr-defined]
        for size in range(len(beginning)):
            assert recognised(SPOKEN, beginning[:size]) is NEEDS_MORE
        for more in (b"", b"\0", b"anything" * 1000):
            assert recognised(SPOKEN, beginning + more) is offer


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1", b"ABORT", b"AMQ ", b"CONNECs", b"connect", b"\0", b"\x16\x03", b"X"]
)
def test_other_bytes_are_foreign_at_the_first_that_shows_it(said: bytes) -> None:
    assert recognised(SPOKEN, said) is FOREIGN


def test_no_beginning_is_that_of_two_protocols() -> None:
    every = [(each, offer) for offer in SPOKEN for each in offer.beginnings]
    for one, offer in every:
        for other, another in every:
            assert offer is another or not one.startswith(other)


def test_nothing_longer_than_a_beginning_waits_for_more() -> None:
    longest = max(len(each) for offer in SPOKEN for each in offer.beginnings)
    assert all(
        not isinstance(recognised(SPOKEN, each), Unclear)
        for offer in SPOKEN
        for beginning in offer.beginnings
        for each in [(beginning + b"x" * longest)[:longest]]
    )


def test_a_subprotocol_names_its_protocol() -> None:
    assert of_subprotocol(SPOKEN, "amqp").scheme == "amqp"
    assert of_subprotocol(SPOKEN, "v11.stomp").scheme == "stomp"
