"""What an acceptor configures about STOMP."""

from pathlib import Path

import msgspec
import pytest

from protocols.stomp.options import StompOptions


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
        ({"die-delay-ms": -1}, "die-delay-ms"),
        ({"room": 0}, "room"),
        ({"heart-beat-grace": 0.5}, "heart-beat-grace"),
        ({"queue-prefix": ""}, "queue-prefix"),
        ({"queue-prefix": "/topic/"}, "queue-prefix"),
    ],
)
def test_values_that_cannot_work_name_their_key(values: dict[str, object], key: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=key):
        msgspec.convert(values, StompOptions)


def test_the_documentation_lists_every_key() -> None:
    page = (Path(__file__).parents[4] / "docs" / "stomp.md").read_text()
    section = page.partition("## Limits and keys")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    keys = {key.strip(" `") for row in rows for key in row.split("|")[1].split(",")}
    assert keys == {name.replace("_", "-") for name in StompOptions.__struct_fields__}
    for row in rows:
        _, key, default, *_ = (cell.strip(" `") for cell in row.split("|"))
        value = getattr(StompOptions(), key.replace("-", "_"), None)
        if type(value) is int:
            assert default == str(value), row
