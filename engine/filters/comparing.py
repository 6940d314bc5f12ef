"""Comparison and arithmetic of the values in filters; None is SQL's unknown.

Values of different kinds are not equal, and no comparison of them is true (JMS 2.0, 3.8.1.1). Where
headers have no types, as in STOMP, or where the filter asks for it, a string is read as the number
or truth value that it is compared with: `converts`. Must never know a message.
"""

import math
import re
from typing import Final, TypeAlias

from daybook.engine.facts.values import Plain

Known: TypeAlias = Plain | None
"""A value, or None where it is unknown."""
Truth: TypeAlias = bool | None

NUMBER_TEXT_MAX: Final = 40
"""How long a string may be that is read as a number."""
DIGITS_MAX: Final = 4096
"""The largest integer in a filter, in bits; a larger one is unknown."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]+\Z")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_TRUTHS: Final = {"true": True, "false": False}


def number_in(value: Known, converts: bool) -> int | float | None:
    """Return a value as a number; None if it is none."""
    if isinstance(value, int | float):
        return None if isinstance(value, bool) else value
    if converts and isinstance(value, str) and len(value) <= NUMBER_TEXT_MAX:
        if value.isdigit() and value.isascii():
            return int(value)
        text = value.strip()
        if _INTEGER.match(text):
            return int(text)
        if _FLOAT.match(text):
            return float(text)
    return None


def truth_in(value: Known, converts: bool) -> Truth:
    """Return a value as a condition; unknown if it is none."""
    if isinstance(value, bool):
        return value
    if converts and isinstance(value, str):
        return _TRUTHS.get(value.strip().lower())
    return None


def compare(operator: str, left: Known, right: Known, converts: bool) -> Truth:
    """Compare two values by `=`, `<>`, `<`, `<=`, `>` or `>=`."""
    if left is None or right is None:
        return None
    if operator in ("=", "<>"):
        equal = _equal(left, right, converts)
        return False if equal is None else equal is (operator == "=")
    low, high = number_in(left, converts), number_in(right, converts)
    if low is None or high is None:
        return False
    if operator == "<":
        return low < high
    if operator == "<=":
        return low <= high
    return low > high if operator == ">" else low >= high


def _equal(left: Plain, right: Plain, converts: bool) -> Truth:
    """Whether two values are equal; None if they are of kinds that cannot be."""
    if type(left) is type(right):
        return left == right
    if isinstance(left, bool) or isinstance(right, bool):
        first, second = truth_in(left, converts), truth_in(right, converts)
        return None if first is None or second is None else first is second
    low, high = number_in(left, converts), number_in(right, converts)
    return None if low is None or high is None else low == high


def calculate(operator: str, left: Known, right: Known, converts: bool) -> int | float | None:
    """Add, subtract, multiply or divide; unknown if one of them is, or is no number, or by zero.

    Two integers divide as in Java: towards zero, and the remainder has the sign of the first.
    """
    low, high = number_in(left, converts), number_in(right, converts)
    if low is None or high is None:
        return None
    try:
        result = _calculated(operator, low, high)
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    if isinstance(result, int):
        return result if result.bit_length() <= DIGITS_MAX else None
    return result if math.isfinite(result) else None


def _calculated(operator: str, low: int | float, high: int | float) -> int | float:
    if operator == "+":
        return low + high
    if operator == "-":
        return low - high
    if operator == "*":
        return low * high
    if not (isinstance(low, int) and isinstance(high, int)):
        return low / high if operator == "/" else math.fmod(low, high)
    quotient = abs(low) // abs(high)
    if (low < 0) != (high < 0):
        quotient = -quotient
    return quotient if operator == "/" else low - quotient * high
