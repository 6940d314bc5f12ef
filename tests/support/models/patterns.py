"""Patterns as they are meant: those of Artemis as regular expressions, and slow; full ones by
recursion over words."""

import re


def as_regex(pattern: str) -> str:
    """Return the regular expression that matches the same names in full."""
    if pattern == "#":
        return ".*"
    body, any_words = (pattern[:-2], True) if pattern.endswith(".#") else (pattern, False)
    parts = ["[^.]+" if word == "*" else re.escape(word) for word in body.split(".")]
    return r"\.".join(parts) + (r"(\..*)?" if any_words else "")


def matches(pattern: str, name: str) -> bool:
    """Tell whether a pattern matches a name."""
    return bool(re.fullmatch(as_regex(pattern), name))


def matches_in_full(pattern: str, name: str) -> bool:
    """Tell whether the name of a wildcard address matches a name; expressions have no delimiter."""
    return _matches_words(pattern.split("."), name.split("."))


def _matches_words(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    first, *rest = pattern
    if first == "#":
        return any(_matches_words(rest, words[count:]) for count in range(len(words) + 1))
    return bool(words) and matches_word(first, words[0]) and _matches_words(rest, words[1:])


def matches_word(pattern: str, word: str) -> bool:
    """Tell whether a word of a pattern matches a word."""
    if not set(pattern) & set("*{"):
        return pattern == word
    pieces = re.findall(r"\{[^}]*\}|\*|[^{*]", pattern)
    regex = "".join(
        ".*" if piece == "*" else f"(?:{piece[1:-1]})" if piece[0] == "{" else re.escape(piece)
        for piece in pieces
    )
    return bool(word) and bool(re.fullmatch(regex, word))
