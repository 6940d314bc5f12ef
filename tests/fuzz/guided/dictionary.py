"""What fuzzers write into frames: the names of headers and the words that the code itself has.

Both are read from the sources, so a header that is new in the code is new in the dictionary.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from daybook.protocols.stomp.wire import synonyms

ROOT: Final = Path(__file__).resolve().parents[3]
SOURCES: Final = (
    *sorted((ROOT / "protocols" / "stomp").rglob("*.py")),
    *(
        ROOT / "engine" / f"{name}.py"
        for name in ("facts/definitions", "names/names", "facts/reasons", "names/syntax")
    ),
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{1,40}")
_WORD: Final = re.compile(r"/?[A-Za-z_$#*][A-Za-z0-9_.\-]{0,40}/?|[^\w\s]{1,2}")
_LOOKS_UP: Final = frozenset(("required", "truth", "get", "pop"))


@cache
def _nodes() -> tuple[tuple[ast.AST, ...], ...]:
    """The nodes of each source, without lists of attributes."""
    return tuple(tuple(_walked(ast.parse(path.read_text("utf-8")))) for path in SOURCES)


def _walked(tree: ast.AST) -> Iterator[ast.AST]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))


@cache
def header_groups() -> tuple[tuple[bytes, ...], ...]:
    """Names that the sources look up in headers, a group for each source: they belong together."""
    groups = []
    for nodes in _nodes():
        found = {name for node in nodes for name in _looked_up(node) if _NAME.fullmatch(name)}
        if found:
            groups.append(tuple(sorted(name.encode() for name in found)))
    return tuple(groups)


@cache
def header_names() -> tuple[bytes, ...]:
    """All of these names."""
    same = [getattr(each, "names", ()) for each in vars(synonyms).values()]
    spelled = {name.encode() for names in same if isinstance(names, tuple) for name in names}
    return tuple(sorted({name for group in header_groups() for name in group} | spelled))


def _looked_up(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Call) and _called(node.func) in _LOOKS_UP:
        return _strings(node.args)
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return _strings([node.left])
    return _strings([node.slice]) if isinstance(node, ast.Subscript) else []


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _strings(nodes: list[ast.expr]) -> list[str]:
    values = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return [value for value in values if isinstance(value, str)]


@cache
def words() -> tuple[bytes, ...]:
    """Every short string of the sources: commands, headers, values, prefixes, wildcards."""
    found: set[bytes] = set()
    for node in (node for nodes in _nodes() for node in nodes):
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            value = node.value
            text = value if isinstance(value, str) else value.decode("latin-1")
            if _WORD.fullmatch(text):
                found.add(text.encode())
    return tuple(sorted(found))
