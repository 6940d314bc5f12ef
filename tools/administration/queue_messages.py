"""Commands that do something with messages of a queue: `daybook queue move`, `copy`, `retry` and so
on. They complete the group `queue`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from daybook.tools.administration.broker_access import broker_option
from daybook.tools.administration.broker_commands import demand, json_option, queue
from daybook.tools.terminal.numbers import NUMBER
from daybook.tools.terminal.printing import show_json

__all__ = ["queue"]

filter_option: Final = click.option(
    "--filter", "chosen_by", default="", metavar="CONDITION",
    help="Only messages for which this is true, as in SQL-92 (docs/filters.md).",
)  # fmt: skip
message_option: Final = click.option(
    "--message", type=NUMBER, default=None, metavar="ID", help="Only this message."
)


def choosing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that choose messages, and those of all commands."""
    for option in (json_option, broker_option, message_option, filter_option):
        command = option(command)
    return command


def act(
    name: str,
    action: str,
    done: str,
    *,
    chosen_by: str,
    message: int | None,
    data: Path,
    as_json: bool,
    **more: Any,
) -> None:
    """Ask the running broker to do something with messages, and print how many there were.

    `done` is a sentence about `{}` messages.
    """
    if chosen_by and message:
        raise click.UsageError("--filter and --message exclude each other")
    answer = demand(
        data,
        {"do": "act-on-messages", "queue": name, "action": action, "filter": chosen_by}
        | {"message": message or 0} | more,
    )  # fmt: skip
    if as_json:
        show_json(answer)
        return
    click.echo(done.format(_messages(answer["acted"])))
    if answer["passed_over"]:
        were = "it was" if answer["passed_over"] == 1 else "they were"
        click.echo(f"{_messages(answer['passed_over'])} stayed as {were}", err=True)
        # A broker of an earlier version does not say why.
        for why, count in answer.get("why", {}).items():
            click.echo(f"  {_messages(count)}: {why}", err=True)


def _messages(count: int) -> str:
    return f"{count:,} message{'s' * (count != 1)}"


@queue.command("move")
@click.argument("name")
@click.argument("target")
@choosing
def queue_move(name: str, target: str, **options: Any) -> None:
    """Move messages to another queue, past its filter and limits."""
    act(name, "move", f"moved {{}} to queue '{target}'", target=target, **options)


@queue.command("copy")
@click.argument("name")
@click.argument("target")
@choosing
def queue_copy(name: str, target: str, **options: Any) -> None:
    """Copy messages to another queue, past its filter and limits."""
    act(name, "copy", f"copied {{}} to queue '{target}'", target=target, **options)


@queue.command("retry")
@click.argument("name")
@choosing
def queue_retry(name: str, **options: Any) -> None:
    """Send dead letters and expired messages back to the queues that they were in.

    The journal says where that was, whatever a message says of itself. Messages whose queue does
    not exist any more stay, and so do those for queues that you may not manage.
    """
    act(name, "retry", "sent {} back", **options)


@queue.command("expire")
@click.argument("name")
@choosing
def queue_expire(name: str, **options: Any) -> None:
    """Expire messages now: they go to the expiry address, or are dropped."""
    act(name, "expire", "expired {}", **options)


@queue.command("remove")
@click.argument("name")
@choosing
def queue_remove(name: str, chosen_by: str, message: int | None, **options: Any) -> None:
    """Remove messages that --filter or --message chooses; `purge` removes all."""
    if not chosen_by and not message:
        raise click.UsageError("choose messages with --filter or --message, or purge the queue")
    act(name, "remove", "removed {}", chosen_by=chosen_by, message=message, **options)


@queue.command("priority")
@click.argument("name")
@click.argument("priority", type=click.IntRange(0, 9))
@choosing
def queue_priority(name: str, priority: int, **options: Any) -> None:
    """Give messages another priority: they go behind the others that have it."""
    done = f"gave {{}} priority {priority}"
    act(name, "priority", done, priority=priority, **options)
