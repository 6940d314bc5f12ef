"""The hardened parser: refusals, and the lines that it knows."""

from pathlib import Path

import pytest

from daybook.server.foreign.xml_source import BYTES_MAX, DEPTH_MAX, XmlError, is_xml, read_xml

BOMB = (
    '<?xml version="1.0"?>\n<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>\n'
    "<configuration>&b;</configuration>"
)
STRANGER = (
    '<?xml version="1.0"?>\n<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n'
    "<configuration>&a;</configuration>"
)


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "b.xml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_elements_know_their_lines(tmp_path: Path) -> None:
    root = read_xml(write(tmp_path, '<a:x xmlns:a="u" k="v">\n<y>\n t </y>\n<z/></a:x>'))
    assert (root.tag, root.line, root.attributes) == ("x", 1, {"k": "v"})
    assert [(child.tag, child.line, child.value) for child in root.children] == [
        ("y", 2, "t"), ("z", 4, ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "DOCTYPE"),
        (STRANGER, "DOCTYPE"),
        ('<!DOCTYPE x SYSTEM "http://localhost:1/x.dtd"><x/>', "DOCTYPE"),
        ("<x>&unknown;</x>", "is not valid XML"),
        ("<x>", "is not valid XML"),
        ("", "is not valid XML"),
        ("plain text", "is not valid XML"),
        (b"<x>\xff</x>", "is not valid XML"),
        ('<?xml version="1.0" encoding="no-such"?><x/>', "is not valid XML"),
        ("<x>" * (DEPTH_MAX + 1), "too many elements, or too deep"),
        (b"<x>" + b" " * BYTES_MAX + b"</x>", "is longer than"),
        ('<x>\n<xi:include xmlns:xi="u" href="f"/></x>', ":2: <xi:include>: other files"),
    ],
    ids=range(12),
)
def test_what_is_refused(tmp_path: Path, text: str | bytes, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(XmlError, match=str(path)) as caught:
        read_xml(path)
    assert words in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(XmlError, match="there is no such file"):
        read_xml(tmp_path / "none.xml")
    with pytest.raises(XmlError, match="cannot be read"):
        read_xml(tmp_path)


def test_xml_is_known_by_name_or_content(tmp_path: Path) -> None:
    assert is_xml(tmp_path / "none.XML")
    assert not is_xml(tmp_path / "none.toml")
    other = tmp_path / "broker.conf"
    other.write_text("\ufeff \n<configuration/>")
    assert is_xml(other)
    other.write_text("[broker]")
    assert not is_xml(other)
