"""Logins at a broker elsewhere: wrong ones delay the address of their browser, and no other."""

import asyncio
from typing import Any

import pytest

from daybook.client.control import ControlError
from daybook.client.remote import Remote, TokenRefused
from daybook.console import brokers
from daybook.console.brokers import WRONG_DELAY_MAX_US, Broker
from daybook.console.console_config import Place
from daybook.server.users.failures import FREE_FAILURES

TOKEN = "right"
GUESSER, OTHER = "192.0.2.1:1", "192.0.2.2:1"


class World:
    """A console for a broker elsewhere, and a clock that stands still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000
        self.asked = 0
        self.is_away = False
        monkeypatch.setattr(brokers, "ask_remote", self._ask_remote)
        place = Place("far", url="controls://far.example:61614")
        self.broker = Broker(place, lambda: self.now)

    def _ask_remote(self, remote: Remote, request: Any, timeout: float) -> dict[str, Any]:
        self.asked += 1
        if self.is_away:
            raise ControlError("the broker cannot be reached")
        if remote.token != TOKEN:
            raise TokenRefused("the token is wrong", code="not-allowed")
        return {}

    def log_in(self, token: str, peer: str) -> str:
        """Return why a login is refused, "" if it is not."""
        try:
            asyncio.run(self.broker.log_in("ada", token, peer))
        except ControlError as error:
            return str(error)
        return ""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_wrong_logins_delay_their_address_and_no_other(world: World) -> None:
    for _ in range(FREE_FAILURES + 1):
        assert world.log_in("wrong", GUESSER) == "the token is wrong"
    asked = world.asked
    for token in ("wrong", TOKEN):
        assert "were wrong; try again in 1 second" in world.log_in(token, GUESSER)
    assert world.asked == asked, "the broker is not asked"
    assert world.log_in(TOKEN, OTHER) == ""
    world.now += 1_000_000
    assert world.log_in(TOKEN, GUESSER) == ""
    assert world.log_in("wrong", GUESSER) == "the token is wrong", "a success halves the failures"


def test_the_delay_grows_up_to_a_limit(world: World) -> None:
    for _ in range(30):
        assert world.log_in("wrong", GUESSER) == "the token is wrong"
        world.now += WRONG_DELAY_MAX_US
    assert world.log_in("wrong", GUESSER) == "the token is wrong"
    assert world.log_in(TOKEN, GUESSER).endswith("try again in 30 seconds")
    world.now += WRONG_DELAY_MAX_US - 1
    assert world.log_in(TOKEN, GUESSER).endswith("try again in 1 second")
    world.now += 1
    assert world.log_in(TOKEN, GUESSER) == ""


def test_many_at_a_time_do_not_get_around_the_delay(world: World) -> None:
    async def guess() -> list[Any]:
        guesses = (world.broker.log_in("ada", f"wrong {each}", GUESSER) for each in range(20))
        return await asyncio.gather(*guesses, return_exceptions=True)

    assert all(isinstance(each, ControlError) for each in asyncio.run(guess()))
    assert world.asked == FREE_FAILURES + 1


def test_a_network_of_one_user_is_one_address(world: World) -> None:
    for each in range(FREE_FAILURES + 1):
        world.log_in("wrong", f"[2001:db8::{each}]:1")
    assert "try again" in world.log_in("wrong", "[2001:db8::77]:1")
    assert world.log_in(TOKEN, "[2001:db8:1::77]:1") == ""


def test_a_broker_that_is_away_is_no_wrong_login(world: World) -> None:
    world.is_away = True
    for _ in range(FREE_FAILURES + 5):
        assert world.log_in(TOKEN, GUESSER) == "the broker cannot be reached"
    world.is_away = False
    assert world.log_in(TOKEN, GUESSER) == ""
