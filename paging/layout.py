"""How the journal lays out the rows of events: the table of `engine.events` in the journal's terms.

The engine knows no journal and the journal no events; here the two meet.
"""

from typing import Final

from daybook.engine import events
from daybook.journal.layout import RowLayout

LAYOUT: Final = RowLayout(
    columns=tuple((column.name, column.code, column.offset) for column in events.COLUMNS),
    heaps=events.HEAPS,
    row_bytes=events.ROW_BYTES,
    lengths_offset=events.LENGTHS_OFFSET,
    kind_column="kind",
    time_column="time",
    message_column="message",
    queue_column="queue",
    upper=events.UPPER_BITS,
)
