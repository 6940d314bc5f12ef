"""Every refusal says what to do in its first line: many clients show no more of an ERROR.

The texts are read in the sources, so none can be forgotten.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.meta import tree

ADMINISTRATION = {
    "administration", "divert_decisions", "duplicates", "group_resets", "message_moves",
    "move_targets", "settings_changes", "signatures", "updates",
}  # fmt: skip
"""Modules whose short refusals answer administrators: what is there already, or is not there, is
listed by the same command line."""
OF_PROTOCOLS = (
    "there is no connection", "there is no consumer", "there is no outcome",
    "event {} has not been decided", "message {} is not ready",
)  # fmt: skip
"""Refusals to a protocol that names what it does not have; no client ever reads them."""
NAMED_BY_CLIENTS = ("there is no queue", "there is no address", "queue '{}' is on address")
"""Names that the client wrote itself."""
ERRORS = {"StompError", "UnknownDelivery", "UndefinedEscape"}


def text_of(node: ast.expr) -> str:
    """Return the text of an expression, with braces where values are inserted."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        parts = [str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values]
        return "".join(parts)
    return "{}"


def calls(path: Path, names: set[str]) -> Iterator[ast.Call]:
    """Yield the calls of these names in a module."""
    for node in ast.walk(tree.parsed(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


def has_advice(text: str) -> bool:
    """Return whether a refusal says what to do, or needs no advice."""
    is_explained = text.endswith((": {}", ": {};"))
    is_advice = "; " in text or " must be " in text
    return is_advice or is_explained or text.startswith((*OF_PROTOCOLS, *NAMED_BY_CLIENTS))


def test_refusals_of_the_broker() -> None:
    texts = [
        f"{path.stem}: {text_of(call.args[1])}"
        for path in sorted((tree.ROOT / "engine").rglob("*.py"))
        for call in calls(path, {"Refusal"})
        if len(call.args) > 1
    ]
    assert len(texts) > 100
    short = []
    for each in texts:
        module, _, text = each.partition(": ")
        if module not in ADMINISTRATION and text != "{}" and not has_advice(text):
            short.append(each)
    assert not short, "write what to do behind a semicolon"


def test_errors_of_stomp() -> None:
    """Those that repeat a refusal of the broker have its advice in their text."""
    found = [
        (path.stem, call)
        for path in sorted((tree.ROOT / "protocols" / "stomp").rglob("*.py"))
        for call in calls(path, ERRORS)
    ]
    assert len(found) > 60
    short = [
        f"{module}:{call.lineno}"
        for module, call in found
        if len(call.args) < 2 and "refusal.text" not in ast.unparse(call.args[0])
    ]
    assert short == []
