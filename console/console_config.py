"""What a console is told when it starts: where it listens, and which brokers it shows.

    listen = "http://127.0.0.1:8162"

    [[broker]]
    name = "orders"
    data = "/var/lib/daybook"

    [[broker]]
    name = "east"
    url = "controls://east.example:61614"

Fault model: a file that is wrong is refused with its line and what would be right.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from daybook.client.control import ControlError
from daybook.client.remote import remote_at
from daybook.errors import DaybookError
from daybook.server.config_keys.toml_source import TomlError, read_toml
from daybook.server.configuration.encryption import is_loopback

DEFAULT_LISTEN: Final = "http://127.0.0.1:8162"
SERVER_KEYS: Final = ("listen", "certificate", "private-key")
BROKER_KEYS: Final = ("name", "data", "url", "trusted-certificates")
SCHEMES: Final = ("http", "https")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class ConsoleError(DaybookError):
    """The console cannot start, or cannot do what it was asked; the text says why."""


class AskerError(ConsoleError):
    """A question that has no answer; the text says what would be right."""


class Place(msgspec.Struct, frozen=True):
    """A broker that is shown: by the data directory on this machine, or by the URL of its acceptor
    for administration."""

    name: str
    data: Path | None = None
    url: str = ""
    trusted_certificates: Path | None = None


class ConsoleConfig(msgspec.Struct, frozen=True):
    """Where the console listens, and the brokers that it shows."""

    places: tuple[Place, ...]
    host: str = "127.0.0.1"
    port: int = 8162
    certificate: Path | None = None
    private_key: Path | None = None

    @property
    def is_secure(self) -> bool:
        """Whether it speaks TLS."""
        return self.certificate is not None

    @property
    def url(self) -> str:
        """Where it is to be found."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' * self.is_secure}://{host}:{self.port}"


def of_directory(
    data: Path, listen: str, certificate: Path | None = None, private_key: Path | None = None
) -> ConsoleConfig:
    """Return the configuration of a console for the broker of one data directory. Raises
    ConsoleError."""
    if not data.is_dir():
        raise ConsoleError(
            f"{data} is not a directory; name the data directory of the broker with --data"
        )
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", data.resolve().name).strip("-._") or "broker"
    return _made([Place(name[:64], data)], listen, certificate, private_key)


def from_file(file: Path, listen: str | None) -> ConsoleConfig:
    """Read the configuration of a console; `listen` beats the file. Raises ConsoleError."""
    try:
        source = read_toml(file)
    except TomlError as error:
        raise ConsoleError(str(error)) from error
    told: dict[str, Any] = dict(source.data)
    rows = told.pop("broker", [])
    if unknown := [key for key in told if key not in SERVER_KEYS]:
        where = source.where((unknown[0],))
        raise ConsoleError(
            f"{where}: {unknown[0]} is not known; there are {', '.join(SERVER_KEYS)} and [[broker]]"
        )
    if not isinstance(rows, list) or not rows:
        raise ConsoleError(f"{file}: names no broker; write [[broker]] with name and data, or url")
    places: list[Place] = []
    for number, row in enumerate(rows):
        where = source.where(("broker", number))
        places.append(_place(row, where, file.parent))
        if [each.name for each in places].count(places[-1].name) > 1:
            raise ConsoleError(f"{where}: two brokers are named '{places[-1].name}'; rename one")
    texts = {key: _text(told, key, source.where((key,))) for key in told}
    return _made(
        places, listen or texts.get("listen", DEFAULT_LISTEN),
        _path(texts.get("certificate"), file.parent), _path(texts.get("private-key"), file.parent),
    )  # fmt: skip


def _place(row: Any, where: str, folder: Path) -> Place:
    if not isinstance(row, Mapping):
        raise ConsoleError(f"{where}: write [[broker]] with name and data, or url")
    if unknown := [key for key in row if key not in BROKER_KEYS]:
        raise ConsoleError(
            f"{where}: {unknown[0]} is not known; a broker has {', '.join(BROKER_KEYS)}"
        )
    texts = {key: _text(row, key, where) for key in row}
    if not _NAME.fullmatch(texts.get("name", "")):
        raise ConsoleError(
            f"{where}: a name has 1 to 64 letters, digits, '.', '_' and '-', and begins with a"
            " letter or digit"
        )
    if ("data" in texts) == ("url" in texts):
        raise ConsoleError(
            f"{where}: name either the data directory of the broker, as data, or the url of its"
            " acceptor for administration"
        )
    _check_reachable(texts, where, folder)
    return Place(
        texts["name"], _path(texts.get("data"), folder), texts.get("url", ""),
        _path(texts.get("trusted-certificates"), folder),
    )  # fmt: skip


def _check_reachable(texts: Mapping[str, str], where: str, folder: Path) -> None:
    """Refuse what can never be reached. Raises ConsoleError."""
    data, ca_file = (
        _path(texts.get("data"), folder),
        _path(texts.get("trusted-certificates"), folder),
    )
    if data is not None and not data.is_dir():
        raise ConsoleError(f"{where}: {data} is not a directory; name the data directory")
    if ca_file is not None and not ca_file.is_file():
        raise ConsoleError(f"{where}: there is no file {ca_file}; name one with certificates")
    if "url" in texts:
        try:
            remote_at(texts["url"], "")
        except ControlError as error:
            raise ConsoleError(f"{where}: {error}") from error


def _text(row: Mapping[str, Any], key: str, where: str) -> str:
    if not isinstance(row[key], str):
        raise ConsoleError(f"{where}: {key} must be a text, in quotes")
    return str(row[key])


def _path(text: str | None, folder: Path) -> Path | None:
    return folder / text if text else None


def _made(
    places: list[Place], listen: str, certificate: Path | None, private_key: Path | None
) -> ConsoleConfig:
    try:
        parts = urlsplit(listen)
        port = parts.port or 0
    except ValueError:
        parts, port = urlsplit(""), -1
    is_plain = parts.path in ("", "/") and "@" not in parts.netloc and not parts.query
    if parts.scheme not in SCHEMES or not parts.hostname or port < 0 or not is_plain:
        raise ConsoleError(f"'{listen}' is not where to listen; write it like {DEFAULT_LISTEN}")
    if (parts.scheme == "https") != (certificate is not None and private_key is not None):
        raise ConsoleError("https:// needs certificate and private-key, and http:// takes neither")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ConsoleError(
            f"others could read passcodes on the way to {parts.hostname}; listen by https://, or"
            " at 127.0.0.1 behind a proxy that speaks TLS"
        )
    return ConsoleConfig(tuple(places), parts.hostname, port, certificate, private_key)
