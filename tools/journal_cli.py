"""The command line `journal`: shows the history of a data directory, and verifies it.

All commands only read the directory and take no lock, so they work beside a running broker. A pin,
where this process may write one, prevents retention from removing segments in use.
"""

from pathlib import Path
from typing import Any, Final

import click

from daybook.history.audit.clock_tolerance import CLOCK_TOLERANCE
from daybook.history.replays.fate_words import FATES
from daybook.tools.administration.messages import url_option
from daybook.tools.terminal.failures import Commands, run
from daybook.tools.terminal.history_options import (
    archive_option,
    config_option,
    data_argument,
    data_option,
    history_options,
    json_option,
    several_data_option,
)
from daybook.tools.terminal.moments import MOMENT, Moment
from daybook.tools.terminal.numbers import NUMBER, RATE, YEARS_100, Seconds
from daybook.tools.terminal.paths import DIRECTORY, DataId, PathThatIsNamed, all_chosen, chosen
from daybook.tools.terminal.times import time_option
from daybook.tools.terminal.version_option import version_option

TRAILS_MAX: Final = 10
SHA256_DIGITS: Final = 64
CATALOG_PROCESSES_MAX: Final = 64
MARKS_MOST: Final = 10_000
CONTEXT: Final = {"help_option_names": ["-h", "--help"]}
PLACES: Final = {
    "anchor": "daybook.tools.history.signing:anchor_command",
    "keygen": "daybook.tools.history.signing:keygen_command",
    "sql": "daybook.tools.sql.command:sql_command",
}
"""The places of commands that have a module of their own."""


@click.group(cls=Commands, places=PLACES, context_settings=CONTEXT)
@version_option
def cli() -> None:
    """Show the history of a journal, and verify it.

    Reads only; works on the directory of a running broker without disturbing it.
    """


@cli.command("inspect")
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
    help="Show the broker as it was after this event, or at this time; with --queue its "
    "messages then, in order, and their consumers.",
)
@click.option("--address", default="", help="Of this address only.")
@click.option("--queue", default="", help="Of this queue only.")
@click.option("--message", type=NUMBER, metavar="ID", help="About this message only.")
@click.option("--kind", "kinds", multiple=True, help="Of this kind only; may be repeated.")
@click.option("--connection", type=NUMBER, metavar="ID", help="Of this connection.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N events.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N events.")
@click.option("--follow", is_flag=True, help="Wait for more, until Ctrl-C.")
@click.option("--bodies", is_flag=True, help="With the bodies of messages.")
@history_options
@json_option
@click.pass_context
def inspect_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """Show the events as a story, one line each.

    Events of a running broker are shown once they are known to be durable.
    """
    from daybook.tools.history import inspect  # noqa: PLC0415 (slow to import)

    inspect.run(ctx, chosen(ctx, directory, data), flags)


@cli.command("trail")
@click.argument("words", nargs=-1, metavar="[DATA] [MESSAGE]")
@several_data_option
@click.option("--header", metavar="NAME=VALUE", help="Of the messages with this header.")
@click.option("--body-sha256", metavar="HEX", help="Of the messages whose body has this SHA-256.")
@click.option(
    "--body", type=PathThatIsNamed(dir_okay=False, path_type=Path), metavar="FILE",
    help="Of the messages whose body is the content of this file.",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(1), default=TRAILS_MAX, metavar="N", show_default=True,
    help="Stop after N messages; with --header, --body-sha256 and --body.",
)  # fmt: skip
@click.option(
    "--from", "from_message", type=NUMBER, default=1, metavar="MESSAGE",
    help="Begin with this message; with --header, --body-sha256 and --body.",
)  # fmt: skip
@history_options
@json_option
@click.option("--svg", is_flag=True, help="Print a drawing, to be saved as a file.")
@click.option("--mermaid", is_flag=True, help="Print a Mermaid sequence diagram.")
@click.pass_context
def trail_command(
    ctx: click.Context, /, words: tuple[str, ...], named: tuple[Path, ...], **flags: Any
) -> None:
    """Show all events of a message, and its place now.

    MESSAGE is the message-id that the broker assigned; or name a header or a body. The story
    includes the messages it was made from, and those made from it (dead letter, expiry). The
    broker's catalogs make this fast; for a journal without them, see `journal catalog`.

    With the data directories of several brokers (DATA and --data, each with its own archive if
    --with-archive is given) it follows the message over all of them; MESSAGE is its id in the
    first.
    """
    if flags["svg"] + flags["mermaid"] + flags["as_json"] > 1:
        raise click.UsageError("--json, --svg and --mermaid exclude each other")
    given = [name for name in ("header", "body_sha256", "body") if flags[name] is not None]
    if len(given) > 1:
        raise click.UsageError("--header, --body-sha256 and --body exclude each other")
    _check_values(flags)
    if flags["from_message"] > 1 and not given:
        raise click.UsageError("--from is for --header, --body-sha256 and --body")
    words_max = 1 if given else 2
    if len(words) > words_max:
        raise click.UsageError(f"one message at a time, please; got {' '.join(words)!r}")
    if not given and not words:
        raise click.UsageError("which message? Give its id, --header NAME=VALUE, or --body FILE")
    has_data = len(words) == words_max
    directory = DIRECTORY.convert(words[0], None, ctx) if has_data else None
    message = 0 if given else _message(words[-1])
    paths = all_chosen(directory, named)
    if len(paths) > 1:
        _check_several(ctx, "svg", "mermaid")
    from daybook.tools.history import trail  # noqa: PLC0415 (slow to import)

    trail.run(ctx, paths, message, flags)


def _check_several(ctx: click.Context, *names: str) -> None:
    """Refuse options that are about one journal. Raises click.UsageError."""
    option = {"url": "archive", "config_file": "config", "begin": "from", "end": "to"}
    for name in (*names, "url", "config_file"):
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"--{option.get(name, name)} is for one data directory; leave it out, or name one"
            )


def _message(word: str) -> int:
    try:
        message: int = NUMBER.convert(word, None, None)
    except click.BadParameter as error:
        raise click.UsageError(f"'{word}' is not a message id; it is a number, like 17") from error
    return message


def _check_values(flags: dict[str, Any]) -> None:
    """Raise click.UsageError if a header or a digest is not one."""
    header, digest = flags["header"], flags["body_sha256"]
    if header is not None and not header.partition("=")[1]:
        raise click.UsageError(f"--header {header}: give a name and a value, like order=4711")
    if header is not None and not header.partition("=")[0]:
        raise click.UsageError(f"--header {header}: the name is empty")
    if digest is None:
        return
    try:
        size = len(bytes.fromhex(digest))
    except ValueError:
        size = 0
    if size * 2 != SHA256_DIGITS:
        raise click.UsageError(
            f"--body-sha256 {digest}: give the SHA-256 of the body, {SHA256_DIGITS} hexadecimal "
            "digits"
        )


@cli.command("diff")
@click.argument("words", nargs=-1, required=True, metavar="[DATA] FROM TO")
@data_option
@history_options
@json_option
@click.pass_context
def diff_command(
    ctx: click.Context, /, words: tuple[str, ...], data: Path | None, **flags: Any
) -> None:
    """Show the changes between two moments, each an LSN or a time.

    Addresses, queues, connections, consumers and settings that began, ended or changed, and for
    each queue how many messages came and went.
    """
    if len(words) not in (2, 3):
        raise click.UsageError(f"give two moments, such as 4711 14:05; got {' '.join(words)!r}")
    directory = DIRECTORY.convert(words[0], None, ctx) if len(words) == 3 else None
    first, second = (MOMENT.convert(each, None, ctx) for each in words[-2:])
    from daybook.tools.history import diff  # noqa: PLC0415 (slow to import)

    diff.run(ctx, chosen(ctx, directory, data), first, second, flags)


@cli.command("marks")
@data_argument
@data_option
@click.option(
    "--before", type=MOMENT, metavar="LSN|TIME",
    help="Only marks before this event, or up to this time. Default: the newest marks.",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(1, MARKS_MOST), metavar="N",
    help="Show the last N of them. Default: as many as a page of the console shows.",
)  # fmt: skip
@history_options
@json_option
@click.pass_context
def marks_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """List the marks of the time line, by which a moment is found.

    Starts and stops of the broker, crashes, settings, requests of administrators, and the
    verifications, audits and drills of which a report is kept; the newest first.
    """
    from daybook.tools.history import marks  # noqa: PLC0415 (slow to import)

    marks.run(ctx, chosen(ctx, directory, data), flags)


@cli.command("growth")
@click.argument("words", nargs=-1, metavar="[[DATA] QUEUE]")
@data_option
@click.option(
    "--since", metavar="TIME", default="1h", show_default=True,
    help="From this time on (UTC, or 6h for so long before the end).",
)  # fmt: skip
@click.option(
    "--at", type=MOMENT, metavar="LSN|TIME",
    help="End with this event, or at this time. Default: now, or the newest event if no broker"
    " runs.",
)  # fmt: skip
@history_options
@json_option
@click.pass_context
def growth_command(
    ctx: click.Context, /, words: tuple[str, ...], data: Path | None, **flags: Any
) -> None:
    """Show how many messages a queue had, step by step, and how many came and left.

    A step is a minute of an hour, 15 minutes of a day, and longer for longer times. Only events of
    the queue are read, from the end backwards. Without a queue: how many messages were added,
    delivered, acknowledged, dead-lettered and expired in all queues.
    """
    if len(words) > 2:
        raise click.UsageError(f"one queue at a time, please; got {' '.join(words)!r}")
    directory = DIRECTORY.convert(words[0], None, ctx) if len(words) == 2 else None
    from daybook.tools.history import growth  # noqa: PLC0415 (slow to import)

    path = chosen(ctx, directory, data)
    if words:
        growth.run(ctx, path, words[-1], flags)
    else:
        growth.run_whole(ctx, path, flags)


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

    `daybook serve --data DST` starts on it: messages in flight then are redelivered, as after a
    restart. It has its own data id, so it needs its own archive, too. Works beside a
    running broker. DST must not exist, or be an empty folder.
    """
    if len(words) > 2:
        raise click.UsageError(f"give one target; got {' '.join(words)!r}")
    directory, target = ([None, *words])[-2:]
    source = DIRECTORY.convert(directory, None, ctx) if directory is not None else None
    from daybook.tools.history import fork  # noqa: PLC0415 (slow to import)

    path = chosen(ctx, source, data)
    fork.run(ctx, path, DIRECTORY.convert(target, None, ctx), at, flags)


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
    """Make a data directory DST from the sound parts of the damaged directory SRC.

    Reports what is missing: events, the place on the disk, queues and messages as far as the
    remaining data shows. SRC is not changed. DST must not exist, or be an empty folder. Exit code 1
    if anything is missing, even if DST was made. With an archive, segments are taken from there
    that hashes prove to be of the same history; it is not changed either.
    """
    from daybook.tools.history import salvage  # noqa: PLC0415 (slow to import)

    salvage.run(ctx, source, target, flags)


@cli.command()
@data_argument
@data_option
@history_options
@click.option(
    "--from", "begin", type=MOMENT, metavar="LSN|TIME",
    help="Check checksums, the hash chain, and signatures and anchors if asked for, from the"
    " segment of this event or time on. The result says what was not checked. Not with --index,"
    " --one-by-one and --resume, which need all events.",
)  # fmt: skip
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
    help="Check the index, too (and the base, if there is one): all of it by itself, then its "
    "content at its event against the fold, its clusters against the journal, and every "
    "snapshot at "
    "its event. Reads carried and clustered messages once more, and needs room for a copy of "
    "the index in TMPDIR.",
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
    help="Check the journal against the anchors in this file; may be repeated.",
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
    help="Continue an interrupted run, and keep sound results for the next time: a segment "
    "whose file has the same SHA-256 is not checked again, nor are events folded again.",
)  # fmt: skip
@click.option(
    "--state", "state_file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="The file of --resume. Default: a file in the user's cache.",
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

    With an archive, history is verified from its first archived segment on. Exit code 1 if the
    journal has a fault, 6 if only files derived from it do (--index).
    """
    from daybook.tools.history import verify  # noqa: PLC0415 (slow to import)

    path = chosen(ctx, directory, data)
    verify.run(ctx, path, one_by_one=one_by_one, with_index=with_index, flags=flags)


@cli.command("audit")
@data_argument
@several_data_option
@click.option(
    "--from", "begin", type=MOMENT, metavar="LSN|TIME",
    help="Begin with the state after this event, or at this time. Default: the beginning.",
)  # fmt: skip
@click.option(
    "--to", "end", type=MOMENT, metavar="LSN|TIME",
    help="End with this event, or at this time. Default: the newest event.",
)  # fmt: skip
@click.option(
    "--clock-tolerance", type=Seconds(YEARS_100), default=CLOCK_TOLERANCE / 1_000_000,
    show_default=True, metavar="SECONDS",
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
    ctx: click.Context, /, directory: Path | None, named: tuple[Path, ...], **flags: Any
) -> None:
    """Prove that every decision was allowed, and that no message was lost.

    Folds the journal from the state at the first moment, and asks the broker's own rules about each
    event before it. Shows the account of every queue, and each breach with the events that prove
    it. Exit code 1 if there is any.

    With the data directories of several brokers it audits each, and compares them: a message that
    one says another accepted must be there, once.
    """
    from daybook.tools.history import audit  # noqa: PLC0415 (slow to import)

    paths = all_chosen(directory, named)
    if len(paths) > 1:
        _check_several(ctx, "begin", "end")
    audit.run_audit(ctx, paths, flags)


@cli.command("reports")
@data_argument
@data_option
@click.option("--report", "name", metavar="NAME", help="Show this report whole.")
@json_option
@click.pass_context
def reports_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """List the reports of verifications, audits and drills of a data directory.

    `journal verify`, `journal audit`, `daybook drill` and the console keep the newest ones of each
    in DATA/reports. Also says what the next `journal verify --resume` need not verify again, and up
    to which event history is signed.
    """
    from daybook.tools.history import reports  # noqa: PLC0415 (slow to import)

    reports.run(chosen(ctx, directory, data), flags["name"], as_json=flags["as_json"])


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
    from daybook.tools.history import export  # noqa: PLC0415 (slow to import)

    export.run(ctx, path, Path(words[-1]), flags)


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
    from daybook.tools.history import stat  # noqa: PLC0415 (slow to import)

    stat.run(ctx, chosen(ctx, directory, data), flags)


@cli.command("replay")
@click.argument("words", nargs=-1, required=True, metavar="[DATA] DESTINATION")
@data_option
@click.option("--address", "addresses", multiple=True, help="Sent to this address; repeatable.")
@click.option("--queue", "queues", multiple=True, help="That were in this queue; repeatable.")
@click.option("--filter", "filter", default="", help="That pass this filter, as of a consumer.")
@click.option("--from", "begin", type=MOMENT, metavar="LSN|TIME", help="Sent from here on.")
@click.option("--to", "end", type=MOMENT, metavar="LSN|TIME", help="Sent up to here.")
@click.option(
    "--only", multiple=True, type=click.Choice(FATES),
    help="That became this, in any of their queues (of those named by --queue); repeatable.",
)  # fmt: skip
@click.option("--message", "messages", multiple=True, type=NUMBER, metavar="ID", help="This one.")
@click.option(
    "--copies", is_flag=True,
    help="Also those that the broker made of others (dead letters, expired), and replays.",
)  # fmt: skip
@click.option("--send", "sends", is_flag=True, help="Send them. Without it they are counted only.")
@click.option("--rate", type=RATE, metavar="N", help="N a second.")
@click.option("--keep-expiry", is_flag=True, help="With their expiry; else they have none.")
@click.option(
    "--id", "name", default="", metavar="NAME",
    help="A separate replay: it sends messages again that one of another name has sent.",
)  # fmt: skip
@click.option(
    "--state", "state_file", type=PathThatIsNamed(dir_okay=False, path_type=Path), metavar="FILE",
    help="The file of its progress. Default: a file in $XDG_STATE_HOME/daybook/replays.",
)  # fmt: skip
@url_option
@history_options
@json_option
@click.pass_context
def replay_command(
    ctx: click.Context, /, words: tuple[str, ...], data: Path | None, **flags: Any
) -> None:
    """Send messages of history to a running broker again, each once.

    DESTINATION is /queue/NAME, /topic/NAME or ADDRESS::QUEUE at the broker of --url. Without --send
    the messages are only counted. With it, the same command resumes an interrupted run. A sent
    message has the header x-daybook-replay-of: the id of the original, and the id of its data
    directory.
    """
    if len(words) > 2:
        raise click.UsageError(f"give one destination; got {' '.join(words)!r}")
    directory = DIRECTORY.convert(words[0], None, ctx) if len(words) == 2 else None
    from daybook.tools.history import replay  # noqa: PLC0415 (slow to import)

    replay.run(ctx, chosen(ctx, directory, data), words[-1], flags)


@cli.command("catalog")
@data_argument
@data_option
@history_options
@json_option
@click.option(
    "--headers", default="*", metavar="NAMES", show_default=True,
    help="The headers that messages are found by: names with commas between them, or * for all.",
)  # fmt: skip
@click.option(
    "--processes", type=click.IntRange(1, CATALOG_PROCESSES_MAX), metavar="N",
    help="How many segments are read at the same time. Default: one for each core.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Also remake existing catalogs.")
@click.pass_context
def catalog_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """Make catalogs, by which `journal trail` and `inspect` find a message without searching.

    The broker makes them for its own journal when it has time; this command makes those that are
    missing, also for archived segments (in DATA/archive-catalogs). It writes only catalogs.
    """
    from daybook.tools.history import catalog  # noqa: PLC0415 (slow to import)

    catalog.run(ctx, chosen(ctx, directory, data), flags)


@cli.group("archive", cls=Commands)
def archive_group() -> None:
    """List an archive, verify it, and fetch segments from it.

    The archive is never changed.
    """


@archive_group.command("list")
@data_argument
@data_option
@archive_option
@config_option
@json_option
@click.pass_context
def list_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """List the archived segments; exit code 1 if there are gaps between them, or none.

    If a data directory is named, exit code 1 also says that its journal does not continue them.
    """
    path = chosen(ctx, directory, data)
    from daybook.tools.history import archive  # noqa: PLC0415 (slow to import)

    with_live = directory is not None or data is not None
    archive.list_segments(path, flags, with_live=with_live)


@archive_group.command("verify")
@data_argument
@data_option
@archive_option
@config_option
@json_option
@click.pass_context
def verify_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """Check every object against its manifest, its blocks, and the chain from segment to segment.

    If a data directory is named, the check of the chain continues in its live journal. Exit code 1
    if anything is wrong.
    """
    path = chosen(ctx, directory, data)
    from daybook.tools.history import archive  # noqa: PLC0415 (slow to import)

    with_live = directory is not None or data is not None
    archive.verify(ctx, path, flags, with_live=with_live)


@archive_group.command("fetch")
@click.argument("target", type=DIRECTORY, metavar="TARGET")
@data_option
@archive_option
@config_option
@click.option("--from", "from_lsn", type=click.IntRange(1), metavar="LSN", help="First LSN.")
@click.option("--to", "to_lsn", type=click.IntRange(1), metavar="LSN", help="Last LSN.")
@click.option(
    "--segment", "segments", multiple=True, metavar="NAME", help="This segment; may be repeated."
)
@json_option
@click.pass_context
def fetch_command(ctx: click.Context, /, target: Path, data: Path | None, **flags: Any) -> None:
    """Copy segments to the directory TARGET, which `journal inspect TARGET` and other commands can
    read.

    All of the archive, or the segments that contain a range of LSNs, or those named. Segments that
    an earlier attempt fetched are kept.
    """
    first, last = flags["from_lsn"], flags["to_lsn"]
    if flags["segments"] and (first or last):
        raise click.UsageError("--segment and a range of LSNs exclude each other")
    if first is not None and last is not None and last < first:
        raise click.UsageError(f"--from {first} is behind --to {last}")
    from daybook.tools.history import archive  # noqa: PLC0415 (slow to import)

    archive.fetch(ctx, chosen(ctx, None, data), target, flags)


@archive_group.command("restore")
@click.argument("target", type=DIRECTORY, metavar="TARGET")
@data_option
@archive_option
@config_option
@json_option
@click.pass_context
def restore_command(ctx: click.Context, /, target: Path, data: Path | None, **flags: Any) -> None:
    """Make TARGET a data directory from the archive alone, which a broker can start on.

    For the day on which everything else is lost. The broker then has its state at the last archived
    event; later events were only in the live journal. An attempt that was interrupted may be
    repeated.
    """
    from daybook.tools.history import archive  # noqa: PLC0415 (slow to import)

    archive.restore(ctx, chosen(ctx, None, data), target, flags)


def main() -> None:
    """Run the command line."""
    run(cli, "journal")


if __name__ == "__main__":
    main()
