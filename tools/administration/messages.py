"""`daybook send` and `daybook receive`: a producer and a consumer for the command line."""

import codecs
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from time import perf_counter
from typing import IO, Any, Final, Literal

import click

from daybook.client.amqp.client import ANSWER_SECONDS
from daybook.client.bodies import PIECE_BYTES, Content
from daybook.client.endpoint import DEFAULT_URL, ClientError, Endpoint, parse_url
from daybook.texts import body_fields, counted, printable
from daybook.tools.administration.traffic import Shown, connected
from daybook.tools.terminal.exit_codes import EXIT_WRONG
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.interruption import Interruption
from daybook.tools.terminal.printing import show_json

WAIT_SECONDS: Final = 5.0


def _endpoint(ctx: click.Context, param: click.Parameter, value: str) -> Endpoint:
    try:
        return parse_url(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def _pairs(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> list[tuple[str, str]]:
    pairs = []
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"'{value}' is not a header; write NAME=VALUE", ctx, param)
        pairs.append((name, text))
    return pairs


url_option = click.option(
    "--url", "endpoint", envvar="DAYBOOK_URL", default=DEFAULT_URL, show_default=True,
    callback=_endpoint, metavar="URL",
    help="stomp://LOGIN:PASSCODE@HOST:PORT or amqp://..., or with TLS stomps:// or amqps:// and "
    "?ca=FILE, and &certificate=FILE&key=FILE instead of a login; ?virtual-host=HOST for another "
    "than the default one; also $DAYBOOK_URL, which keeps a passcode out of the list of processes.",
)  # fmt: skip


@click.command()
@click.argument("destination")
@click.argument("body", required=False)
@click.option(
    "--file", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Send the contents of this file.",
)  # fmt: skip
@click.option(
    "--header", "headers", multiple=True, callback=_pairs, metavar="NAME=VALUE",
    help="A header of the message; may be repeated.",
)  # fmt: skip
@click.option("--priority", type=click.IntRange(0, 9), help="0 to 9; the default is 4.")
@click.option("--ttl", type=click.IntRange(1), metavar="MS", help="Milliseconds until it expires.")
@click.option("--count", type=click.IntRange(1), default=1, help="Number of times to send it.")
@click.option(
    "--persistent/--not-persistent", default=None,
    help="Whether it must survive a restart; the broker's default is yes.",
)  # fmt: skip
@click.option("--transaction", is_flag=True, help="Send all of them in one transaction.")
@click.option(
    "--must-route", is_flag=True, help="Exit with 1 if no queue took the message, or one of them."
)
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=ANSWER_SECONDS, show_default=True,
    metavar="SECONDS", help="How long the broker may take for each answer, and to give credit.",
)  # fmt: skip
@url_option
@click.option("--json", "as_json", is_flag=True, help="Print for programs.")
def send(
    destination: str,
    body: str | None,
    file: Path | None,
    headers: list[tuple[str, str]],
    priority: int | None,
    ttl: int | None,
    count: int,
    persistent: bool | None,
    transaction: bool,
    must_route: bool,
    timeout: float,
    endpoint: Endpoint,
    as_json: bool,
) -> None:
    """Send a message, wait until the broker has it on disk, and show which queues accepted it.

    DESTINATION is /queue/NAME, /topic/NAME or ADDRESS::QUEUE. The body comes from the argument,
    from --file, or from standard input.
    """
    if must_route and transaction:
        raise click.UsageError("--must-route with --transaction: of those no receipt says it")
    _warn_of_prefix(destination)
    all_headers = list(headers)
    if priority is not None:
        all_headers.append(("priority", str(priority)))
    if ttl is not None:
        all_headers.append(("ttl", str(ttl)))
    if persistent is not None:
        all_headers.append(("persistent", "true" if persistent else "false"))
    try:
        with ExitStack() as files:
            content = _content(body, file, files)
            begun = perf_counter()
            with connected(endpoint, timeout=timeout) as traffic:
                outcomes = traffic.send(
                    destination, all_headers, content, count, in_transaction=transaction
                )
    except ClientError as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(f"the body cannot be read: {error}") from error
    seconds = perf_counter() - begun
    routed = sorted({name for each in outcomes for name in _names(each)})
    dropped = [each["dropped"] for each in outcomes if "dropped" in each]
    if as_json:
        told: dict[str, Any] = {
            "sent": count, "bytes": content.size, "seconds": round(seconds, 6),
            "routed": routed if any(outcomes) else None,
            "dropped": len(dropped) if outcomes else None, "reasons": sorted(set(dropped)),
        }  # fmt: skip
        show_json(told)
    else:
        done = (
            f"sent {counted(count, 'message')} of {counted(content.size, 'byte')} to {destination}"
        )
        click.echo(f"{done}; {_became(count, outcomes, routed, dropped)}")
    if must_route and not outcomes:
        raise Failure(f"--must-route: {endpoint} does not say which messages went to no queue")
    if must_route and len(outcomes) - len(dropped) < count:
        raise Failure(f"--must-route: {len(dropped) or 'some'} of {count:,} went to no queue")


def _names(outcome: dict[str, str]) -> list[str]:
    return outcome["routed"].split(",") if "routed" in outcome else []


def _became(
    count: int, outcomes: list[dict[str, str]], routed: list[str], dropped: list[str]
) -> str:
    """Return the outcome of the messages, as a sentence."""
    if len(outcomes) < count or not (routed or dropped):
        return "accepted"
    parts = []
    if routed:
        many = "queues" if len(routed) > 1 else "queue"
        parts.append(f"routed to {many} {', '.join(routed)}, and safe on disk if persistent")
    if dropped:
        many = "" if len(dropped) == count else f"{len(dropped):,} "
        parts.append(f"{many}dropped: {', '.join(sorted(set(dropped)))}")
    return "; ".join(parts)


def _warn_of_prefix(destination: str) -> None:
    """Warn about a name that looks like a mistyped prefix; it is a valid name nevertheless."""
    if destination.startswith(("/queue/", "/topic/", "/temp-queue/", "/temp-topic/")):
        return
    first = destination.lstrip("/").split("/")[0].lower()
    close = get_close_matches(first, ("queue", "topic"), n=1, cutoff=0.6)
    if close and "/" in destination.lstrip("/"):
        rest = destination.lstrip("/").partition("/")[2]
        click.echo(
            f"warning: '{destination}' is taken as the name of an address; did you mean "
            f"/{close[0]}/{rest}?",
            err=True,
        )


def _content(body: str | None, file: Path | None, files: ExitStack) -> Content:
    """Return the body to send. A body from a file or a pipe is never completely in memory."""
    if body is not None and file is not None:
        raise click.UsageError("a body and --file at the same time; give one of them")
    if file is not None:
        source = files.enter_context(file.open("rb"))
        return _from_file(source) if file.is_file() else _from_pipe(source, files)
    if body is not None:
        encoded = body.encode("utf-8", "surrogateescape")
        return Content(len(encoded), lambda: iter([encoded]))
    if sys.stdin.isatty():
        raise click.UsageError("no body; give it as an argument, with --file or on standard input")
    return _from_pipe(sys.stdin.buffer, files)


def _from_pipe(source: IO[bytes], files: ExitStack) -> Content:
    """Read a body from a pipe: its length must be known before it is sent, so it is stored
    first."""
    kept = files.enter_context(TemporaryFile())  # noqa: SIM115 - the stack closes it
    copyfileobj(source, kept, PIECE_BYTES)
    return _from_file(kept)


def _from_file(source: IO[bytes]) -> Content:
    def pieces() -> Iterator[bytes]:
        source.seek(0)
        while piece := source.read(PIECE_BYTES):
            yield piece

    return Content(source.seek(0, 2), pieces)


@click.command()
@click.argument("destination")
@click.option(
    "--count",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Stop after N messages.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=WAIT_SECONDS,
    show_default=True,
    metavar="S",
    help="Give up when no message arrives for this many seconds.",
)
@click.option(
    "--ack",
    type=click.Choice(["auto", "client", "client-individual"]),
    default="client-individual",
    show_default=True,
    help="With auto a message counts as acknowledged when the broker has sent it, so "
    "messages in transfer at the end are lost.",
)
@click.option("--keep", is_flag=True, help="Do not acknowledge: the messages go back.")
@click.option(
    "--reject", is_flag=True, help="Reject instead (NACK): a failed attempt, which counts."
)
@click.option("--follow", is_flag=True, help="Continue until Ctrl-C.")
@click.option("--durable", metavar="NAME", help="As the durable subscription of this name.")
@url_option
@click.option("--json", "as_json", is_flag=True, help="Print one object a line.")
def receive(
    destination: str,
    count: int,
    timeout: float,
    ack: Literal["auto", "client", "client-individual"],
    keep: bool,
    reject: bool,
    follow: bool,
    durable: str | None,
    endpoint: Endpoint,
    as_json: bool,
) -> None:
    """Receive messages, print their bodies, and acknowledge each message after printing it.

    A long body is never completely in memory, except with --json.

    Exit code 1 if fewer than --count arrived in time.
    """  # fmt: skip
    if keep and reject:
        raise click.UsageError("--keep and --reject are different answers; give one of them")
    if (keep or reject) and ack == "auto":
        what = "--keep" if keep else "--reject"
        raise click.UsageError(f"{what} needs acknowledgements by the client; leave out --ack auto")
    received = 0
    wanted = None if follow else count
    try:
        with connected(endpoint, durable=durable) as traffic, Interruption() as interruption:
            traffic.subscribe(destination, ack, wanted)
            if follow:
                click.echo(f"waiting for messages from {destination}; Ctrl-C ends", err=True)
            while follow or received < count:
                shown = interruption.wait(traffic.next, None if follow else timeout)
                if shown is None:
                    break
                received += 1
                _show(shown, as_json)
                shown.content.close()
                if ack != "auto" and not keep:
                    traffic.answer(shown, rejects=reject, is_last=received == wanted)
            traffic.end()
    except ClientError as error:
        raise Failure(str(error)) from error
    if received < count and not follow:
        why = "before the interrupt" if interruption.has_come else f"within {timeout:g} s"
        click.echo(f"{received:,} of {counted(count, 'message')} arrived {why}", err=True)
        sys.exit(EXIT_WRONG)


def _show(shown: Shown, as_json: bool) -> None:
    content = shown.content
    if as_json:
        told: dict[str, Any] = {"headers": shown.headers, "body_bytes": content.size}
        show_json(told | body_fields(b"".join(content.pieces())))
    elif sys.stdout.isatty():
        # A body must not control the terminal; elsewhere it is printed unchanged.
        decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
        for piece in content.pieces():
            click.echo("\n".join(printable(each) for each in decode(piece).split("\n")), nl=False)
        click.echo(printable(decode(b"", True)))
    else:
        for piece in content.pieces():
            click.echo(piece, nl=False)
        click.echo()
    sys.stdout.flush()
