"""Refusals for want of a permission: the first of a place is recorded, others are counted."""

from daybook.engine.commands import RecordDenial
from daybook.engine.settings.permissions import Denial
from daybook.server.process.tally import SPAN_US
from daybook.server.users.denials import NAME_MAX, Denials
from daybook.server.users.pools import DENIALS


class Desk:
    """Denials, and what they recorded."""

    def __init__(self) -> None:
        self.recorded: list[RecordDenial] = []
        self.denials = Denials(self.recorded.append)

    def refuse(self, address: str, times: int = 1, now: int = 1, user: str = "alice") -> None:
        given = [Denial(7, user, "send", address, "", "10.0.0.1:5")] * times
        self.denials.take(given, now)
        assert given == []

    @property
    def counts(self) -> list[tuple[str, int]]:
        return [(each.address, each.count) for each in self.recorded]


def test_the_first_is_recorded_and_the_others_are_counted() -> None:
    desk = Desk()
    desk.refuse("a", 5)
    desk.refuse("a", user="bob")
    assert desk.counts == [("a", 1), ("a", 1)]
    assert desk.recorded[0] == RecordDenial(7, "alice", "send", "a", "", "10.0.0.1:5")
    desk.denials.tick(2)
    assert len(desk.counts) == 2
    desk.denials.tick(1 + SPAN_US)
    assert desk.recorded[2] == RecordDenial(0, "alice", "send", "a", "", "10.0.0.1", 4)
    desk.refuse("a", now=2 + SPAN_US)
    assert desk.counts[3:] == [("a", 1)]
    assert desk.denials.count == 7


def test_places_are_bounded() -> None:
    desk = Desk()
    assert isinstance(DENIALS.of_all, int)
    for number in range(DENIALS.of_all + 50):
        desk.refuse(f"a{number}", user=f"user{number}")
    assert len(desk.recorded) == DENIALS.of_all
    desk.denials.flush()
    assert desk.recorded[-1] == RecordDenial(count=50)


def test_nothing_is_written_while_the_disk_is_short() -> None:
    desk = Desk()
    desk.denials.is_disk_short = True
    desk.refuse("a", 3)
    desk.denials.flush()
    assert desk.recorded == []
    desk.denials.is_disk_short = False
    desk.denials.flush()
    assert desk.counts == [("a", 3)]


def test_long_names_are_cut() -> None:
    desk = Desk()
    desk.refuse("x" * 100_000)
    assert len(desk.recorded[0].address) == NAME_MAX
