"""A TOML file with the line of every key, so that errors can point at it.

The standard library's parser decides what the text means and whether it is TOML at all; this
module then scans the same text, known to be valid, for the lines alone. It must never know which
keys a configuration has. The file is read once; a file that changes while it is read gives
either an error or one of its versions, as with any editor that does not replace files whole.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, Final, TypeAlias

from daybook.errors import DaybookError

Place: TypeAlias = tuple[str | int, ...]
"""Where a value stands: keys and positions in arrays, from the top of the document."""

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE: Final = re.compile(r"[^,\]}\n#]+")
_BLANK: Final = re.compile(r"[ \t]*")
_BLANK_LINES: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BASIC: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL: Final = re.compile(r"'[^'\n]*'")
_MULTILINE_BASIC: Final = re.compile(r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})', re.DOTALL)
_MULTILINE_LITERAL: Final = re.compile(r"'''.*?'''(?:'{0,2})", re.DOTALL)


class TomlError(DaybookError):
    """The file cannot be read or is not TOML; the text names the file and, if known, the line."""


class TomlMissing(TomlError):
    """There is no such file."""


class TomlSource:
    """A parsed document: `data` as the standard library gives it, and the line of every place."""

    def __init__(self, text: str, name: str) -> None:
        """Parse; `name` is what errors call the file. Raises TomlError."""
        self.name = name
        try:
            self.data: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise TomlError(_syntax_error(str(error), text, name)) from None
        self.lines = _Scanner(text.replace("\r\n", "\n")).scan()

    def where(self, place: Place) -> str:
        """FILE:LINE of a place, or of the nearest place around it."""
        while place and place not in self.lines:
            place = place[:-1]
        return f"{self.name}:{self.lines[place]}" if place else self.name


def read_toml(path: Path) -> TomlSource:
    """Read and parse a file. Raises TomlError, of which TomlMissing is one."""
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise TomlMissing(f"{path}: cannot be read: there is no such file") from None
    except OSError as error:
        raise TomlError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise TomlError(f"{path}:{line}: is not UTF-8 text") from None
    return TomlSource(text, str(path))


def _syntax_error(message: str, text: str, name: str) -> str:
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    if found is None:
        return f"{name}: is not valid TOML: {message}"
    line = found[1] or str(text.count("\n") + 1)
    return f"{name}:{line}: is not valid TOML: {message[: found.start()]}"


class _Scanner:
    """Walks valid TOML text and notes the line of each key, table and array element."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.counted_to = 0
        self.line = 1
        self.lines: dict[Place, int] = {}
        self.elements: dict[Place, int] = {}  # arrays of tables: how many so far

    def scan(self) -> dict[Place, int]:
        table: Place = ()
        self.skip(_BLANK_LINES)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)
            self.skip(_BLANK_LINES)
        return self.lines

    def skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        assert found is not None, f"the text at {self.at} is not the TOML that it was"
        self.at = found.end()
        return found[0]

    def note(self, place: Place) -> None:
        """Note the line that the scan stands at; the first mention of a place counts."""
        self.line += self.text.count("\n", self.counted_to, self.at)
        self.counted_to = self.at
        self.lines.setdefault(place, self.line)

    def header(self) -> Place:
        array = self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        self.skip(_BLANK)
        key = self.key()
        place: Place = ()
        for part in key[:-1]:
            place = self.last_element((*place, part))
            self.note(place)
        place = (*place, key[-1])
        self.note(place)
        if array:
            self.elements[place] = self.elements.get(place, -1) + 1
        place = self.last_element(place)
        self.note(place)
        self.at += 2 if array else 1
        return place

    def last_element(self, place: Place) -> Place:
        """The place itself or, for an array of tables, its newest element."""
        return (*place, self.elements[place]) if place in self.elements else place

    def pair(self, table: Place) -> None:
        place = table
        start = self.at
        key = self.key()
        end, self.at = self.at, start
        for part in key:
            place = (*place, part)
            self.note(place)
        self.at = end + 1  # behind the "="
        self.skip(_BLANK)
        self.value(place)

    def key(self) -> list[str]:
        parts = []
        while True:
            first = self.text[self.at]
            if first in "\"'":
                quoted = self.skip(_BASIC if first == '"' else _LITERAL)
                parts.append(str(tomllib.loads(f"key = {quoted}")["key"]))
            else:
                parts.append(self.skip(_BARE_KEY))
            self.skip(_BLANK)
            if self.text[self.at] != ".":
                return parts
            self.at += 1
            self.skip(_BLANK)

    def value(self, place: Place) -> None:
        text, at = self.text, self.at
        if text.startswith('"""', at):
            self.skip(_MULTILINE_BASIC)
        elif text.startswith("'''", at):
            self.skip(_MULTILINE_LITERAL)
        elif text[at] == '"':
            self.skip(_BASIC)
        elif text[at] == "'":
            self.skip(_LITERAL)
        elif text[at] == "[":
            self.array(place)
        elif text[at] == "{":
            self.inline_table(place)
        else:
            self.skip(_BARE_VALUE)

    def array(self, place: Place) -> None:
        self.at += 1
        position = 0
        self.skip(_BLANK_LINES)
        while self.text[self.at] != "]":
            self.note((*place, position))
            self.value((*place, position))
            position += 1
            self.skip(_BLANK_LINES)
            if self.text[self.at] == ",":
                self.at += 1
                self.skip(_BLANK_LINES)
        self.at += 1

    def inline_table(self, place: Place) -> None:
        self.at += 1
        self.skip(_BLANK_LINES)
        while self.text[self.at] != "}":
            self.pair(place)
            self.skip(_BLANK_LINES)
            if self.text[self.at] == ",":
                self.at += 1
                self.skip(_BLANK_LINES)
        self.at += 1
