"""The file of a router in both forms is read as it was written; anything else has its line."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daybook.server.foreign.router import grammar
from daybook.server.foreign.router.grammar import (
    RouterFileError,
    Section,
    camel_case,
    is_router_file,
    read_sections,
)

SHIPPED = """
##
## The configuration that the router comes with.
##
router {
    mode: standalone
    id: Router.A
}

  ssl-profile {   # a comment behind it
	ca-cert-file: /etc/ca.pem
  }
address {
    pattern: a/#/b # this is part of no pattern
    distribution: multicast # but this is a comment
}
vhost {
    hostname: #.example.org
    groups: {
        # Comments may stand here.
        "$default": {
            "users": "*",
            "sources": ["a.#", "{not a brace}"]
        }
    }
}
listener {
    openProperties: {
        "qd": "\\"{\\""
    }
    settings: {
        $deep: {
            key: value
        }
    }
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "router.conf"


def values(section: Section) -> dict[str, object]:
    return {key: each.value for key, each in section.attributes.items()}


def wrong(file: Path, text: str | bytes) -> str:
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(RouterFileError) as caught:
        read_sections(file)
    return str(caught.value).replace(str(file), "FILE")


def test_sections_have_names_attributes_and_lines(file: Path) -> None:
    file.write_text(SHIPPED)
    assert is_router_file(file)
    router, profile, address, vhost, listener = read_sections(file)
    assert (router.name, router.line, values(router)) == (
        "router", 5, {"mode": "standalone", "id": "Router.A"},
    )  # fmt: skip
    assert router.attributes["id"].line == 7
    assert (profile.name, values(profile)) == ("sslProfile", {"caCertFile": "/etc/ca.pem"})
    assert values(address) == {"pattern": "a/#/b", "distribution": "multicast"}
    assert values(vhost) == {
        "hostname": "#.example.org",
        "groups": {"$default": {"users": "*", "sources": ["a.#", "{not a brace}"]}},
    }
    assert values(listener) == {
        "openProperties": {"qd": '"{"'}, "settings": {"$deep": {"key": "value"}},
    }  # fmt: skip


def test_the_form_in_json_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "router.json"
    file.write_text(
        '# A comment.\n[\n  ["router", {\n    "id": "A",\n    "worker-threads": 4}],\n'
        '  # Another one.\n  ["log", {"module": "DEFAULT", "deep": {"a": [1, null]}}]\n]\n'
    )
    assert is_router_file(file)
    router, log = read_sections(file)
    assert (router.name, router.line, router.attributes["workerThreads"].line) == ("router", 3, 5)
    assert values(router) == {"id": "A", "workerThreads": 4}
    assert (log.line, values(log)) == (7, {"module": "DEFAULT", "deep": {"a": [1, None]}})


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("router {\nid: A\n", "1", "router does not end; write } on a line of its own"),
        ("router { id: A }\n", "1", "write nothing behind {, and each attribute on a line"),
        ("router {\nid: A\n}\n}\n", "4", "this } ends nothing; remove it"),
        ("router {\nid\n}\n", "2", "'id': this must be an attribute, like"),
        ("router {\nid:\n}\n", "2", "'id:': this must be an attribute"),
        ("router {\nid: A\n}}\n", "3", "write } on a line of its own"),
        ("router {\nid: A\nid: B\n}\n", "3", "id was set before, at line 2; remove one of them"),
        ("router {\nworker-threads: 1\nworkerThreads: 2\n}\n", "3", "was set before, at line 2"),
        ("router {\nlistener {\n", "2", "the section before has no }"),
        ("address {\nprefix: a\n...\n}\n", "3", "'...' stands for more attributes in manuals"),
        ('router {\nid: "A"\n}\n', "2", "id: a value has no quotes, and a backslash is written"),
        ("router {\nid: A\\x\n}\n", "2", "id: a value has no quotes"),
        ("router {\nid: \\ud800\n}\n", "2", "half a character"),
        ("router {\nm: {\na: 1\na: 2\n}\n}\n", "4", "a of m was set before"),
        ("router {\nm: {\na: 1\n", "2", "m does not end"),
        ('vhost {\ngroups: {\n"a" 1\n}\n}\n', "2", "groups is not valid JSON"),
        ('vhost {\ngroups: {\n"a": NaN\n}\n}\n', "2", "groups is not valid JSON: NaN"),
        ("router {\n}\nwhat is this\n", "3", "'what is this' begins no section"),
        (b"router {\nid: \xff\n}\n", "2", "is not in UTF-8"),
        ('[["router", {"id": "A"}]', "1", "there is 'the end of the file' in place of ','"),
        ('[["router", {"id": "A"}]] x', "1", "there is more behind the list of sections"),
        ('[["router", {"id": "A"} x]]', "1", "router has nothing but a name and a map"),
        ('[["router"]]', "1", "router needs a map of attributes"),
        ('[["router", {"id": 1,\n"id": 2}]]', "2", "id was set before, at line 1"),
        ('[["router", {"id"}]]', "1", "id needs a value"),
        ('[["rou ter", {}]]', "1", "'rou ter' cannot be the name of a section"),
        ('[[[], {}]]', "1", "this cannot be the name of a section"),
        ('[["router", {"id": "\\ud800"}]]', "1", "half a character"),
        ('[["router",\n{"id": Infinity}]]', "2", "is not valid JSON: Infinity cannot be"),
        ('[["router", {"id": ' + "[" * 100_000 + "]}]]", "1", "is not valid JSON"),
        ('[["router", {"id": ' + "9" * 5_000 + "}]]", "1", "is not valid JSON"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_its_line(file: Path, text: str | bytes, where: str, what: str) -> None:
    found = wrong(file, text)
    assert found.startswith(f"FILE:{where}: "), found
    assert what in found


def test_a_brace_behind_a_value_is_part_of_it_as_in_the_router(file: Path) -> None:
    file.write_text("router {\nid: A }\n}\n")
    assert values(read_sections(file)[0]) == {"id": "A }"}


def test_no_error_shows_a_value_that_may_be_a_passcode(file: Path) -> None:
    assert "secret" not in wrong(file, 'connector {\nsaslPassword: "secret\n}\n')


def test_size_depth_and_number_are_bounded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "m: {\n" * (grammar.DEPTH_MAX + 1)
    assert f"nested more than {grammar.DEPTH_MAX} deep" in wrong(file, f"router {{\n{deep}")
    monkeypatch.setattr(grammar, "SECTIONS_MAX", 2)
    assert "has more than 2 sections" in wrong(file, "log {\n}\n" * 3)
    monkeypatch.setattr(grammar, "BYTES_MAX", 20)
    assert "is longer than 20 bytes" in wrong(file, "log {\n}\n" * 3)
    assert "cannot be read: " in str(_of_missing(file.parent / "missing.conf"))


def _of_missing(path: Path) -> RouterFileError:
    with pytest.raises(RouterFileError) as caught:
        read_sections(path)
    return caught.value


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("# comment\n\n router {\n", True),
        ("\ufeffrouter{\n", True),
        ("router { id: A }\n", True),
        ('[ [ "router", {}]]', True),
        ("[[acceptor]]\n", False),
        ('[["quoted table"]]\n', False),
        ('name = "x"\n', False),
        ("[broker]\n", False),
        ('{"queues": []}', False),
        ("<configuration/>", False),
        ("# nothing\n", False),
    ],
)
def test_a_file_is_recognised_by_its_first_line(file: Path, text: str, is_one: bool) -> None:
    file.write_text(text)
    assert is_router_file(file) is is_one


def test_a_file_is_recognised_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "qdrouterd.conf").write_text("what?\n")
    assert is_router_file(tmp_path / "qdrouterd.conf")
    assert not is_router_file(tmp_path / "missing")


def test_names_with_dashes_are_camel_case() -> None:
    names = {"auto-link": "autoLink", "sasl-mechanisms": "saslMechanisms", "host": "host", "-": ""}
    assert {name: camel_case(name) for name in names} == names


NAMES = st.from_regex(r"[a-z][A-Za-z]{0,8}", fullmatch=True)
PLAIN = st.from_regex(r"[^\s{}#\"\\\x00-\x1f\x7f-\x9f\u2028\u2029]{1,9}", fullmatch=True).filter(
    lambda text: text.strip() == text and "\n" not in text
)
ATTRIBUTES = st.dictionaries(NAMES, PLAIN, max_size=4)
SECTIONS = st.lists(st.tuples(NAMES, ATTRIBUTES), max_size=5)


@given(sections=SECTIONS, indent=st.sampled_from(["", "  ", "\t"]))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, sections: list[Any], indent: str
) -> None:
    file = tmp_path_factory.mktemp("router", numbered=True) / "router.conf"
    lines: list[str] = []
    expected = []
    for name, attributes in sections:
        lines += ["# comment", f"{indent}{name} {{"]
        expected.append((name, len(lines), attributes))
        lines += [f"{indent}{key} : {value} " for key, value in attributes.items()]
        lines += [f"{indent}}} # end", ""]
    file.write_text("\n".join(lines))
    found = [(each.name, each.line, values(each)) for each in read_sections(file)]
    assert found == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(
    sections=st.lists(st.tuples(NAMES, st.dictionaries(NAMES, JSON, max_size=3)), max_size=4),
    indent=st.sampled_from([None, 2]),
)
def test_what_is_written_in_json_is_read(
    tmp_path_factory: pytest.TempPathFactory, sections: list[Any], indent: int | None
) -> None:
    file = tmp_path_factory.mktemp("router", numbered=True) / "router.json"
    file.write_text(json.dumps(sections, indent=indent))
    assert [(each.name, values(each)) for each in read_sections(file)] == sections


PARTS = st.sampled_from(
    ["router {", "}", "id: A", "groups: {", "{", '"a": {', "[", "]", '["a", {', "#", ":", "\\", '"']
)


@given(
    data=st.binary(max_size=60)
    | st.lists(PARTS | st.text(max_size=3), max_size=12).map(
        lambda parts: "\n".join(parts).encode()
    )
)
@example(b"\xef\xbb\xbf")
@example(b'[["a", {"b": "\\ud800"}]]')
def test_garbage_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.mktemp("router", numbered=True) / "router.conf"
    file.write_bytes(data)
    is_router_file(file)
    with suppress(RouterFileError):
        read_sections(file)
