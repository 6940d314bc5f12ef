"""Each confirmed event is on each node of each list that the arbiter may have."""

from daybook.replication.in_sync import READ, InSync, ListOfNodes, Progress
from daybook.replication.quorum import Acks, Quorum

LAG = 10_000
PAUSE = 1_000
NODES = ("a", "b", "c")


def make(known: InSync, *, is_kept: bool = True) -> tuple[ListOfNodes, Progress]:
    return ListOfNodes("a", NODES, known, is_kept=is_kept), Progress({"b", "c"}, LAG, 0)


def watch(
    progress: Progress, begin: int, end: int, written: int, acked: dict[str, int | None]
) -> None:
    for now in range(begin, end, 100):
        progress.look(now, written, acked)
    progress.look(end, written, acked)


def test_the_first_list_waits_for_those_that_may_yet_join() -> None:
    nodes, progress = make(InSync())
    progress.look(100, 5, {"b": 5})
    assert nodes.step(100, progress, {"b"}, PAUSE) is None
    assert nodes.counted == {*NODES}
    watch(progress, 200, LAG + 1, 5, {"b": 5})
    assert nodes.step(LAG + 1, progress, {"b"}, PAUSE) == InSync(("a", "b"), 0)
    assert nodes.counted == {*NODES}
    nodes.read(InSync(("a", "b"), 1), LAG + 2)
    assert nodes.counted == {"a", "b"}


def test_a_node_that_lags_counts_until_the_arbiter_has_said_so() -> None:
    nodes, progress = make(InSync(NODES, 7))
    progress.look(100, 5, {"b": 5, "c": 4})
    watch(progress, 200, LAG + 200, 9, {"b": 9, "c": 4})
    assert nodes.step(LAG + 200, progress, {"b"}, PAUSE) == InSync(("a", "b"), 7)
    assert nodes.counted == {*NODES}
    # No answer came: the arbiter is asked what it has.
    assert nodes.step(LAG + 300, progress, {"b"}, PAUSE) is None
    assert nodes.step(LAG + 200 + PAUSE, progress, {"b"}, PAUSE) is READ
    # The same version: the one under way may still arrive, until something else replaces it.
    nodes.read(InSync(NODES, 7), LAG + 1_300)
    assert nodes.counted == {*NODES}
    assert nodes.step(LAG + 1_300, progress, {"b"}, PAUSE) == InSync(("a", "b"), 7)
    nodes.read(InSync(("a", "b"), 8), LAG + 1_400)
    assert nodes.counted == {"a", "b"}
    assert nodes.step(LAG + 1_400, progress, {"b"}, PAUSE) is None


def test_a_node_counts_before_it_comes_on_the_list() -> None:
    nodes, progress = make(InSync(("a", "b"), 7))
    progress.look(100, 9, {"b": 9, "c": 3})
    assert nodes.step(100, progress, {"b"}, PAUSE) is None
    # It has all of what was there just now, but not yet all that is confirmed.
    progress.look(200, 12, {"b": 12, "c": 9})
    progress.look(300, 12, {"b": 12, "c": 12})
    assert nodes.step(300, progress, {"b"}, PAUSE) is None
    assert nodes.counted == {*NODES}
    assert nodes.step(400, progress, {"b", "c"}, PAUSE) == InSync(NODES, 7)


def test_a_node_that_left_the_cluster_leaves_the_list() -> None:
    nodes, progress = make(InSync((*NODES, "d"), 7))
    progress.look(100, 5, {"b": 5, "c": 5})
    assert nodes.counted == {*NODES, "d"}
    assert nodes.step(100, progress, {"b", "c"}, PAUSE) == InSync(NODES, 7)


def test_a_node_that_flaps_returns_after_a_while() -> None:
    nodes, progress = make(InSync(NODES, 7))
    watch(progress, 100, LAG + 1, 9, {"b": 9})
    assert nodes.step(LAG + 1, progress, {"b"}, PAUSE) == InSync(("a", "b"), 7)
    nodes.read(InSync(("a", "b"), 8), LAG + 2)
    for now in range(LAG + 100, 2 * LAG, 100):
        progress.look(now, 9, {"b": 9, "c": 9})
        assert nodes.step(now, progress, {"b", "c"}, PAUSE) is None
    progress.look(2 * LAG + 2, 9, {"b": 9, "c": 9})
    assert nodes.step(2 * LAG + 2, progress, {"b", "c"}, PAUSE) == InSync(NODES, 8)


def test_without_a_list_an_old_one_is_removed_before_anything_is_confirmed() -> None:
    nodes, progress = make(InSync(("a", "b"), 7), is_kept=False)
    assert not nodes.is_right
    assert nodes.step(100, progress, set(), PAUSE) == InSync((), 7)
    assert not nodes.is_right
    nodes.read(InSync((), 8), 200)
    assert nodes.is_right
    assert nodes.step(300, progress, set(), PAUSE) is None


def test_followers_that_lag_are_told_of_once_each_way() -> None:
    progress = Progress({"b", "c"}, LAG, 0)
    progress.look(100, 5, {"b": 5})
    assert progress.changes(100, None) == []
    watch(progress, 100, LAG + 1, 9, {"b": 9})
    assert progress.changes(LAG + 1, None) == [("c", False)]
    assert progress.changes(LAG + 2, None) == []
    # It has joined, and catches up.
    progress.look(LAG + 100, 9, {"b": 9, "c": 1})
    progress.look(LAG + 200, 9, {"b": 9, "c": 9})
    assert progress.changes(LAG + 200, None) == [("c", True)]


def test_followers_are_not_to_blame_for_a_leader_that_stood_still() -> None:
    progress = Progress({"b"}, LAG, 0)
    progress.look(100, 5, {"b": 1})
    progress.look(5 * LAG, 5, {"b": 1})
    assert not progress.lags("b", 5 * LAG)


def test_older_epochs_count_with_the_first_block_of_this_one() -> None:
    quorum = Quorum(Acks.MAJORITY, NODES, NODES)
    quorum.wrote(10)
    assert quorum.acknowledged("b", 9) == 0
    assert not quorum.has_all("b")
    assert quorum.acknowledged("b", 10) == 10
    assert quorum.has_all("b")
    # Its directory may be lost since.
    quorum.forget("b")
    assert not quorum.has_all("b")
    assert quorum.durable == 10


def test_with_all_the_nodes_in_sync_are_what_counts() -> None:
    quorum = Quorum(Acks.ALL, NODES, NODES)
    quorum.wrote(10)
    assert quorum.acknowledged("b", 10) == 0
    quorum.set_in_sync(frozenset({"a", "b"}))
    assert quorum.durable == 10
    quorum.set_in_sync(frozenset({"a"}))
    assert quorum.wrote(11) == 11
