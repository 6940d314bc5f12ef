"""Which way a block goes, and that the way does not change with every block."""

import pytest

from daybook.journal.writing.commit_choice import CALM_BLOCKS, NEAR_BYTES, CommitChoice

QUICK, SLOW = 0.0001, 0.009


def commit(
    choice: CommitChoice, raw_bytes: int = 300, *, alone: bool = True, seconds: float = QUICK
) -> bool:
    """Let a block become durable; return whether near by."""
    is_near = choice.choose(raw_bytes, is_alone=alone)
    choice.note(seconds)
    return is_near


def calm() -> CommitChoice:
    """A choice for commits near by."""
    choice = CommitChoice()
    assert [commit(choice) for _ in range(CALM_BLOCKS + 2)] == [False] * CALM_BLOCKS + [True] * 2
    return choice


@pytest.mark.parametrize(("raw_bytes", "alone"), [(NEAR_BYTES + 1, True), (300, False)])
def test_one_block_of_a_crowd_ends_commits_near_by(raw_bytes: int, alone: bool) -> None:
    choice = calm()
    assert not commit(choice, raw_bytes, alone=alone)
    assert [commit(choice) for _ in range(CALM_BLOCKS)] == [False] * CALM_BLOCKS
    assert commit(choice)


def test_large_and_small_blocks_in_turn_all_go_one_way() -> None:
    choice = calm()
    ways = [
        commit(choice, NEAR_BYTES * (number % CALM_BLOCKS == 0) * 2 + 1) for number in range(99)
    ]
    assert not any(ways)


def test_a_slow_disk_is_waited_for_by_nobody() -> None:
    choice = CommitChoice()
    assert not any(commit(choice, seconds=SLOW) for _ in range(100))


def test_a_disk_that_becomes_slow_ends_commits_near_by_until_it_is_clearly_quick() -> None:
    choice = calm()
    ways = [commit(choice, seconds=SLOW) for _ in range(40)]
    assert ways == sorted(ways, reverse=True)
    assert not ways[-1]
    # A time between the two bounds changes neither way.
    assert not any(commit(choice, seconds=0.003) for _ in range(100))
    assert any(commit(choice) for _ in range(40))
    assert all(commit(choice, seconds=0.003) for _ in range(100))


def test_a_single_slow_sync_is_forgiven() -> None:
    choice = calm()
    assert commit(choice, seconds=30.0)
    assert all(commit(choice) for _ in range(10))
