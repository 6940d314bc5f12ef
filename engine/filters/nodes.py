"""The parts of a parsed filter. Must never know the syntax, or what the parts compute."""

from typing import NamedTuple, TypeAlias

from daybook.engine.facts.values import Plain


class Literal(NamedTuple):
    """A value that is written in the filter."""

    value: Plain


class Name(NamedTuple):
    """A property, or a fact of the broker about the message."""

    name: str


class Negative(NamedTuple):
    """The number with its sign changed."""

    operand: "Node"


class Arithmetic(NamedTuple):
    """`+`, `-`, `*`, `/` or `%` of two numbers."""

    operator: str
    left: "Node"
    right: "Node"


class Comparison(NamedTuple):
    """`=`, `<>`, `<`, `<=`, `>` or `>=` of two values."""

    operator: str
    left: "Node"
    right: "Node"


class Between(NamedTuple):
    """Whether a value is at least the one and at most the other."""

    operand: "Node"
    low: "Node"
    high: "Node"


class In(NamedTuple):
    """Whether a value is one of some strings."""

    operand: "Node"
    values: tuple[str, ...]


class Like(NamedTuple):
    """Whether a string fits a pattern; `escape` is empty or one character."""

    operand: "Node"
    pattern: str
    escape: str


class IsNull(NamedTuple):
    """Whether there is no value."""

    operand: "Node"


class Not(NamedTuple):
    """True if the operand is false, and the reverse."""

    operand: "Node"


class All(NamedTuple):
    """AND of two or more."""

    operands: "tuple[Node, ...]"


class Any(NamedTuple):
    """OR of two or more."""

    operands: "tuple[Node, ...]"


Node: TypeAlias = (
    Literal | Name | Negative | Arithmetic | Comparison | Between | In | Like | IsNull | Not | All
    | Any
)  # fmt: skip


def parts_of(node: Node) -> tuple[Node, ...]:
    """Return the parts that a part directly consists of."""
    if isinstance(node, All | Any):
        return node.operands
    if isinstance(node, Arithmetic | Comparison):
        return node.left, node.right
    if isinstance(node, Between):
        return node.operand, node.low, node.high
    return () if isinstance(node, Literal | Name) else (node.operand,)
