"""Up to where two journals are the same, by their epochs."""

from daybook.journal.places import Place
from daybook.replication.epochs import FIRST, Beginning, agreed_end, epoch_at_end

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


def test_the_newest_epoch_is_that_of_the_last_block() -> None:
    assert epoch_at_end((ONE, TWO), Place(1, 201)) == TWO.epoch
    assert epoch_at_end((ONE, TWO), Place(1, 200)) == ONE.epoch
    assert epoch_at_end((), Place(1, 200)) == FIRST.epoch
