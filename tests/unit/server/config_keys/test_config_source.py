"""The values of a file and of flags, each with the place where it was written."""

from pathlib import Path

import pytest

from daybook.server.config_keys.config_source import Block, Source, literal, read_file, read_flags


def written(block: Block) -> dict[str, tuple[object, str]]:
    return {key: (given.value, given.where) for key, given in block.values.items()}


def test_values_of_a_file_know_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text("name = 'a'\n[log]\nlevel = 1\n[[queue]]\nname = 'q'\n[[address-setting]]\n")
    problems: list[str] = []
    source = read_file(path, problems)
    assert problems == []
    assert written(source.sections["broker"]) == {"name": ("a", f"{path}:1")}
    assert written(source.sections["log"]) == {"level": (1, f"{path}:3")}
    assert [(one.where, written(one)) for one in source.arrays["queue"]] == [
        (f"{path}:4", {"name": ("q", f"{path}:5")})
    ]
    assert [one.where for one in source.settings] == [f"{path}:6"]


def test_flags_lie_over_the_file_and_know_their_text() -> None:
    source, problems = Source(), list[str]()
    read_flags(source, ["log.level=x", "log.level=y", "address-setting.a.b.c=1"], [], problems)
    assert problems == []
    assert written(source.sections["log"]) == {"level": ("y", "--set log.level=y")}
    assert source.sections["log"].values["level"].text
    assert written(source.settings[0]) == {
        "match": ("a.b", "--set address-setting.a.b.c=1"),
        "c": ("1", "--set address-setting.a.b.c=1"),
    }
    assert len(source.arrays["acceptor"]) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("true", True),
        ('"x"', "x"),
        ("[1, 2]", [1, 2]),
        ("64MiB", "64MiB"),
        ("", ""),
        ("1\nvalue = 2", "1\nvalue = 2"),
        ("1 # one", 1),
    ],
)
def test_the_text_of_a_flag_is_a_value_or_itself(text: str, value: object) -> None:
    assert literal(text) == value
