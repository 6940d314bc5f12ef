"""The line: first come, first served, and in one place at a time."""

from daybook.engine.limits.waiting_senders import WaitingSenders

ONE, TWO, THREE, NINE = (1, 0), (2, 0), (3, 0), (9, 0)


def test_an_empty_line() -> None:
    line = WaitingSenders()
    assert line.first("a") is None
    assert line.length("a") == line.count == 0
    assert line.addresses() == []
    assert not line.must_wait(ONE, "a")
    line.leave(ONE)
    line.leave_all(1)
    assert line.address_of(ONE) is None


def test_first_come_first_served() -> None:
    line = WaitingSenders()
    for now, sender in enumerate((THREE, ONE, TWO, THREE)):
        line.stand(sender, "a", now)
    assert (line.first("a"), line.length("a")) == (THREE, 3)
    assert list(line.waiting()) == [(THREE, "a", 0), (ONE, "a", 1), (TWO, "a", 2)]
    assert not line.must_wait(THREE, "a")
    assert line.must_wait(ONE, "a")
    assert line.must_wait(NINE, "a")
    assert not line.must_wait(NINE, "b")
    line.leave(THREE)
    assert line.first("a") == ONE
    line.leave(TWO)
    line.leave(ONE)
    assert line.addresses() == []


def test_nobody_stands_in_two_places() -> None:
    line = WaitingSenders()
    line.stand(ONE, "a", 0)
    line.stand(TWO, "a", 0)
    line.stand(ONE, "b", 0)
    assert (line.address_of(ONE), line.first("a"), line.first("b")) == ("b", TWO, ONE)
    line.stand(ONE, "a", 0)
    assert line.addresses() == ["a"]
    assert line.first("a") == TWO


def test_who_is_served_need_not_wait() -> None:
    line = WaitingSenders()
    line.stand(ONE, "a", 0)
    line.serving = TWO
    assert not line.must_wait(TWO, "a")
    line.serving = None
    assert line.must_wait(TWO, "a")


def test_links_of_a_connection_wait_alone_and_leave_together() -> None:
    line = WaitingSenders()
    line.stand((1, 7), "a", 0)
    line.stand((1, 8), "b", 0)
    line.stand((2, 7), "a", 0)
    assert not line.must_wait((1, 8), "b")
    assert line.must_wait((1, 9), "a")
    line.leave((1, 8))
    assert line.addresses() == ["a"]
    line.leave_all(1)
    assert (line.first("a"), line.count) == ((2, 7), 1)
    line.leave_all(1)
