"""The command line `journal`: shows what happened in a data directory, and verifies it.

All commands only read the directory and take no lock, so they work beside a running broker. A pin,
where this process may write one, prevents retention from removing what is being read.
"""

from pathlib import Path
from typing import Any, Final

import click

from daybook.tools.terminal.failures import Commands, run
from daybook.tools.terminal.history_options import (
    archive_option,
    config_option,
    data_argument,
    data_option,
    history_options,
    json_option,
)
from daybook.tools.terminal.moments import MOMENT, Moment
from daybook.tools.terminal.numbers import NUMBER, YEARS_100, Seconds
from daybook.tools.terminal.paths import DIRECTORY, DataId, PathThatIsNamed, chosen
from daybook.tools.terminal.times import time_option
from daybook.tools.terminal.version_option import version_option

CONTEXT: Final = {"help_option_names": ["-h", "--help"]}
PLACES: Final = {
    "archive": "daybook.tools.archive:archive_group",
    "catalog": "daybook.tools.cataloging:catalog_command",
    "anchor": "daybook.tools.verification.signing_commands:anchor_command",
    "keygen": "daybook.tools.verification.signing_commands:keygen_command",
    "replay": "daybook.tools.replay:replay_command",
    "sql": "daybook.tools.sql.command:sql_command",
    "trail": "daybook.tools.trail_command:trail_command",
}
"""The places of commands that have a module of their own."""


@click.group(cls=Commands, places=PLACES, context_settings=CONTEXT)
@version_option
def cli() -> None:
    """Show what happened in a journal, and verify it.

    Reads only; works on the directory of a running broker without disturbing it.
    """


@cli.command()
@data_argument
@data_option
@click.option("--from", "from_lsn", type=NUMBER, metavar="LSN", help="First LSN.")
@click.option("--to", "to_lsn", type=NUMBER, metavar="LSN", help="Last LSN.")
@click.option(
    "--since", metavar="TIME", callback=time_option, help="From this time on (UTC, or 10m for ago)."
)
@click.option("--until", metavar="TIME", callback=time_option, help="Up to this time.")
@click.option(
    "--at",
    type=MOMENT,
    metavar="LSN|TIME",
    help="Show the broker as it was after this event, or at this time; with --queue the messages "
    "that were in it, in order, and who had them.",
)
@click.option("--address", default="", help="Of this address only.")
@click.option("--queue", default="", help="Of this queue only.")
@click.option("--message", type=NUMBER, metavar="ID", help="About this message only.")
@click.option("--kind", "kinds", multiple=True, help="Of this kind only; may be repeated.")
@click.option("--connection", type=NUMBER, metavar="ID", help="Of this connection.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N events.")
@click.option("--follow", is_flag=True, help="Wait for more, until Ctrl-C.")
@click.option("--bodies", is_flag=True, help="With the bodies of messages.")
@history_options
@json_option
@click.pass_context
def inspect(ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any) -> None:
    """Show the events as a story, one line each.

    Events of a running broker are shown once they are known to be durable.
    """
    from daybook.tools import inspecting  # noqa: PLC0415 (slow to import)

    inspecting.run(ctx, chosen(ctx, directory, data), flags)


@cli.command("diff")
@click.argument("words", nargs=-1, required=True, metavar="[DATA] FROM TO")
@data_option
@history_options
@json_option
@click.pass_context
def diff_command(
    ctx: click.Context, /, words: tuple[str, ...], data: Path | None, **flags: Any
) -> None:
    """Show what changed between two moments, each an LSN or a time.

    Addresses, queues, connections, consumers and settings that began, ended or changed, and for
    each queue how many messages came and went.
    """
    if len(words) not in (2, 3):
        raise click.UsageError(f"give two moments, such as 4711 14:05; got {' '.join(words)!r}")
    directory = DIRECTORY.convert(words[0], None, ctx) if len(words) == 3 else None
    first, second = (MOMENT.convert(each, None, ctx) for each in words[-2:])
    from daybook.tools import difference  # noqa: PLC0415 (slow to import)

    difference.run(ctx, chosen(ctx, directory, data), first, second, flags)


@cli.command("fork")
@click.argument("words", nargs=-1, required=True, metavar="[DATA] DST")
@data_option
@click.option(
    "--at",
    type=MOMENT,
    metavar="LSN|TIME",
    help="As the broker was after this event, or at this time. Default: as it is now.",
)
@click.option(
    "--copy",
    "copies",
    is_flag=True,
    help="Copy all segments instead of sharing their disk space, so that the fork can be moved.",
)
@history_options
@json_option
@click.pass_context
def fork_command(
    ctx: click.Context,
    /,
    words: tuple[str, ...],
    data: Path | None,
    at: Moment | None,
    **flags: Any,
) -> None:
    """Make a data directory DST as the broker was at a moment: for staging, and for "what if".

    `daybook serve --data DST` starts on it: what was in flight then is redelivered, as after a
    restart. It has a data id of its own, so it needs an archive of its own, too. Works beside a
    running broker. DST must not exist, or be an empty folder.
    """
    if len(words) > 2:
        raise click.UsageError(f"give one target; got {' '.join(words)!r}")
    directory, target = ([None, *words])[-2:]
    source = DIRECTORY.convert(directory, None, ctx) if directory is not None else None
    from daybook.tools import forking  # noqa: PLC0415 (slow to import)

    path = chosen(ctx, source, data)
    forking.run(ctx, path, DIRECTORY.convert(target, None, ctx), at, flags)


@cli.command("salvage")
@click.argument("source", type=DIRECTORY, metavar="SRC")
@click.argument("target", type=DIRECTORY, metavar="DST")
@archive_option
@config_option
@click.option(
    "--with-archive", is_flag=True,
    help="Take damaged and missing segments from the archive if they are whole there; so do "
    "--archive and --config.",
)  # fmt: skip
@json_option
@click.pass_context
def salvage_command(ctx: click.Context, /, source: Path, target: Path, **flags: Any) -> None:
    """Make a data directory DST of all that is sound in the damaged directory SRC.

    Reports what is missing: events, the place on the disk, queues and messages as far as anything
    left tells. SRC is not changed. DST must not exist, or be an empty folder. Exit code 1 if
    anything is missing, also though DST was made. With an archive, segments are taken from there
    that hashes prove to be of the same history; it is not changed either.
    """
    from daybook.tools import salvaging  # noqa: PLC0415 (slow to import)

    salvaging.run(ctx, source, target, flags)


@cli.command()
@data_argument
@data_option
@history_options
@click.option(
    "--one-by-one",
    is_flag=True,
    help="Apply each event by itself instead of folding messages that come and go as sets; takes "
    "about ten times as long and must come to the same.",
)
@click.option(
    "--index",
    "with_index",
    is_flag=True,
    help="Check the index, too (and the base, if there is one): all of it by itself, then what it "
    "holds at its event against the fold, its clusters against the journal, and every snapshot at "
    "its event. Reads what is "
    "carried or in clusters once more, and needs room for a copy of the index in TMPDIR.",
)
@click.option(
    "--public-key", "public_keys", multiple=True, metavar="FILE",
    type=PathThatIsNamed(dir_okay=False, path_type=Path),
    help="Check that history is signed by this key, or one that is linked with it by signed "
    "changes; may be repeated.",
)  # fmt: skip
@click.option(
    "--anchor", "anchors", multiple=True, metavar="FILE",
    type=PathThatIsNamed(dir_okay=False, path_type=Path),
    help="Check that the journal contains what the anchors in this file say; may be repeated.",
)  # fmt: skip
@click.option(
    "--data-id", type=DataId(), metavar="ID",
    help="Check that it is this data directory, and leave out anchors of others: for a place of "
    "anchors that several brokers share. Anchors have the id, as has the file data-id.",
)  # fmt: skip
@click.option(
    "--processes", type=click.IntRange(1, 256), metavar="N",
    help="Check segments, and fold ranges that begin at snapshots, by so many processes. Default: "
    "all processors for more than 256 MiB, else one. The result is the same.",
)  # fmt: skip
@click.option(
    "--resume", is_flag=True,
    help="Continue what was interrupted, and keep what is sound for the next time: a segment "
    "whose file has the same SHA-256 is not checked again, nor are events folded again.",
)  # fmt: skip
@click.option(
    "--state", "state_file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Where --resume keeps that. Default: a file in the user's cache.",
)  # fmt: skip
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    /,
    directory: Path | None,
    data: Path | None,
    one_by_one: bool,
    with_index: bool,
    **flags: Any,
) -> None:
    """Check every checksum, the hash chain, the fold, the digests and the invariants.

    With an archive, history is verified from its first archived segment on. Exit code 1 if
    anything is wrong with the journal, 6 if only with what is derived from it (--index).
    """
    from daybook.tools.verification import verify_command  # noqa: PLC0415 (slow to import)

    path = chosen(ctx, directory, data)
    verify_command.run(ctx, path, one_by_one=one_by_one, with_index=with_index, flags=flags)


@cli.command("audit")
@data_argument
@data_option
@click.option(
    "--from", "begin", type=MOMENT, metavar="LSN|TIME",
    help="Begin with the state after this event, or at this time. Default: the beginning.",
)  # fmt: skip
@click.option(
    "--to", "end", type=MOMENT, metavar="LSN|TIME",
    help="End with this event, or at this time. Default: the newest event.",
)  # fmt: skip
@click.option(
    "--clock-tolerance", type=Seconds(YEARS_100), default=1.0, show_default=True,
    metavar="SECONDS",
    help="How far times may go back, from one event to the next, or lie in the future.",
)  # fmt: skip
@click.option(
    "--processes", type=click.IntRange(1, 256), metavar="N",
    help="Audit pieces by so many processes. Default: as many as there are processors, or one for "
    "a short journal.",
)  # fmt: skip
@history_options
@json_option
@click.pass_context
def audit_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """Prove that every decision was allowed, and that no message was lost.

    Folds the journal from the state at the first moment, and asks the broker's own rules about each
    event before it. Shows the account of every queue, and each breach with the events that prove
    it. Exit code 1 if there is any.
    """
    from daybook.tools import auditing  # noqa: PLC0415 (slow to import)

    auditing.run_audit(ctx, chosen(ctx, directory, data), flags)


@cli.command("export")
@click.argument("words", nargs=-1, required=True, metavar="[DATA] TARGET")
@data_option
@click.option("--from", "first", type=MOMENT, metavar="LSN|TIME", help="Begin here.")
@click.option("--to", "last", type=MOMENT, metavar="LSN|TIME", help="End here.")
@click.option(
    "--redact", "redacted", multiple=True, type=click.Choice(["bodies", "headers"]),
    help="Leave out bodies, or headers; may be repeated. Their hashes remain.",
)  # fmt: skip
@click.option(
    "--redact-except", "shown", multiple=True, metavar="ADDRESS",
    help="Leave them out of messages of all other addresses only; may be repeated. Bodies of large "
    "messages are left out in any case.",
)  # fmt: skip
@history_options
@json_option
@click.pass_context
def export_command(
    ctx: click.Context, /, words: tuple[str, ...], data: Path | None, **flags: Any
) -> None:
    """Copy a range of history with its proof to a new directory.

    `journal verify TARGET --public-key FILE` proves it on another machine, also without bodies, and
    the other commands read it. Whole blocks are exported, so some events around the range are, too.
    """
    if len(words) > 2:
        raise click.UsageError(f"give one directory to write; got {' '.join(words)!r}")
    directory = DIRECTORY.convert(words[0], None, ctx) if len(words) == 2 else None
    path = chosen(ctx, directory, data)
    from daybook.tools import exporting_command  # noqa: PLC0415 (slow to import)

    exporting_command.run(ctx, path, Path(words[-1]), flags)


@cli.command("stat")
@data_argument
@data_option
@history_options
@json_option
@click.pass_context
def stat_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """Count segments, blocks, bytes, events by kind, and the messages of each queue."""
    from daybook.tools import counting  # noqa: PLC0415 (slow to import)

    counting.run(ctx, chosen(ctx, directory, data), flags)


def main() -> None:
    """Run the command line."""
    run(cli, "journal")


if __name__ == "__main__":
    main()
