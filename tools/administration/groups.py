"""Commands about message groups: `daybook queue groups` and `daybook queue reset-groups`.

They complete the group `queue`. Groups belong to consumers, so there are none without a broker.
"""

from pathlib import Path
from typing import Any

import click

from daybook.tools.administration.broker_access import broker_option
from daybook.tools.administration.broker_commands import change, json_option, show_rows
from daybook.tools.administration.connections import ask_those_connected
from daybook.tools.administration.queued_deaths import queue

__all__ = ["queue"]

COLUMNS = ("group", "consumer", "connection", "user", "peer")


@queue.command("groups")
@click.argument("name")
@broker_option
@json_option
def queue_groups(name: str, data: Path, as_json: bool) -> None:
    """List the message groups of a queue and the consumers that have them.

    With group-hashing, these are the groups that have messages in flight. Groups without a place of
    their own are shown as `shared place N`, and those of a queue with group-buckets as `bucket N`.
    """
    rows: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        page = ask_those_connected(data, do="groups", queue=name, offset=offset)
        rows += page["groups"]
        offset = page["next_offset"]
    if not as_json:
        for row in rows:
            row["group"] = _shown(row)
    show_rows(COLUMNS, rows, as_json=as_json)


def _shown(row: dict[str, Any]) -> str:
    if row["bucket"] is not None:
        return f"bucket {row['bucket']}"
    if row["shared_place"] is not None:
        return f"shared place {row['shared_place']}"
    return str(row["group"]) or "(what a filter passed over)"


@queue.command("reset-groups")
@click.argument("name")
@click.option("--group", default="", metavar="GROUP", help="Only this group; without it all.")
@broker_option
@json_option
def queue_reset_groups(name: str, group: str, data: Path, as_json: bool) -> None:
    """Make consumers give up message groups: the next message of each goes to the next consumer.

    Messages in flight stay with their consumers, so for a moment two consumers may have messages
    of one group, unless the queue has group-rebalance-pause-dispatch.
    """
    what = f"group '{group}'" if group else "all message groups"
    change(
        data, f"reset {what} of queue '{name}'", as_json, do="reset-groups", queue=name, group=group
    )  # fmt: skip
