"""Turns of phrase that read badly in English, counted: fronted "Of", headless "who", odd verbs."""

import re
from collections.abc import Iterator
from pathlib import Path

HABITS = {
    "fronted Of": r"(?:^|[.;:|] |- )Of (?:a|an|the|what|all|those|it|each|them|of)\b",
    "headless who": r"\b[Ww]ho (?:is|has|wants|asks|does|needs|reads|sends|takes)\b|\b[Ww]hoever\b",
    "is told": r"\b(?:is|are|was|were|be) told\b",
    "go on": r"\b(?:go|goes|went|gone) on\b(?! a| the)",
    "anew": r"\banew\b",
    "mend": r"\bmend(?:s|ed|ing)?\b",
    "have it done": r"\b[Hh]ave (?!nowhere)\w+(?: \w+)? (?:looked|done|kept|checked|end|come|go)\b",
}
"""What each habit is called, and how it looks."""


def found(text: str) -> Iterator[tuple[str, str]]:
    """Find habits in a text: what each is called, and its line."""
    for name, pattern in HABITS.items():
        for match in re.finditer(pattern, text, re.MULTILINE):
            begin = text.rfind("\n", 0, match.start()) + 1
            yield name, text[begin : text.find("\n", match.end())].strip()


def count(paths: list[Path]) -> list[str]:
    """Return a line for each habit in these files."""
    return [
        f"{path}: {name}: {line}" for path in paths for name, line in found(path.read_text("utf-8"))
    ]
