"""The structs of a report, which are also its JSON. Fields are only ever added."""

import os
import time
from typing import Final, TypeAlias

import msgspec

from daybook.texts import counted, user_name
from daybook.version import VERSION

VERIFY: Final = "verify"
AUDIT: Final = "audit"
DRILL: Final = "drill"
SPANS: Final = ("--from", "--to")
"""The options of checks by which they leave out a part of history."""
KINDS: Final = (VERIFY, AUDIT, DRILL)
Cell: TypeAlias = str | int | float | None


class Finding(msgspec.Struct, frozen=True):
    """Something that was found wrong.

    `kind` is the rule, the promise, or how bad it is; `see` is the source of a rule. `lsn` and
    `message` lead to the history, `proof` are the events that prove it, and `again` is the command
    that shows it again.
    """

    what: str
    kind: str = ""
    see: str = ""
    lsn: int = 0
    message: int = 0
    proof: list[int] = []
    again: str = ""


class Table(msgspec.Struct, frozen=True):
    """Rows under headings; `more` rows were left out."""

    title: str
    headings: list[str]
    rows: list[list[Cell]]
    more: int = 0


class Report(msgspec.Struct, frozen=True):
    """All of a report; times in microseconds since 1970.

    `by` is who asked for it, and `command` what would do the same. `finding_count` counts the
    findings that were left out, too.
    """

    kind: str
    begun: int
    ended: int
    by: str
    command: str
    ok: bool
    result: str
    version: str = VERSION
    facts: list[tuple[str, str]] = []
    findings: list[Finding] = []
    finding_count: int = 0
    tables: list[Table] = []
    notes: list[str] = []

    @property
    def is_partial(self) -> bool:
        """Whether a check was about a span of history, and not about all of it: its command says
        so, also in reports of earlier releases."""
        return any(f" {option} " in self.command for option in SPANS)

    @property
    def duration(self) -> str:
        """How long the work took, in words."""
        return counted(max(self.ended - self.begun, 0) // 1_000_000, "second")


class Asker(msgspec.Struct, frozen=True):
    """The asker of a check, with the command and the time."""

    command: str
    by: str
    begun: int


def asked_here(command: str) -> Asker:
    """Return the user of this process as the asker, now."""
    return Asker(command, user_name(os.geteuid()), time.time_ns() // 1000)


def ended(asker: Asker, kind: str, *, ok: bool, result: str, **parts: object) -> Report:
    """Return the report of a check that ends now."""
    told = {
        "kind": kind, "begun": asker.begun, "ended": time.time_ns() // 1000, "by": asker.by,
        "command": asker.command, "ok": ok, "result": result, **parts,
    }  # fmt: skip
    return msgspec.convert(told, Report)
