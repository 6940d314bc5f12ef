"""How far behind a leader somebody is."""

from daybook.journal.places import Place
from daybook.replication.lags import NOTES_MAX, Lags


def test_a_lag_lasts_since_the_leader_had_the_next_event() -> None:
    lags = Lags(100, 0, Place(1, 64))
    lags.note(200, 10, Place(1, 500))
    lags.note(300, 10, Place(1, 500))
    lags.note(400, 25, Place(1, 900))
    assert lags.since(25, 1_000) == 0
    assert lags.since(10, 1_000) == 600
    assert lags.since(24, 1_000) == 600
    assert lags.since(9, 1_000) == 800
    # Events of the leader after its last note are not known yet.
    assert lags.since(30, 1_000) == 0


def test_the_place_is_that_of_the_last_note_that_has_no_more() -> None:
    lags = Lags(100, 0, Place(1, 64))
    lags.note(200, 10, Place(1, 500))
    lags.note(400, 25, Place(26, 80))
    assert lags.place(9) == Place(1, 64)
    assert lags.place(10) == lags.place(24) == Place(1, 500)
    assert lags.place(25) == Place(26, 80)


def test_long_lags_cost_no_more_memory_and_are_never_shown_too_long() -> None:
    lags = Lags(0, 0, Place(1, 64))
    count = 3 * NOTES_MAX
    for each in range(1, count):
        lags.note(each * 50, each, Place(1, 64 + each))
    assert len(lags._lsns) <= NOTES_MAX
    for behind in (1, 100, count // 2, count - 2):
        right = (count - behind - 1) * 50
        assert 0 <= lags.since(behind, count * 50) <= right
    # The newest notes are whole.
    assert lags.since(count - 2, count * 50) == 50
