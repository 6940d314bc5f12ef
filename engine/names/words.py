"""Words of patterns that match part of a word: `I*`, `A*B`, and regular expressions in braces.

A word of a name is what stands between two delimiters. In a word of a pattern `*` stands for any
characters, also none, if other characters are beside it; `{REGEX}` for what the regular expression
matches; everything else for itself. Together they must match the whole word, and no empty one.
Regular expressions are those of RE2: their time is linear in the length of the word, their memory
is bounded, and they have no back-references. Must never know what the patterns belong to.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from daybook.engine.names.syntax import REGEX_END, REGEX_START, Syntax

if TYPE_CHECKING:
    import re2

REGEX_LENGTH_MAX: Final = 256
"""Characters of a word with regular expressions."""
REGEX_WORD_MAX: Final = 255
"""Characters of a word of a name that regular expressions are compared with; no longer one matches.
Where the memory below is too small for an expression, its time is the product of both lengths."""
REGEX_MEMORY_MAX: Final = 64 << 10
"""Bytes that a compiled regular expression may take, with the states that it remembers."""
REGEX_NODES: Final = 128
"""For how many nodes of a trie a regular expression counts, which is its memory."""
ESCAPE: Final = "\\"
_REMEMBERED_MAX: Final = 64


@lru_cache(maxsize=1)
def _options() -> "re2.Options":
    import re2  # noqa: PLC0415 (slow to import, and few use it)

    options = re2.Options()
    options.max_mem = REGEX_MEMORY_MAX
    options.never_capture = True
    options.log_errors = False
    options.dot_nl = True
    return options


class Part:
    """A word of a pattern that matches words in part. This one matches nothing."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: Final = text

    @property
    def nodes(self) -> int:
        """For how many nodes of a trie it counts."""
        return 1

    def matches(self, word: str) -> bool:
        """Whether a word matches, which is not empty."""
        return False


class Glob(Part):
    """Characters with `*` among them."""

    __slots__ = ("_first", "_last", "_least", "_middle")

    def __init__(self, text: str, one_word: str) -> None:
        super().__init__(text)
        pieces = text.split(one_word)
        self._first: Final = pieces[0]
        self._last: Final = pieces[-1]
        self._middle: Final = [piece for piece in pieces[1:-1] if piece]
        self._least: Final = sum([len(piece) for piece in pieces])

    def matches(self, word: str) -> bool:
        """Whether a word matches, which is not empty."""
        if len(word) < self._least or not word.startswith(self._first):
            return False
        if not word.endswith(self._last):
            return False
        end = len(word) - len(self._last)
        place = len(self._first)
        for piece in self._middle:
            # The first place that fits leaves the most for the pieces that follow.
            place = word.find(piece, place, end)
            if place < 0:
                return False
            place += len(piece)
        return True


class Regex(Part):
    """Characters with regular expressions among them, and maybe `*`."""

    __slots__ = ("_compiled",)

    def __init__(self, text: str, one_word: str) -> None:
        """Raises ValueError with the fault in the text, in words that follow it."""
        super().__init__(text)
        if len(text) > REGEX_LENGTH_MAX:
            raise ValueError(
                f"has a word of {len(text)} characters with a regular expression;"
                f" {REGEX_LENGTH_MAX} are the most"
            )
        self._compiled: Final = compiled("".join(_translated(text, one_word)), text)

    @property
    def nodes(self) -> int:
        """For how many nodes of a trie it counts."""
        return REGEX_NODES

    def matches(self, word: str) -> bool:
        """Whether a word matches, which is not empty."""
        if len(word) > REGEX_WORD_MAX:
            return False
        try:
            return self._compiled.fullmatch(word) is not None
        except UnicodeEncodeError:
            return False


def compiled(regex: str, shown: str) -> "re2._Regexp[str]":
    """Compile a regular expression. Raises ValueError with the fault, in words that follow."""
    import re2  # noqa: PLC0415 (slow to import, and few use it)

    try:
        return re2.compile(regex, _options())
    except re2.error as error:
        reason = error.args[0] if error.args else error
        why = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        if "too large" in why:
            why = "it is too large; write it with fewer or smaller repetitions"
        raise ValueError(f"has {shown!r}, whose regular expression is wrong: {why}") from None


def _translated(text: str, one_word: str) -> list[str]:
    """Return the pieces of the one regular expression that a word means."""
    pieces: list[str] = []
    place = 0
    while place < len(text):
        character = text[place]
        following = place + 1
        if character == REGEX_START:
            following = end_of_regex(text, place)
            inside = text[place + 1 : following - 1]
            if not inside or following > len(text):
                is_alone = following > len(text)
                what = f"a {REGEX_START!r} alone" if is_alone else "an empty regular expression"
                raise ValueError(f"has {text!r}, with {what}; write {{REGEX}}")
            # By itself first, or one that closes a group too many would be right in the whole.
            compiled(inside, text)
            pieces.append(f"(?:{inside})")
        elif character == REGEX_END:
            raise ValueError(f"has {text!r}, with a {REGEX_END!r} that no {REGEX_START!r} precedes")
        elif character == one_word:
            pieces.append(".*")
        else:
            pieces.append(re.escape(character))
        place = following
    return pieces


def end_of_regex(text: str, start: int) -> int:
    """Return the place behind the regular expression that begins at a place; behind the text if
    nothing ends it, and one more.

    Braces within it must be in pairs, as those of repetitions are, unless they are escaped.
    """
    depth = 0
    place = start
    while place < len(text):
        character = text[place]
        if character == ESCAPE:
            place += 1
        elif character == REGEX_START:
            depth += 1
        elif character == REGEX_END:
            depth -= 1
            if not depth:
                return place + 1
        place += 1
    return len(text) + 1


def words_of(name: str, delimiter: str) -> list[str]:
    """Divide a name or a pattern into words; delimiters in regular expressions divide nothing."""
    if REGEX_START not in name:
        return name.split(delimiter)
    return divided(name, delimiter)


def divided(text: str, separator: str) -> list[str]:
    """Divide a text by a separator that is not in a regular expression."""
    words: list[str] = []
    begin = place = 0
    while place < len(text):
        if text[place] == REGEX_START:
            place = end_of_regex(text, place)
        elif text.startswith(separator, place):
            words.append(text[begin:place])
            place += len(separator)
            begin = place
        else:
            place += 1
    words.append(text[begin:])
    return words


def without_regexes(name: str) -> str:
    """Return a name with each regular expression replaced by one plain character."""
    pieces: list[str] = []
    place = 0
    while (start := name.find(REGEX_START, place)) >= 0:
        pieces.append(name[place:start])
        place = end_of_regex(name, start)
    return "-".join([*pieces, name[place:]])


@lru_cache(maxsize=_REMEMBERED_MAX)
def part_of(word: str, one_word: str) -> Part:
    """Return what a word of a pattern matches that matches in part.

    Raises ValueError with its fault, in words that follow it.
    """
    if REGEX_START in word or REGEX_END in word:
        return Regex(word, one_word)
    return Glob(word, one_word)


def is_part(word: str, syntax: Syntax) -> bool:
    """Whether a word of a pattern, which is not a wildcard by itself, matches in part."""
    return REGEX_START in word or REGEX_END in word or syntax.one_word in word


def wrong_with_words(pattern: str, syntax: Syntax) -> str | None:
    """Return the fault in the name of a wildcard address, in words that follow it; None if it has
    none."""
    is_after_any = False
    for word in words_of(pattern, syntax.delimiter):
        if word in (syntax.any_words, syntax.one_word):
            is_after_any |= word == syntax.any_words
            continue
        if is_after_any and REGEX_START in word:
            # It would be compared with every word of a name.
            return f"has a regular expression after '{syntax.any_words}'; put it before"
        if syntax.any_words in without_regexes(word):
            return f"has {word!r}; '{syntax.any_words}' must be a word of its own"
        if is_part(word, syntax):
            wrong = _wrong_with_part(word, syntax)
            if wrong is not None:
                return wrong
    return None


def _wrong_with_part(word: str, syntax: Syntax) -> str | None:
    if not word.replace(syntax.one_word, ""):
        return f"has {word!r}; write '{syntax.any_words}' for any number of words"
    try:
        part_of(word, syntax.one_word)
    except ValueError as error:
        return str(error)
    return None
