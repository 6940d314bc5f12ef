"""The changes of the signing key that an export takes along, so that one key of its journal proves
it, whichever was in use in its range (ADR 66).

They come from all of the journal: the range may lie between two changes. Blocks without such events
are not read where a footer says so. Only reads.
"""

from collections.abc import Callable
from itertools import zip_longest
from typing import Final, cast

from daybook.engine.facts import details, events
from daybook.engine.facts.events import KIND
from daybook.engine.facts.kinds import ENDING_A_SOURCE
from daybook.history.scan import events_of, kinds_mask, wanted_blocks
from daybook.history.verification.verify_work import source_ends
from daybook.journal.blocks.format import Damage, segment_first_lsn
from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError
from daybook.journal.segments.segment import segment_names
from daybook.recovery.signing.export_proof import Changed

_MASK: Final = kinds_mask(ENDING_A_SOURCE | {events.SIGNING_KEY_CHANGED})


def changes_of_key(disk: Disk, note: Callable[[str], None]) -> tuple[list[Changed], int]:
    """Return the changes of the signing key in a journal, in order, and the event behind which its
    own history begins: earlier statements by a source of it name another data directory.

    `note` is called with a sentence for each segment that cannot be read; an export needs no
    segment but those of its range.
    """
    found: list[Changed] = []
    begun = 0
    names = segment_names(disk)
    for name, following in zip_longest(names, names[1:]):
        first = segment_first_lsn(name) or 1
        last = (segment_first_lsn(following) or 1) - 1 if following is not None else None
        try:
            for block in wanted_blocks(
                disk, lambda entry: bool(entry.kinds & _MASK), from_lsn=first, to_lsn=last
            ):
                for ended in source_ends(block):
                    found, begun = [], ended
                for event in events_of(
                    block, lambda _, row: row[KIND] == events.SIGNING_KEY_CHANGED
                ):
                    detail = events.decode_detail(event.row[KIND], event.detail)
                    change = cast(details.KeyChangeDetail, detail)
                    found.append(
                        Changed(
                            event.lsn, change.old, change.new, change.time,
                            change.signature_old, change.signature_new,
                        )
                    )  # fmt: skip
        except (JournalError, Damage, OSError) as error:
            note(
                f"changes of the signing key in {name} are not in the export, because it cannot be "
                f"read: {error}. If there are any, verify the export with the key of each period"
            )
    return found, begun
