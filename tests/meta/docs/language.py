"""Turns of phrase that read badly in English, counted: fronted "Of", headless "who" and "what", odd
verbs, statements by a negation.
"""

import re
from collections.abc import Iterator
from pathlib import Path

_BEGIN = r'(?:"""|[.;] |(?<!know): |(?<!#)# |- )'
"""Where a sentence, a part of one, a docstring, a comment or a list item begins."""

_NO_QUESTION = r"\b(?![^.\n]*\?)"

HABITS = {
    "fronted Of": r"(?:^|[.;:|] |- )Of (?:a|an|the|what|all|those|it|each|them|of)\b",
    "headless who": r"\b[Ww]ho (?:is|has|wants|asks|does|needs|reads|sends|takes)\b|\b[Ww]hoever\b",
    "is told": r"\b(?:is|are|was|were|be) told\b",
    "go on": r"\b(?:go|goes|went|gone) on\b(?! a| the)",
    "anew": r"\banew\b",
    "mend": r"\bmend(?:s|ed|ing)?\b",
    "have it done": r"\b[Hh]ave (?!nowhere)\w+(?: \w+)? (?:looked|done|kept|checked|end|come|go)\b",
    "headless what": (
        rf"(?:{_BEGIN}[Ww]|^W)hat (?:is|was|are|were|has|had|came|comes|must|can|cannot|may|would"
        rf"|could|a|an|the|each|it|they|one|no){_NO_QUESTION}"
    ),
    "who as a subject": rf"(?:{_BEGIN}|^)Who \w+{_NO_QUESTION}",
    "raises what": r"\b[Rr]aises what\b",
    "what is wrong": r"\b[Ww]hat is wrong\b|\b[Nn]othing is wrong\b",
    "changes nothing": r"\b[Cc]hanges nothing\b|\b[Nn]othing is changed\b",
    "is no": r"(?<![Tt]here )\b(?:is|are) no (?!longer\b|more\b|others?\b|\w+er\b)[a-z]+",
    "for ever": r"\bfor ever\b",
    "whether or not": r"\bwhether or not\b",
}
"""The name of each habit, and its pattern."""


def found(text: str) -> Iterator[tuple[str, str]]:
    """Find habits in a text: the name and the line of each."""
    for name, pattern in HABITS.items():
        for match in re.finditer(pattern, text, re.MULTILINE):
            begin = text.rfind("\n", 0, match.start()) + 1
            yield name, text[begin : text.find("\n", match.end())].strip()


def count(paths: list[Path]) -> list[str]:
    """Return a line for each habit in these files."""
    return [
        f"{path}: {name}: {line}" for path in paths for name, line in found(path.read_text("utf-8"))
    ]
