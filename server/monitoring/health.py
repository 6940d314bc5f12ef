"""The problems of a broker, and whether they prevent it from accepting messages.

The same judgement serves `daybook status`, `daybook health`, the probe's `/ready` and its metrics.
It uses only the status. Texts may name files, and are for administrators; the reasons of
`why_unready` are for anybody.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from daybook.server.monitoring.cluster_health import cluster_troubles
from daybook.texts import counted, moment

EXIT_WARNING: Final = 0
EXIT_WRONG: Final = 1
EXIT_NOT_RUNNING: Final = 3
EXIT_INDEX: Final = 4
EXIT_DISK: Final = 5
BEHIND_SHARE: Final = 0.5
"""The index counts as behind from this part of max-unindexed-bytes on."""
ASIDE: Final = frozenset({"console"})
"""Work beside that of the broker: it serves its clients as well without, so trouble is a warning.
The names are kinds, too."""
CONSOLE_NAME: Final = "[console]"
"""Stands for the console among the names of acceptors with certificates, as its section is
named."""
NAMED_MAX: Final = 5
"""How many paused queues, or connectors, a sentence names."""

_HANGS: Final = "When something hangs, or the journal is damaged while the broker runs"
CHECK: Final = "check"
"""The kind of what a verification or an audit found. Its reports are files, which the broker does
not read; commands and the console do."""
RUNBOOK: Final[Mapping[str, tuple[str, str]]] = {
    "disk": ("operations", "When the disk is full"),
    "durability": ("operations", "When the disk is slow"),
    "index": ("operations", _HANGS),
    "journal": ("operations", "When the journal is damaged"),
    "queue": ("operations", "When the journal is damaged"),
    "index_lag": ("operations", "When it is slow"),
    "retention": ("operations", "Retention"),
    "background": ("operations", _HANGS),
    "signing": ("security", "Signed history"),
    "paused": ("cli", "Looking and changing"),
    "connector": ("routing", "Connect to another broker"),
    "certificate": ("security", "Renewal of certificates"),
    "console": ("console", "With the broker"),
    "cluster": ("monitoring", "Clusters"),
    CHECK: ("operations", "When the journal is damaged"),
}  # fmt: skip
"""The page of the documentation, and its section, about each kind of problem."""
KINDS: Final = tuple(kind for kind in RUNBOOK if kind != CHECK)
"""The kinds of problems of a running broker, from its status."""


_PUNCTUATION: Final = re.compile(r"[^\w -]")


def anchor_of(heading: str) -> str:
    """Return the anchor of a section of the documentation."""
    return _PUNCTUATION.sub("", heading.lower()).replace(" ", "-")


class Problem(msgspec.Struct, frozen=True):
    """A problem: its exit code and a sentence. The code 0 is that of a warning.

    `kind` is one of those of RUNBOOK; `unready` says why no messages are accepted because of it, ""
    if they are. `queues` are those that the sentence names.
    """

    code: int
    text: str
    kind: str = ""
    unready: str = ""
    queues: tuple[str, ...] = ()

    @property
    def runbook(self) -> str:
        """Where the documentation says what to do; "" without a kind."""
        if not self.kind:
            return ""
        page, section = RUNBOOK[self.kind]
        return f"docs/{page}.md, {section}"

    @property
    def runbook_page(self) -> str:
        """The name of that page; "" without a kind."""
        return RUNBOOK[self.kind][0] if self.kind else ""

    @property
    def runbook_anchor(self) -> str:
        """The anchor of that section; "" without a kind."""
        return anchor_of(RUNBOOK[self.kind][1]) if self.kind else ""

    def runbook_on(self, site: str) -> str:
        """Return where that is on a site of the documentation; "" without a site or a kind."""
        if not self.kind or not site:
            return ""
        return f"{site.rstrip('/')}/docs/{self.runbook_page}.html#{self.runbook_anchor}"


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
        _unreadable(each["queue"], each["why"]) for each in status.get("queues_unreadable", [])
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
        _failing(each["name"], each["trouble"])
        for each in status.get("background", [])
        if each["trouble"]
    ]
    if (paused := status.get("queues_paused", {})).get("count"):
        names = tuple(each["queue"] for each in paused["queues"][:NAMED_MAX])
        found.append(Problem(EXIT_WARNING, _paused(paused), "paused", queues=names))
    if troubled := status.get("connectors_in_trouble"):
        found.append(Problem(EXIT_WARNING, _down(troubled), "connector"))
    found += [
        Problem(EXIT_WARNING, _expiring(**each), "certificate")
        for each in status.get("certificates_expiring", ())
    ]
    found += cluster_problems(status.get("cluster", {}))
    return found


def check_problems(faults: Iterable[str]) -> list[Problem]:
    """Return the problems that verifications and audits found; warnings, since a restart of the
    broker corrects none."""
    return [Problem(EXIT_WARNING, text, CHECK) for text in faults]


def cluster_problems(cluster: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of a cluster, from the status of a node; warnings, since a restart of
    this node would not help."""
    return [Problem(EXIT_WARNING, text, "cluster") for text in cluster_troubles(cluster)]


def _unreadable(queue: str, why: str) -> Problem:
    """Describe a queue that cannot be read."""
    text = f"queue {queue} cannot be read: {why}"
    return Problem(EXIT_WRONG, text, "queue", queues=(queue,))


def _failing(name: str, trouble: str) -> Problem:
    """Describe background work that fails."""
    if name in ASIDE:
        return Problem(EXIT_WARNING, f"{name}: {trouble}", name)
    return Problem(EXIT_WRONG, f"{name}: {trouble}", "background")


def _expiring(*, acceptor: str, days_left: int, expires: int) -> str:
    """Describe a certificate that expires soon, or has expired."""
    day = f"{moment(expires * 1000)[:16]} UTC"
    owner = "the console" if acceptor == CONSOLE_NAME else f"acceptor {acceptor}"
    if days_left < 0:
        text = f"the certificate of {owner} expired on {day}"
    else:
        left = counted(days_left, "day")
        text = f"the certificate of {owner} expires on {day}, in {left}"
    return f"{text}; renew it, then send SIGHUP"


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
