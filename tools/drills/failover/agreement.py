"""Whether the journals of all nodes agree at the end, and have nothing left in the queues.

No node runs. Must never know the clients.
"""

from collections.abc import Mapping
from typing import Final

from daybook.errors import DaybookError
from daybook.history.verification.verification import verify_data
from daybook.journal.data_directory import BASE, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import first_lsn_of
from daybook.recovery.readonly import newest_state
from daybook.tools.drills.clients.witness import Wrong
from daybook.tools.drills.clients.workload import DEAD_NAME, NAMES
from daybook.tools.drills.failover.cluster import DrillNode

OWN: Final = frozenset((*NAMES, DEAD_NAME))


def check_journals(nodes: Mapping[str, DrillNode]) -> int:
    """Check that all journals are whole, agree as far as two of them go, and fold to empty queues
    of the drill; return the last event that all have. Raises Wrong."""
    last = min(_checked(node) for node in nodes.values())
    found = {name: _blocks(node, last) for name, node in nodes.items()}
    first, *others = found
    for other in others:
        shared = found[first].keys() & found[other].keys()
        for lsn in sorted(shared):
            if found[first][lsn] != found[other][lsn]:
                raise Wrong("P7", f"from event {lsn} on {first} and {other} differ")
        if last not in shared:
            raise Wrong("P7", f"no block of {first} and {other} ends with event {last}")
    return last


def _checked(node: DrillNode) -> int:
    """Return the last event of a journal that is whole and whose queues are empty. Raises Wrong."""
    try:
        verdict = verify_data(
            RealDisk(node.data / JOURNAL), lambda done: None, base=node.data / BASE
        )
        with newest_state(node.data) as (state, _):
            left = sum(queue.message_count for queue in state.queues.values() if queue.name in OWN)
    except DaybookError as error:
        raise Wrong("P7", f"the journal of {node.name} cannot be read: {error}") from error
    if not verdict.report.ok:
        raise Wrong("P7", f"the journal of {node.name} is damaged: {verdict.faults[0].what}")
    if verdict.wrong:
        raise Wrong("P2", f"{node.name}: {verdict.wrong[0]}")
    if left:
        raise Wrong("P2", f"{left} messages are left in the queues of {node.name}, and none came")
    if found := node.process.traceback():
        raise Wrong("bug", f"node {node.name} logged a traceback ({found}): {node.process.log}")
    return verdict.report.last_lsn


def _blocks(node: DrillNode, last: int) -> dict[int, bytes]:
    """Return the hash of each block by its last event, up to one event."""
    disk = RealDisk(node.data / JOURNAL)
    return {
        block.last_lsn: block.hash
        for block in read_blocks(disk, from_lsn=first_lsn_of(disk), to_lsn=last)
        if block.count
    }
