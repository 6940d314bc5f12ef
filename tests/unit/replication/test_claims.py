"""A node draws conclusions from the answers of the arbiter about its name."""

import pytest

from daybook.replication.arbiters.arbiter import Claim, Claimed
from daybook.replication.claims import SPARE_US, Claims, NameTaken

LEASE = 3_000_000
FREE = Claimed("arbiter", None)
TAKEN = Claimed("arbiter", Claim("7", "one.example.org", "/var/lib/daybook", "10.0.0.1:61620"))


def test_a_free_name_is_this_nodes() -> None:
    claims = Claims("shop", "b", LEASE)
    assert not claims.is_own
    assert claims.claimed(FREE, 0) == ""
    assert claims.is_own
    assert not claims.is_taken


def test_a_new_node_waits_for_the_end_of_a_dead_one() -> None:
    claims = Claims("shop", "b", LEASE)
    text = claims.claimed(TAKEN, 50)
    assert text.startswith(
        "another node of the cluster 'shop' is named 'b' too: that of the data directory"
        " /var/lib/daybook on one.example.org, at 10.0.0.1:61620; write another 'node'"
    )
    assert text.endswith("; this node waits for that")
    assert claims.claimed(TAKEN, 50 + LEASE) == ""
    assert claims.is_taken
    assert claims.claimed(FREE, 50 + LEASE + 1) == ""
    assert claims.is_own


def test_it_does_not_wait_for_one_that_lives() -> None:
    claims = Claims("shop", "b", LEASE)
    claims.claimed(TAKEN, 50)
    claims.claimed(TAKEN, 50 + 2 * LEASE + SPARE_US)
    with pytest.raises(NameTaken, match="is named 'b' too"):
        claims.claimed(TAKEN, 51 + 2 * LEASE + SPARE_US)


def test_a_node_that_was_replaced_while_it_stood_still_ends_at_once() -> None:
    claims = Claims("shop", "b", LEASE)
    claims.claimed(FREE, 0)
    with pytest.raises(NameTaken, match="write another 'node'"):
        claims.claimed(TAKEN, 1)
    assert not claims.is_own
