"""docs/events.md says what the table of events says."""

from daybook.engine.facts import events, reasons
from tests.meta.drawn import events_page


def test_the_page_is_what_the_table_gives() -> None:
    assert events_page.PAGE.read_text("utf-8") == events_page.draw(), "run `make map`"


def test_every_kind_and_reason_is_on_the_page() -> None:
    page = events_page.draw()
    for event in events.EVENT_TYPES:
        assert f"| {event.number} | `{event.name}` |" in page
    for number, (name, _) in reasons.REASONS.items():
        assert f"| {number} | {f'`{name}`' if name else ''} |" in page


def test_every_number_of_a_reason_has_its_text_and_there_is_no_other() -> None:
    numbers = [value for value in vars(reasons).values() if isinstance(value, int)]
    assert sorted(numbers) == sorted(reasons.REASONS)
