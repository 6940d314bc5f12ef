"""Filters: messages that pass, unknown values, and errors in a text."""

import re
from typing import Any

import pytest

from daybook.engine.facts.events import PERSISTENT
from daybook.engine.filters.compiling import FILTER_BYTES_MAX, compile_filter
from daybook.engine.messages.headers import build
from daybook.engine.messages.message import Message
from tests.support.worlds.second_format import MAPS, encode, installed


def message(headers: dict[str, str], flags: int = PERSISTENT, body: bytes = b"abc") -> Message:
    return Message(7, 3, 4, flags, 0, build(headers.items()), body)


def typed(properties: dict[str, Any]) -> Message:
    return Message(7, 3, 4, MAPS, 99, encode(properties), b"")


def name_of(number: int) -> str | None:
    return {3: "orders"}.get(number)


def passes(text: str, about: Message) -> bool:
    return compile_filter(text, name_of).matches(about)


HEADERS = {
    "color": "blue", "weight": "2600", "half": "0.5", "urgent": "true", "my-header": "x",
    "name": "it's", "empty": "", "zero": "0", "JMSXGroupID": "g", "type": "car", "list": "a,b",
    "percent": "10%", "_x$1": "y", "größe": "L", "not1": "n",
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        # The example of the manual of Apollo.
        "type = 'car' AND color = 'blue' AND weight > 2500",
        # Comparison; headers of STOMP are strings, read as what they are compared with.
        "weight = 2600", "weight = 2600.0", "2600 = weight", "weight <> 5", "weight >= 2600L",
        "half = .5", "half < 1", "half = 5e-1", "half = 0.5f", "zero = 0", "zero <= 0",
        "color <> 'red'", "color = 'blue'", "name = 'it''s'", "empty = ''", "urgent",
        "urgent = TRUE",
        "NOT (urgent = FALSE)", "weight = weight", "half < weight", "zero = 0x0", "weight > 017",
        # Arithmetic, with the usual precedence.
        "weight = 2 * 1300", "weight + 1 = 2601", "weight - 1 - 1 = 2598", "1 + 2 * 3 = 7",
        "(1 + 2) * 3 = 9", "-weight < 0", "+weight > 0", "7 / 2 = 3", "-7 / 2 = -3", "7 % 3 = 1",
        "-7 % 3 = -1", "7.0 / 2 = 3.5", "- - 1 = 1", "5 - -1 = 6",
        # BETWEEN, IN, LIKE, IS NULL.
        "weight BETWEEN 2600 AND 2601", "weight NOT BETWEEN 1 AND 2", "color IN ('red', 'blue')",
        "color NOT IN ('red')", "color LIKE 'bl%'", "color LIKE '_lu_'", "color LIKE '%'",
        "color LIKE '%l%e'", "color NOT LIKE 'l%'", "percent LIKE '10!%' ESCAPE '!'",
        "empty LIKE ''", "empty LIKE '%'", "nothing IS NULL", "color IS NOT NULL",
        # Precedence of NOT, AND, OR; words in any case; three-valued logic.
        "NOT color = 'red'", "NOT color = 'red' AND weight = 2600", "color = 'red' OR weight > 1",
        "color = 'blue' or nothing = 1", "not nothing = 1 or color = 'blue'",
        "color='blue'AND(weight>1)", "NOT NOT urgent", "TRUE", "NOT FALSE", "true And urgent",
        "not (nothing = 1 AND color = 'red')",
        # Names.
        '"my-header" = \'x\'', "_x$1 = 'y'", "größe = 'L'", "not1 = 'n'",
        "hyphenated_props:my-header = 'x'", "convert_string_expressions:weight > 1",
        "hyphenated_props: convert_string_expressions: my-header = 'x' AND weight = 2600",
        "color = 'blue' -- a comment", "color /* another */ = 'blue'",
        # Facts that the broker knows.
        "AMQAddress = 'orders'", "AMQPriority = 4", "JMSPriority BETWEEN 4 AND 9", "priority = 4",
        "AMQDurable = 'DURABLE'", "JMSDeliveryMode = 'PERSISTENT'", "persistent",
        "AMQExpiration = 0",
        "AMQGroupID = 'g'", "JMSXGroupID = 'g'", "_AMQ_GROUP_ID = 'g'", "AMQUserID = 'ID:7'",
        "AMQSize > 3", "JMSType = 'car'", "AMQTimestamp IS NULL", "AMQNothing IS NULL",
    ],
)  # fmt: skip
def test_passes(text: str) -> None:
    assert passes(text, message(HEADERS))


@pytest.mark.parametrize(
    "text",
    [
        "color = 'red'", "color = 5", "color <> 5", "color > 5", "color > 'a'", "color",
        "NOT color",
        # Unknown values never pass, nor do their opposites.
        "nothing = 1", "NOT nothing = 1", "nothing <> 1", "NOT nothing <> 1", "nothing",
        "NOT nothing",
        "nothing LIKE '%'", "nothing NOT LIKE 'a'", "nothing IN ('a')", "nothing NOT IN ('a')",
        "nothing BETWEEN 1 AND 2", "nothing NOT BETWEEN 1 AND 2", "nothing + 1 = 1",
        "color = 'red' AND nothing = 1", "NOT (nothing = 1 OR color = 'red')", "weight / 0 = 1",
        "NOT weight % 0 = 1", "color + 1 = 1", "weight < 2600", "weight NOT BETWEEN 1 AND 9999",
        "Color = 'blue'", "my - header = 'x'", "color LIKE 'BLUE'", "color LIKE 'b'",
        "color LIKE '%x%'",
        "color LIKE 'blue_'", "percent LIKE '1!_%' ESCAPE '!'", "color IS NULL", "AMQAddress = 'x'",
    ],
)  # fmt: skip
def test_does_not_pass(text: str) -> None:
    assert not passes(text, message(HEADERS))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n = 5", True), ("n = 5.0", True), ("s = '5'", True), ("n > 4 AND f < 1", True),
        ("flag", True), ("flag = TRUE", True), ("flag <> FALSE", True), ("f = 0.5", True),
        ("AMQExpiration = 99", True), ("AMQDurable = 'NON_DURABLE'", True),
        # Types are what they are, unless the filter asks for something else.
        ("s = 5", False), ("s <> 5", False), ("s > 4", False), ("t", False), ("n = '5'", False),
        ("convert_string_expressions:s > 4", True), ("convert_string_expressions:t", True),
        ("flag = 1", False), ("flag > 0", False), ("s IN ('5')", True), ("n IN ('5')", False),
        ("n LIKE '5'", False),
    ],
)  # fmt: skip
def test_typed_properties(text: str, expected: bool) -> None:
    about = typed({"n": 5, "f": 0.5, "s": "5", "flag": True, "t": "true"})
    with installed():
        assert passes(text, about) is expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "it ends after column 0, and a value must follow"),
        ("a =", "it ends after column 3, and a value must follow"),
        ("a == 1", "column 4: found '=' where a value must be"),
        ("(a = 1", "it ends after column 6, and ')' must follow"),
        ("a = 1)", "column 6: found ')'"),
        ("a b", "column 3: found 'b' where an operator or the end must be"),
        ("a = 'x", "column 5: the string that begins here does not end"),
        ('"" = 1', "column 1: the quoted name that begins here is empty or does not end"),
        ("a BETWEEN 1", "AND must follow"),
        ("a IN (1)", "column 7: found '1' where a string in single quotes must be"),
        ("a IN ()", "column 7: found ')'"),
        ("a IS 5", "column 6: found '5' where NOT or NULL must be"),
        ("a LIKE 'x' ESCAPE 'ab'", "the escape of LIKE is 'ab', and must be one character"),
        ("a LIKE 'x!y' ESCAPE '!'", "stands before 'y'"),
        ("a LIKE 'x!' ESCAPE '!'", "stands before ''"),
        ("a = 08", "column 5: 08 begins with 0, so it is octal"),
        ("a = #", "column 5: '#' means nothing in a filter"),
        ("hyphenated_props:a == 1", "column 21: found '='"),
        ("my-header =", "it ends after column 11"),
        ("(" * 3000 + "a" + ")" * 3000, "6,001 bytes"),
        ("NOT " * 200 + "a", "more than 100 deep"),
        ("1" + "+1" * 200 + " = 201", "more than 100 deep"),
        ("XPATH '//a'", "column 7"),
        ("a = '" + "ä" * FILTER_BYTES_MAX + "'", "8,198 bytes, and 4,096 are the most"),
    ],
)
def test_what_is_wrong(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=re.escape(part)):
        compile_filter(text, name_of)


def test_many_conditions_beside_each_other_are_fine() -> None:
    assert passes(" OR ".join(f"a = {n}" for n in range(200)), message({"a": "199"}))
    assert passes("(" * 50 + "color = 'blue'" + ")" * 50, message(HEADERS))


def test_no_pattern_makes_like_try_combinations() -> None:
    """With backtracking this would not end."""
    assert not passes(f"a LIKE '{'%x' * 200}y'", message({"a": "x" * 5000}))
    assert not passes(f"a LIKE '{'%_x' * 100}y'", message({"a": "x" * 5000}))


def test_numbers_do_not_grow_without_end() -> None:
    product = "*".join(["999999999999999999"] * 90)
    assert not passes(f"{product} > 1", message({}))
    assert not passes("1e300 * 1e300 > 1", message({}))
    assert passes("big = '" + "9" * 50 + "'", message({"big": "9" * 50}))
    assert not passes("big > 1", message({"big": "9" * 50}))


def test_the_address_may_be_gone() -> None:
    gone = Message(7, 99, 4, 0, 0, b"", b"")
    assert passes("AMQAddress IS NULL", gone)
