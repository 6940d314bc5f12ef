"""The commands `cluster` and `lead`: which node of a cluster leads, how far the others are, and a
clean hand-over (ADR 118).

They ask the node that runs on a data directory, which answers also while it follows and no broker
runs.

| code | meaning |
|---|---|
| 0 | a node leads, and this one has no problem |
| 1 | no node leads, or this node has a problem |
| 3 | no node runs |
"""

from pathlib import Path
from typing import Any, Final

import click

from daybook.client.control import ask
from daybook.journal.data_directory import NODE_SOCKET
from daybook.server.administration.units import heading
from daybook.server.monitoring.cluster_health import cluster_troubles
from daybook.tools.administration.broker_access import data_option
from daybook.tools.administration.request_commands import json_option, show_rows
from daybook.tools.terminal.printing import show_json_pretty, show_table

CODES: Final = (
    "\b\nExit codes: 0 a node leads, 1 no node leads or this one has a problem,\n3 no node runs."
)
LEAD_CODES: Final = (
    "\b\nExit codes: 0 the node that is shown leads, 1 none does, or there was no hand-over,"
    "\n3 no node runs."
)
ANYBODY: Final = " "
"""Stands for the node that has most: no node has such a name."""
LEAD_SECONDS: Final = 60.0
NOBODY_LEADS: Final = "no node leads: a majority of the nodes, and the arbiter, must be there"
EXIT_NOT_RUNNING: Final = 3
NODE_COLUMNS: Final = (
    "node", "address", "joined", "in_sync", "in_sync_seconds", "acknowledged_lsn", "behind",
    "behind_bytes", "behind_seconds", "trouble",
)  # fmt: skip


@click.group()
def cluster() -> None:
    """Look at the cluster of nodes that a broker is part of."""


@cluster.command(epilog=CODES)
@data_option
@json_option
@click.pass_context
def status(ctx: click.Context, data: Path, as_json: bool) -> None:
    """Show the state of this node, and of the others as it sees them.

    The node that leads knows how far the others are; one that follows knows who leads, and which
    events are confirmed.
    """
    answer = ask(data, {"do": "cluster"}, name=NODE_SOCKET)
    if answer is None:
        click.echo(f"no node of a cluster runs on {data}", err=True)
        ctx.exit(EXIT_NOT_RUNNING)
    found = cluster_troubles(answer)
    if as_json:
        show_json_pretty(answer | {"problems": found})
    else:
        _show(answer)
        for text in found:
            click.secho(text, fg="red", err=True)
    ctx.exit(1 if found else 0)


@click.command(epilog=LEAD_CODES)
@data_option
@click.option(
    "--transfer",
    "to",
    is_flag=False,
    flag_value=ANYBODY,
    metavar="[NODE]",
    help="Let this node lead instead; without NODE, the follower that has most.",
)
@json_option
@click.pass_context
def lead(ctx: click.Context, data: Path, to: str | None, as_json: bool) -> None:
    """Show which node leads, or let another one lead.

    For --transfer ask the node that leads: its broker stops cleanly, and the other node takes over
    when it has everything, after about a second. Clients are disconnected meanwhile, and connect to
    the new leader. If the other node does not catch up, this one leads again.
    """
    request = {"do": "cluster"} if to is None else {"do": "lead", "to": to.strip()}
    answer = ask(data, request, LEAD_SECONDS, name=NODE_SOCKET)
    if answer is None:
        click.echo(f"no node of a cluster runs on {data}", err=True)
        ctx.exit(EXIT_NOT_RUNNING)
    shown = {key: answer[key] for key in ("leader", "epoch", "seconds") if key in answer}
    if as_json:
        show_json_pretty(shown)
    elif not shown["leader"]:
        click.echo(NOBODY_LEADS, err=True)
    else:
        took = f", after {shown['seconds']:.1f} s" if "seconds" in shown else ""
        click.echo(f"{shown['leader']} leads in epoch {shown['epoch']}{took}")
    ctx.exit(0 if shown["leader"] else 1)


def _show(answer: dict[str, Any]) -> None:
    nodes = answer["nodes"]
    rows = [
        (heading(key), str(value))
        for key, value in answer.items()
        if key != "nodes" and value not in ("", None, [])
    ]
    show_table(("", "cluster"), rows)
    click.echo("")
    show_rows(NODE_COLUMNS, nodes)
