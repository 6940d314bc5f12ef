"""The findings of the audit in forged journals, cell by cell; and what nothing can find, and why.

`make audit-mutants` (python -m tests.support.forging.forgeries [KIND ...]) forges many journals and
writes down which rules found something in which cell; the page `docs/audit.md` is drawn from that.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from daybook.engine.state.state import State
from daybook.history.audit.accounts import accounts_of
from daybook.history.audit.context import Folded
from daybook.history.audit.judge import Clock, Judge
from tests.support.forging.forger import Cell, Forger, Forgery, cells, stories
from tests.support.forging.unseen import UNSEEN
from tests.support.world import SECOND
from tests.support.worlds.auditing import LATER, OPTIONS

RECORD: Final = Path(__file__).with_name("forgeries.json")
"""By kind and field: the rules that found something, and "" if something was not found."""
CONSERVED: Final = "conserved"
STORIES: Final = 240
FORGERIES: Final = 30
"""How many forgeries of each cell `make audit-mutants` makes, in so many stories."""


def rule_of(forgery: Forgery) -> str:
    """Return the first rule that an audit finds broken, empty if it finds nothing."""
    judge = Judge(State(), 0, OPTIONS, Clock(LATER, SECOND))
    history = forgery.history
    cuts = sorted({end for end in forgery.ends if 0 < end < len(history)} | {len(history)})
    for start, end in zip([0, *cuts], cuts, strict=False):
        for breach in judge.judge(list[Folded](history[start:end])):
            return breach.rule
    accounts, _ = accounts_of([judge.ledger.counted(len(history))])
    return CONSERVED if any(each.difference for each in accounts) else ""


def why_unseen(cell: Cell) -> str:
    """Return why an audit may miss a forgery of a cell, empty if it must find every one."""
    for kinds, fields, why in UNSEEN:
        if any(fnmatchcase(cell.kind, kind) for kind in kinds.split() or [""]) and any(
            fnmatchcase(cell.field, field) for field in fields.split(",")
        ):
            return why
    return ""


def measured(
    forger: Forger, count: int, among: Iterable[Cell]
) -> tuple[dict[Cell, Counter[str]], list[str]]:
    """Return the findings in each cell, by rule, and the forgeries that were missed."""
    found: dict[Cell, Counter[str]] = {}
    missed = []
    for cell in among:
        rules = found[cell] = Counter()
        for forgery in forger.forge(cell, count):
            rule = rule_of(forgery)
            rules[rule] += 1
            if not rule and not why_unseen(cell):
                missed.append(f"{cell.kind} {cell.field}: event {forgery.lsn}: {forgery.text}")
    return found, missed


def recorded() -> dict[Cell, list[str]]:
    """Return the record that `make audit-mutants` wrote."""
    record: dict[str, dict[str, list[str]]] = json.loads(RECORD.read_text("utf-8"))
    return {
        Cell(kind, field): rules
        for kind, fields in record.items()
        for field, rules in fields.items()
    }


def write_down(found: Mapping[Cell, Iterable[str]]) -> None:
    """Write down which rules found something in each cell."""
    record: dict[str, dict[str, list[str]]] = {}
    for cell, rules in found.items():
        record.setdefault(cell.kind, {})[cell.field] = sorted(rules)
    lines = [
        f" {json.dumps(kind)}: {{\n"
        + ",\n".join(f"  {json.dumps(field)}: {json.dumps(rules)}" for field, rules in each.items())
        + "\n }"
        for kind, each in record.items()
    ]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def main(kinds: list[str]) -> int:
    """Forge many journals, write down what was found, and name what was missed; of some kinds of
    events, if some are given."""
    chosen = [cell for cell in cells() if not kinds or cell.kind in kinds]
    found, missed = measured(Forger(stories(STORIES)), FORGERIES, chosen)
    before = recorded()
    write_down({cell: found.get(cell, before.get(cell, [])) for cell in cells()})
    total = sum(rules.total() for rules in found.values())
    seen = total - sum(rules[""] for rules in found.values())
    for cell, rules in found.items():
        if not rules:
            print(f"{cell.kind} {cell.field}: no real journal has a place for it")
    for text in missed:
        print(f"missed: {text}")
    print(f"{total:,} forgeries in {len(found)} cells: {seen:,} found, {len(missed):,} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
