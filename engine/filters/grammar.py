"""The syntax of filters, and errors for texts that do not follow it.

JMS 2.0, section 3.8.1.1: SQL-92 conditions, keywords in any case, identifiers as written. In
addition, as in Artemis: `%` as the remainder of a division, hexadecimal and octal numbers, names in
double quotes, and comments. `NOT a = b` means `NOT (a = b)`, as SQL-92 says. Must never know what a
filter computes.
"""

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any, Final

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError

from daybook.engine.filters import nodes

GRAMMAR: Final = r"""
?start: condition
?condition: conjunction (_OR conjunction)*       -> any_of
?conjunction: negation (_AND negation)*          -> all_of
?negation: _NOT negation                         -> negated
    | predicate
?predicate: sum
    | sum COMPARED sum                           -> comparison
    | sum [NOT] _BETWEEN sum _AND sum            -> between
    | sum [NOT] _IN "(" STRING ("," STRING)* ")" -> in_strings
    | sum [NOT] _LIKE STRING [_ESCAPE STRING]    -> like
    | sum _IS [NOT] _NULL                        -> is_null
?sum: product
    | sum (PLUS | MINUS) product                 -> arithmetic
?product: signed
    | product (TIMES | OVER | REST) signed       -> arithmetic
?signed: PLUS signed                             -> positive
    | MINUS signed                               -> negative
    | value
?value: STRING                                   -> string
    | FLOAT                                      -> floating
    | HEXADECIMAL                                -> hexadecimal
    | INTEGER                                    -> integer
    | _TRUE                                      -> true
    | _FALSE                                     -> false
    | NAME                                       -> name
    | QUOTED                                     -> quoted
    | "(" condition ")"

_OR.2: /or\b/i
_AND.2: /and\b/i
NOT.2: /not\b/i
_BETWEEN.2: /between\b/i
_IN.2: /in\b/i
_LIKE.2: /like\b/i
_ESCAPE.2: /escape\b/i
_IS.2: /is\b/i
_NULL.2: /null\b/i
_TRUE.2: /true\b/i
_FALSE.2: /false\b/i
COMPARED: "=" | "<>" | "<=" | ">=" | "<" | ">"
PLUS: "+"
MINUS: "-"
TIMES: "*"
OVER: "/"
REST: "%"
STRING: /'(?:[^']|'')*'/
FLOAT.2: /(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?|\d+[eE][+-]?\d+[fFdD]?|\d+[fFdD]/
HEXADECIMAL.3: /0[xX][0-9a-fA-F]+[lL]?/
INTEGER: /\d+[lL]?/
NAME: /[^\W\d][\w$]*|\$[\w$]*/
QUOTED: /"(?:[^"]|"")+"/
COMMENT: /--[^\n]*/ | /\/\*(?:[^*]|\*(?!\/))*\*\//
%ignore /\s+/
%ignore COMMENT
""".replace("_NOT negation", "NOT negation")

HYPHENATED: Final = r"NAME: /[^\W\d](?:[\w$]|-(?=[\w$]))*|\$[\w$-]*/"
"""The pattern of names with `hyphenated_props:` before the filter; a minus then needs spaces."""

DEPTH_MAX: Final = 100
"""How deep parts of a filter may be in each other."""


class Parsing:
    """A filter that is being parsed: as many words and signs at a time as its reader wants.

    All raise ValueError with a sentence that names the column.
    """

    def __init__(self, text: str, *, hyphenated: bool) -> None:
        self._text: Final = text
        self._parser: Final[Any] = _parser(hyphenated).parse_interactive(text)
        self._tokens: Final[Iterator[Token]] = self._parser.iter_parse()
        self._last: Token | None = None
        self._is_read = False

    def go_on(self, tokens: int) -> int:
        """Read so many more words and signs; return how many were read, fewer if that is all."""
        read = 0
        try:
            for token in islice(self._tokens, tokens):
                read += 1
                self._last = token
        except UnexpectedInput as error:
            raise self._wrong(error) from error
        self._is_read = read < tokens
        return read

    def _wrong(self, error: UnexpectedInput) -> ValueError:
        # It knows what would be right, as in the error of a parser that reads all at once.
        error.interactive_parser = self._parser
        return ValueError(_wrong_with(self._text, error))

    def parsed(self) -> nodes.Node:
        """Return the parts of the filter, after its whole text was read."""
        assert self._is_read
        try:
            found: nodes.Node = _Builder().transform(self._parser.feed_eof(self._last))
        except UnexpectedInput as error:
            raise self._wrong(error) from error
        except VisitError as error:
            raise ValueError(str(error.orig_exc)) from error
        except RecursionError:
            raise _too_deep() from None
        if depth_of(found) > DEPTH_MAX:
            raise _too_deep()
        return found


def parse(text: str, *, hyphenated: bool) -> nodes.Node:
    """Return the parts of a filter. Raises as `Parsing`."""
    parsing = Parsing(text, hyphenated=hyphenated)
    parsing.go_on(len(text) + 1)
    return parsing.parsed()


@cache
def _parser(hyphenated: bool) -> Lark:
    grammar = GRAMMAR
    if hyphenated:
        lines = grammar.splitlines()
        grammar = "\n".join(HYPHENATED if line.startswith("NAME:") else line for line in lines)
    return Lark(grammar, parser="lalr", maybe_placeholders=True)


def depth_of(node: nodes.Node) -> int:
    """Return how deep the parts of a filter are in each other, at most one more than allowed."""
    depth, level = 0, [node]
    while level and depth <= DEPTH_MAX:
        depth += 1
        level = [part for each in level for part in nodes.parts_of(each)]
    return depth


def _too_deep() -> ValueError:
    return ValueError(f"its parts are more than {DEPTH_MAX} deep in each other")


def _wrong_with(text: str, error: UnexpectedInput) -> str:
    """Report an error with its column and the expected text."""
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return f"it ends after column {len(text.rstrip())}, and {_expected(error)} must follow"
    if isinstance(error, UnexpectedToken):
        return f"column {error.column}: found {str(error.token)!r} where {_expected(error)} must be"
    column = error.column
    rest = text.split("\n")[error.line - 1][column - 1 :]
    if rest.startswith("'"):
        return f"column {column}: the string that begins here does not end"
    if rest.startswith('"'):
        return f"column {column}: the quoted name that begins here is empty or does not end"
    assert isinstance(error, UnexpectedCharacters)
    return f"column {column}: {rest[:1]!r} means nothing in a filter"


_WORDS: Final = {
    "COMPARED": "a comparison", "STRING": "a string in single quotes", "RPAR": "')'",
    "_NULL": "NULL", "NOT": "NOT", "_AND": "AND", "LPAR": "'('", "COMMA": "','",
}  # fmt: skip


def _expected(error: UnexpectedToken) -> str:
    """Return the expected text, in words."""
    wanted = set(error.accepts or error.expected)
    if {"NAME", "STRING", "INTEGER"} <= wanted:
        return "a value"
    if "COMPARED" in wanted:
        return "an operator or the end" if "$END" in wanted else "an operator or ')'"
    words = sorted(_WORDS[name] for name in wanted if name in _WORDS)
    return " or ".join(words) if words else "AND, OR or the end"


class _Builder(Transformer[Token, nodes.Node]):
    """Builds the parts of a filter from the parser's tree."""

    def any_of(self, found: list[nodes.Node]) -> nodes.Node:
        return found[0] if len(found) == 1 else nodes.Any(tuple(found))

    def all_of(self, found: list[nodes.Node]) -> nodes.Node:
        return found[0] if len(found) == 1 else nodes.All(tuple(found))

    def negated(self, found: list[Any]) -> nodes.Node:
        return nodes.Not(found[-1])

    def comparison(self, found: list[Any]) -> nodes.Node:
        left, operator, right = found
        return nodes.Comparison(str(operator), left, right)

    def between(self, found: list[Any]) -> nodes.Node:
        operand, is_not, low, high = found
        return _perhaps_not(is_not, nodes.Between(operand, low, high))

    def in_strings(self, found: list[Any]) -> nodes.Node:
        operand, is_not, *strings = found
        return _perhaps_not(is_not, nodes.In(operand, tuple(map(_unquoted, strings))))

    def like(self, found: list[Any]) -> nodes.Node:
        operand, is_not, pattern, escape = found
        character = _unquoted(escape) if escape is not None else ""
        if escape is not None and len(character) != 1:
            raise ValueError(
                f"column {escape.column}: the escape of LIKE is {character!r}, and must be one "
                "character"
            )
        return _perhaps_not(is_not, nodes.Like(operand, _unquoted(pattern), character))

    def is_null(self, found: list[Any]) -> nodes.Node:
        operand, is_not = found
        return _perhaps_not(is_not, nodes.IsNull(operand))

    def arithmetic(self, found: list[Any]) -> nodes.Node:
        left, operator, right = found
        return nodes.Arithmetic(str(operator), left, right)

    def positive(self, found: list[Any]) -> nodes.Node:
        return nodes.Arithmetic("+", nodes.Literal(0), found[-1])

    def negative(self, found: list[Any]) -> nodes.Node:
        return nodes.Negative(found[-1])

    def string(self, found: list[Token]) -> nodes.Node:
        return nodes.Literal(_unquoted(found[0]))

    def floating(self, found: list[Token]) -> nodes.Node:
        return nodes.Literal(float(found[0].rstrip("fFdD")))

    def hexadecimal(self, found: list[Token]) -> nodes.Node:
        return nodes.Literal(int(found[0].rstrip("lL"), 16))

    def integer(self, found: list[Token]) -> nodes.Node:
        digits = found[0].rstrip("lL")
        if len(digits) > 1 and digits.startswith("0"):
            if digits.strip("01234567"):
                raise ValueError(
                    f"column {found[0].column}: {digits} begins with 0, so it is octal, and has "
                    "other digits than 0 to 7"
                )
            return nodes.Literal(int(digits, 8))
        return nodes.Literal(int(digits))

    def true(self, found: list[Token]) -> nodes.Node:
        return nodes.Literal(True)

    def false(self, found: list[Token]) -> nodes.Node:
        return nodes.Literal(False)

    def name(self, found: list[Token]) -> nodes.Node:
        return nodes.Name(str(found[0]))

    def quoted(self, found: list[Token]) -> nodes.Node:
        return nodes.Name(found[0][1:-1].replace('""', '"'))


def _unquoted(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _perhaps_not(is_not: Token | None, node: nodes.Node) -> nodes.Node:
    return nodes.Not(node) if is_not is not None else node
