"""What is wrong with a broker, and whether that keeps it from taking messages.

The one judgement for `daybook status`, `daybook health`, the probe's `/ready` and its metrics. It
reads what the status says and never asks anybody. Texts may name files, and are for
administrators; the reasons of `why_unready` are for anybody.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

EXIT_WRONG: Final = 1
EXIT_NOT_RUNNING: Final = 3
EXIT_INDEX: Final = 4
EXIT_DISK: Final = 5
BEHIND_SHARE: Final = 0.5
"""The index is behind when it lacks so much of what it may (max-unindexed-bytes)."""

KINDS: Final = (
    "disk", "durability", "index", "journal", "queue", "index_lag", "retention", "background",
)  # fmt: skip
"""What may be wrong while a broker runs."""


class Problem(msgspec.Struct, frozen=True):
    """Something that is wrong: the exit code for it, and a sentence.

    `kind` is one of KINDS; `unready` says why no messages are taken for it, empty if they are.
    """

    code: int
    text: str
    kind: str = ""
    unready: str = ""


def problems(status: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a broker by its status (that of the control socket)."""
    if not status.get("running", True):
        return [Problem(EXIT_NOT_RUNNING, "no broker runs")]
    found = []
    if status.get("disk_full"):
        text = f"the disk is full: {status['disk_full']}"
        found.append(Problem(EXIT_DISK, text, "disk", "the disk is full"))
    if status.get("durability_trouble"):
        why = "nothing becomes durable"
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
    found += [
        Problem(EXIT_WRONG, f"{each['name']}: {each['trouble']}", "background")
        for each in status.get("background", [])
        if each["trouble"]
    ]
    return found


def why_unready(status: Mapping[str, Any]) -> str:
    """Why no messages are taken, in a few words that strangers may read; empty if they are."""
    for problem in problems(status):
        if problem.unready:
            return problem.unready
    return str(status.get("senders_held", ""))
