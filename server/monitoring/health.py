"""The problems of a broker, and whether they prevent it from accepting messages.

The same judgement serves `daybook status`, `daybook health`, the probe's `/ready` and its metrics.
It uses only the status. Texts may name files, and are for administrators; the reasons of
`why_unready` are for anybody.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

EXIT_WARNING: Final = 0
EXIT_WRONG: Final = 1
EXIT_NOT_RUNNING: Final = 3
EXIT_INDEX: Final = 4
EXIT_DISK: Final = 5
BEHIND_SHARE: Final = 0.5
"""The index counts as behind from this part of max-unindexed-bytes on."""
NAMED_MAX: Final = 5
"""How many paused queues, or connectors, a sentence names."""

KINDS: Final = (
    "disk", "durability", "index", "journal", "queue", "index_lag", "retention", "background",
    "signing", "paused", "connector",
)  # fmt: skip
"""The kinds of problems of a running broker."""


class Problem(msgspec.Struct, frozen=True):
    """A problem: its exit code and a sentence. The code 0 is that of a warning.

    `kind` is one of KINDS; `unready` says why no messages are accepted because of it, "" if they
    are.
    """

    code: int
    text: str
    kind: str = ""
    unready: str = ""


def problems(status: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of a broker, from its status (as of the control socket)."""
    if not status.get("running", True):
        return [Problem(EXIT_NOT_RUNNING, "no broker runs")]
    found = []
    if status.get("disk_full"):
        text = f"the disk is full: {status['disk_full']}"
        found.append(Problem(EXIT_DISK, text, "disk", "the disk is full"))
    if status.get("durability_trouble"):
        why = "events do not become durable"
        found.append(Problem(EXIT_WRONG, status["durability_trouble"], "durability", why))
    if status.get("index_trouble"):
        found.append(Problem(EXIT_INDEX, f"the index: {status['index_trouble']}", "index"))
    if status.get("journal_damage"):
        text = f"the journal is damaged: {status['journal_damage']}"
        found.append(Problem(EXIT_WRONG, text, "journal", "the journal is damaged"))
    found += [
        Problem(EXIT_WRONG, f"queue {each['queue']} cannot be read: {each['why']}", "queue")
        for each in status.get("queues_unreadable", [])
    ]
    behind = status.get("unindexed_bytes", 0)
    if behind > BEHIND_SHARE * status.get("max_unindexed_bytes", behind or 1):
        text = f"the index is behind by {behind:,} bytes of the journal"
        found.append(Problem(EXIT_INDEX, text, "index_lag"))
    if status.get("retention_trouble"):
        text = f"retention: {status['retention_trouble']}"
        found.append(Problem(EXIT_WRONG, text, "retention"))
    for key, what in (("signing_trouble", "signing"), ("anchor_trouble", "anchors")):
        if status.get(key):
            found.append(Problem(EXIT_WRONG, f"{what}: {status[key]}", "signing"))
    found += [
        Problem(EXIT_WRONG, f"{each['name']}: {each['trouble']}", "background")
        for each in status.get("background", [])
        if each["trouble"]
    ]
    if (paused := status.get("queues_paused", {})).get("count"):
        found.append(Problem(EXIT_WARNING, _paused(paused), "paused"))
    if troubled := status.get("connectors_in_trouble"):
        found.append(Problem(EXIT_WARNING, _down(troubled), "connector"))
    return found


def _down(troubled: Sequence[Mapping[str, str]]) -> str:
    """Describe the connectors that could not connect."""
    texts = [
        f"connector {each['connector']} is down: {each['why']}" for each in troubled[:NAMED_MAX]
    ]
    if more := len(troubled) - len(texts):
        texts.append(f"{more:,} more connector{'s are' if more > 1 else ' is'} down")
    return "; ".join(texts)


def _paused(paused: Mapping[str, Any]) -> str:
    """Describe the paused queues in which messages wait."""
    named = paused["queues"][:NAMED_MAX]
    texts = [_paused_queue(**each) for each in named]
    if more := paused["count"] - len(named):
        texts.append(f"messages wait in {more:,} more paused queue{'s' * (more > 1)}")
    return "; ".join(texts)


def _paused_queue(*, queue: str, address: str, messages: int, paused: str) -> str:
    waiting = "1 message waits" if messages == 1 else f"{messages:,} messages wait"
    if paused == "queue":
        return f"queue {queue} is paused, and {waiting} in it"
    return f"address {address} is paused, and {waiting} in its queue {queue}"


def why_unready(status: Mapping[str, Any]) -> str:
    """Return why no messages are accepted, in words safe for anybody; "" if they are."""
    for problem in problems(status):
        if problem.unready:
            return problem.unready
    return str(status.get("senders_held", ""))
