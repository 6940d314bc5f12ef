"""The folder in which a drill works, and the other files of its broker there."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from daybook.server.configuration.config import Config
from daybook.tools.drills.reports.report import Report
from daybook.tools.drills.scratch.server import REPLACED, Serving, drilled, make_key
from daybook.tools.terminal.failures import Failure

NO_RETENTION: Final = ("journal.retention-max-age=0", "journal.retention-max-bytes=0")
"""The settings of a drill whose whole history must stay."""


@contextmanager
def workplace(keep: Path | None) -> Iterator[Path]:
    """Yield an empty folder for scratch data. Raises Failure."""
    if keep is None:
        with TemporaryDirectory(prefix="daybook-drill-") as folder:
            yield Path(folder).resolve()
        return
    if keep.exists() and any(keep.iterdir()):
        raise Failure(f"{keep} is not empty: name a folder that is, or that does not exist")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep.resolve()


def furnish(serving: Serving, report: Report) -> Config:
    """Make the files that a drill's broker needs beside its data, and record its configuration.

    Raises ConfigError and OSError.
    """
    config = drilled(serving)
    make_key(config)
    report.configuration = described(config)
    report.notes.append(REPLACED)
    return config


def need_space(folder: Path, count: int) -> None:
    """Raise Failure if a folder for scratch data has less free space than so many bytes."""
    free = shutil.disk_usage(folder).free
    if free < count:
        raise Failure(
            f"the scratch data in {folder} needs {count:,} bytes, and {free:,} bytes are free: set "
            "TMPDIR, or name another folder with --keep"
        )


def described(config: Config) -> dict[str, Any]:
    """Return the configuration that was in force, without anything secret."""
    hidden = {"data_directory", "users_file", "archive_directory", "signing_key", "anchors"}
    told: dict[str, Any] = {}
    for section, values in (("broker", config.broker), ("journal", config.journal)):
        for key, value in msgspec.structs.asdict(values).items():
            if key not in hidden:
                told[f"{section}.{key.replace('_', '-')}"] = value
    told["address settings"] = f"{len(config.address_settings)} matches"
    return told
