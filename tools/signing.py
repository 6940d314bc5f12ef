"""The commands `journal keygen` and `journal anchor`."""

from pathlib import Path

import click

from daybook.journal.block import Block
from daybook.journal.data_directory import NOTARY
from daybook.journal.disk import Disk
from daybook.journal.errors import NoJournal
from daybook.journal.format import segment_first_lsn
from daybook.journal.pins import Pin
from daybook.journal.reader import read_blocks
from daybook.journal.segment import data_id_of, segment_names
from daybook.recovery.statements import Statement, key_id, noted_in
from daybook.tools.failures import Failure
from daybook.tools.history_options import data_argument, data_option
from daybook.tools.opening import opened
from daybook.tools.paths import chosen


@click.command("keygen")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
def keygen_command(file: Path) -> None:
    """Make a pair of keys for signing history.

    FILE gets the private key, for `signing-key` in [journal]: keep it outside of the data
    directory, readable by the broker's user alone. FILE.pub gets the public key, for `journal
    verify --public-key`: give it to those who verify. Neither replaces a file.
    """
    # Slow to load, and only needed here.
    from daybook.recovery.signing_keys import load_public, make_pair  # noqa: PLC0415

    try:
        public = make_pair(file)
    except FileExistsError as error:
        raise Failure(f"{error.filename} exists already, and was not changed") from error
    click.echo(f"private key: {file}\npublic key: {public} (id {key_id(load_public(public))})")


@click.command("anchor")
@data_argument
@data_option
@click.option(
    "--unsigned", is_flag=True,
    help="Print one of the newest block instead, without a signature, to be kept where nobody can "
    "change it.",
)  # fmt: skip
@click.pass_context
def anchor_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, unsigned: bool
) -> None:
    """Print the newest anchor: a signed statement about all of history up to an event.

    Append it to a file elsewhere; `journal verify --anchor FILE` then shows whether the journal
    still has that history.
    """
    path = chosen(ctx, directory, data)
    ctx.with_resource(Pin(path))
    disk = opened(path)
    statement: Statement | None = None
    if unsigned:
        statement = newest_block(disk)
    elif (noted := noted_in(path / NOTARY)) is not None:
        statement = noted.statement
    if statement is None:
        raise Failure(
            f"nothing in {path} is signed; a broker signs its history with signing-key in "
            "[journal], and --unsigned prints an anchor without a signature"
        )
    if statement.data_id != data_id_of(disk).hex():
        raise Failure(f"{path / NOTARY} is of another data directory; delete it")
    click.echo(statement.line(), nl=False)


def newest_block(disk: Disk) -> Statement:
    """Return a statement about the newest block that is proven durable. Raises JournalError."""
    newest: Block | None = None
    for name in reversed(segment_names(disk)):
        for block in read_blocks(disk, from_lsn=segment_first_lsn(name) or 1, proven=True):
            newest = block if block.count else newest
        if newest is not None:
            return Statement(data_id_of(disk).hex(), newest.last_lsn, newest.hash.hex())
    raise NoJournal("the journal has no event yet")
