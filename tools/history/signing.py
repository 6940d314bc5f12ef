"""The commands `journal keygen` and `journal anchor`."""

from pathlib import Path

import click

from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.history_options import data_argument, data_option
from daybook.tools.terminal.paths import chosen


@click.command("keygen")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
def keygen_command(file: Path) -> None:
    """Make a pair of keys for signing history.

    FILE gets the private key, for `signing-key` in [journal]: keep it outside of the data
    directory, readable by the broker's user alone. FILE.pub gets the public key, for `journal
    verify --public-key`: give it to verifiers. Neither replaces a file.
    """
    from daybook.recovery.signing.signing_keys import (  # noqa: PLC0415 (slow to import)
        load_public,
        make_pair,
    )
    from daybook.recovery.signing.statements import key_id  # noqa: PLC0415 (slow to import)

    if not file.name:
        raise click.UsageError("the name of the file is empty")
    if not file.parent.is_dir():
        raise Failure(f"{file.parent} is not a directory, so {file.name} cannot be made in it")
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
    help="Print one of the newest block instead, without a signature, to be kept where it "
        "cannot be changed.",
)  # fmt: skip
@click.pass_context
def anchor_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, unsigned: bool
) -> None:
    """Print the newest anchor: a signed statement about all of history up to an event.

    Append it to a file elsewhere; `journal verify --anchor FILE` then shows whether the journal
    still has that history.
    """
    from daybook.history.verification.newest_anchor import (  # noqa: PLC0415 (slow to import)
        newest_anchor,
    )
    from daybook.journal.pins import Pin  # noqa: PLC0415 (slow to import)
    from daybook.recovery.readonly import opened  # noqa: PLC0415 (slow to import)

    path = chosen(ctx, directory, data)
    ctx.with_resource(Pin(path))
    statement = newest_anchor(path, opened(path), unsigned=unsigned)
    # As text: errors of bytes do not name the standard output.
    click.echo(statement.line().decode(), nl=False)
