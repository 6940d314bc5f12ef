"""A candidate leads if enough nodes that know what was confirmed have answered, or all."""

from daybook.journal.places import BEFORE_ALL, Place
from daybook.replication.epochs import Beginning
from daybook.replication.gathering import Gathering
from daybook.replication.messages import Standing

NODES = ("a", "b", "c")
OURS, THEIRS = b"ours" * 4, b"them" * 4


def standing(
    node: str, offset: int = 0, *, data_id: bytes = OURS, is_whole: bool = True
) -> Standing:
    if not offset:
        return Standing(node, 5, b"", (), BEFORE_ALL, 0, False)
    epochs = (Beginning(3, Place(1, 100), "a"),)
    return Standing(node, 5, data_id, epochs, Place(1, offset), offset, is_whole)


def gather(needed: int, *answers: Standing) -> Gathering:
    found = Gathering(answers[0], needed, NODES)
    found.counted = frozenset(NODES)
    for each in answers[1:]:
        found.answer(each)
    return found


def test_enough_nodes_that_know_what_was_confirmed() -> None:
    assert not gather(2, standing("a", 500)).is_complete
    found = gather(2, standing("a", 500), standing("b", 400))
    assert found.is_complete
    assert found.obstacle == ""


def test_nobody_is_complete_before_it_is_known_who_counts() -> None:
    found = gather(1, standing("a", 500))
    found.counted = None
    assert not found.is_complete
    # A list without this node.
    found.counted = frozenset({"b"})
    assert not found.is_complete


def test_a_new_node_is_not_one_of_enough() -> None:
    found = gather(2, standing("a", 500), standing("c", 600, is_whole=False))
    assert not found.is_complete
    found = gather(1, standing("c"))
    assert not found.is_complete
    assert found.missing == ["a", "b"]


def test_all_nodes_are_always_enough() -> None:
    found = gather(2, standing("a"), standing("b"), standing("c"))
    assert found.is_complete
    assert found.obstacle == ""


def test_who_has_more_leads() -> None:
    found = gather(2, standing("a"), standing("b", 400, is_whole=False), standing("c"))
    assert found.is_complete
    assert found.obstacle == "b has more of the journal"


def test_a_journal_of_another_cluster_neither_counts_nor_leads() -> None:
    other = standing("c", 900, data_id=THEIRS, is_whole=False)
    found = gather(2, standing("a", 500), standing("b", 500), other)
    assert found.obstacle == ""
    found = gather(2, other, standing("a", 500), standing("b", 500))
    assert found.is_foreign
    assert found.obstacle == (
        "the journal of this node is of another cluster: take its data directory away"
    )


def test_of_two_journals_nobody_can_tell_the_right_one() -> None:
    found = gather(
        2, standing("a", 500, is_whole=False), standing("b"),
        standing("c", 900, data_id=THEIRS, is_whole=False),
    )  # fmt: skip
    assert found.is_complete
    assert not found.is_foreign
    assert found.obstacle == "a, c have different journals: leave one of them its data directory"
