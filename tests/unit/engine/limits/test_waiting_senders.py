"""The line: first come, first served, and in one place at a time."""

from daybook.engine.limits.waiting_senders import Line


def test_an_empty_line() -> None:
    line = Line()
    assert line.first("a") == line.length("a") == 0
    assert line.addresses() == []
    assert not line.must_wait(1, "a")
    line.leave(1)
    assert line.address_of(1) is None


def test_first_come_first_served() -> None:
    line = Line()
    for connection in (3, 1, 2, 3):
        line.stand(connection, "a")
    assert [line.first("a"), line.length("a")] == [3, 3]
    assert not line.must_wait(3, "a")
    assert line.must_wait(1, "a")
    assert line.must_wait(9, "a")
    assert not line.must_wait(9, "b")
    line.leave(3)
    assert line.first("a") == 1
    line.leave(2)
    line.leave(1)
    assert line.addresses() == []


def test_nobody_stands_in_two_places() -> None:
    line = Line()
    line.stand(1, "a")
    line.stand(2, "a")
    line.stand(1, "b")
    assert (line.address_of(1), line.first("a"), line.first("b")) == ("b", 2, 1)
    line.stand(1, "a")
    assert line.addresses() == ["a"]
    assert line.first("a") == 2


def test_who_is_served_need_not_wait() -> None:
    line = Line()
    line.stand(1, "a")
    line.serving = 2
    assert not line.must_wait(2, "a")
    line.serving = 0
    assert line.must_wait(2, "a")
