"""The law of filters: compiled ones answer as the definition of SQL-92 does, part by part."""

import re
from contextlib import suppress
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.filters import nodes as n
from daybook.engine.filters.compiling import compile_filter
from daybook.engine.filters.grammar import parse
from daybook.engine.messages.headers import build
from daybook.engine.messages.message import Message

NAMES = ("a", "b", "c", "flag")
TEXTS = ("", "x", "xy", "yx%", "5", "-2", "0.5", "true", "it's", "FALSE", "1e2", " 7 ", "0")

texts = st.sampled_from(TEXTS)
numbers = st.one_of(st.integers(0, 20), st.sampled_from((0.5, 2.0, 100.0, 1e-3)))
names = st.sampled_from(NAMES).map(n.Name)
values = st.deferred(lambda: st.one_of(names, texts.map(n.Literal), numbers.map(n.Literal), sums))
sums = st.deferred(
    lambda: st.one_of(
        st.builds(n.Arithmetic, st.sampled_from("+-*/%"), values, values),
        st.builds(n.Negative, values),
    )
)
patterns = st.text(st.sampled_from("xy5%_!"), max_size=5)
atoms = st.one_of(
    st.builds(n.Comparison, st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), values, values),
    st.builds(n.Between, values, values, values),
    st.builds(n.In, names, st.lists(texts, min_size=1, max_size=3).map(tuple)),
    st.builds(n.Like, names, patterns, st.just("")),
    st.builds(n.IsNull, values),
    names,
    st.booleans().map(n.Literal),
)
conditions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(n.Not, inner),
        st.lists(inner, min_size=2, max_size=3).map(tuple).map(n.All),
        st.lists(inner, min_size=2, max_size=3).map(tuple).map(n.Any),
    ),
    max_leaves=8,
)
headers = st.dictionaries(st.sampled_from(NAMES), texts)


# ---- how a part is written, with the parentheses that it needs

OR, AND, NOT, PREDICATE, SUM, PRODUCT, SIGNED, VALUE = range(8)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def written(node: Any) -> tuple[str, int]:
    """A part as text, and how tightly it holds together."""
    match node:
        case n.Literal(bool() as value):
            return str(value), VALUE
        case n.Literal(str() as value):
            return quoted(value), VALUE
        case n.Literal(value):
            return repr(value), VALUE
        case n.Name(name):
            return name, VALUE
        case n.Negative(operand):
            return f"- {inside(operand, SIGNED)}", SIGNED
        case n.Arithmetic(operator, left, right):
            level = SUM if operator in "+-" else PRODUCT
            return f"{inside(left, level)} {operator} {inside(right, level + 1)}", level
        case n.Comparison(operator, left, right):
            return f"{inside(left, SUM)} {operator} {inside(right, SUM)}", PREDICATE
        case n.Between(operand, low, high):
            parts = (inside(operand, SUM), inside(low, SUM), inside(high, SUM))
            return "{} BETWEEN {} AND {}".format(*parts), PREDICATE
        case n.In(operand, values):
            return f"{inside(operand, SUM)} IN ({', '.join(map(quoted, values))})", PREDICATE
        case n.Like(operand, pattern, _):
            return f"{inside(operand, SUM)} LIKE {quoted(pattern)}", PREDICATE
        case n.IsNull(operand):
            return f"{inside(operand, SUM)} IS NULL", PREDICATE
        case n.Not(operand):
            return f"NOT {inside(operand, NOT)}", NOT
        case n.All(operands):
            return " AND ".join(inside(each, NOT) for each in operands), AND
        case _:
            return " OR ".join(inside(each, AND) for each in node.operands), OR


def inside(node: Any, level: int) -> str:
    text, own = written(node)
    return text if own >= level else f"({text})"


# ---- what a part means, by the definition


def as_number(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        found = re.fullmatch(r"[+-]?(\d+)|[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?", value.strip())
        return None if found is None else int(value) if found[1] else float(value)
    return value


def as_truth(value: Any) -> Any:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def calculated(operator: str, left: Any, right: Any) -> Any:
    low, high = as_number(left), as_number(right)
    if low is None or high is None or (operator in "/%" and high == 0):
        return None
    if operator in "/%" and isinstance(low, int) and isinstance(high, int):
        quotient = int(Fraction(low, high))
        return quotient if operator == "/" else low - quotient * high
    if operator == "%":
        quotient = int(low / high)
        return float(Fraction(low) - int(Fraction(low) / Fraction(high)) * Fraction(high))
    return {"+": lambda: low + high, "-": lambda: low - high, "*": lambda: low * high}.get(
        operator, lambda: low / high
    )()


def compared(operator: str, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    if operator in ("=", "<>"):
        if isinstance(left, str) and isinstance(right, str):
            pair = left, right
        elif isinstance(left, bool) or isinstance(right, bool):
            pair = as_truth(left), as_truth(right)
        else:
            pair = as_number(left), as_number(right)
        if None in pair:
            return False
        return (pair[0] == pair[1]) is (operator == "=")
    low, high = as_number(left), as_number(right)
    if low is None or high is None:
        return False
    return {"<": low < high, "<=": low <= high, ">": low > high, ">=": low >= high}[operator]


def conjunction(found: list[Any]) -> Any:
    return False if False in found else None if None in found else True


def opposite(found: Any) -> Any:
    return None if found is None else not found


def meaning(node: Any, about: dict[str, str]) -> Any:
    match node:
        case n.Literal(value):
            return value
        case n.Name(name):
            return about.get(name)
        case n.Negative(operand):
            return calculated("-", 0, meaning(operand, about))
        case n.Arithmetic(operator, left, right):
            return calculated(operator, meaning(left, about), meaning(right, about))
        case n.Comparison(operator, left, right):
            return compared(operator, meaning(left, about), meaning(right, about))
        case n.Between(operand, low, high):
            value = meaning(operand, about)
            low_end = compared(">=", value, meaning(low, about))
            return conjunction([low_end, compared("<=", value, meaning(high, about))])
        case n.In(operand, values):
            value = meaning(operand, about)
            return None if value is None else value in values
        case n.Like(operand, pattern, _):
            value = meaning(operand, about)
            regex = "".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in pattern)
            return None if value is None else re.fullmatch(regex, value, re.DOTALL) is not None
        case n.IsNull(operand):
            return meaning(operand, about) is None
        case n.Not(operand):
            return opposite(truth(operand, about))
        case n.All(operands):
            return conjunction([truth(each, about) for each in operands])
        case _:
            others = [opposite(truth(each, about)) for each in node.operands]
            return opposite(conjunction(others))


def truth(node: Any, about: dict[str, str]) -> Any:
    return as_truth(meaning(node, about))


@given(conditions, headers)
def test_filters_answer_as_defined(condition: Any, about: dict[str, str]) -> None:
    text = written(condition)[0]
    message = Message(1, 1, 4, 0, 0, build(about.items()), b"")
    passes = compile_filter(text, lambda number: None).matches(message)
    assert passes is (truth(condition, about) is True)


@given(conditions)
def test_the_parser_finds_the_parts(condition: Any) -> None:
    """Whatever is written with the fewest parentheses is understood as it was meant."""
    text = written(condition)[0]
    assert written(parse(text, hyphenated=False))[0] == text


@given(st.text(st.sampled_from("ab1'\"() =<>!%_-+*/.,NOT ANDORISLKE"), max_size=30))
def test_no_text_does_anything_but_compile_or_be_refused(text: str) -> None:
    with suppress(ValueError):
        compiled = compile_filter(text, lambda number: None)
        assert compiled.matches(Message(1, 1, 4, 0, 0, b"a:1\n", b"")) in (True, False)
