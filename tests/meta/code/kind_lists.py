"""Finds lists of kinds of events that were written by hand.

A set of kinds belongs to the table of events (`engine.facts.kinds` derives it), else a new kind is
forgotten where nobody looked. A rule about one kind is not a list. Yields a sentence per finding.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from daybook.engine.facts import events
from tests.meta import tree

CONSTANTS: Final = {
    name
    for event in events.EVENT_TYPES
    for name in [re.sub(r"(?<!^)(?=[A-Z])", "_", event.name).upper()]
    if getattr(events, name) == event.number
}
NAMES: Final = frozenset(events.BY_NAME)
NUMBERS: Final = frozenset(str(number) for number in events.BY_NUMBER)
HERE: Final = "it is derived from the table of events; see engine/facts/kinds.py"

_IN: Final = re.compile(r"kind\w*\s+(?:NOT\s+)?IN\s*\(([^)]*)\)", re.IGNORECASE)
_EQUAL: Final = r"kind\w*\s*(?:=|<>)\s*'?(\w+)'?"
_CHAIN: Final = re.compile(rf"{_EQUAL}\s+(?:OR|AND)\s+(?:\w+\.)?{_EQUAL}", re.IGNORECASE)
_BRANCHES: Final = re.compile(
    rf"\bWHEN\s+(?:\w+\.)?{_EQUAL}\s+THEN\s+\S+\s+WHEN\s+(?:\w+\.)?{_EQUAL}", re.IGNORECASE
)


def kind_lists(path: Path) -> Iterator[str]:
    """Find displays, calls, chains of comparisons and SQL texts with two or more kinds."""
    inner: set[ast.AST] = set()
    for node in ast.walk(tree.parsed(path)):
        if node in inner:
            continue
        found = sorted(_listed(node))
        if len(found) > 1:
            inner.update(ast.walk(node))
            yield f"{path}:{node.lineno}: lists {', '.join(found)} by hand; {HERE}"  # type: ignore[attr-defined]


def _listed(node: ast.AST) -> set[str]:
    """The kinds that a node lists."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return _kinds(parts)
        case ast.Dict(keys=keys, values=values):
            found = _kinds([key for key in keys if key is not None])
            return found if len(found) > 1 else _kinds(values)
        case ast.Call(args=arguments):
            return _kinds(arguments)
        case ast.BoolOp() | ast.BinOp(op=ast.BitOr() | ast.BitAnd()):
            return {kind for each in ast.walk(node) for kind in _compared(each)}
        case ast.JoinedStr() | ast.Constant(value=str()):
            return _in_sql(_text(node))
    return set()


def _kinds(nodes: list[ast.expr]) -> set[str]:
    return {kind for node in nodes for kind in [_kind(node)] if kind}


def _kind(node: ast.expr) -> str:
    """The kind that an expression names, empty for none."""
    match node:
        case ast.Name(id=name) if name in CONSTANTS:
            return name
        case ast.Attribute(value=ast.Name(id="events"), attr=name) if name in CONSTANTS:
            return name
        case ast.Constant(value=str(name)) if name in NAMES:
            return name
    return ""


def _compared(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        return _kinds([node.left, *node.comparators])
    return set()


def _text(node: ast.expr) -> str:
    """A text with the names of the constants that it has in braces."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _kind(node.value)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _in_sql(text: str) -> set[str]:
    for words in _IN.findall(text):
        listed = {word for word in re.findall(r"\w+", words) if _is_kind(word)}
        if len(listed) > 1:
            return listed
    for pattern in (_CHAIN, _BRANCHES):
        for words in pattern.findall(text):
            if len(set(words)) > 1 and all(_is_kind(word) for word in words):
                return set(words)
    return set()


def _is_kind(word: str) -> bool:
    return word in CONSTANTS or word in NAMES or word in NUMBERS
