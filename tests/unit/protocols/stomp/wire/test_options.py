"""The options of an acceptor about STOMP."""

import re
from pathlib import Path

import msgspec
import pytest

from daybook.protocols.stomp import conversation
from daybook.protocols.stomp.offer import OFFER
from daybook.protocols.stomp.wire.options import StompOptions, key

ROOT = Path(__file__).parents[5]


def test_keys_are_spelled_with_hyphens() -> None:
    options = msgspec.convert({"max-header-length": 5, "default-persistent": False}, StompOptions)
    assert options.max_header_length == 5
    assert not options.default_persistent


def test_defaults_are_those_of_the_manual() -> None:
    options = StompOptions()
    assert options.max_header_length == 10 * 1024
    assert options.max_headers == 1000
    assert options.max_data_length == 100 * 1024 * 1024
    assert options.die_delay_ms == 250


def test_an_unknown_key_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError, match="max-heders"):
        msgspec.convert({"max-heders": 5}, StompOptions)


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"max-header-length": -1}, "max-header-length"),
        ({"die-delay": -1}, "die-delay must"),
        ({"buffer-size": -1}, "buffer-size"),
        ({"heart-beat-grace": 0.5}, "heart-beat-grace"),
        ({"queue-prefix": ""}, "queue-prefix"),
        ({"queue-prefix": "/topic/"}, "queue-prefix"),
        ({"anycast-prefix": ["/topic/"]}, "'/topic/' would mean two things"),
        ({"multicast-prefix": ["a"], "anycast-prefix": ["a"]}, "'a' would mean two things"),
        ({"multicast-prefix": ["/dsub/"]}, "'/dsub/' would mean two things"),
    ],
)
def test_values_that_cannot_work_name_their_key(values: dict[str, object], key: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=key):
        msgspec.convert(values, StompOptions)


def acceptor_keys() -> dict[str, object]:
    """Keys of [[acceptor]] that are about STOMP, with their defaults as the file spells them."""
    return {option.name: option.default for option in OFFER.options}


def test_every_option_is_a_key_of_the_configuration_but_six() -> None:
    fields = {key(name) for name in StompOptions.__struct_fields__}
    assert fields - acceptor_keys().keys() == {
        "heart-beat-grace",
        "dsub-prefix",
        "syntax",
        "populate-validated-user",
        "virtual-hosts",
        "host",
    }


def test_the_documentation_lists_every_key_as_the_configuration_spells_it() -> None:
    page = (ROOT / "docs" / "stomp.md").read_text()
    section = page.partition("## Limits and keys")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    told = {}
    for row in rows:
        _, name, default, *_ = (cell.strip(" `") for cell in row.split("|"))
        told[name] = default
    assert told == {
        name: default if isinstance(default, str) else msgspec.json.encode(default).decode()
        for name, default in acceptor_keys().items()
    }


def test_texts_name_the_keys_that_the_configuration_has() -> None:
    # Where the package is: a compiled build is tested away from the checkout's.
    folder = Path(conversation.__file__).parent
    texts = "".join(path.read_text() for path in folder.rglob("*.py"))
    texts += (ROOT / "docs" / "stomp.md").read_text()
    advised = re.findall(r"or raise ([a-z-]+) in the broker's configuration", texts)
    assert len(set(advised)) >= 6
    assert set(advised) <= acceptor_keys().keys()
    assert not re.findall(r"[a-z]+-[a-z]+-ms\b", texts)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"path_separator": "->"}, "path-separator is '->'; it must be one character"),
        ({"path_separator": ":"}, "without letters, digits, spaces"),
        ({"path_separator": ","}, "is ',' and destination-separator is ','; neither may contain"),
        ({"any_child_wildcard": "+", "any_descendant_wildcard": "+"}, "are both '+'"),
        ({"regex_wildcard_start": "}"}, "neither may contain the other"),
        ({"regex_wildcard_end": "*)"}, "neither may contain the other"),
        ({"any_descendant_wildcard": "/", "path_separator": "/"}, "neither may contain the other"),
        ({"destination_separator": "/"}, "is '/', which the prefix '/queue/' contains"),
        ({"destination_separator": "123456789"}, "it must be 1 to 8 characters"),
    ],
)
def test_symbols_that_contradict_each_other(values: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        StompOptions(**values)  # type: ignore[arg-type]
    assert problem in str(caught.value)


def test_symbols_of_other_brokers() -> None:
    for values in (("/", "+", "#"), ("/", "*", "**"), (".", "*", ">"), ("!", "%2A"[:0], "...")):
        path, child, descendant = values
        options = StompOptions(
            path_separator=path, any_child_wildcard=child, any_descendant_wildcard=descendant
        )
        assert options.spelling.name_of(f"a{path}{descendant}") == "a.#"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not the name of a header"),
        ("a:b", "is not the name of a header"),
        ("a;separator=", "whose separator is empty"),
        ("a;kind=group", "kind must be \\*, user, role"),
        ("destination", "cannot be a header that is added"),
    ],
)
def test_added_headers_that_are_wrong(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        StompOptions(add_user_headers=(text,))


def test_added_headers_have_different_names() -> None:
    with pytest.raises(ValueError, match="must have different names"):
        StompOptions(add_user_header="a", add_user_headers=("a;kind=role",))
    with pytest.raises(ValueError, match="must have different names"):
        StompOptions(add_user_header="x", add_timestamp_header="x")
