"""The command `journal replay`: which messages, and to where."""

from pathlib import Path
from typing import Any

import click

from daybook.history.fate_words import FATES
from daybook.tools.administration.messages import url_option
from daybook.tools.terminal.history_options import data_option, history_options, json_option
from daybook.tools.terminal.moments import MOMENT
from daybook.tools.terminal.numbers import NUMBER, RATE
from daybook.tools.terminal.paths import DIRECTORY, PathThatIsNamed, chosen


@click.command("replay")
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
    help="A replay of its own: it sends again what one of another name has sent.",
)  # fmt: skip
@click.option(
    "--state", "state_file", type=PathThatIsNamed(dir_okay=False, path_type=Path), metavar="FILE",
    help="Where its progress is kept. Default: a file in $XDG_STATE_HOME/daybook/replays.",
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
    nothing is sent, and the messages are counted. With it, what was interrupted is resumed by the
    same command. A sent message has the header x-daybook-replay-of: the id of the original, and the
    id of its data directory.
    """
    if len(words) > 2:
        raise click.UsageError(f"give one destination; got {' '.join(words)!r}")
    directory = DIRECTORY.convert(words[0], None, ctx) if len(words) == 2 else None
    from daybook.tools import replaying  # noqa: PLC0415 (slow to import)

    replaying.run(ctx, chosen(ctx, directory, data), words[-1], flags)
