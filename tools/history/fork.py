"""Running `journal fork`: makes a data directory as a broker was, and says how."""

from pathlib import Path
from time import time_ns
from typing import Any

import click
import msgspec

from daybook.history.moments import last_lsn
from daybook.journal.data_directory import NOTARY
from daybook.recovery.salvage.fork import CLONED, COPIED, LINKED, Fork, check_target, fork
from daybook.tools.history.past_states import found
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.opening import history, refuse_redacted
from daybook.tools.terminal.printing import progress, show_json


def run(
    ctx: click.Context, path: Path, target: Path, asked: Moment | None, flags: dict[str, Any]
) -> None:
    """Make a fork and print what it is. Raises JournalError, OSError and what `fork` raises."""
    check_target(target, path)
    refuse_redacted(path, "a fork would have empty messages")
    disk, _, _ = history(ctx, path, flags)
    at = found(path, disk, asked or Moment(last_lsn(disk)))

    def note(text: str) -> None:
        click.echo(text, err=True)

    with progress("folding", 100) as advance:
        done = fork(
            path, disk, at.lsn, target,
            now=time_ns() // 1000, shares=not flags["copies"], note=note,
            progress=lambda folded, total: advance(100 * folded // total),
        )  # fmt: skip
    if flags["as_json"]:
        show_json({"asked": at.lsn, **msgspec.to_builtins(done)})
    else:
        _show(done, at.lsn, path)


def _show(done: Fork, asked: int, source: Path) -> None:
    click.echo(f"forked {source} after event {done.lsn:,} to {done.directory}")
    if asked != done.lsn:
        click.echo(
            f"event {asked:,} is within a block, which a broker keeps or loses as a whole: the "
            "fork ends with the block before"
        )
    ways = {
        CLONED: "share disk space with the source (reflinks)",
        LINKED: "are the same files as those of the source (hard links)",
        COPIED: "were copied",
    }
    for way, text in ways.items():
        if done.segments[way]:
            click.echo(f"{done.segments[way]:,} segments {text}")
    click.echo(
        f"{done.rewritten:,} events were written again under the new data id {done.data_id}; "
        f"{done.bytes:,} bytes of disk space are new"
    )
    if done.first_lsn > 1:
        click.echo(f"its history begins with event {done.first_lsn:,}")
    if done.users:
        click.echo("its users and their passwords are those of the source")
    if (source / NOTARY).exists():
        click.echo(
            "the source is signed: give the fork a configuration without its signing-key and "
            "anchors, because what the fork adds to these anchors is of another broker"
        )
    click.echo(f"start it with: daybook serve --data {done.directory}")
