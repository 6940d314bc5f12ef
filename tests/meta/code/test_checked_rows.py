"""Rows of the index are read and written in one place, which proves them; nobody goes around it."""

import ast
import re
from typing import Final

import pytest

from tests.meta import tree

MAY: Final = ("paging/tables/checked.py", "paging/tables/tables.py", "paging/fold/upgrade.py")
"""Modules that may import LMDB: it could read rows whose checksums nobody verified."""
PRIVATE: Final = ("_txn", "_env", "as_stored", "dbi")
"""Attributes behind which rows are without their proofs."""
WORDS: Final = re.compile("|".join(("lmdb", *PRIVATE)))


def around(name: str, source: str) -> list[str]:
    """Names in a module that read or write rows without their crcs."""
    if name in MAY or not WORDS.search(source):
        return []
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(each.name == "lmdb" for each in node.names):
            found.append(f"{name}:{node.lineno} imports lmdb")
        if isinstance(node, ast.ImportFrom) and node.module == "lmdb":
            found.append(f"{name}:{node.lineno} imports from lmdb")
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE:
            owner = node.value
            if not (isinstance(owner, ast.Name) and owner.id == "self"):
                found.append(f"{name}:{node.lineno} uses .{node.attr}")
    return found


def test_nobody_goes_around_it() -> None:
    paths = list(tree.sources(tree.ROOT, *tree.rooms()))
    assert {str(path.relative_to(tree.ROOT)) for path in paths} > set(MAY)
    wrong = [
        each
        for path in paths
        for each in around(str(path.relative_to(tree.ROOT)), path.read_text("utf-8"))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "planted",
    [
        "import lmdb",
        "def f():\n    from lmdb import open",
        "value = txn._txn.get(key)",
        "txn = tables._env.begin()",
        "value = txn.as_stored(key, db=table)",
        "found = raw.cursor(tables.db(PAGES).dbi)",
    ],
)
def test_who_would_is_caught(planted: str) -> None:
    assert around("server/planted.py", planted)
