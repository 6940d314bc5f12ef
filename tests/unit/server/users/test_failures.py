"""Failures of addresses: the delay grows with them, and they are forgotten in time."""

from daybook.server.users.failures import (
    ADDRESSES_MAX,
    DELAY_MAX_US,
    DELAY_US,
    FORGIVEN_US,
    FREE_FAILURES,
    Failures,
)


def test_the_delay_doubles_after_some_free_failures() -> None:
    failures = Failures()
    delays = []
    for _ in range(FREE_FAILURES + 8):
        failures.note_failure("a", 1000)
        delays.append(failures.next_at("a") - 1000)
    assert all(each <= 0 for each in delays[:FREE_FAILURES])
    assert delays[FREE_FAILURES : FREE_FAILURES + 3] == [2 * DELAY_US, 4 * DELAY_US, 8 * DELAY_US]
    assert delays[-1] == DELAY_MAX_US
    assert failures.next_at("b") == 0


def test_failures_are_forgotten_after_a_time_without_new_ones() -> None:
    failures = Failures()
    for _ in range(FREE_FAILURES + 1):
        failures.note_failure("a", 0)
    failures.note_failure("a", FORGIVEN_US)
    assert failures.next_at("a") < FORGIVEN_US


def test_what_is_taken_back_delays_nothing() -> None:
    failures = Failures()
    for _ in range(FREE_FAILURES + 1):
        failures.note_failure("a", 0)
    failures.take_back("a")
    assert failures.next_at("a") == 0
    failures.note_failure("a", 0)
    assert failures.next_at("a") == 2 * DELAY_US, "the others still count"
    failures.take_back("nobody")


def test_the_number_of_addresses_is_bounded() -> None:
    failures = Failures()
    for number in range(ADDRESSES_MAX + 5):
        failures.note_failure(str(number), 0)
    assert len(failures) == ADDRESSES_MAX
