"""What `journal trail` answers about a sample of messages, to see that damage changes no answer.

Catalogs only save time: with a damaged one every answer must be that of the journal. Reads the data
directory only; must never know what was damaged.
"""

import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from daybook.engine.facts.events import MESSAGE
from daybook.errors import DaybookError
from daybook.history.catalogs import Catalogs
from daybook.history.scan import event_at
from daybook.journal.blocks.format import Damage
from daybook.paging.catalogs.catalog_file import CatalogFile
from daybook.recovery.readonly import journal_disk
from daybook.tools.trail import Trail, follow

QUESTIONS: Final = 5
Answer = Trail | str


def messages_of(data: Path, catalog: Path, chance: random.Random) -> list[int]:
    """Return a sample of messages to which something happened in the part of the journal that a
    sound catalog is about. Raises JournalError."""
    try:
        told = CatalogFile(catalog).told
    except Damage:
        return []
    disk = journal_disk(data)
    sample = [chance.randint(told.first_lsn, told.last_lsn) for _ in range(QUESTIONS)]
    events = [event_at(disk, lsn) for lsn in sample]
    # An event without a message is a question, too: the answer is that it is none.
    return [
        (event.row[MESSAGE] if event is not None else 0) or lsn
        for event, lsn in zip(events, sample, strict=True)
    ]


def answers(data: Path, messages: Sequence[int]) -> list[Answer]:
    """Return the trail of each message, or the sentence that there is none."""
    disk = journal_disk(data)
    with closing(Catalogs(data, disk)) as catalogs:
        return [_answer(data, message, catalogs) for message in messages]


def _answer(data: Path, message: int, catalogs: Catalogs) -> Answer:
    try:
        return follow(catalogs.disk, message, data, catalogs)
    except DaybookError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
