"""docs/pipeline.md says what columns events have."""

from daybook.pipeline.schema import EVENT_COLUMNS
from tests.meta.drawn import schema_page


def test_the_page_is_what_the_schema_gives() -> None:
    assert schema_page.PART.is_current(), "run `make map`"


def test_every_column_is_on_the_page() -> None:
    drawn = schema_page.draw()
    for column in EVENT_COLUMNS:
        assert f"| `{column.name}` |" in drawn
        assert column.doc in drawn
