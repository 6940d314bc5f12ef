"""What a console is told when it starts: where it listens, and which brokers it shows.

    listen = "http://127.0.0.1:8162"

    [[broker]]
    name = "orders"
    data = "/var/lib/daybook"
    archive = "s3://bucket/orders"
    public-keys = ["/etc/daybook/signing.pem.pub"]
    anchors = ["/mnt/elsewhere/anchors"]

    [[broker]]
    name = "east"
    url = "controls://east.example:61614"

Fault model: a file that is wrong is refused with its line and what would be right.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from daybook.client.control import ControlError
from daybook.client.remote import remote_at
from daybook.errors import DaybookError
from daybook.server.config_keys.acceptor_config import AcceptorConfig
from daybook.server.config_keys.kinds import Invalid
from daybook.server.config_keys.options import CONSOLE_LISTEN
from daybook.server.config_keys.toml_source import TomlError, read_toml
from daybook.server.configuration.console_section import check_docs, host_and_port
from daybook.server.network.layers.certificates import Identity, TlsError, of_console

SERVER_KEYS: Final = ("listen", "certificate", "private-key", "names", "docs")
BROKER_KEYS: Final = (
    "name", "data", "archive", "public-keys", "anchors", "url", "trusted-certificates",
)  # fmt: skip
LISTS: Final = ("public-keys", "anchors")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class ConsoleError(DaybookError):
    """The console cannot start, or cannot do what it was asked; the text says why."""


class AskerError(ConsoleError):
    """A question that has no answer; the text says what would be right."""


class Proofs(msgspec.Struct, frozen=True):
    """What checks of a history may use: an archive, and the files of keys and anchors."""

    archive: str = ""
    public_keys: tuple[Path, ...] = ()
    anchors: tuple[Path, ...] = ()


NO_PROOFS: Final = Proofs()


class Place(msgspec.Struct, frozen=True):
    """A broker that is shown: by the data directory on this machine, or by the URL of its acceptor
    for administration."""

    name: str
    data: Path | None = None
    url: str = ""
    trusted_certificates: Path | None = None
    proofs: Proofs = NO_PROOFS


class ConsoleConfig(msgspec.Struct, frozen=True):
    """Where the console listens, and the brokers that it shows."""

    places: tuple[Place, ...]
    host: str = "127.0.0.1"
    port: int = 8162
    certificate: Path | None = None
    private_key: Path | None = None
    names: tuple[str, ...] = ()
    docs: str = ""

    @property
    def is_secure(self) -> bool:
        """Whether it speaks TLS."""
        return self.certificate is not None

    @property
    def tls(self) -> AcceptorConfig | None:
        """Its TLS, as that of an acceptor; None without."""
        if self.certificate is None or self.private_key is None:
            return None
        return of_console(self.certificate, self.private_key)

    @property
    def url(self) -> str:
        """Where it is to be found."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' * self.is_secure}://{host}:{self.port}"


def of_directory(
    data: Path, listen: str | None, certificate: Path | None = None,
    private_key: Path | None = None, names: tuple[str, ...] = (), docs: str = "",
    proofs: Proofs = NO_PROOFS, broker: str = "",
) -> ConsoleConfig:  # fmt: skip
    """Return the configuration of a console for the broker of one data directory, which is called
    like that without the name `broker`. Raises ConsoleError."""
    if not data.is_dir():
        raise ConsoleError(
            f"{data} is not a directory; name the data directory of the broker with --data"
        )
    called = broker or data.resolve().name
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", called).strip("-._") or "broker"
    _check_files(proofs.public_keys, "--public-key")
    places = [Place(name[:64], data, proofs=proofs)]
    return _made(places, listen or CONSOLE_LISTEN, certificate, private_key, names, docs)


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
    names = _names(told.pop("names", []), source.where(("names",)))
    texts = {key: _text(told, key, source.where((key,))) for key in told}
    return _made(
        places, listen or texts.get("listen", CONSOLE_LISTEN),
        _path(texts.get("certificate"), file.parent), _path(texts.get("private-key"), file.parent),
        names, texts.get("docs", ""),
    )  # fmt: skip


def _place(row: Any, where: str, folder: Path) -> Place:
    if not isinstance(row, Mapping):
        raise ConsoleError(f"{where}: write [[broker]] with name and data, or url")
    if unknown := [key for key in row if key not in BROKER_KEYS]:
        raise ConsoleError(
            f"{where}: {unknown[0]} is not known; a broker has {', '.join(BROKER_KEYS)}"
        )
    texts = {key: _text(row, key, where) for key in row if key not in LISTS}
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
    if "url" in texts and (extra := [key for key in ("archive", *LISTS) if key in row]):
        raise ConsoleError(
            f"{where}: {extra[0]} is for checks of the history, which is on the machine of the"
            " broker; leave it out, or name the data directory as data"
        )
    return Place(
        texts["name"], _path(texts.get("data"), folder), texts.get("url", ""),
        _path(texts.get("trusted-certificates"), folder),
        Proofs(
            _archive(texts.get("archive"), folder),
            *(_files(row.get(key, []), key, where, folder) for key in LISTS),
        ),
    )  # fmt: skip


def _archive(text: str | None, folder: Path) -> str:
    """Return the archive: a URL, or a directory as seen from the file."""
    return text or "" if not text or "://" in text else str(folder / text)


def _files(value: Any, key: str, where: str, folder: Path) -> tuple[Path, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ConsoleError(f'{where}: {key} must be a list of files, like ["signing.pem.pub"]')
    found = tuple(folder / each for each in value)
    # The broker makes the file of anchors with the first one.
    if key == "public-keys":
        _check_files(found, f"{where}: {key}")
    return found


def _check_files(files: tuple[Path, ...], what: str) -> None:
    for file in files:
        if not file.is_file():
            raise ConsoleError(f"{what} names files, and there is no file {file}")


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


def _names(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ConsoleError(f'{where}: names must be a list of texts, like ["console.example.org"]')
    return tuple(value)


def _path(text: str | None, folder: Path) -> Path | None:
    return folder / text if text else None


def _made(
    places: list[Place], listen: str, certificate: Path | None, private_key: Path | None,
    names: tuple[str, ...], docs: str,
) -> ConsoleConfig:  # fmt: skip
    has_files = certificate is not None and private_key is not None
    try:
        host, port = host_and_port(listen, has_files=has_files)
        check_docs(docs)
        if certificate is not None and private_key is not None:
            Identity(of_console(certificate, private_key))
    except (Invalid, TlsError) as error:
        raise ConsoleError(str(error)) from error
    return ConsoleConfig(tuple(places), host, port, certificate, private_key, names, docs)
