"""From the parts of a filter to functions of a message. Must never know the syntax.

A function of a value answers the value, None if it is unknown; one of a condition True, False or
None. AND and OR stop at the first answer that decides.
"""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from daybook.engine.filters import nodes
from daybook.engine.filters.comparing import (
    Truth,
    calculate,
    compare,
    number_in,
    truth_in,
)
from daybook.engine.filters.costs import SCAN_SHIFT, UNREAD_SHIFT, Cost, cost_of
from daybook.engine.filters.liking import compile_like
from daybook.engine.filters.naming import AddressName, Reader, reader_of
from daybook.engine.messages.content import codec_of
from daybook.engine.messages.message import Message

FILTER_BYTES_MAX: Final = 4096
"""How long a filter may be, in UTF-8."""
ORIGIN: Final = re.compile("_AMQ_ORIG_ADDRESS = '(?:[^']|'')*'")
"""The broker's own filter for dead letters. It may be longer than others, because it contains the
name of an address, and costs little: the parser reads the name as one word."""
CONVERTS: Final = "convert_string_expressions:"
"""Before a filter: strings are read as numbers, and so on, in typed headers too (Artemis)."""
HYPHENATED: Final = "hyphenated_props:"
"""Before a filter: names may have hyphens (Artemis)."""

TOKENS_MAX: Final = FILTER_BYTES_MAX * 2
"""More words and signs than any filter has."""

Condition: TypeAlias = Callable[[Message], Truth]


class CompiledFilter:
    """A filter: `matches` says whether a message passes, and `work` what asking it costs.

    `cost` is what is known of that without a message.
    """

    __slots__ = ("_condition", "_scans", "_steps", "cost", "text")

    def __init__(self, text: str, condition: Condition, cost: Cost) -> None:
        self.text: Final = text
        self.cost: Final = cost
        self._condition: Final = condition
        self._steps: Final[int] = cost.steps
        self._scans: Final[int] = cost.scans

    def matches(self, message: Message) -> bool:
        """Whether a message passes; its headers must be resident."""
        return self._condition(message) is True

    def work(self, message: Message) -> int:
        """Return how many steps asking about a message takes (`Budget.step`)."""
        headers = message.headers
        unread = codec_of(message.flags).unread(headers)
        return self._steps + (len(headers) * self._scans >> SCAN_SHIFT) + (unread >> UNREAD_SHIFT)


def compile_filter(text: str, name_of: AddressName) -> CompiledFilter:
    """Return the filter in a text. Raises ValueError with a sentence about its fault.

    `name_of` returns the names of addresses by their ids.
    """
    reading = Reading(text)
    reading.go_on()
    return reading.compiled(name_of)


class Reading:
    """The text of a filter that is being parsed, in slices if its reader wants that.

    All raise ValueError with a sentence about the fault in the text.
    """

    def __init__(self, text: str) -> None:
        # The parser takes longer to import than a broker without filters should have to wait.
        from daybook.engine.filters.grammar import Parsing  # noqa: PLC0415

        self._text: Final = text
        padded, self._always, hyphenated = _without_prefixes(text)
        self._parsing: Final = Parsing(padded, hyphenated=hyphenated)

    def go_on(self, tokens: int = TOKENS_MAX) -> int:
        """Read so many more words and signs; return how many were read, fewer if that is all."""
        return self._parsing.go_on(tokens)

    def compiled(self, name_of: AddressName) -> CompiledFilter:
        """Return the filter, once all was read."""
        node = self._parsing.parsed()
        compiler = _Compiler(name_of, self._always)
        return CompiledFilter(self._text, compiler.condition(node), cost_of(node))


def _without_prefixes(text: str) -> tuple[str, bool, bool]:
    """Return the condition of a filter at the column where it is, and what its prefixes say."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > FILTER_BYTES_MAX and not ORIGIN.fullmatch(text):
        raise ValueError(f"it has {size:,} bytes, and {FILTER_BYTES_MAX:,} are the most")
    rest, always, hyphenated = text.strip(), False, False
    while rest.startswith((CONVERTS, HYPHENATED)):
        always = always or rest.startswith(CONVERTS)
        hyphenated = hyphenated or rest.startswith(HYPHENATED)
        rest = rest.partition(":")[2].lstrip()
    # What precedes the condition stays in the columns that errors name.
    padded = " " * (len(text) - len(text.lstrip()) + len(text.strip()) - len(rest)) + rest
    return padded, always, hyphenated


def _is_untyped(message: Message) -> bool:
    return not codec_of(message.flags).is_typed


class _Compiler:
    """Makes functions of the parts of one filter."""

    def __init__(self, name_of: AddressName, always_converts: bool) -> None:
        self._name_of: Final = name_of
        self._converts: Final[Callable[[Message], bool]] = (
            (lambda message: True) if always_converts else _is_untyped
        )

    # ---- conditions

    def condition(self, node: nodes.Node) -> Condition:
        """Return the function that says whether a part is true."""
        if isinstance(node, nodes.All | nodes.Any):
            decides = isinstance(node, nodes.Any)
            return _joined(decides, tuple(self.condition(each) for each in node.operands))
        if isinstance(node, nodes.Not):
            return _negated(self.condition(node.operand))
        if isinstance(node, nodes.Comparison):
            return self._comparison(node)
        if isinstance(node, nodes.Between):
            low = nodes.Comparison(">=", node.operand, node.low)
            high = nodes.Comparison("<=", node.operand, node.high)
            return self.condition(nodes.All((low, high)))
        if isinstance(node, nodes.In):
            return _among(self.value(node.operand), frozenset(node.values))
        if isinstance(node, nodes.Like):
            return _fitting(self.value(node.operand), compile_like(node.pattern, node.escape))
        if isinstance(node, nodes.IsNull):
            read = self.value(node.operand)
            return lambda message: read(message) is None
        return self._truth(self.value(node))

    def _truth(self, read: Reader) -> Condition:
        converts = self._converts
        return lambda message: truth_in(read(message), converts(message))

    def _comparison(self, node: nodes.Comparison) -> Condition:
        operator, right = node.operator, node.right
        if isinstance(right, nodes.Literal) and operator != "<>":
            if isinstance(right.value, str) and operator == "=":
                return self._equal_to_text(self.value(node.left), right.value)
            if isinstance(right.value, int | float) and not isinstance(right.value, bool):
                return self._beside_number(operator, self.value(node.left), right.value)
        left, other, converts = self.value(node.left), self.value(right), self._converts
        return lambda message: compare(operator, left(message), other(message), converts(message))

    def _equal_to_text(self, read: Reader, text: str) -> Condition:
        """As the general function, for the usual case that a string is compared with a literal."""
        converts = self._converts

        def is_equal(message: Message) -> Truth:
            value = read(message)
            if isinstance(value, str):
                return value == text
            return compare("=", value, text, converts(message))

        return is_equal

    def _beside_number(self, operator: str, read: Reader, number: float) -> Condition:
        """As the general function, for the usual case that a number is compared with a literal."""
        converts = self._converts

        def holds(message: Message) -> Truth:
            value = read(message)
            if value is None:
                return None
            given = number_in(value, converts(message))
            return given is not None and compare(operator, given, number, False)

        return holds

    # ---- values

    def value(self, node: nodes.Node) -> Reader:
        """Return the function that reads the value of a part."""
        if isinstance(node, nodes.Literal):
            value = node.value
            return lambda message: value
        if isinstance(node, nodes.Name):
            return reader_of(node.name, self._name_of)
        if isinstance(node, nodes.Negative):
            return self.value(nodes.Arithmetic("-", nodes.Literal(0), node.operand))
        if isinstance(node, nodes.Arithmetic):
            left, right, operator = self.value(node.left), self.value(node.right), node.operator
            converts = self._converts
            return lambda message: calculate(
                operator, left(message), right(message), converts(message)
            )
        return self.condition(node)


def _joined(decides: bool, conditions: tuple[Condition, ...]) -> Condition:
    """Return OR of conditions if a true one decides, AND if a false one does."""

    def holds(message: Message) -> Truth:
        answer: Truth = not decides
        for condition in conditions:
            found = condition(message)
            if found is decides:
                return decides
            if found is None:
                answer = None
        return answer

    return holds


def _negated(condition: Condition) -> Condition:
    def holds(message: Message) -> Truth:
        found = condition(message)
        return None if found is None else not found

    return holds


def _among(read: Reader, values: frozenset[str]) -> Condition:
    def holds(message: Message) -> Truth:
        value = read(message)
        return None if value is None else value in values

    return holds


def _fitting(read: Reader, fits: Callable[[str], bool]) -> Condition:
    def holds(message: Message) -> Truth:
        value = read(message)
        if value is None:
            return None
        return isinstance(value, str) and fits(value)

    return holds
