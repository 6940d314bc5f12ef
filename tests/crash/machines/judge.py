"""Judges journals and the records of clients when all has ended.

Nodes have ended when it is asked. Journals have the same bytes, up to what only one node wrote
while it stopped; they verify, and the audit finds nothing. Each confirm came from the machine that
led when its message was written, and none came after one of a newer epoch.
"""

import json
import subprocess
from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from daybook.recovery.readonly import newest_state
from tests.crash.machines.clients import ACKNOWLEDGED, ROUTED, Confirm, Crowd, Done
from tests.crash.machines.cluster import Cluster, Machine
from tests.support.process import JOURNAL

BREACHES: Final = 1
CLOCKS_SECONDS: Final = 2.5
"""How late a client's thread may be to note what it has read, on a busy machine."""


class Epoch(NamedTuple):
    """An epoch of the journal, from its BrokerStarted on."""

    lsn: int
    number: int
    node: str


def judge(cluster: Cluster, crowd: Crowd, *, is_timely: bool) -> Iterator[str]:
    """Yield everything that is wrong."""
    crowd.ledger.check_drained()
    yield from crowd.ledger.violations
    machines = list(cluster.machines.values())
    for machine in machines:
        yield from _verify(machine)
        with newest_state(machine.data) as (state, _):
            left = sum(queue.message_count for queue in state.queues.values())
        if left:
            yield f"{machine.name}: {left} messages are there, and were not delivered"
    yield from compare([machine.journal() for machine in machines])
    yield from _audit(machines[0])
    epochs, places = read_history(machines[0].data)
    numbers = [each.number for each in epochs]
    if sorted(set(numbers)) != numbers:
        yield f"epochs do not grow: {epochs}"
    said = {Done(ROUTED, body) for body in crowd.ledger.receipted}
    said |= {Done(ACKNOWLEDGED, body) for body in crowd.ledger.confirmed}
    for kind, body in sorted(said - places.keys()):
        yield f"{kind} of {body} had its receipt, and is not in the journal"
    yield from judge_confirms(epochs, places, crowd.confirms, is_timely=is_timely)


def _verify(machine: Machine) -> Iterator[str]:
    done = subprocess.run(
        [JOURNAL, "verify", machine.data], capture_output=True, text=True, check=False
    )
    if done.returncode:
        yield f"{machine.name}: journal verify: {done.stdout[-2_000:]}{done.stderr[-2_000:]}"


def _audit(machine: Machine) -> Iterator[str]:
    """Yield breaches, but for those of time: clocks were set, which the audit shows rightly."""
    done = subprocess.run(
        [JOURNAL, "audit", "--json", machine.data], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, BREACHES):
        yield f"{machine.name}: journal audit: {done.stderr[-2_000:]}"
        return
    found = json.loads(done.stdout)
    yield from (each["text"] for each in found["breaches"] if each["rule"] != "time")
    yield from (f"{each} does not balance" for each in found["queues"] if each["difference"])


def compare(journals: Sequence[dict[str, bytes]]) -> Iterator[str]:
    """Yield the segments that are not the same everywhere, but for what follows the shortest."""
    common = set(journals[0]).intersection(*journals[1:])
    if not common:
        yield f"no segment is everywhere: {[sorted(each) for each in journals]}"
    for name in sorted(common):
        contents = [journal[name].rstrip(b"\0") for journal in journals]
        shortest = min(map(len, contents))
        # The last segment of one node may be shorter by what it did not get when all stopped.
        if len({content[:shortest] for content in contents}) > 1:
            yield f"{name} is not the same everywhere"


def read_history(data: Path) -> tuple[list[Epoch], dict[Done, int]]:
    """Return the epochs of a journal, and where messages were routed and acknowledged."""
    kinds = [f"--kind={kind}" for kind in ("BrokerStarted", ROUTED, ACKNOWLEDGED)]
    done = subprocess.run(
        [JOURNAL, "inspect", "--json", "--bodies", *kinds, data],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    events: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    bodies = {each["message"]: each["body"] for each in events if each["kind"] == ROUTED}
    epochs = [
        Epoch(event["lsn"], event["detail"]["epoch"], event["detail"]["node"])
        for event in events if event["kind"] == "BrokerStarted"
    ]  # fmt: skip
    places = {
        Done(each["kind"], bodies[each["message"]]): each["lsn"]
        for each in events if each["kind"] in (ROUTED, ACKNOWLEDGED)
    }  # fmt: skip
    return epochs, places


def judge_confirms(
    epochs: Sequence[Epoch],
    places: dict[Done, int],
    confirms: Sequence[Confirm],
    *,
    is_timely: bool,
) -> Iterator[str]:
    """Yield confirms that a machine must not have given, or not then."""
    begins = [each.lsn for each in epochs]
    first: dict[int, Confirm] = {}
    last: dict[int, Confirm] = {}
    for confirm in confirms:
        if confirm.done in places:
            epoch = epochs[bisect(begins, places[confirm.done]) - 1]
            if epoch.node != confirm.machine:
                yield f"{confirm} was written by {epoch}"
            first.setdefault(epoch.number, confirm)
            last[epoch.number] = confirm
    for one, other in pairwise(sorted(first)):
        if is_timely and last[one].moment > first[other].moment + CLOCKS_SECONDS:
            yield f"{last[one]} of epoch {one} came after {first[other]} of {other}"
