"""The file of Apache Qpid Dispatch and skupper-router, as a list of sections with the line of each.

A section is `name {`, attributes as `key: value`, and `}`, each on a line of its own; a value may
be a map of the same form, or for two attributes JSON. `#` begins a comment, but not in values that
are patterns. The same as JSON is a list of [name, map]. Size, depth and the number of sections are
bounded. Must never know the meaning of sections.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from daybook.errors import DaybookError

BYTES_MAX: Final = 8 * 1024 * 1024
DEPTH_MAX: Final = 16
SECTIONS_MAX: Final = 100_000

_HEAD: Final = 64 * 1024
"""Bytes at the beginning of a file by which it is recognised."""
_SECTION_BEGINS: Final = re.compile(r"([\w-]+)[ \t]*\{")
_MAP_BEGINS: Final = re.compile(r"(\$*[\w-]+)[ \t]*:[ \t]*\{")
_ATTRIBUTE: Final = re.compile(r"(\$*[\w-]+)[ \t]*:[ \t]*([^ \t{].*)")
_LOOKS_LIKE: Final = re.compile(r"[\w-]+[ \t]*\{")
_LOOKS_LIKE_JSON: Final = re.compile(r'\[\s*\[\s*"[^"]*"\s*,')
_DASHED: Final = re.compile(r"-+(\w?)")
_KEEPS_HASH: Final = ("pattern", "bindingKey", "hostname")
_AS_JSON: Final = ("openProperties", "groups")
_ELLIPSIS: Final = ("...", "\N{HORIZONTAL ELLIPSIS}")
_SUFFIX: Final = ".json"
_FILE_NAMES: Final = ("qdrouterd.conf", "skrouterd.conf")
_NAME: Final = re.compile(r"\$*[\w.-]+")
_BLANK: Final = " \t\r\n"


class RouterFileError(DaybookError):
    """The file cannot be read, or is not one of a router; the text names file and line."""


class Attribute(msgspec.Struct):
    """A value and its line: a text, or whatever JSON has."""

    value: object
    line: int


class Section(msgspec.Struct):
    """A section: its name, its line, and its attributes in order."""

    name: str
    line: int
    attributes: dict[str, Attribute] = {}


def is_router_file(path: Path) -> bool:
    """Whether a file is one of a router, by its name or its first line outside comments."""
    if path.name in _FILE_NAMES:
        return True
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    except OSError:
        return False
    text = "\n".join("" if one.lstrip().startswith("#") else one for one in head.split("\n"))
    begins = text.lstrip(_BLANK)
    return bool(_LOOKS_LIKE.match(begins) or _LOOKS_LIKE_JSON.match(begins))


def camel_case(name: str) -> str:
    """Return a name with dashes as the router spells it: auto-link is autoLink."""
    return _DASHED.sub(lambda found: found[1].upper(), name.strip("-"))


def read_sections(path: Path) -> list[Section]:
    """Read a file, in either form. Raises RouterFileError."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise RouterFileError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > BYTES_MAX:
        raise RouterFileError(f"{path}: is longer than {BYTES_MAX:,} bytes")
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RouterFileError(f"{path}:{line}: is not in UTF-8") from None
    lines = text.split("\n")
    first = next((one.strip() for one in lines if one.strip() and not _is_comment(one)), "")
    reader = _JsonForm if path.suffix.lower() == _SUFFIX or first.startswith("[") else _LineForm
    return list(reader(path, lines).sections())


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


class _Form:
    """A file by its lines; `path` is its name in errors."""

    def __init__(self, path: Path, lines: Sequence[str]) -> None:
        self.path: Final = path
        self.lines: Final = lines
        self.count = 0

    def wrong(self, line: int, what: str) -> RouterFileError:
        return RouterFileError(f"{self.path}:{line}: {what}")

    def section(self, name: str, line: int) -> Section:
        """Return a new section without attributes."""
        self.count += 1
        if self.count > SECTIONS_MAX:
            raise self.wrong(line, f"the file has more than {SECTIONS_MAX:,} sections")
        return Section(camel_case(name), line, {})

    def add(self, section: Section, name: str, value: object, line: int) -> None:
        """Add an attribute to a section, once."""
        key = camel_case(name)
        if not _is_sound(value):
            raise self.wrong(line, f"{key} has half a character (a surrogate), or is too deep")
        earlier = section.attributes.get(key)
        if earlier is not None:
            raise self.wrong(
                line, f"{key} was set before, at line {earlier.line}; remove one of them"
            )
        section.attributes[key] = Attribute(value, line)


class _LineForm(_Form):
    """The form with one `key: value` on each line."""

    def __init__(self, path: Path, lines: Sequence[str]) -> None:
        super().__init__(path, lines)
        self.at = 0

    def sections(self) -> Iterator[Section]:
        """Yield the sections."""
        while (text := self.next()) is not None:
            text = _without_comment(text)
            found = _SECTION_BEGINS.fullmatch(text)
            if found is None:
                raise self.wrong(self.at, _why_no_section(text))
            section = self.section(found[1], self.at)
            self.fill(section)
            yield section

    def next(self) -> str | None:
        """Return the next line outside comments, None after the last; `at` is its number."""
        while self.at < len(self.lines):
            text = self.lines[self.at].strip()
            self.at += 1
            if text and not text.startswith("#"):
                return text
        return None

    def line_inside(self, name: str, line: int) -> str:
        """Return the next line inside a section or map, which must end."""
        text = self.next()
        if text is None:
            raise self.wrong(line, f"{name} does not end; write }} on a line of its own")
        return text

    def fill(self, section: Section) -> None:
        """Read the attributes of a section up to its end."""
        while (text := self.line_inside(section.name, section.line)) is not None:
            if _without_comment(text) == "}":
                return
            line = self.at
            name, value = self.attribute(text, 1)
            self.add(section, name, value, line)

    def attribute(self, text: str, depth: int) -> tuple[str, object]:
        """Return name and value of the attribute that begins with this line."""
        found = _ATTRIBUTE.fullmatch(text)
        if found is not None and found[1] in _KEEPS_HASH:
            return found[1], found[2].split()[0]
        text = _without_comment(text)
        begins = _MAP_BEGINS.fullmatch(text)
        if begins is not None:
            is_json = begins[1] in _AS_JSON
            return begins[1], self.json(begins[1]) if is_json else self.map(begins[1], depth)
        found = _ATTRIBUTE.fullmatch(text)
        if found is None:
            raise self.wrong(self.at, _why_no_attribute(text))
        try:
            return found[1], json.loads(f'"{found[2]}"', strict=False)
        except ValueError:
            text = "a value has no quotes, and a backslash is written twice"
            raise self.wrong(self.at, f"{found[1]}: {text}") from None

    def map(self, name: str, depth: int) -> dict[str, object]:
        """Read a map in the same form up to its end."""
        line = self.at
        if depth >= DEPTH_MAX:
            raise self.wrong(line, f"{name}: maps are nested more than {DEPTH_MAX} deep")
        values: dict[str, object] = {}
        while (text := self.line_inside(name, line)) is not None:
            if _without_comment(text) == "}":
                break
            key, value = self.attribute(text, depth + 1)
            if key in values:
                raise self.wrong(self.at, f"{key} of {name} was set before; remove one of them")
            values[key] = value
        return values

    def json(self, name: str) -> object:
        """Read a map in JSON up to the brace that ends it."""
        line = self.at
        parts = ["{"]
        depth = 1
        while depth > 0:
            text = self.line_inside(name, line)
            depth += _braces(text)
            parts.append(text)
        try:
            return _loaded("\n".join(parts).rstrip(","))
        except (ValueError, RecursionError) as error:
            raise self.wrong(line, f"{name} is not valid JSON: {_short(error)}") from None


def _without_comment(text: str) -> str:
    return text.partition("#")[0].strip()


def _braces(text: str) -> int:
    """Return how many braces a line opens and does not close; those in strings do not count."""
    plain = re.sub(r'"(?:\\.|[^"\\])*"', "", text)
    return plain.count("{") - plain.count("}")


def _why_no_section(text: str) -> str:
    if text == "}":
        return "this } ends nothing; remove it"
    begins = _LOOKS_LIKE.match(text)
    if begins is not None:
        return f"{text[:80]!r}: write nothing behind {{, and each attribute on a line of its own"
    return f"{text[:80]!r} begins no section; a section is like `listener {{`"


def _why_no_attribute(text: str) -> str:
    if text in _ELLIPSIS:
        return f"{text!r} stands for more attributes in manuals; remove it"
    if "}" in text:
        return f"{text[:80]!r}: write }} on a line of its own"
    if _SECTION_BEGINS.fullmatch(text):
        return f"{text[:80]!r}: the section before has no }}"
    return f"{text[:80]!r}: this must be an attribute, like `host: 127.0.0.1`"


class _JsonForm(_Form):
    """The form that is a list of [name, map]."""

    def __init__(self, path: Path, lines: Sequence[str]) -> None:
        super().__init__(path, lines)
        # Lines of comments stay, empty, so that the others keep their numbers.
        self.text: Final = "\n".join("" if _is_comment(one) else one for one in lines)
        self.at = 0
        self.counted = 0
        self.line_of_counted = 1

    @property
    def line(self) -> int:
        """The number of the line that is read next."""
        self.line_of_counted += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.line_of_counted

    def sections(self) -> Iterator[Section]:
        """Yield the sections."""
        self.take("[", "the file is a list of [name, {...}]")
        while not self.ends("]"):
            self.take("[", 'a section is like ["listener", {"port": "amqp"}]')
            line = self.line
            name = self.name("a section")
            section = self.section(name, line)
            self.take(",", f"{name} needs a map of attributes")
            self.fill(section)
            self.take("]", f"{name} has nothing but a name and a map")
            self.between("]")
            yield section
        self.skip()
        if self.at < len(self.text):
            raise self.wrong(self.line, "there is more behind the list of sections")

    def fill(self, section: Section) -> None:
        """Read the map of attributes of a section."""
        self.take("{", f"{section.name} needs a map of attributes")
        while not self.ends("}"):
            self.skip()
            line = self.line
            name = self.name("an attribute")
            self.take(":", f"{name} needs a value")
            self.skip()
            self.add(section, name, self.value(), line)
            self.between("}")

    def skip(self) -> None:
        """Skip white space."""
        while self.at < len(self.text) and self.text[self.at] in _BLANK:
            self.at += 1

    def ends(self, mark: str) -> bool:
        """Skip the mark at the end of a list or map, if it is next."""
        self.skip()
        found = self.text.startswith(mark, self.at)
        self.at += found
        return found

    def take(self, mark: str, else_wrong: str) -> None:
        """Skip a mark that must be next."""
        if not self.ends(mark):
            found = self.text[self.at : self.at + 20].partition("\n")[0] or "the end of the file"
            raise self.wrong(self.line, f"there is {found!r} in place of {mark!r}: {else_wrong}")

    def between(self, end: str) -> None:
        """Skip the comma between two elements."""
        if not self.ends(","):
            self.skip()
            if not self.text.startswith(end, self.at):
                self.take(",", "elements are divided by commas")

    def name(self, of_what: str) -> str:
        """Return the name that is next."""
        line = self.line
        name = self.value()
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            shown = ascii(name)[:80] if isinstance(name, str) else "this"
            raise self.wrong(line, f"{shown} cannot be the name of {of_what}")
        return name

    def value(self) -> object:
        """Return the value that is next."""
        self.skip()
        try:
            found, self.at = _DECODER.raw_decode(self.text, self.at)
        except (ValueError, RecursionError) as error:
            raise self.wrong(self.line, f"is not valid JSON: {_short(error)}") from None
        return found


def _is_sound(value: object) -> bool:
    """Whether a value can be written in UTF-8, and by a program with a stack."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} cannot be a value")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


def _loaded(text: str) -> object:
    return json.loads(text, parse_constant=_no_constant)


def _short(error: Exception) -> str:
    return str(error).partition(":")[0] if isinstance(error, json.JSONDecodeError) else str(error)
