"""Finding names of the files of a data directory that are spelled outside `journal.data_directory`.

Yields a sentence per finding. A name that is also a plain word (`journal`) is one where it stands
in a path, beside another name, or as a constant; any other is one wherever it stands.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from daybook.journal import data_directory
from tests.meta import tree

NAMES: Final = frozenset(
    value for name, value in vars(data_directory).items() if name.isupper() if type(value) is str
)
WORDS: Final = frozenset(
    name for name in NAMES if name.isalpha() or name == data_directory.MANIFEST_SUFFIX
)
"""Names that mean other things as well."""


def file_names(path: Path) -> Iterator[str]:
    """Find spelled names of files."""
    for node in ast.walk(tree.parsed(path)):
        for name in sorted(_spelled(node)):
            yield f"{path}:{node.lineno}: spells '{name}'; see journal/data_directory.py"  # type: ignore[attr-defined]


def _spelled(node: ast.AST) -> set[str]:
    match node:
        case ast.Constant(value=str(name)) if name in NAMES - WORDS:
            return {name}
        case ast.BinOp(op=ast.Div(), left=left, right=right):
            return _words([left, right])
        case ast.Call(func=ast.Name(id="Path") | ast.Attribute(attr="joinpath"), args=parts):
            return _words(parts)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            found = _words(parts)
            # Beside other words it is a word, too.
            others = {part.value for part in parts if isinstance(part, ast.Constant)} - NAMES
            return found if len(found) > 1 and not others else set()
        case ast.AnnAssign(target=ast.Name(id=constant), value=ast.expr() as value):
            return _words([value]) & {constant.lower()}
    return set()


def _words(nodes: list[ast.expr]) -> set[str]:
    constants = (node.value for node in nodes if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str)} & WORDS
