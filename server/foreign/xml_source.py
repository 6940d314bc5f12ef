"""An XML file as a tree of elements with the line of each, read by a hardened parser.

A document type declaration is refused, and with it all entities that a file could define; no other
file is fetched, and size and depth are bounded before the tree is built. XInclude is refused,
because one file must define the whole broker. Must never know the meaning of elements.
"""

import re
from pathlib import Path
from typing import Final
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, Locator

import msgspec
from defusedxml import DefusedXmlException, DTDForbidden, sax

from daybook.errors import DaybookError

BYTES_MAX: Final = 8 * 1024 * 1024
DEPTH_MAX: Final = 64
ELEMENTS_MAX: Final = 500_000
XINCLUDE: Final = "http://www.w3.org/2001/XInclude"

_PLACEHOLDER: Final = re.compile(r"\$\{([^}:]*)(?::([^}]*))?\}")


class XmlError(DaybookError):
    """The file cannot be read or is not XML that is accepted; the text names file and line."""


class Element(msgspec.Struct):
    """An element: its name without a prefix, its attributes, its content, and its line."""

    tag: str
    line: int
    attributes: dict[str, str]
    children: list["Element"] = []
    text: str = ""

    @property
    def value(self) -> str:
        """The text, without white space around it."""
        return self.text.strip()


class _Builder(ContentHandler):
    """Builds the tree; `name` is the file's name in errors."""

    def __init__(self, name: str, keeps_placeholders_of: str) -> None:
        super().__init__()
        self._keeps_placeholders_of: Final = keeps_placeholders_of
        self.root: Element | None = None
        self._name: Final = name
        self._open: list[Element] = []
        self._count = 0
        self._root_tag = ""
        self._locator: Locator | None = None

    def setDocumentLocator(self, locator: Locator) -> None:
        self._locator = locator

    @property
    def line(self) -> int:
        """The line that is being read."""
        return (self._locator.getLineNumber() or 1) if self._locator is not None else 1

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        prefix, _, tag = name.rpartition(":")
        where = f"{self._name}:{self.line}"
        if tag == "include" and prefix:
            raise XmlError(
                f"{where}: <{name}>: other files are not included (XInclude); copy their "
                f"contents into this file"
            )
        self._count += 1
        if len(self._open) >= DEPTH_MAX or self._count > ELEMENTS_MAX:
            raise XmlError(f"{where}: <{name}>: the file has too many elements, or too deep ones")
        self._root_tag = self._root_tag or tag
        given = {key: attrs.getValue(key) for key in attrs.getNames()}
        plain = {
            key: self._resolved(text)
            for key, text in given.items()
            if not key.startswith("xmlns") and ":" not in key
        }
        element = Element(tag, self.line, plain)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def endElement(self, name: str) -> None:
        element = self._open.pop()
        element.text = self._resolved(element.text)

    def characters(self, content: str) -> None:
        self._open[-1].text += content

    def _resolved(self, text: str) -> str:
        """Return a text with the defaults of its placeholders: properties of a JVM do not exist."""

        def default(found: re.Match[str]) -> str:
            if found[2] is None and self._root_tag == self._keeps_placeholders_of:
                return found[0]
            if found[2] is None:
                raise XmlError(
                    f"{self._name}:{self.line}: ${{{found[1]}}} has no default, and there are no"
                    " properties of a JVM here; write its value instead"
                )
            return found[2]

        return _PLACEHOLDER.sub(default, text) if "${" in text else text


def is_xml(path: Path) -> bool:
    """Whether a file is XML, by its name or its first character."""
    if path.suffix.lower() == ".xml":
        return True
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    except OSError:
        return False


def read_xml(path: Path, *, keeps_placeholders_of: str = "") -> Element:
    """Read a file; return its root. Raises XmlError.

    Placeholders without a default are errors, but stay as they are under a root of this name.
    """
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        raise XmlError(f"{path}: cannot be read: there is no such file") from None
    except OSError as error:
        raise XmlError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > BYTES_MAX:
        raise XmlError(f"{path}: is longer than {BYTES_MAX:,} bytes")
    builder = _Builder(str(path), keeps_placeholders_of)
    try:
        sax.parseString(data, builder, forbid_dtd=True)
    except DTDForbidden:
        raise XmlError(
            f"{path}:{builder.line}: has a document type (DOCTYPE), which is refused because it can"
            " define entities; remove it"
        ) from None
    except SAXParseException as error:
        line = error.getLineNumber() or 1
        raise XmlError(f"{path}:{line}: is not valid XML: {error.getMessage()}") from None
    except (SAXException, DefusedXmlException, ValueError, LookupError) as error:
        raise XmlError(f"{path}: is not valid XML: {error}") from None
    assert builder.root is not None, "a document that was parsed has a root"
    return builder.root
