"""Each mistake that is planted into whole nodes is found by a round that is made for it."""

import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.crash.machines.campaign import Campaign, campaign
from tests.crash.machines.cluster import Libraries
from tests.crash.machines.mishaps import (
    Bad,
    come_back_empty_beside_one_that_lags,
    isolate_leader,
    leave_what_one_follower_has,
    wake_broker_before_its_node,
)
from tests.crash.machines.spaces import NoSpaces, Spaces
from tests.support.arbiters.etcd_process import ETCD, MISSING
from tests.support.compiled import replaces_parts

PATIENCE_SECONDS: Final = 60.0
TRIES: Final = 6
"""A mistake does harm only in some rounds: when the leader confirms at the right moment."""

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(ETCD is None, reason=MISSING),
    pytest.mark.timeout(900),
    replaces_parts,
]


FOUND: Final[dict[str, tuple[tuple[str, ...], Callable[[Bad], None], str]]] = {
    "ack before the sync": (
        ("acknowledges_before_sync",), leave_what_one_follower_has, "not in the journal|came back",
    ),
    "an empty node counts": (
        ("counts_though_it_is_empty",), come_back_empty_beside_one_that_lags,
        "not in the journal|came back",
    ),
    "lease not looked at": (
        ("looks_at_no_lease",), wake_broker_before_its_node, "came after|came back|came again",
    ),
    "no fencing": (
        # Two lead without an end, the events of one of them are nowhere else, and clients wait.
        ("fences_nobody",), isolate_leader,
        "not in the journal|came back|came after|came again|waited in vain",
    ),
    "tail kept": (("keeps_its_tail",), isolate_leader, "waited in vain for the followers"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_a_planted_mistake_is_found(
    tmp_path: Path, libraries: Libraries, seed: int, name: str
) -> None:
    mistakes, mishap, text = FOUND[name]
    for number in range(TRIES):
        (folder := tmp_path / str(number)).mkdir()
        with ExitStack() as stack:
            made = campaign(folder, spaces(), libraries, seed + number, *mistakes)
            try:
                rounds = stack.enter_context(made)
            except AssertionError as error:
                # On a busy machine two may lead before all follow; that proves nothing.
                print(error)
                continue
            rounds.cluster.patience = PATIENCE_SECONDS
            try:
                one_round(rounds, mishap)
            except AssertionError as error:
                if re.search(text, str(error)):
                    return
                raise
    pytest.fail(f"{TRIES} rounds did not find it")


def one_round(rounds: Campaign, mishap: Callable[[Bad], None]) -> None:
    rounds.round(mishap)
    rounds.finish()


def spaces() -> Spaces:
    """Return the network; on the loopback these rounds cannot be made."""
    try:
        return Spaces()
    except NoSpaces as error:
        pytest.skip(f"there are no namespaces, in which one node stays cut off: {error}")
