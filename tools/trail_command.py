"""The command `journal trail`: which message is asked for, and in which form."""

from pathlib import Path
from typing import Any, Final

import click

from daybook.tools.terminal.history_options import data_option, history_options, json_option
from daybook.tools.terminal.numbers import NUMBER
from daybook.tools.terminal.paths import DIRECTORY, PathThatIsNamed, chosen

LIMIT: Final = 10
SHA256_DIGITS: Final = 64


@click.command("trail")
@click.argument("words", nargs=-1, metavar="[DATA] [MESSAGE]")
@data_option
@click.option("--header", metavar="NAME=VALUE", help="Of the messages with this header.")
@click.option("--body-sha256", metavar="HEX", help="Of the messages whose body has this SHA-256.")
@click.option(
    "--body", type=PathThatIsNamed(dir_okay=False, path_type=Path), metavar="FILE",
    help="Of the messages whose body is the content of this file.",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(1), default=LIMIT, metavar="N", show_default=True,
    help="Stop after N messages; with --header, --body-sha256 and --body.",
)  # fmt: skip
@history_options
@json_option
@click.option("--svg", is_flag=True, help="Print a drawing, to be saved as a file.")
@click.option("--mermaid", is_flag=True, help="Print a Mermaid sequence diagram.")
@click.pass_context
def trail_command(
    ctx: click.Context, /, words: tuple[str, ...], data: Path | None, **flags: Any
) -> None:
    """Show all events of a message, and where it is now.

    MESSAGE is the message-id that the broker assigned; or name a header or a body. The story
    includes the messages it was made from, and those made from it (dead letter, expiry). It is read
    by catalogs, which the broker makes; for a journal without them, see `journal catalog`.
    """
    if flags["svg"] + flags["mermaid"] + flags["as_json"] > 1:
        raise click.UsageError("--json, --svg and --mermaid exclude each other")
    given = [name for name in ("header", "body_sha256", "body") if flags[name] is not None]
    if len(given) > 1:
        raise click.UsageError("--header, --body-sha256 and --body exclude each other")
    _check_values(flags)
    words_max = 1 if given else 2
    if len(words) > words_max:
        raise click.UsageError(f"one message at a time, please; got {' '.join(words)!r}")
    if not given and not words:
        raise click.UsageError("which message? Give its id, --header NAME=VALUE, or --body FILE")
    has_data = len(words) == words_max
    directory = DIRECTORY.convert(words[0], None, ctx) if has_data else None
    message = 0 if given else _message(words[-1])
    path = chosen(ctx, directory, data)
    from daybook.tools import trailing  # noqa: PLC0415 (slow to import)

    trailing.run(ctx, path, message, flags)


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
