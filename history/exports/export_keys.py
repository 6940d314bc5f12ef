"""The changes of the signing key that an export takes along, so that one key of its journal proves
it, whichever was in use in its range (ADR 66).

They come from all of the journal: the range may lie between two changes. Blocks without such events
are not read where a footer says so. Only reads.
"""

from collections.abc import Callable
from typing import Final, cast

from daybook.engine.facts import details, events
from daybook.engine.facts.events import KIND
from daybook.engine.facts.kinds import ENDING_A_SOURCE
from daybook.history.event_finder import EventFinder
from daybook.history.search import Clause, Search
from daybook.history.verification.verify_work import ends_a_source
from daybook.journal.disk import Disk
from daybook.recovery.signing.export_proof import Changed

_WANTED: Final = ENDING_A_SOURCE | {events.SIGNING_KEY_CHANGED}


def changes_of_key(disk: Disk, note: Callable[[str], None]) -> tuple[list[Changed], int]:
    """Return the changes of the signing key in a journal, in order, and the event behind which its
    own history begins: earlier statements by a source of it name another data directory.

    `note` is called with a sentence for each segment that cannot be read; an export needs no
    segment but those of its range.
    """
    found: list[Changed] = []
    begun = 0

    def unreadable(name: str, error: Exception) -> None:
        note(
            f"changes of the signing key in {name} are not in the export, because it cannot be "
            f"read: {error}. If there are any, verify the export with the key of each period"
        )

    search = Search(Clause(_WANTED), unreadable=unreadable)
    for event in EventFinder(disk).find(search):
        if event.row[KIND] in ENDING_A_SOURCE:
            if ends_a_source(event.row[KIND], event.detail):
                found, begun = [], event.lsn
            continue
        detail = events.decode_detail(event.row[KIND], event.detail)
        change = cast(details.KeyChangeDetail, detail)
        found.append(
            Changed(
                event.lsn, change.old, change.new, change.time,
                change.signature_old, change.signature_new,
            )
        )  # fmt: skip
    return found, begun
