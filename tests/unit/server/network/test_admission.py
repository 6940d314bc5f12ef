"""Admission: connections that are accepted, and those that make room."""

import pytest

from daybook.server.network.admission import Admission, Limits, network_of


class Descriptors:
    """As many connections as a test wants."""

    connections_max = 100
    is_short = False

    def status(self) -> dict[str, object]:
        return {}


class Visitor:
    """A socket: a stranger's, until it logs in or its login is being checked."""

    def __init__(self) -> None:
        self.has_logged_in = False
        self.is_checked = False
        self.dismissed = ""

    @property
    def is_stranger(self) -> bool:
        return not self.has_logged_in and not self.is_checked

    def dismiss(self, why: str) -> None:
        self.dismissed = why


class Door:
    """An admission with small limits."""

    def __init__(self, **limits: int) -> None:
        self.limits = Limits(
            **{"per_address": -1, "pending": 10, "pending_per_address": 3} | limits
        )
        self.descriptors = Descriptors()
        self.admission = Admission(self.descriptors, lambda: self.limits, lambda: 1)  # type: ignore[arg-type]

    def enter(self, address: str = "192.0.2.1") -> Visitor:
        assert self.admission.refusal(address) == ""
        visitor = Visitor()
        self.admission.add(visitor, address)
        return visitor


def test_the_oldest_stranger_of_an_address_makes_room() -> None:
    door = Door()
    first, second, third, fourth = (door.enter() for _ in range(4))
    assert first.dismissed
    assert not any((second.dismissed, third.dismissed, fourth.dismissed))
    door.admission.remove(first, "192.0.2.1")
    door.enter("192.0.2.2")
    assert not second.dismissed
    assert door.admission.count == 4
    assert door.admission.status()["connections_dismissed"] == 1


def test_who_logged_in_is_no_stranger() -> None:
    door = Door()
    inside = [door.enter() for _ in range(3)]
    for visitor in inside:
        visitor.has_logged_in = True
    checked = [door.enter() for _ in range(3)]
    for visitor in checked:
        visitor.is_checked = True
    strangers = [door.enter() for _ in range(4)]
    assert [bool(one.dismissed) for one in strangers] == [True, False, False, False]
    assert not any(one.dismissed for one in inside + checked)
    for visitor in [*inside, *checked, *strangers]:
        door.admission.remove(visitor, "192.0.2.1")
    assert door.admission.count == 0


def test_strangers_are_bounded_all_together() -> None:
    door = Door()
    visitors = [door.enter(f"192.0.2.{number}") for number in range(11)]
    assert [bool(one.dismissed) for one in visitors] == [True] + [False] * 10


def test_connections_of_an_address_are_bounded_if_that_is_wanted() -> None:
    door = Door(per_address=2)
    visitors = [door.enter("2001:db8::1"), door.enter("2001:db8::2")]
    assert "max-connections-per-address" in door.admission.refusal("2001:db8::3")
    assert door.admission.refusal("2001:db8:0:1::3") == ""
    door.admission.remove(visitors[0], "2001:db8::1")
    assert door.admission.refusal("2001:db8::3") == ""


def test_a_full_broker_lets_strangers_make_room_and_nobody_else() -> None:
    door = Door()
    door.descriptors.connections_max = 2
    inside, stranger = door.enter(), door.enter()
    inside.has_logged_in = True
    assert door.admission.refusal("192.0.2.9") == ""
    assert stranger.dismissed
    assert not inside.dismissed
    assert "max-connections" in door.admission.refusal("192.0.2.9")


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("what:ever", "what:ever"),
    ],
)
def test_the_network_of_an_address(address: str, network: str) -> None:
    assert network_of(address) == network
