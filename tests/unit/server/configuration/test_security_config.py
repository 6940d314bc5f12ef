"""The rules of permissions in a configuration: reading and reports."""

from pathlib import Path

import pytest

from daybook.server.configuration.config import Config, ConfigError, load
from daybook.server.configuration.config_changes import changes


def loaded(folder: Path, text: str) -> Config:
    file = folder / "broker.toml"
    file.write_text(text)
    return load(file)


def test_rules_are_read(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        '[[security-setting]]\nmatch = "a.#"\nsend = ["x", "user:bob", "x"]\nmanage = ["*"]\n'
        '[[security-setting]]\nmatch = "a::q"\n',
    )
    assert config.security_settings == {
        "a.#": {"send": ("x", "user:bob"), "manage": ("*",)},
        "a::q": {},
    }
    assert loaded(tmp_path, "").security_settings == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('send = ["x"]', "security-setting.match is missing"),
        ('match = "a.#.b"', "may only be its last word"),
        ('match = "a.{b}"', "a match takes no regular expressions"),
        ('match = "a::"', "must be ADDRESS::QUEUE"),
        ('match = "a"\nsned = ["x"]', "did you mean 'security-setting.send'?"),
        ('match = "a"\nsend = "x"', "security-setting.send is"),
        ('match = "a"\nsend = ["user:"]', "is neither a role nor user:LOGIN"),
        ('match = "a"\n[[security-setting]]\nmatch = "a"', "was used before"),
    ],
)
def test_what_is_wrong_is_reported(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, f"[[security-setting]]\n{text}\n")
    (line,) = caught.value.problems
    assert problem in line
    assert "broker.toml:" in line


def test_a_reload_says_what_changes(tmp_path: Path) -> None:
    old = loaded(tmp_path, '[[security-setting]]\nmatch = "a"\nsend = ["x"]\n')
    new = loaded(tmp_path, '[[security-setting]]\nmatch = "a"\nsend = ["y"]\n')
    assert changes(old, new) == (['security-setting a: send ["x"] -> ["y"]'], [])


def test_rules_of_artemis(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    file.write_text(
        """<configuration><core><security-settings>
        <security-setting match="a.#">
          <permission type="createNonDurableQueue" roles="x, y"/>
          <permission type="deleteTempQueue" roles="x"/>
          <permission type="consume" roles="x"/>
          <permission type="consume" roles="z"/>
          <permission type="edit" roles="x"/>
        </security-setting>
        <role-mapping from="a" to="b"/>
        </security-settings></core></configuration>"""
    )
    config = load(file)
    assert config.security_settings["a.#"] == {
        "create-non-durable-queue": ("x", "y"),
        "delete-non-durable-queue": ("x",),
        "consume": ("x", "z"),
    }
    assert any("'edit' in security-setting 'a.#'" in text for text in config.warnings)
    assert any("<role-mapping>" in text for text in config.warnings)


def test_security_that_is_not_enabled(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    file.write_text(
        """<configuration><core><security-enabled>false</security-enabled><security-settings>
        <security-setting match="#"><permission type="send" roles="x"/></security-setting>
        </security-settings></core></configuration>"""
    )
    config = load(file)
    assert config.security_settings == {}
    assert any("security-enabled is false" in text for text in config.warnings)
