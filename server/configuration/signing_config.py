"""The configuration of signing; reads only the beginning of the key's file.

A private key inside of the data directory would be in every backup, and a forger with write access
could sign the forgery.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from daybook.server.configuration.anchor_targets import FILE, shown, wrong_with
from daybook.server.configuration.config import Config, ConfigError

PEM: Final = b"-----BEGIN "
FILE_BYTES: Final = 65_536


def check_signing(config: Config, *, reads: bool = True) -> None:
    """Raise ConfigError if signing cannot work as configured. With `reads` the file of the key must
    be there; a running broker keeps its old key instead."""
    problems = list(_problems(config, reads))
    if problems:
        raise ConfigError(problems)


def _problems(config: Config, reads: bool) -> Iterator[str]:
    data = Path(config.broker.data_directory).resolve()
    key = config.journal.signing_key
    if key:
        path = Path(key)
        if not path.is_absolute():
            yield f"journal.signing-key is {key!r}; it must be an absolute path"
        elif path.resolve().is_relative_to(data):
            yield (
                f"journal.signing-key is {key!r}, which lies in the data directory: it would be in"
                " every backup; keep it elsewhere, readable by the broker's user alone"
            )
        elif reads and (wrong := _unreadable(path)):
            yield f"journal.signing-key: {wrong}"
    elif config.journal.anchors:
        yield "journal.anchors are signed statements: they need signing-key"
    for place in config.journal.anchors:
        if wrong := wrong_with(place):
            name = place if place.startswith(FILE) or "://" not in place else shown(place)
            yield f"journal.anchors: {name!r} is not a place for anchors: {wrong}"
        elif place.startswith(FILE):
            path = Path(place.removeprefix(FILE))
            if path.resolve().is_relative_to(data):
                yield (
                    f"journal.anchors: {place!r} lies in the data directory, where an anchor "
                    f"does not prove anything: keep it where no attacker can write both"
                )


def _unreadable(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    if PEM not in content or b"PRIVATE KEY" not in content:
        return f"{path} is not a private key in PEM format; `journal keygen` makes one"
    return ""
