"""The layout of event rows for the journal, derived from the table in `engine.facts.events`.

The engine knows no journal and the journal knows no events; this module connects them.
"""

from typing import Final

from daybook.engine.facts import events
from daybook.journal.blocks.layout import RowLayout

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
