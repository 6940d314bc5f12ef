"""Running `journal catalog`: makes the catalogs that a journal does not have, and counts them."""

import os
from pathlib import Path
from typing import Any

import click

from daybook.history.missing_catalogs import catalog_files, make_missing
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import segment_names
from daybook.texts import counted
from daybook.tools.terminal.opening import history, opened_archive
from daybook.tools.terminal.printing import progress, show_json


def run(ctx: click.Context, path: Path, flags: dict[str, Any]) -> None:
    """Make the catalogs that are missing. Raises CatalogsCut, JournalError, OSError."""
    disk, _, _ = history(ctx, path, flags)
    archive = ""
    if not isinstance(disk, RealDisk):
        archive = opened_archive(path, flags["url"], flags["config_file"]).url
    with progress("cataloging", 100) as advance:
        made = make_missing(
            path, disk, archive, flags["headers"],
            processes=flags["processes"] or os.cpu_count() or 1, again=flags["again"],
            progress=lambda done, total: advance(100 * done // total),
        )  # fmt: skip
    live = RealDisk(path / JOURNAL)
    files = catalog_files(path)
    size = sum(each.stat().st_size for each in files)
    used = sum((live.path / name).stat().st_size for name in segment_names(live))
    if flags["as_json"]:
        show_json({"made": made, "catalogs": len(files), "bytes": size})
        return
    click.echo(
        f"{counted(made, 'catalog')} made; there are {len(files)}, with {size:,} bytes for a"
        f" journal of {used:,} bytes"
    )
