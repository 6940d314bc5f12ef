"""Patterns as regular expressions: how Artemis understands them, and slow."""

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
