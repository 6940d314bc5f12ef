"""Opening a journal on any disk and folding all of it, as a start without an index does."""

from collections.abc import Callable
from time import perf_counter

from daybook.engine.state.state import State
from daybook.journal.disk import Disk
from daybook.journal.journal import SEGMENT_BYTES
from daybook.recovery.directory import Recovered, fold_journal, open_journal


def recover(
    disk: Disk,
    *,
    data_id: bytes,
    segment_bytes: int = SEGMENT_BYTES,
    device_block_bytes: int = 0,
    clock: Callable[[], float] = perf_counter,
    progress: Callable[[int, int], None] | None = None,
) -> Recovered:
    """Open or create the journal on a disk and fold all of it.

    `data_id` (16 bytes) is used if the journal is created. `progress` is called with events done
    and events in all. Raises JournalError and RecoveryError.
    """
    journal, repair = open_journal(
        disk,
        data_id=data_id,
        segment_bytes=segment_bytes,
        device_block_bytes=device_block_bytes,
        clock=clock,
    )
    state = State()
    try:
        events = fold_journal(disk, journal.durable_lsn, state, progress)
    except BaseException:
        journal.close()
        raise
    return Recovered(journal, state, repair, events, created=repair is None)
