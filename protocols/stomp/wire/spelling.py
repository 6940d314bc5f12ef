"""How an acceptor spells names: its separators and wildcards, and percent-encoding.

The engine has one syntax of names (`engine.names.syntax`). An acceptor may have another one for its
clients; then names are translated on their way in, and back on their way out, so that a client can
send to what it reads. Law: `name_of(shown(name)) == name` for every name of an address. Stored
messages have the spelling of an acceptor without options. Must never know which addresses exist.
"""

import re
from functools import lru_cache
from typing import Final

import msgspec

from daybook.engine.names.names import FOREIGN, RESERVED
from daybook.engine.names.syntax import DEFAULT, REGEX_END, REGEX_START, Syntax
from daybook.engine.names.words import ESCAPE, divided
from daybook.protocols.stomp.wire.errors import StompError, shortened

SEPARATOR: Final = ","
"""Divides the names of a composite destination, unless an acceptor has another one."""
SYMBOL_LENGTH_MAX: Final = 8
_ESCAPES: Final = re.compile("(?:%[0-9A-Fa-f]{2})+")
_PERCENT: Final = "\0"
"""Stands for a `%` that a client encoded, until what follows is known. No header holds it."""
_PERCENTS: Final = re.compile(_PERCENT)
_ESCAPED_LENGTH: Final = len("%2C")
_ESCAPES_AND_PERCENTS: Final = re.compile("(?:%[0-9A-Fa-f]{2})+|%")
_AS_IT_IS: Final = re.compile("[A-Za-z0-9_~:()/.-]*")
"""Names, with prefixes, that mean the same with percent-encoding and without."""
_UNRESERVED: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-~:()"
)


class Symbols(msgspec.Struct, frozen=True):
    """The symbols in an acceptor's options; an empty one is taken from `[wildcard-addresses]`."""

    path_separator: str = ""
    destination_separator: str = ""
    any_child_wildcard: str = ""
    any_descendant_wildcard: str = ""
    regex_wildcard_start: str = ""
    regex_wildcard_end: str = ""


class Spelling:
    """The spelling of names at an acceptor; `is_plain` if it is that of the engine."""

    __slots__ = (
        "_chain",
        "_kept",
        "_unreserved",
        "any_child",
        "any_descendant",
        "between",
        "encodes",
        "is_plain",
        "path",
        "regex_end",
        "regex_start",
        "syntax",
    )  # fmt: skip

    def __init__(
        self, symbols: Symbols, syntax: Syntax = DEFAULT, *, encodes: bool = False
    ) -> None:
        """Raises ValueError if the symbols contradict each other."""
        self.syntax: Final = syntax
        self.encodes: Final = encodes
        self.path: Final = symbols.path_separator or syntax.delimiter
        self.any_child: Final = symbols.any_child_wildcard or syntax.one_word
        self.any_descendant: Final = symbols.any_descendant_wildcard or self.any_child * 2
        self.regex_start: Final = symbols.regex_wildcard_start or REGEX_START
        self.regex_end: Final = symbols.regex_wildcard_end or REGEX_END
        own = (self.path, self.any_child, self.any_descendant, self.regex_start, self.regex_end)
        engines = (
            syntax.delimiter, syntax.one_word, syntax.one_word * 2, REGEX_START, REGEX_END,
        )  # fmt: skip
        self.is_plain: Final = own == engines and not encodes
        is_in_names = SEPARATOR in (syntax.delimiter, syntax.one_word, syntax.any_words)
        default = "" if is_in_names else SEPARATOR
        self.between: Final = symbols.destination_separator or default
        # Characters with a meaning in names stay encoded in the names of addresses.
        self._kept: Final = frozenset(
            RESERVED + FOREIGN + syntax.delimiter + syntax.one_word + syntax.any_words
        )
        # Text that looks like such an encoding, or like one that is encoded again.
        stays = "|".join(f"{code:02X}" for code in range(128) if self._stays(chr(code)))
        self._chain: Final = re.compile(f"((?:25)*)(?:{stays})")
        self._unreserved: Final = _UNRESERVED | (frozenset("/") - {self.path})
        if symbols != Symbols():
            self._check(symbols)

    def _check(self, symbols: Symbols) -> None:
        given = msgspec.structs.asdict(symbols)
        for field, symbol in given.items():
            wrong = any(c.isalnum() or not c.isprintable() or c in ' %:\\"' for c in symbol)
            if wrong or len(symbol) > SYMBOL_LENGTH_MAX:
                raise ValueError(
                    f"{_key(field)} is {symbol!r}; it must be 1 to {SYMBOL_LENGTH_MAX} characters"
                    " without letters, digits, spaces, %, :, \\ and quotation marks"
                )
        if len(self.path) > 1:
            raise ValueError(f"path-separator is {self.path!r}; it must be one character")
        named = {
            "path-separator": self.path,
            "destination-separator": self.between,
            "any-child-wildcard": self.any_child,
            "regex-wildcard-start": self.regex_start,
            "regex-wildcard-end": self.regex_end,
        }
        pairs = [(one, other) for one in named for other in named if one != other]
        pairs += [("path-separator", "any-descendant-wildcard")]
        pairs += [("destination-separator", "any-descendant-wildcard")]
        named["any-descendant-wildcard"] = self.any_descendant
        for one, other in pairs:
            if named[one] and named[one] in named[other]:
                raise ValueError(
                    f"{one} is {named[one]!r} and {other} is {named[other]!r}; neither may contain"
                    " the other"
                )
        if self.any_descendant == self.any_child:
            raise ValueError(
                f"any-child-wildcard and any-descendant-wildcard are both {self.any_child!r}"
            )

    # ---------------------------------------------------------------- what clients write

    def divided(self, destination: str) -> list[str]:
        """Divide a composite destination; a separator in a regular expression divides nothing."""
        between = self.between
        if not between or between not in destination:
            return [destination]
        if self.regex_start == REGEX_START:
            return divided(destination, between)
        return destination.split(between)

    def name_of(self, text: str) -> str:
        """Return the name of an address, or the pattern, for a client's spelling. Raises
        StompError."""
        if self.is_plain or (self.encodes and self._is_same(text)):
            return text
        pieces: list[str] = []
        place = word = 0
        while place < len(text):
            if place == word:
                end = self._end_of_word(text, place)
                if text[place:end] in (self.any_descendant, self.syntax.any_words):
                    pieces.append(self.syntax.any_words)
                    place = end
                    continue
            if text.startswith(self.path, place):
                pieces.append(self.syntax.delimiter)
                place = word = place + len(self.path)
            elif text.startswith(self.regex_start, place):
                end = self._end_of_regex(text, place)
                inside = text[place + len(self.regex_start) : end - len(self.regex_end)]
                pieces.append(REGEX_START + inside + REGEX_END)
                place = end
            elif text.startswith(self.any_child, place):
                pieces.append(self.syntax.one_word)
                place += len(self.any_child)
            else:
                place = self._literal(text, place, pieces)
        return self._with_percents("".join(pieces))

    def id_of(self, text: str) -> str:
        """Return the id of a durable subscription, which has no words, for a client's spelling."""
        if not self.encodes:
            return text
        decoded = _ESCAPES_AND_PERCENTS.sub(
            lambda found: _PERCENT if found[0] == "%" else self._decoded(found[0]), text
        )
        return self._with_percents(decoded)

    def _with_percents(self, name: str) -> str:
        """Return a name with a `%` for each `_PERCENT`; encoded where it would look like the
        beginning of a character that stays encoded."""
        return _PERCENTS.sub(
            lambda found: "%25" if self._chain.match(name, found.end()) else "%", name
        )

    def _is_same(self, text: str) -> bool:
        return self.path == self.syntax.delimiter and _AS_IT_IS.fullmatch(text) is not None

    def _end_of_word(self, text: str, place: int) -> int:
        end = text.find(self.path, place)
        return len(text) if end < 0 else end

    def _end_of_regex(self, text: str, start: int) -> int:
        """Return the place behind a regular expression. Raises StompError if it has no end."""
        depth, place = 1, start + len(self.regex_start)
        while place < len(text):
            if text.startswith(ESCAPE, place):
                place += 2
            elif text.startswith(self.regex_start, place):
                depth += 1
                place += len(self.regex_start)
            elif text.startswith(self.regex_end, place):
                depth -= 1
                place += len(self.regex_end)
                if not depth:
                    return place
            else:
                place += 1
        raise StompError(
            f"destination {shortened(text)} has a regular expression without an end",
            f"write {self.regex_start}REGEX{self.regex_end}",
        )

    def _literal(self, text: str, place: int, pieces: list[str]) -> int:
        """Add one character that stands for itself, or some that are encoded; return the place
        behind them."""
        character = text[place]
        if self.encodes:
            found = _ESCAPES.match(text, place) if character == "%" else None
            if found is not None:
                pieces.append(self._decoded(found[0]))
                return found.end()
            # The separator of composite destinations was looked for before.
            is_ours = character not in self.between and character in self._kept
            as_it_is = _PERCENT if character == "%" else character
            pieces.append(_encoded(character) if is_ours else as_it_is)
            return place + 1
        swapped = {self.syntax.delimiter: self.path}.get(character, character)
        if swapped == character and character in (
            self.syntax.one_word, REGEX_START, REGEX_END,
        ):  # fmt: skip
            raise StompError(
                f"destination {shortened(text)} has {character!r}, which no name may have",
                f"here {self.any_child} stands for a word, and {self.regex_start} and"
                f" {self.regex_end} enclose a regular expression",
            )
        pieces.append(swapped)
        return place + 1

    def _decoded(self, escapes: str) -> str:
        """Decode a run of encoded bytes; characters with a meaning in names, and bytes that are not
        UTF-8, stay encoded."""
        found = (_encoded(c) if self._stays(c) else c for c in _characters(escapes))
        return "".join(_PERCENT if c == "%" else c for c in found)

    def _stays(self, character: str) -> bool:
        return character in self._kept or not character.isprintable()

    # ---------------------------------------------------------------- what clients read

    def shown(self, name: str) -> str:
        """Return how a client writes the name of an address."""
        if self.is_plain or (self.encodes and self._is_same(name)):
            return name
        if not self.encodes:
            swap = {self.syntax.delimiter: self.path, self.path: self.syntax.delimiter}
            return "".join(swap.get(character, character) for character in name)
        pieces = []
        kept = self._kept_places(name)
        place = -1
        while (place := place + 1) < len(name):
            character = name[place]
            chain = self._chain.match(name, place + 1) if character == "%" else None
            if chain is not None and chain[1] and "%" not in self._kept:
                # A `%` itself, in front of what it would encode otherwise.
                pieces.append("%25")
                place += len("25")
            elif character == self.syntax.delimiter:
                pieces.append(self.path)
            elif character in self._unreserved or place in kept:
                pieces.append(character)
            else:
                pieces.append(_encoded(character))
        return "".join(pieces)

    def _kept_places(self, name: str) -> set[int]:
        """Return where in a name the bytes of characters that stay encoded begin."""
        places: set[int] = set()
        for run in _ESCAPES.finditer(name):
            at = run.start()
            for character in _characters(run[0]):
                encoded = _encoded(character)
                if self._stays(character) and name.startswith(encoded, at):
                    places.update(range(at, at + len(encoded), _ESCAPED_LENGTH))
                at += len(encoded)
        return places


@lru_cache(maxsize=64)
def spelling_of(symbols: Symbols, syntax: Syntax, encodes: bool) -> Spelling:
    """Return the spelling of an acceptor. Raises ValueError if symbols contradict each other."""
    return Spelling(symbols, syntax, encodes=encodes)


def _encoded(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))


def _characters(escapes: str) -> str:
    """Decode a run of encoded bytes; bytes that are not UTF-8 become surrogates."""
    return bytes.fromhex(escapes.replace("%", "")).decode("utf-8", "surrogateescape")


def _key(field: str) -> str:
    return field.replace("_", "-")
