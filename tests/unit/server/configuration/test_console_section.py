"""The section [console]: what keeps a console from listening is found before the start."""

import sys
from pathlib import Path

import pytest

from daybook.server.configuration.config import ConfigError, load
from daybook.server.configuration.config_changes import changes, effective
from daybook.server.configuration.console_section import command_of

LISTEN = 'listen = "http://127.0.0.1:8162"\n'
TLS = 'certificate = "c.pem"\nprivate-key = "k.pem"\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('listen = "http://0.0.0.0:8162"', "others could read passcodes on the way to 0.0.0.0"),
        ('listen = "https://127.0.0.1:8162"', "https:// needs certificate and private-key"),
        (f'listen = "http://127.0.0.1:8162"\n{TLS}', "http:// takes neither"),
        ('listen = "127.0.0.1:8162"', "is not where to listen"),
        ('listen = "http://127.0.0.1:8162/x"', "is not where to listen"),
        ('listen = "http://127.0.0.1:99999"', "is not where to listen"),
        ('listen = "a b"', "it must be where to listen"),
        ('listen = "http://127.0.0.1:61613"', "has the port of acceptor 'stomp', 61613"),
        (f'listen = "https://0.0.0.0:61613"\n{TLS}', "has the port of acceptor 'stomp', 61613"),
        ('names = ["a"]', "console.listen is missing"),
        ('docs = "https://docs.example"', "console.listen is missing"),
        ('docs = "ftp://docs.example"', "it must be the URL of a site with this documentation"),
        ('docs = "javascript:alert(1)"', "it must be the URL of a site"),
        (f"{LISTEN}docs = 'https://'", "it must be the URL of a site"),
        (f"{LISTEN}docs = 'https:///x'", "console.docs: 'https:///x' is not where the"),
        (f"{LISTEN}docs = 'https://a@b'", "is not where the documentation is"),
        (f"{LISTEN}docs = 'https://a/?q=1'", "is not where the documentation is"),
        (f"{LISTEN}docs = 'https://[a'", "is not where the documentation is"),
        ("archive = 's3://a'", "console.listen is missing"),
        (f"{LISTEN}archive = 's3://key:secret@bucket/a'", "console.archive has a login, which"),
        (f"{LISTEN}public-keys = 'a'", "it must be a list of strings"),
        ("wrong = 1", "unknown key 'console.wrong'"),
    ],
)
def test_a_wrong_section_is_refused_with_its_line(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(f"[console]\n{text}\n")
    with pytest.raises(ConfigError) as refused:
        load(file)
    [problem] = refused.value.problems
    assert problem.startswith(f"{file}:")
    assert why in problem


def test_a_section_becomes_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "broker.toml"
    file.write_text(
        f'[console]\nlisten = "https://0.0.0.0:8443"\n{TLS}names = ["console.example.org", "b"]\n'
        'docs = "https://docs.example.org/daybook"\narchive = "archive"\n'
        'public-keys = ["key.pub", "/other.pub"]\nanchors = ["anchors"]\n'
    )
    config = load(file)
    words = command_of(config.console, "/data", "orders")
    assert words[:5] == (sys.executable, "-P", "-m", "daybook", "console")
    assert " ".join(words).endswith(
        f"--data /data --listen https://0.0.0.0:8443 --broker orders --certificate {tmp_path}/c.pem"
        f" --private-key {tmp_path}/k.pem --name console.example.org --name b"
        f" --docs https://docs.example.org/daybook --archive {tmp_path}/archive"
        f" --public-key {tmp_path}/key.pub --public-key /other.pub --anchor {tmp_path}/anchors"
    )
    assert command_of(load().console, "/data", "orders") == ()
    plain = load()
    unnamed = command_of(config.console, "/data", plain.broker.name)
    assert "--broker" not in unnamed


def test_a_reload_changes_the_section_at_once() -> None:
    old, new = load(), load(overrides=["console.listen=http://127.0.0.1:8162"])
    assert effective(old, new).console == new.console
    applied, later = changes(old, new)
    assert applied == ['console: listen "" -> "http://127.0.0.1:8162"']
    assert not later
