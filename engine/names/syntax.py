"""The characters of names and patterns: what divides words, and what stands for words.

They are those of Artemis unless the configuration sets others (`wildcard-addresses`). A syntax is
part of what names mean, so it is in the journal: with the settings, for their matches and for new
names, and with each wildcard address, for its own pattern. Must never know which names there are.
"""

from functools import lru_cache
from typing import Final

import msgspec

DELIMITER: Final = "."
ONE_WORD: Final = "*"
ANY_WORDS: Final = "#"
REGEX_START: Final = "{"
REGEX_END: Final = "}"
"""What encloses a regular expression in a pattern, in every syntax."""
UNROUTED: Final = "-"
"""In the text of a syntax: names with wildcards are ordinary names, and only settings match."""
_RESERVED: Final = frozenset("{}&?:\\ ")
"""What divides or encloses names elsewhere."""


class Syntax(msgspec.Struct, frozen=True):
    """How names are divided into words, and which characters stand for words.

    `routed` says whether an address whose name is a pattern gets what is sent to names that match.
    `markers` are empty, or two characters that enclose a match of one literal name.
    """

    delimiter: str = DELIMITER
    any_words: str = ANY_WORDS
    one_word: str = ONE_WORD
    routed: bool = True
    markers: str = ""

    @property
    def text(self) -> str:
        """The syntax as a text for journals; empty for the default."""
        if self == DEFAULT:
            return ""
        routed = "" if self.routed else UNROUTED
        return f"{self.delimiter}{self.any_words}{self.one_word}{routed}{self.markers}"

    @property
    def of_names(self) -> str:
        """The text of the syntax of an address that is created with it."""
        if not self.routed:
            return UNROUTED
        return Syntax(self.delimiter, self.any_words, self.one_word).text

    def has_wildcard(self, name: str) -> bool:
        """Whether a name contains a wildcard, if only a misplaced one."""
        return self.one_word in name or self.any_words in name

    def is_pattern(self, name: str) -> bool:
        """Whether an address of this name is a wildcard address."""
        return self.routed and (self.has_wildcard(name) or REGEX_START in name)

    def wrong_with(self, pattern: str) -> str | None:
        """Return the fault in a match of names, in words that follow it; None if it has none.

        Matches have simpler patterns than wildcard addresses (`engine.names.patterns`).
        """
        if REGEX_START in pattern or REGEX_END in pattern:
            return f"has {REGEX_START!r} or {REGEX_END!r}; a match takes no regular expressions"
        words = pattern.split(self.delimiter)
        any_words = self.any_words
        for position, word in enumerate(words):
            if word == any_words and position < len(words) - 1:
                return f"has '{any_words}' in the middle; '{any_words}' may only be its last word"
            if word not in (self.one_word, any_words) and self.has_wildcard(word):
                return f"has {word!r}; a wildcard must be a word of its own"
        return None

    def literal(self, match: str) -> str | None:
        """Return the one name that a match means literally, None if it is not marked as literal."""
        if len(self.markers) == 2 and match.startswith(self.markers[0]):
            return match[1:-1] if match.endswith(self.markers[1]) and len(match) > 2 else None
        return None


DEFAULT: Final = Syntax()


@lru_cache(maxsize=64)
def syntax_of(text: str) -> Syntax:
    """Return the syntax of a text in a journal. Raises ValueError if it is none."""
    if not text:
        return DEFAULT
    if text == UNROUTED:
        return Syntax(routed=False)
    if len(text) < 3:
        raise ValueError(f"{text!r} is not the syntax of names")
    routed = text[3:4] != UNROUTED
    return Syntax(text[0], text[1], text[2], routed, text[3 if routed else 4 :])


def wrong_with_characters(syntax: Syntax) -> str | None:
    """Return the fault in the characters of a syntax, None if they have none."""
    words = {
        "delimiter": syntax.delimiter,
        "any-words": syntax.any_words,
        "single-word": syntax.one_word,
    }
    for key, character in words.items():
        wrong = len(character) != 1 or not character.isprintable() or character.isalnum()
        if wrong or character in _RESERVED or character == UNROUTED:
            return (
                f"{key} is {character!r}; it must be one character, neither a letter nor a digit"
                f" nor one of {' '.join(sorted(_RESERVED - {' '}))} {UNROUTED} or a space"
            )
    if len(set(words.values())) < len(words):
        return "delimiter, any-words and single-word must be three different characters"
    markers = syntax.markers
    if markers and (len(set(markers)) != 2 or len(markers) != 2 or not markers.isprintable()):
        return f'literal-match-markers is {markers!r}; it must be two characters, like "()"'
    if markers and {*markers} & {*words.values(), UNROUTED}:
        return "literal-match-markers must be other characters than delimiter and wildcards"
    return None
