"""The level that events and states need."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.facts import details as d
from daybook.engine.facts import events
from daybook.engine.facts.definitions import Detail
from daybook.engine.state.apply import APPLY
from daybook.engine.state.feature_levels import KINDS, level_of, level_of_state
from daybook.engine.state.state import State
from daybook.levels import FEATURES, LEVEL, names_of, release_of

Event = tuple[int, int, bytes]
"""Kind, flags, detail."""


def packed(*found: Event) -> tuple[list[bytes], list[bytes]]:
    rows = [
        events.ROW_STRUCT.pack(*events.row(kind, flags=flags), len(detail), 3, 4)
        for kind, flags, detail in found
    ]
    return rows, [detail for _, _, detail in found if detail]


def of(kind: int, detail: Detail | None = None, flags: int = 0) -> int:
    return level_of(*packed((kind, flags, events.encode_detail(detail) if detail else b"")))


def test_what_the_first_release_wrote_needs_level_1() -> None:
    assert of(events.ROUTED) == 1
    assert of(events.ROUTED, d.RoutedDetail(queues=(1, 2), transaction="t", expires=5)) == 1
    assert of(events.QUEUE_CREATED, d.QueueDetail(name="ring_size", routing_type="multicast")) == 1
    assert (
        of(events.SETTINGS_CHANGED, d.SettingsDetail(settings={"#": {"dead-letter-address": "a"}}))
        == 1
    )
    assert of(events.DELIVERED, flags=events.PERSISTENT | events.LARGE | events.REDELIVERED) == 1


@pytest.mark.parametrize(
    ("kind", "detail", "flags"),
    [
        (events.MOVED, None, 0),
        (events.ROUTED, None, events.GROUPED),
        (events.ROUTED, None, 32),
        (events.ROUTED, d.RoutedDetail(last_values={1: "k"}), 0),
        (events.QUEUE_CREATED, d.QueueDetail(name="q", ring_size=0), 0),
        (events.QUEUE_CREATED, d.QueueDetail(name="q", filter="a = 1"), 0),
        (events.QUEUE_UPDATED, d.QueueDetail(name="q", enabled=False), 0),
        (events.ADDRESS_CREATED, d.AddressDetail(name="a", host="eu"), 0),
        (events.SETTINGS_CHANGED, d.SettingsDetail(settings={"#": {"default-ring-size": 5}}), 0),
        (events.SETTINGS_CHANGED, d.SettingsDetail(live={"#": {"max-size-bytes": 5}}), 0),
    ],
)
def test_newer_features_need_level_2(kind: int, detail: Detail | None, flags: int) -> None:
    assert of(kind, detail, flags) == 2
    plain: Event = (events.ROUTED, 0, events.encode_detail(d.RoutedDetail(transaction="x")))
    encoded = events.encode_detail(detail) if detail else b""
    assert level_of(*packed(plain, (kind, flags, encoded), plain)) == 2


def test_a_level_that_is_known_does_not_fall() -> None:
    for known in range(1, LEVEL + 1):
        assert level_of(*packed((events.ROUTED, 0, b"")), known) == known


@given(
    st.lists(
        st.sampled_from(
            [
                (events.ROUTED, 0, b""),
                (events.ROUTED, 0, events.encode_detail(d.RoutedDetail(unrouted_at=4))),
                (events.ROUTED, 0, events.encode_detail(d.RoutedDetail(transaction="unrouted_at"))),
                (
                    events.CONNECTION_CLOSED,
                    0,
                    events.encode_detail(d.ConnectionClosedDetail(text="x")),
                ),
                (events.DELIVERED, events.GROUPED, b""),
                (events.QUEUE_CREATED, 0, events.encode_detail(d.QueueDetail(name="q"))),
                (events.SHOWN, 0, b""),
            ]
        ),
        min_size=1,
    )
)
def test_many_events_need_the_highest_level_of_one(found: list[Event]) -> None:
    assert level_of(*packed(*found)) == max(level_of(*packed(each)) for each in found)


def test_a_state_from_before_levels_needs_what_it_has() -> None:
    state = State()
    assert level_of_state(state) == 1
    address = events.row(events.ADDRESS_CREATED, address=1)
    detail = events.encode_detail(d.AddressDetail(name="a", routing_types=("anycast",)))
    APPLY[events.ADDRESS_CREATED](state, 1, address, detail, b"", b"")
    queue = events.row(events.QUEUE_CREATED, address=1, queue=1)
    plain = events.encode_detail(d.QueueDetail(name="a"))
    APPLY[events.QUEUE_CREATED](state, 2, queue, plain, b"", b"")
    assert level_of_state(state) == 1
    ring = events.encode_detail(d.QueueDetail(name="b", ring_size=7))
    other = events.row(events.QUEUE_CREATED, address=1, queue=2)
    APPLY[events.QUEUE_CREATED](state, 3, other, ring, b"", b"")
    assert level_of_state(state) == 2


def test_settings_and_diverts_count_too() -> None:
    state = State()
    settings = events.encode_detail(d.SettingsDetail(settings={"#": {"expiry-delay": 5}}))
    APPLY[events.SETTINGS_CHANGED](
        state, 1, events.row(events.SETTINGS_CHANGED), settings, b"", b""
    )
    assert level_of_state(state) == 2
    state = State()
    divert = events.encode_detail(
        d.DivertDetail(name="d", address="a", forwarding_addresses=("b",))
    )
    APPLY[events.DIVERT_CREATED](state, 1, events.row(events.DIVERT_CREATED), divert, b"", b"")
    assert level_of_state(state) == 2


def test_each_kind_of_a_feature_has_its_level() -> None:
    for feature in FEATURES:
        for name in feature.kinds:
            assert KINDS[events.BY_NAME[name].number] == feature.level


def test_levels_have_releases_and_names() -> None:
    assert release_of(1) == "0.1.0"
    assert "ring queues" in names_of(2)
    for level in range(1, LEVEL + 1):
        assert names_of(level)
