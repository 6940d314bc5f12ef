"""Sessions: bounded, over when their time is, and found by their cookie alone."""

from daybook.console.brokers import Identity
from daybook.console.sessions import (
    CONFIRMATIONS_MAX,
    IDLE_SECONDS,
    LINK_SECONDS,
    OF_A_USER_MAX,
    SESSIONS_MAX,
    WHOLE_SECONDS,
    Sessions,
)

ADA = Identity("ada", "127.0.0.1:1")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_is_found_by_its_cookie_until_it_is_idle() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    cookie, session = sessions.begin("one", ADA)
    assert sessions.find(cookie) is session
    assert sessions.find(cookie[:-1]) is None
    clock.now = IDLE_SECONDS
    # A page that renews itself keeps no session alive.
    assert sessions.find(cookie, uses=False) is session
    clock.now = IDLE_SECONDS + 1
    assert sessions.find(cookie) is None
    assert not len(sessions)


def test_a_session_ends_after_a_day_at_work() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    cookie, session = sessions.begin("one", ADA)
    while clock.now + IDLE_SECONDS < WHOLE_SECONDS:
        clock.now += IDLE_SECONDS
        assert sessions.find(cookie) is session
    clock.now = WHOLE_SECONDS + 1
    assert sessions.find(cookie) is None


def test_a_login_at_a_second_broker_keeps_the_first_and_changes_the_cookie() -> None:
    sessions = Sessions(Clock())
    before, session = sessions.begin("one", ADA)
    after, second = sessions.begin("two", Identity("bob", "x:1"), session)
    assert sessions.find(before) is None
    assert sessions.find(after) is second
    assert {name: each.user for name, each in second.identities.items()} == {
        "one": "ada", "two": "bob",
    }  # fmt: skip
    assert second.csrf != session.csrf


def test_sessions_of_a_user_and_of_all_are_bounded() -> None:
    sessions = Sessions(Clock())
    cookies = [sessions.begin("one", ADA)[0] for _ in range(OF_A_USER_MAX + 3)]
    assert [sessions.find(each) is not None for each in cookies] == [False] * 3 + [True] * (
        OF_A_USER_MAX
    )
    for number in range(SESSIONS_MAX):
        sessions.begin("one", Identity(f"user-{number}", "x:1"))
    assert len(sessions) == SESSIONS_MAX
    assert sessions.find(cookies[-1]) is None


def test_a_link_is_good_once_and_for_minutes() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    first, second = sessions.new_link(), sessions.new_link()
    assert not sessions.take_link("x")
    assert sessions.take_link(first)
    assert not sessions.take_link(first)
    clock.now = LINK_SECONDS
    assert not sessions.take_link(second)


def test_confirmations_are_bounded_and_good_once() -> None:
    _, session = Sessions(Clock()).begin("one", ADA)
    token = session.new_confirmation("one")
    assert session.confirmation(token, "two") is None
    found = session.confirmation(token, "one")
    assert found is not None
    assert [found.takes(), found.takes()] == [True, False]
    for _ in range(CONFIRMATIONS_MAX):
        session.new_confirmation("one")
    assert session.confirmation(token, "one") is None
