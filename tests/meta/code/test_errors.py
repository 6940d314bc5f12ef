"""One base for all errors that people see, and one tree of them."""

import ast
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from daybook import errors
from tests.meta import tree
from tests.meta.drawn import errors_tree

INTERNAL: Final = {
    "AmqpError": "of a peer; becomes the error of a close frame",
    "BadMessage": "of a peer that logs in; becomes an answer to the login",
    "BadQuestion": "a use of the command line, with the text of an error",
    "Blocked": "flow within a session: not an error",
    "CannotCheck": "of a passcode; becomes an answer to the login",
    "DistributionError": "an entry of the configuration; becomes a line of ConfigError",
    "Ended": "the end of a line between processes",
    "Failure": "an exit code of the command line, with the text of an error",
    "Fatal": "the end of a task, with the error that people see",
    "Invalid": "a value of the configuration; becomes a line of ConfigError",
    "NotShown": "flow within a body: it has no such form",
    "NotLoggedIn": "at another broker; becomes the reason why a connector is down",
    "Unsendable": "of a message that is rejected; becomes the outcome of its delivery",
    "Malformed": "of bytes of a peer; becomes AmqpError, or nothing is found in a stored message",
    "NotCatalogued": "flow within a question: segments without a catalog are read",
    "StompError": "of a peer; becomes an ERROR frame",
    "TlsFailure": "of a peer; becomes a line of the log and the end of its connection",
    "Unfinished": "flow within a session: not an error",
    "_NoAnswer": "of a member of etcd; becomes a part of ArbiterFault",
    "_Wrong": "a finding about a file; becomes IndexDamaged",
}
"""Exceptions that no person sees as they are, and what becomes of them."""


def exceptions(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Classes of a module that are exceptions by their bases, with these."""
    for node in ast.walk(tree.parsed(path)):
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            if {"Exception", "ValueError", "OSError", "RuntimeError", "ClickException"} & {*bases}:
                yield node.name, bases


def test_every_exception_has_the_base_or_is_internal() -> None:
    found = {
        name
        for path in tree.sources(tree.ROOT, *tree.rooms())
        for name, bases in exceptions(path)
        if "DaybookError" not in bases
    }
    assert found == set(INTERNAL)


def test_the_tree_is_drawn_as_it_is() -> None:
    source = errors_tree.MODULE.read_text("utf-8")
    assert errors_tree.with_tree(source) == source, "run python -m tests.meta.drawn.errors_tree"
    assert errors_tree.draw() in (errors.__doc__ or "")


def test_a_tree_that_is_old_is_noticed() -> None:
    class Planted(errors.DaybookError):
        """Of this test."""

        __module__ = "daybook.planted"

    assert "        Planted" in errors_tree.draw()
    del Planted
    gc.collect()


@pytest.mark.parametrize("source", ["class A(Exception): pass", "class A(x.ValueError): pass"])
def test_an_exception_is_found(tmp_path: Path, source: str) -> None:
    path = tmp_path / "planted.py"
    path.write_text(source)
    assert [name for name, _ in exceptions(path)] == ["A"]
