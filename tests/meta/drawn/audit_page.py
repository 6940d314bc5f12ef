"""The tables in docs/audit.md: rules and what changed of them, from `history.audit`; and cells,
from what `make audit-mutants` found of forged journals.

`make map` (python -m tests.meta.drawn.audit_page) redraws them; a test compares.
"""

from collections.abc import Iterable
from string import ascii_uppercase

from daybook.history.audit.feature_levels import CHANGES
from daybook.history.audit.rules import RULES
from tests.meta import tree
from tests.meta.drawn.drawn_part import Drawn
from tests.meta.drawn.events_page import table
from tests.support.forging.forger import BLOCKS, FLAGS, Cell, cells
from tests.support.forging.forgeries import recorded, why_unseen
from tests.support.forging.unseen import UNSEEN

PAGE = tree.ROOT / "docs" / "audit.md"


def draw() -> str:
    """Return the table of rules."""
    rows = [(f"`{rule.name}`", rule.says, rule.source) for rule in RULES]
    return "\n".join(["", *table(("rule", "what it says", "see"), rows), ""])


def draw_changes() -> str:
    """Return the table of rules that older brokers did not have."""
    rows = [(f"{each.level}", f"`{each.rule}`", each.before) for each in CHANGES]
    return "\n".join(["", *table(("since level", "rule", "what older brokers did"), rows), ""])


def draw_cells() -> str:
    """Return the table of cells: for each kind of event, what shows a change, and what nothing
    shows."""
    found = {cell: rules for cell, rules in recorded().items() if cell in set(cells())}
    missed = [cell for cell, rules in found.items() if "" in rules]
    used = {why_unseen(cell) for cell in missed}
    reasons = list(dict.fromkeys(why for _, _, why in UNSEEN if why in used))
    letters = dict(zip(reasons, ascii_uppercase, strict=False))
    rows = []
    for kind in dict.fromkeys(cell.kind for cell in found):
        own = [cell for cell in found if cell.kind == kind]
        shown = _grouped((_rules(found[cell]), cell) for cell in own if "" not in found[cell])
        partly = [cell for cell in own if "" in found[cell] and len(found[cell]) > 1]
        never = [cell for cell in own if found[cell] == [""]]
        rows.append(
            (
                f"`{kind}`" if kind else "any",
                shown,
                _grouped((letters[why_unseen(cell)], cell) for cell in partly),
                _grouped((letters[why_unseen(cell)], cell) for cell in never),
            )
        )
    head = ("event", "a change always shows, by rule", "sometimes", "never")
    legend = [(f"**{letter}**", why) for why, letter in letters.items()]
    return "\n".join(["", *table(head, rows), "", *table(("", "why not"), legend), ""])


def _rules(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _grouped(pairs: Iterable[tuple[str, Cell]]) -> str:
    """Return fields by what they have in common."""
    fields: dict[str, list[str]] = {}
    for word, cell in pairs:
        if word:
            fields.setdefault(word, []).append(_field(cell))
    return "; ".join(f"{word}: {', '.join(_short(those))}" for word, those in fields.items())


def _short(fields: list[str]) -> list[str]:
    """Say flags where all of them are meant."""
    bits = [f"flags.{name}" for name in FLAGS]
    if not set(bits) <= set(fields):
        return fields
    return [*(each for each in fields if each not in bits), "flags"]


def _field(cell: Cell) -> str:
    if cell == BLOCKS:
        return cell.field
    return cell.field.removeprefix("detail.")


PARTS = (
    Drawn(PAGE, "rules", draw),
    Drawn(PAGE, "changes", draw_changes),
    Drawn(PAGE, "cells", draw_cells),
)

if __name__ == "__main__":
    for part in PARTS:
        part.redraw()
