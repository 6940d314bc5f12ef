"""The command line `journal`: asking a data directory what happened, and whether it is intact.

Everything is read only and takes no lock, so it works on the directory of a running broker. A pin
keeps retention from what is being read, where this process may write one.
"""

import sys
import time
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from daybook.client.control import is_running
from daybook.history.beginning import beginning
from daybook.history.names import Names
from daybook.history.scan import Event
from daybook.journal.data_directory import BASE
from daybook.journal.disk import Disk
from daybook.journal.format import segment_first_lsn
from daybook.journal.pins import Pin
from daybook.journal.segment import data_id_of, segment_names
from daybook.journal.stat import JournalStat, stat
from daybook.paging.base import BaseDamaged
from daybook.paging.tables import IndexDamaged
from daybook.recovery.directory import why_foreign
from daybook.server.version import VERSION
from daybook.tools import trail
from daybook.tools.archive import (
    archive_group,
    data_argument,
    data_option,
    history,
    history_options,
    json_option,
)
from daybook.tools.failures import EXIT_WRONG, Commands, Failure, run
from daybook.tools.index_verification import copied_index
from daybook.tools.inspection import Inspection, Question, parse_kinds
from daybook.tools.numbers import NUMBER
from daybook.tools.paths import DIRECTORY, chosen
from daybook.tools.printing import print_line, progress, show_json, show_table
from daybook.tools.sql.command import sql_command
from daybook.tools.story import as_object, kind_name, line, moment, printable
from daybook.tools.times import time_option
from daybook.tools.totals import QUEUE_KINDS, Totals
from daybook.tools.verification import Verdict, verify_data

CONTEXT: Final = {"help_option_names": ["-h", "--help"]}
FOLLOW_SECONDS: Final = 0.1


@click.group(cls=Commands, context_settings=CONTEXT)
@click.version_option(VERSION, prog_name="journal")
def cli() -> None:
    """Ask a journal what happened, and whether it is intact.

    Reads only; works on the directory of a running broker without disturbing it.
    """


cli.add_command(archive_group)
cli.add_command(sql_command)


@cli.command()
@data_argument
@data_option
@click.option("--from", "from_lsn", type=NUMBER, metavar="LSN", help="First LSN.")
@click.option("--to", "to_lsn", type=NUMBER, metavar="LSN", help="Last LSN.")
@click.option(
    "--since", metavar="TIME", callback=time_option, help="From this time on (UTC, or 10m for ago)."
)
@click.option("--until", metavar="TIME", callback=time_option, help="Up to this time.")
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
    """Tell the events as a story, one line each.

    An event of a running broker is told when it is known to be durable.
    """
    path = chosen(ctx, directory, data)
    question = _question(flags)
    disk, pin, _ = history(ctx, path, flags)
    inspection = Inspection(question, _known_before(path, disk))
    follow = Following(disk, pin) if flags["follow"] else None
    found = inspection.events(disk, proven=is_running(path), follow=follow)
    told = 0
    try:
        for event in islice(found, flags["limit"]):
            told += 1
            print_line(_told(event, inspection.names, as_json=flags["as_json"]))
            if event.body and not flags["as_json"]:
                print_line(f"{'':10}{printable(event.body.decode('utf-8', 'backslashreplace'))}")
    except KeyboardInterrupt:
        if not follow:
            raise
        return
    if not told and inspection.unknown:
        raise Failure(_never_was(inspection, question))
    if not told:
        _explain_silence(disk, question)


def _known_before(path: Path, disk: Disk) -> tuple[Event, ...]:
    """What ids stood for when the journal begins; a damaged base costs names, and is told."""
    try:
        return beginning(path, disk).events
    except (BaseDamaged, IndexDamaged) as error:
        click.echo(f"some names are missing: {error}", err=True)
        return ()


def _explain_silence(disk: Disk, question: Question) -> None:
    """Say on standard error when nothing could be told because the journal ends before."""
    last = stat(disk).segments[-1].last_lsn
    if question.from_lsn > last:
        click.echo(
            f"nothing to tell: the journal ends at LSN {last}, before --from {question.from_lsn}",
            err=True,
        )


def _told(event: Event, names: Names, *, as_json: bool) -> str:
    if as_json:
        return msgspec.json.encode(as_object(event, names)).decode()
    return _with_color(line(event, names))


def _question(flags: dict[str, Any]) -> Question:
    """The filters that the flags ask for; click.UsageError if they make no sense."""
    try:
        kinds = parse_kinds(flags["kinds"])
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    first, last = flags["from_lsn"] or 1, flags["to_lsn"]
    if last is not None and last < first:
        raise click.UsageError(f"--from {first} is behind --to {last}")
    since, until = flags["since"], flags["until"]
    if since is not None and until is not None and until < since:
        raise click.UsageError(f"--since ({moment(since)}) is behind --until ({moment(until)})")
    return Question(
        first, last, since, until, flags["address"], flags["queue"], flags["message"] or 0,
        kinds, flags["connection"] or 0, flags["bodies"],
    )  # fmt: skip


class Following:
    """Waits at the end of the journal, and lets go of what was read."""

    def __init__(self, disk: Disk, pin: Pin, seconds: float = FOLLOW_SECONDS) -> None:
        self._disk: Final = disk
        self._pin: Final = pin
        self._seconds: Final = seconds
        self._newest_lsn = 1

    def __call__(self) -> bool:
        """Wait a moment; answers that reading goes on."""
        sys.stdout.flush()
        # The end that was there at the last call has been read; the one of now perhaps not.
        self._pin.advance(self._newest_lsn)
        newest = segment_names(self._disk)[-1:]
        self._newest_lsn = max((segment_first_lsn(name) or 1 for name in newest), default=1)
        time.sleep(self._seconds)
        return True


def _with_color(text: str) -> str:
    """The kind in colour, on a terminal."""
    if not sys.stdout.isatty():
        return text
    head, kind, rest = text[:38], text[38:60], text[60:]
    return click.style(head, dim=True) + click.style(kind, fg="cyan") + rest


def _never_was(inspection: Inspection, question: Question) -> str:
    what = inspection.unknown
    name = question.queue if what == "queue" else question.address
    names = inspection.known(what)
    shown = ", ".join(repr(each) for each in names[:10]) + (", ..." if len(names) > 10 else "")
    return f"up to here there never was the {what} '{name}'; there were: {shown or 'none'}"


@cli.command("trail")
@click.argument("words", nargs=-1, required=True, metavar="[DATA] MESSAGE")
@data_option
@history_options
@json_option
@click.pass_context
def trail_command(
    ctx: click.Context, /, words: tuple[str, ...], data: Path | None, **flags: Any
) -> None:
    """Tell everything that ever happened to one message, and where it is now.

    MESSAGE is the message-id that the broker gave it. The messages that it was made from, and those
    that it went on as (dead letter, expiry), belong to the story.
    """
    if len(words) > 2:
        raise click.UsageError(f"one message at a time, please; got {' '.join(words)!r}")
    directory = DIRECTORY.convert(words[0], None, ctx) if len(words) == 2 else None
    try:
        message: int = NUMBER.convert(words[-1], None, ctx)
    except click.BadParameter as error:
        raise click.UsageError(
            f"'{words[-1]}' is not a message id; it is a number, like 17"
        ) from error
    path = chosen(ctx, directory, data)
    disk, _, _ = history(ctx, path, flags)
    try:
        told = trail.follow(disk, message, path)
    except trail.NoSuchMessageError as error:
        raise Failure(str(error)) from error
    if flags["as_json"]:
        for step in told.steps:
            show_json(trail.step_object(step))
        now = [{"message": each, "where": where} for each, where in told.now]
        show_json({"now": now, "missing": told.missing or None})
    else:
        _show_trail(told)


def _show_trail(told: trail.Trail) -> None:
    if told.missing:
        click.echo(f"what came first is not told: {told.missing}")
    for step in told.steps:
        click.echo(_with_color(_step_line(step)))
        if step.transaction:
            click.echo(f"{'':10}in transaction {step.transaction}")
        for consequence in step.consequences:
            click.echo(f"{'':10}{consequence}")
    for message, where in told.now:
        click.echo(click.style(f"now: message {message} {where}", bold=True))


def _step_line(step: trail.Step) -> str:
    kind = step.told["kind"]
    return f"{step.event.lsn:>8}  {moment(step.told['time'])}  {kind:<21} {step.text}".rstrip()


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
    "holds at its event against the fold, and its clusters against the journal. Reads what is "
    "carried or in clusters once more, and needs room for a copy of the index in TMPDIR.",
)
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
    anything is wrong.
    """
    path = chosen(ctx, directory, data)
    with copied_index(path) if with_index else nullcontext() as index:
        disk, _, total = history(ctx, path, flags)
        with progress("verifying", 2 * total) as advance:
            verdict = verify_data(
                disk, advance, one_by_one=one_by_one, base=path / BASE, index=index
            )
    if verdict.report.ok and (foreign := why_foreign(path, data_id_of(disk).hex())):
        verdict.wrong.append(foreign)
    if flags["as_json"]:
        show_json(msgspec.to_builtins(verdict) | {"ok": verdict.ok})
    else:
        _show_verdict(verdict)
    if not verdict.ok:
        sys.exit(EXIT_WRONG)


def _show_verdict(verdict: Verdict) -> None:
    report = verdict.report
    click.echo(
        f"{report.events:,} events (LSN {report.first_lsn} to {report.last_lsn}) in "
        f"{report.blocks:,} blocks and {report.marks:,} marks of {report.segments} segments"
    )
    if report.tail is not None:
        click.echo(
            f"the last block is unfinished ({report.tail.segment}, offset {report.tail.offset}): "
            "it is being written, or is a torn tail that the next start cuts"
        )
    for fault in report.faults:
        click.secho(
            f"DAMAGED {fault.segment}, offset {fault.offset} (LSN {fault.lsn}): {fault.what}",
            fg="red",
        )
    for wrong in verdict.wrong:
        click.secho(f"WRONG {wrong}", fg="red")
    if verdict.ok and not verdict.folded_lsn and report.first_lsn > 1:
        click.echo(
            f"last hash {report.last_hash}; not folded: these segments come from an archive, and "
            f"history before LSN {report.first_lsn} is not among them"
        )
        click.secho("intact", fg="green")
    elif verdict.ok:
        click.echo(f"last hash {report.last_hash}, digest of the state {verdict.digest}")
        stops = verdict.digests_compared
        click.echo(
            f"digests at checkpoints and clean stops: {stops} compared, all equal"
            if stops
            else "no checkpoint or clean stop to compare a digest with"
        )
        if verdict.index_lsn is not None:
            click.echo(f"the index at event {verdict.index_lsn} is what the journal comes to")
        click.secho("intact", fg="green")


@cli.command("stat")
@data_argument
@data_option
@history_options
@json_option
@click.pass_context
def stat_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """Count segments, blocks, bytes, events by kind, and what went through each queue."""
    disk, _, _ = history(ctx, chosen(ctx, directory, data), flags)
    figures = stat(disk)
    totals = Totals()
    with progress("counting", figures.segments[-1].last_lsn) as advance:
        totals.count(disk, advance)
    if flags["as_json"]:
        show_json(_stat_object(figures, totals))
    else:
        _show_stat(figures, totals)


def _span(figures: JournalStat) -> tuple[int, int]:
    """Times of the first and the last event; zeros if there are none."""
    with_events = [segment for segment in figures.segments if segment.events]
    if not with_events:
        return 0, 0
    return (
        min(segment.time_min for segment in with_events),
        max(segment.time_max for segment in with_events),
    )


def _stat_object(figures: JournalStat, totals: Totals) -> dict[str, Any]:
    first, last = _span(figures)
    return {
        "data_id": figures.data_id,
        "segments": msgspec.to_builtins(figures.segments),
        "events": figures.events,
        "file_bytes": figures.file_bytes,
        "raw_bytes": figures.raw_bytes,
        "stored_bytes": figures.stored_bytes,
        "ratio": figures.ratio,
        "time_min": first,
        "time_max": last,
        "kinds": dict(totals.by_kind()),
        "queues": totals.by_queue(),
    }


def _show_stat(figures: JournalStat, totals: Totals) -> None:
    first, last = _span(figures)
    show_table(
        ("state", "first LSN", "last LSN", "blocks", "marks", "events", "bytes used"),
        [
            (
                "sealed" if segment.sealed else "active", segment.first_lsn,
                segment.last_lsn, segment.blocks, segment.marks, segment.events,
                segment.used_bytes,
            )
            for segment in figures.segments
        ],
        "segments, named by their first LSN",
    )  # fmt: skip
    click.echo(
        f"\n{figures.events:,} events, {figures.raw_bytes:,} bytes stored as "
        f"{figures.stored_bytes:,} (ratio {figures.ratio:.2f})"
    )
    if first:
        click.echo(f"from {moment(first)} to {moment(last)} UTC\n")
    show_table(("kind", "events"), totals.by_kind(), "events by kind")
    click.echo("")
    headings = [kind_name(kind) for kind in QUEUE_KINDS]
    show_table(
        ("queue", *headings),
        [(row["queue"], *[row[name] for name in headings]) for row in totals.by_queue()],
        "queues",
    )


def main() -> None:
    """Run the command line."""
    run(cli, "journal")


if __name__ == "__main__":
    main()
