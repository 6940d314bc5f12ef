"""Up to where two journals are the same, by their epochs."""

from daybook.journal.places import Place
from daybook.replication.epochs import FIRST, Beginning, agreed_end, begun, epoch_at_end

ONE = Beginning(1, Place(1, 100), "a")
TWO = Beginning(2, Place(1, 200), "b")


def test_journals_agree_up_to_the_shorter_end_of_their_newest_shared_epoch() -> None:
    assert agreed_end((ONE, TWO), Place(1, 900), (ONE, TWO), Place(1, 300)) == Place(1, 300)
    assert agreed_end((ONE, TWO), Place(1, 900), (ONE,), Place(1, 500)) == Place(1, 200)
    assert agreed_end((ONE,), Place(1, 900), (), Place(1, 50)) == Place(1, 50)


def test_an_epoch_of_two_leaders_is_not_shared() -> None:
    # The arbiter had lost its memory: both begin at the same place, and go different ways.
    other = TWO._replace(node="a")
    assert agreed_end((ONE, TWO), Place(1, 900), (ONE, other), Place(1, 300)) == Place(1, 200)


def test_a_node_has_nothing_of_epochs_behind_its_end() -> None:
    # It joined the leader of the second epoch, got no block of it, and leads in the third.
    three = Beginning(3, Place(1, 200), "c")
    far = Beginning(2, Place(1, 300), "b")
    assert begun((ONE, far), three) == (ONE, three)
    assert begun((ONE, TWO), three) == (ONE, three)
    assert begun((ONE, TWO), far._replace(epoch=3)) == (ONE, TWO, far._replace(epoch=3))


def test_an_epoch_ends_where_a_newer_one_begins_even_before_it() -> None:
    three = Beginning(3, Place(1, 200), "c")
    for stale in (Beginning(2, Place(1, 300), "b"), TWO):
        ours = (ONE, stale, three)
        assert agreed_end(ours, Place(1, 900), (ONE, stale), Place(1, 600)) == Place(1, 200)
        assert agreed_end(ours, Place(1, 900), ours, Place(1, 600)) == Place(1, 600)


def test_the_newest_epoch_is_that_of_the_last_block() -> None:
    assert epoch_at_end((ONE, TWO), Place(1, 201)) == TWO.epoch
    assert epoch_at_end((ONE, TWO), Place(1, 200)) == ONE.epoch
    assert epoch_at_end((), Place(1, 200)) == FIRST.epoch
