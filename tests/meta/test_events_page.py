"""docs/events.md says what the table of events says."""

from daybook.engine import events
from tests.meta import events_page


def test_the_page_is_what_the_table_gives() -> None:
    assert events_page.PAGE.read_text("utf-8") == events_page.draw(), "run `make map`"


def test_every_kind_and_reason_is_on_the_page() -> None:
    page = events_page.draw()
    for event in events.EVENT_TYPES:
        assert f"| {event.number} | `{event.name}` |" in page
    for number, (name, _) in events.REASONS.items():
        assert f"| {number} | {f'`{name}`' if name else ''} |" in page


def test_numbers_are_unique_and_reasons_complete() -> None:
    numbers = {
        value
        for name, value in vars(events).items()
        if name.isupper() and isinstance(value, int) and name in _REASON_NAMES
    }
    assert numbers == set(events.REASONS)


_REASON_NAMES = {
    name
    for name in vars(events)
    if name.replace("_", "-").lower() in {text for text, _ in events.REASONS.values()}
    or name == "NO_REASON"
}
