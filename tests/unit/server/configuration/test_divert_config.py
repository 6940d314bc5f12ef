"""Diverts and filters that the engine would refuse are found before it starts."""

from pathlib import Path

import pytest

from daybook.server.configuration.config import ConfigError, load


def test_all_that_is_wrong_with_a_divert_is_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(
        '[[divert]]\nname = "a"\naddress = "a?b"\nforwarding-addresses = ["x::y", "c?d", "e"]\n'
        'add-properties = ["k", "ack=1"]\nrename-properties = ["x=", "a=b"]\n'
        '[[divert]]\nname = "empty"\naddress = "a"\nforwarding-addresses = [""]\n'
        '[[divert]]\nname = "none"\naddress = ""\n'
        '[[divert]]\naddress = "a"\nforwarding-addresses = []\n'
    )
    with pytest.raises(ConfigError) as caught:
        load(file)
    said = [line.removeprefix(f"{file}:") for line in caught.value.problems]
    parts = [
        '1: divert "a": address is \'a?b\'', '1: divert "a": forwarding-addresses has \'x::y\'',
        '1: divert "a": forwarding-addresses has \'c?d\'', '1: divert "a": \'k\' is not a pair',
        '1: divert "a": \'ack\' is not a property', '1: divert "a": \'\' is not a property',
        '10: divert.forwarding-addresses is [""]; it must be a list without empty strings',
        '13: divert.address is ""', '11: divert "none": it must have 1 to',
        "14: divert.name is missing", '14: divert "": it must have 1 to',
    ]  # fmt: skip
    for part in parts:
        assert len([line for line in said if line.startswith(part)]) == 1, (part, said)
    assert len(said) == len(parts)


DIVERT = '[[divert]]\nname = "{0}"\naddress = "{0}"\nforwarding-addresses = ["{1}"]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[queue]]\nname = "q"\nfilter = "a ="\n', 'FILE:3: queue.filter is "a ="; it ends'),
        (DIVERT.format("a", "b") + 'filter = "a ="\n', 'FILE:5: divert.filter is "a ="'),
        (DIVERT.format("a", "a"), 'FILE:1: divert "a" would lead messages in a circle'),
        (DIVERT.format("a", "b") + DIVERT.format("b", "a"), 'FILE:5: divert "b" would lead'),
    ],
)
def test_what_the_engine_would_refuse_is_found_before_it_starts(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert said.replace("; it ends", ": it ends") in str(caught.value).replace(str(file), "FILE")
