"""Address settings that administrators set at run time, beside those of the configuration."""

import pytest

from daybook.engine.administration import settings_changes
from daybook.engine.commands import ChangeSettings, Command, RemoveSettings, Send, SetSettings
from daybook.engine.facts import reasons
from daybook.engine.refusals import Code
from daybook.engine.state.digest import digest
from tests.support.compiled import replaces_parts
from tests.support.world import World


def attempts(world: World, address: str) -> int:
    return world.state.settings.resolve(address).max_delivery_attempts


def test_they_override_the_same_match_and_stay_over_restarts_and_reloads(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 5, "id_cache_size": 7})
    lsn = world.ok(SetSettings("#", {"max-delivery-attempts": 2}))
    (event,) = (each for each in world.journal if each.lsn == lsn)
    assert (event.name, event.reason) == ("SettingsChanged", reasons.ADMINISTRATION)
    assert attempts(world, "q") == 2
    assert world.state.settings.resolve("q").id_cache_size == 7
    world.restart()
    world.settings(all={"max_delivery_attempts": 6})
    world.settings(all={"max_delivery_attempts": 6})
    assert attempts(world, "q") == 2
    assert world.state.settings.is_live("#", "max-delivery-attempts")
    assert not world.state.settings.is_live("#", "id-cache-size")
    world.ok(RemoveSettings("#", ("max-delivery-attempts",)))
    assert attempts(world, "q") == 6
    assert not world.state.settings.live
    world.check()


def test_the_most_specific_match_decides_wherever_it_comes_from(world: World) -> None:
    world.settings(orders__eu={"max_delivery_attempts": 5})
    world.ok(SetSettings("orders.#", {"max-delivery-attempts": 2}))
    assert (attempts(world, "orders.eu"), attempts(world, "orders.us")) == (5, 2)
    world.ok(SetSettings("orders.eu", {"max-delivery-attempts": 3}))
    assert attempts(world, "orders.eu") == 3


def test_what_is_so_already_is_no_event(world: World) -> None:
    world.ok(SetSettings("q", {"no-expiry": True}))
    lsn = world.broker.lsn
    assert world.ok(SetSettings("q", {"no-expiry": True})) == 0
    assert world.broker.lsn == lsn


def test_without_keys_all_of_a_match_are_removed(world: World) -> None:
    world.ok(SetSettings("q", {"no-expiry": True, "id-cache-size": 1}))
    world.ok(RemoveSettings("q"))
    assert not world.state.settings.live


def test_they_are_in_the_digest_only_where_there_are_some(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 5})
    before = digest(world.state)
    world.ok(SetSettings("q", {"no-expiry": True}))
    assert digest(world.state) != before
    world.ok(RemoveSettings("q"))
    assert digest(world.state) == before


def test_they_take_effect_at_once(world: World) -> None:
    world.send("q", b"1")
    world.ok(
        SetSettings(
            "q", {"max-size-messages": 1, "address-full-policy": "FAIL", "id-cache-size": 0}
        )
    )
    assert world.refused(Send(0, "q", b"", b"2")).code is Code.LIMIT


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (SetSettings("q", {}), "no key"),
        (SetSettings("a.#.b", {"no-expiry": True}), "last word"),
        (SetSettings("q", {"no-expirie": True}), "did you mean 'no-expiry'?"),
        (SetSettings("q", {"no-expiry": 1}), "true or false"),
        (SetSettings("q", {"page-limit-bytes": 5}), "without a page-full-policy"),
        (RemoveSettings("q"), "match 'q' was not set at run time"),
        (RemoveSettings("#"), "match '#' was set by the configuration, not at run time"),
        (RemoveSettings("live", ("no-expiry",)), "no-expiry of match 'live' was not set"),
        (RemoveSettings("#", ("no-expiry",)), "no-expiry of match '#' was set by the conf"),
    ],
)
def test_what_is_wrong_is_refused(world: World, command: Command, words: str) -> None:
    world.settings(all={"no_expiry": True})
    world.ok(SetSettings("live", {"id-cache-size": 1}))
    assert words in world.refused(command).text


@replaces_parts
def test_their_number_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_changes, "LIVE_MATCHES_MAX", 20)
    for number in range(20):
        world.handle(SetSettings(f"q{number}", {"no-expiry": True}))
    assert world.refused(SetSettings("one-more", {"no-expiry": True})).code is Code.LIMIT
    world.ok(SetSettings("q1", {"no-expiry": False}))


def test_a_configuration_that_they_contradict_is_put_in_force_and_reported(world: World) -> None:
    world.settings(all={"page_full_policy": "DROP"})
    world.ok(SetSettings("q", {"page-limit-bytes": 5}))
    world.settings(all={"no_expiry": True})
    (notice,) = world.broker.notices
    assert "set at run time" in notice
    assert "without a page-full-policy" in notice
    # An earlier fault does not prevent other changes.
    world.ok(SetSettings("p", {"no-expiry": False}))
    world.check()


def test_matches_that_a_new_syntax_does_not_allow_are_removed(world: World) -> None:
    world.ok(SetSettings("orders.#", {"no-expiry": True}))
    world.ok(SetSettings("q", {"no-expiry": True}))
    world.ok(ChangeSettings({}, syntax=",#*"))
    assert set(world.state.settings.live) == {"q"}
    assert "'orders.#'" in world.broker.notices[0]
    world.restart()
    world.check()
