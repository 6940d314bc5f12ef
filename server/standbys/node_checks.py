"""The faults that keep a node from working, as far as they can be seen before it starts.

`daybook config check` and the start of a node ask here. Must never change anything, nor connect to
anybody.
"""

from pathlib import Path

from daybook.errors import describe
from daybook.recovery.strangers import wrong_folder
from daybook.server.configuration.config import Config, ConfigError
from daybook.server.network.layers.certificates import TlsError, check
from daybook.server.standbys.arbiters import arbiter_of


def check_node(config: Config) -> None:
    """Raise ConfigError with all faults."""
    assert config.replication is not None
    problems: list[str] = []
    try:
        check(config)
    except TlsError as error:
        problems.append(str(error))
    try:
        arbiter_of(config.replication)
    except ConfigError as error:
        problems += error.problems
    if path := config.replication.passcode_file:
        problems += _unreadable(Path(path), "passcode-file")
    problems += _wrong_directory(Path(config.broker.data_directory))
    if problems:
        raise ConfigError(problems)


def _unreadable(path: Path, key: str) -> list[str]:
    try:
        with path.open("rb") as file:
            has_passcode = bool(file.readline().strip())
    except OSError as error:
        return [f"replication: {key}: {describe(error)}"]
    return [] if has_passcode else [f"replication: {key}: the first line of {path} is empty"]


def _wrong_directory(path: Path) -> list[str]:
    try:
        wrong = wrong_folder(path)
    except OSError as error:
        wrong = describe(error)
    return [wrong] if wrong else []
