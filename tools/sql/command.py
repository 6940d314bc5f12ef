"""The command `journal sql`: questions over history in SQL.

Arrow and DuckDB are imported when it is called: they belong to an extra, and importing them takes
longer than other commands run.
"""

import re
import sys
from pathlib import Path
from typing import Any, Final

import click

from daybook.tools.sql.forms import FORMAT_OF, FORMATS
from daybook.tools.terminal.exit_codes import EXIT_INTERRUPTED
from daybook.tools.terminal.extras import needs_extra
from daybook.tools.terminal.history_options import data_option, history_options
from daybook.tools.terminal.memory_option import memory_option
from daybook.tools.terminal.paths import DATA_DEFAULT, DIRECTORY, PathThatIsNamed, chosen

FILE: Final = PathThatIsNamed(dir_okay=False, path_type=Path)
_PATH: Final = re.compile(r"[\w.~-]*(/[\w.~-]*)+")
"""One word with slashes, so it is not a question."""

EXAMPLES: Final = """\b
Examples:
  journal sql "SELECT kind, count(*) FROM events GROUP BY kind"
  journal sql data "SELECT * FROM queues ORDER BY messages DESC"
  journal sql "SELECT * FROM deliveries WHERE message = 4711"
  journal sql "SELECT headers, body FROM events WHERE lsn = 4711" --format jsonl
  journal sql --file slow.sql --output slow.parquet
  journal sql --with-archive              (a shell; .help explains it)
"""


@click.command("sql", epilog=EXAMPLES)
@click.argument("words", nargs=-1, metavar="[DATA] [SQL]")
@data_option
@history_options
@click.option(
    "--parquet", metavar="DIR", help="Parquet archive that `daybook pipeline archive` made, too; "
    "without DATA alone.",
)  # fmt: skip
@click.option("--file", "file", type=FILE, metavar="FILE", help="Read the question from FILE.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS),
    help="How to write the answer. Default: as --output ends, else a table.",
)  # fmt: skip
@click.option("--output", type=FILE, metavar="FILE", help="Write the answer to FILE.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="No more than N rows.")
@memory_option
@click.pass_context
def sql_command(ctx: click.Context, /, words: tuple[str, ...], **flags: Any) -> None:
    """Query history with SQL.

    The tables are `events` (a row for each event), `milestones` (restarts, and events of queues and
    addresses), and the views `entries`, `messages`, `deliveries` and `queues`. SQL is that of
    DuckDB; times are UTC. Only columns and blocks that the question needs are read.

    Without SQL it is read from standard input, or on a terminal a shell asks for it.
    """
    directory, question = _parted(ctx, words)
    if question and flags["file"] is not None:
        raise click.UsageError("name a question or --file, not both")
    form = _form(flags)
    data, archive = _places(ctx, directory, flags)
    try:
        # An extra, and slow to import.
        from daybook.tools.sql.running import Request, run  # noqa: PLC0415

        request = Request(
            data=data, archive=archive, parquet=flags["parquet"] or "", question=question,
            form=form, output=flags["output"], limit=flags["limit"], memory=flags["memory"],
        )  # fmt: skip
        run(request, _read(flags["file"]) if not question else "")
    except ImportError as error:
        raise needs_extra(error) from error
    except KeyboardInterrupt:
        ctx.exit(EXIT_INTERRUPTED)


def _parted(ctx: click.Context, words: tuple[str, ...]) -> tuple[Path | None, str]:
    """Return data directory and question; a single word is a directory if that exists."""
    if len(words) > 2:
        raise click.UsageError("put the question into quotes: journal sql [DATA] 'SELECT ...'")
    if len(words) == 2 or (words and _is_directory(words[0])):
        return DIRECTORY.convert(words[0], None, ctx), words[1] if len(words) == 2 else ""
    if words and _PATH.fullmatch(words[0]):
        raise click.UsageError(
            f"{words[0]}: there is no such directory; name a data directory, or ask a question in "
            "SQL"
        )
    return None, words[0] if words else ""


def _is_directory(word: str) -> bool:
    try:
        return Path(word).is_dir()
    except OSError:
        # A question may be longer than any file name, and file systems raise an error for it.
        return False


def _form(flags: dict[str, Any]) -> str:
    form: str | None = flags["form"]
    output: Path | None = flags["output"]
    if output is None:
        if form == "parquet":
            raise click.UsageError("Parquet is not for standard output; name a file with --output")
        return form or "table"
    if form == "table":
        raise click.UsageError("a table is for people; a file can be csv, json, jsonl or parquet")
    if form is None and output.suffix.lower() not in FORMAT_OF:
        raise click.UsageError(
            f"{output}: the name does not say which format; end it with .csv, .json, .jsonl or "
            ".parquet, or name one with --format"
        )
    return form or FORMAT_OF[output.suffix.lower()]


def _places(ctx: click.Context, directory: Path | None, flags: dict[str, Any]) -> tuple[str, str]:
    """Return data directory and archive of segments, "" for none. Raises JournalError."""
    # Slow to import.
    from daybook.journal.errors import ArchiveError  # noqa: PLC0415
    from daybook.recovery.readonly import opened  # noqa: PLC0415
    from daybook.tools.terminal.opening import note_limits, opened_archive  # noqa: PLC0415

    unnamed = directory is None and flags["data"] is None
    if flags["parquet"] and unnamed:
        return "", flags["url"] or ""
    # As for the other commands: the environment only says where an archive is.
    named = (ctx.get_parameter_source(name) for name in ("url", "config_file"))
    archived = flags["with_archive"] or click.core.ParameterSource.COMMANDLINE in named
    path = chosen(ctx, directory, flags["data"])
    alone = archived and flags["url"] and unnamed and not DATA_DEFAULT.exists()
    if not alone:
        # A question that reads no history would not report that there is none.
        opened(path, may_be_empty=archived)
        note_limits(path)
    if not archived:
        return str(path), ""
    archive = opened_archive(path, flags["url"], flags["config_file"])
    if flags["url"] and not archive.entries():
        # Without it the answer would be from less history than was asked for.
        raise ArchiveError(archive.url, "no segment is archived here; is it the right place?")
    return "" if alone else str(path), archive.url


def _read(file: Path | None) -> str:
    """Return the question from a file or standard input, "" if the shell is to ask for it."""
    if file is not None:
        return file.read_text(encoding="utf-8")
    if sys.stdin.isatty() and sys.stdout.isatty():
        return ""
    if sys.stdin.isatty():
        raise click.UsageError(
            "no question was given; ask: journal sql 'SELECT ...', or --file FILE"
        )
    text = sys.stdin.read()
    if not text.strip():
        raise click.UsageError("standard input is empty; write the question there, or name it")
    return text
