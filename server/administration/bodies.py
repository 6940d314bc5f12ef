"""The forms in which a body is shown: text, JSON and XML in order, and bytes.

Bodies are hostile. Nothing of one is obeyed: XML with a document type, and so with entities, is
shown as text only; JSON keeps its numbers and names as they are written. Depth and length are
limited. Must never know where a body is shown.
"""

import json
import re
from typing import Final
from xml.parsers import expat

HEX_WIDTH: Final = 16
DEPTH_MAX: Final = 100
TEXT_MAX: Final = 1 << 20
"""A form that would be longer is not shown."""
INDENT: Final = "  "
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_ESCAPES: Final = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\.")
_CONTINUING: Final = 0b10000000
_MARK: Final = 0b11000000
_EDGE: Final = 3
"""A piece may begin and end with so many bytes of a character."""


class NotShown(Exception):
    """A body has no such form."""


def forms_of(data: bytes, *, is_whole: bool) -> list[tuple[str, str]]:
    """Return the forms of a body, or of a piece of one, that make sense; the best one first."""
    told: list[tuple[str, str]] = []
    text = text_of(data, is_whole=is_whole)
    if text is not None:
        for name, first, shaped in (("JSON", "{[", _json), ("XML", "<", _xml)):
            found = shaped(text) if is_whole and text.lstrip()[:1] in tuple(first) else None
            told += [(name, found)] if found is not None else []
        told.append(("text", text))
    return [*told, ("hex", hex_of(data))]


def text_of(data: bytes, *, is_whole: bool) -> str | None:
    """Return bytes as text, None if they are none. A piece may cut characters at its ends."""
    if b"\0" in data:
        return None
    begin, end = 0, len(data)
    if not is_whole:
        while begin < min(_EDGE, end) and data[begin] & _MARK == _CONTINUING:
            begin += 1
    for cut in range(1 if is_whole else _EDGE + 1):
        try:
            return data[begin : end - cut].decode("utf-8")
        except UnicodeDecodeError:
            continue
    return None


def hex_of(data: bytes) -> str:
    """Return bytes as lines with their offset, in hexadecimal, and as letters."""
    lines = []
    for begin in range(0, len(data), HEX_WIDTH):
        part = data[begin : begin + HEX_WIDTH]
        letters = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        lines.append(f"{begin:08x}  {part.hex(' '):<{HEX_WIDTH * 3}} {letters}")
    return "\n".join(lines)


class _Lines:
    """Lines that are indented, up to a depth and a length."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._length = 0
        self.depth = 0

    def deepen(self, change: int) -> None:
        """Indent the next lines more, or less. Raises NotShown."""
        self.depth += change
        if self.depth > DEPTH_MAX:
            raise NotShown

    def add(self, text: str) -> None:
        """Add a line. Raises NotShown."""
        line = INDENT * self.depth + text
        self._length += len(line) + 1
        if self._length > TEXT_MAX:
            raise NotShown
        self._lines.append(line)

    def extend(self, text: str) -> None:
        """Add to the end of the last line."""
        self._lines[-1] += text

    def text(self) -> str:
        """Return all lines."""
        return "\n".join(self._lines)


def _json(text: str) -> str | None:
    """Return JSON with a line for each value, None if it is none or too deep."""
    try:
        json.loads(text)
        return _indented([_unescaped(part) for part in _TOKENS.findall(text)])
    except (ValueError, RecursionError, NotShown):
        return None


def _unescaped(token: str) -> str:
    """Return a text of JSON with letters for their numbers; letters that nobody sees, or that end a
    text, keep theirs."""
    return _ESCAPES.sub(_letters, token) if "\\u" in token else token


def _letters(escape: re.Match[str]) -> str:
    if not escape[0].startswith("\\u"):
        return escape[0]
    letters = str(json.loads(f'"{escape[0]}"'))
    return letters if letters.isprintable() and not {'"', "\\"} & {*letters} else escape[0]


def _indented(tokens: list[str]) -> str:
    made, before = _Lines(), ""
    for part in tokens:
        if part in ("}", "]"):
            made.deepen(-1)
            if before in ("{", "["):
                made.extend(part)
            else:
                made.add(part)
        elif part == ",":
            made.extend(part)
        elif part == ":":
            made.extend(": ")
        elif before == ":":
            made.extend(part)
        else:
            made.add(part)
        if part in ("{", "["):
            made.deepen(1)
        before = part
    return made.text()


def _xml(text: str) -> str | None:
    """Return XML with a line for each element and text, None if it is none, is too deep, or has a
    document type."""
    made = _Lines()
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def refuse(*_: object) -> None:
        raise NotShown

    def begin(name: str, attributes: dict[str, str]) -> None:
        said = "".join(f' {key}="{_escaped(value)}"' for key, value in attributes.items())
        made.add(f"<{name}{said}>")
        made.deepen(1)

    def end(name: str) -> None:
        made.deepen(-1)
        made.add(f"</{name}>")

    def data(content: str) -> None:
        if content.strip():
            made.add(_escaped(content.strip()))

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler = data
    parser.CommentHandler = lambda content: made.add(f"<!--{content}-->")
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, NotShown, ValueError):
        return None
    return made.text()


def _escaped(text: str) -> str:
    for letter, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot")):
        text = text.replace(letter, f"&{name};")
    return text
