"""What somebody may see of very many objects, found in slices and kept for a while."""

from typing import NamedTuple

import pytest

from daybook.server.process import seen as seen_module
from daybook.server.process.seen import KEPT_SECONDS, KeptSights, Seen
from daybook.server.process.slices import SLICE, Slices, at_once, into


class Thing(NamedTuple):
    """An object with an id."""

    id: int


class Place:
    """Objects of which those with even ids may be seen, a clock, and which were asked for."""

    def __init__(self, count: int) -> None:
        self.now = 1000.0
        self.kept = KeptSights(lambda: self.now)
        self.every = {number: Thing(number) for number in range(1, count + 1)}
        self.asked: list[int] = []
        self.closed: set[int] = set()

    def may(self, thing: Thing) -> bool:
        """Whether an object may be seen."""
        self.asked.append(thing.id)
        return thing.id % 2 == 0 and thing.id not in self.closed

    def seen(self, key: str = "ann") -> Seen[Thing]:
        """Return what somebody may see."""
        return Seen(self.every, self.may, key, self.kept)

    def ids(self, key: str = "ann") -> list[int]:
        """Return the ids of what somebody may see."""
        self.asked.clear()
        return [each.id for each in at_once(self.seen(key).all())]


def looked(slices: Slices[object]) -> list[int]:
    """Return at how many objects each slice looked."""
    return list(into([], slices))


def test_all_are_seen_without_a_question() -> None:
    place = Place(10)
    assert [each.id for each in at_once(Seen(place.every).all())] == list(range(1, 11))
    assert at_once(Seen(place.every).of([place.every[3]])) == [place.every[3]]
    assert Seen(place.every).has(place.every[3])
    assert not Seen(place.every).has(Thing(11))


@pytest.mark.parametrize(("seconds", "asked"), [(0.0, [0, 1, 2, 3, 4]), (3600.0, [])])
def test_a_slice_asks_for_a_while(
    seconds: float, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen_module, "ASKING_SECONDS", seconds)
    place = Place(5)
    assert [len(place.asked) for _ in place.seen().all()] == asked
    assert place.asked == [1, 2, 3, 4, 5]


def test_what_was_found_is_taken_again_with_what_came_and_without_what_went() -> None:
    place = Place(10)
    assert place.ids() == [2, 4, 6, 8, 10]
    assert place.ids() == [2, 4, 6, 8, 10]
    assert not place.asked
    place.every |= {11: Thing(11), 12: Thing(12)}
    del place.every[4]
    assert place.ids() == [2, 6, 8, 10, 12]
    assert place.asked == [11, 12]
    assert place.ids() == [2, 6, 8, 10, 12]
    assert not place.asked
    assert max(looked(place.seen().all())) <= SLICE


def test_what_was_found_is_for_the_same_rights_alone() -> None:
    place = Place(10)
    place.ids()
    assert place.ids("bob") == [2, 4, 6, 8, 10]
    assert len(place.asked) == 10


def test_a_row_is_asked_for_again() -> None:
    place = Place(10)
    place.ids()
    place.closed.add(6)
    assert 6 in place.ids(), "it was found before"
    assert not place.seen().has(place.every[6]), "and has no row"
    assert place.seen().has(place.every[8])


@pytest.mark.parametrize("is_asked_often", [False, True])
def test_what_was_found_is_soon_dropped(*, is_asked_often: bool) -> None:
    place = Place(10)
    place.ids()
    if is_asked_often:
        place.now += KEPT_SECONDS / 2
        place.ids()
        assert not place.asked
    place.closed.add(6)
    place.now = 1000.0 + KEPT_SECONDS + 0.1
    place.kept.drop_old()
    assert place.ids() == [2, 4, 8, 10]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_module, "KEPT_WORDS_MAX", 12)
    place = Place(10)
    for key in ("ann", "bob", "cid"):
        place.ids(key)
    place.ids("cid")
    assert not place.asked
    place.ids("ann")
    assert place.asked, "what was found first has made room"
    monkeypatch.setattr(seen_module, "KEPT_WORDS_MAX", 4)
    place.ids("dan")
    place.ids("dan")
    assert place.asked, "too much is not kept"
