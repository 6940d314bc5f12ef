"""Lines of keys in TOML text: the scan must find every key where it stands."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.server.config_keys.toml_source import Place, TomlError, TomlSource, read_toml

DOCUMENT = '''# a comment with [brackets] = "and quotes
title = "a # b"  # comment
"quoted key" = 1
a.b . 'c d' = [1, 2,
  3]

[table]
text = """
[not.a.table]
key = "no"
"""
raw = \'\'\'
x = 1
\'\'\'
after = 2024-01-02 03:04:05

[[list]]
name = "one"
inline = { x = 1, "y" = [ { z = 2 },
  { z = 3 } ] }

[[list]]
name = 'two'
  [list.sub]
  k = true
  [[list.deep]]
  v = "\\"]"
  [[list.deep]]
  v = 2
'''
EXPECTED = {
    ("title",): 2,
    ("quoted key",): 3,
    ("a", "b", "c d"): 4,
    ("a", "b", "c d", 1): 4,
    ("a", "b", "c d", 2): 5,
    ("table",): 7,
    ("table", "text"): 8,
    ("table", "raw"): 12,
    ("table", "after"): 15,
    ("list", 0): 17,
    ("list", 0, "name"): 18,
    ("list", 0, "inline"): 19,
    ("list", 0, "inline", "x"): 19,
    ("list", 0, "inline", "y", 0, "z"): 19,
    ("list", 0, "inline", "y", 1, "z"): 20,
    ("list", 1): 22,
    ("list", 1, "name"): 23,
    ("list", 1, "sub"): 24,
    ("list", 1, "sub", "k"): 25,
    ("list", 1, "deep", 0, "v"): 27,
    ("list", 1, "deep", 1): 28,
    ("list", 1, "deep", 1, "v"): 29,
}


def places(value: Any, place: Place = ()) -> set[Place]:
    """All places of a document, from the values alone."""
    found = {place} if place else set()
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, inner in items:
        found |= places(inner, (*place, key))
    return found


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_of_a_document_with_everything(newline: str) -> None:
    source = TomlSource(DOCUMENT.replace("\n", newline), "f.toml")
    assert {place: source.lines[place] for place in EXPECTED} == EXPECTED
    assert set(source.lines) == places(source.data)


def test_where_falls_back_to_the_place_around() -> None:
    source = TomlSource("[a]\nb = 1\n", "f.toml")
    assert source.where(("a", "b")) == "f.toml:2"
    assert source.where(("a", "missing")) == "f.toml:1"
    assert source.where(("missing",)) == "f.toml"


_texts = st.text(st.sampled_from("ab\"'\\#[]{}=.,\n é"), max_size=6)
_values = st.recursive(
    st.integers() | st.booleans() | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)


def written(value: Any, breaks: bool) -> str:
    """A value as inline TOML; arrays over several lines if asked."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        blank = "\n# ]\n" if breaks else " "
        return "[" + ",".join(blank + written(one, breaks) for one in value) + blank + "]"
    if isinstance(value, dict):
        pairs = [f"{quoted(key)} = {written(one, breaks)}" for key, one in value.items()]
        return "{ " + ", ".join(pairs) + " }"
    return str(value)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


@given(st.dictionaries(_texts, st.dictionaries(_texts, _values, max_size=3)), st.booleans())
def test_the_scan_finds_exactly_the_places_that_the_parser_found(
    document: dict[str, dict[str, Any]], breaks: bool
) -> None:
    lines: list[str] = []
    expected: dict[Place, int] = {}
    for name, table in document.items():
        expected[(name,)] = "\n".join([*lines, ""]).count("\n") + 1
        lines.append(f"[{quoted(name)}]")
        for key, value in table.items():
            expected[(name, key)] = "\n".join([*lines, ""]).count("\n") + 1
            lines.append(f"{quoted(key)} = {written(value, breaks)}")
    source = TomlSource("\n".join(lines), "f.toml")
    assert source.data == document
    assert set(source.lines) == places(document)
    assert {place: source.lines[place] for place in expected} == expected


def test_what_is_not_toml_is_refused_with_its_line() -> None:
    with pytest.raises(TomlError, match=r"^f\.toml:2: is not valid TOML: .*"):
        TomlSource("a = 1\nb = \n", "f.toml")
    with pytest.raises(TomlError, match=r"^f\.toml:2: is not valid TOML: "):
        TomlSource('a = 1\nb = """', "f.toml")


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TomlError, match="cannot be read: there is no such file"):
        read_toml(tmp_path / "missing.toml")
    with pytest.raises(TomlError, match="cannot be read: Is a directory"):
        read_toml(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"a = 1\nb = '\xe9'\n")
    with pytest.raises(TomlError, match=r"latin\.toml:2: is not UTF-8 text"):
        read_toml(tmp_path / "latin.toml")
