"""The commands `status` and `health`: the state of a broker, and an exit code for it.

| code | meaning |
|---|---|
| 0 | it runs without problems, or with warnings only |
| 1 | it has another problem, or does not answer |
| 3 | no broker runs |
| 4 | the index is behind or cannot be written |
| 5 | the disk is full, or nearly so (`min-disk-free`, `max-disk-usage`) |

If several apply, the highest is used. A warning is a state that an operator chose, such as a paused
queue with messages; `health --strict` exits with 1 for it. `health` is for supervisors of
containers and for monitoring: without a running broker it does not read the journal.
"""

import contextlib
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from daybook.client.control import ask
from daybook.journal.data_directory import NODE_SOCKET
from daybook.server.administration.units import COUNTED, heading
from daybook.server.monitoring.cluster_health import role_for_clients
from daybook.server.monitoring.health import (
    EXIT_WARNING,
    EXIT_WRONG,
    Problem,
    check_problems,
    cluster_problems,
    problems,
)
from daybook.server.monitoring.rates import FULL_SECONDS_LEAST, disk_forecast, rates_between
from daybook.tools.administration.broker_access import broker_option, is_elsewhere, reach
from daybook.tools.administration.request_commands import (
    asked_moment,
    at_option,
    json_option,
    look,
    show_rows,
)
from daybook.tools.terminal.printing import show_json, show_json_pretty, show_table

CODES: Final = (
    "\b\nExit codes: 0 no problems, 1 a problem or no answer, 3 no broker runs,\n"
    "4 the index is behind or cannot be written, 5 the disk is full.\n"
    "A warning, such as a paused queue with messages, does not change the exit code."
)
BLOCKED_COLUMNS: Final = ("connection", "peer", "address", "seconds", "why")
SLOW_COLUMNS: Final = ("consumer", "connection", "peer", "user", "queue", "rate")
USER_COLUMNS: Final = (
    "user", "bytes", "output", "input", "unacknowledged", "transactions_bytes", "objects_bytes",
    "short_of",
)  # fmt: skip
HOLDER_COLUMNS: Final = (
    "connection", "peer", "user", "bytes", "output", "input", "unacknowledged",
    "transactions_bytes",
)  # fmt: skip
TROUBLED_COLUMNS: Final = ("name", "failures", "next_try_seconds", "trouble")
RATES_SECONDS_MAX: Final = 3600
NUMBERS_THAT_NAME: Final = ("pid", "lsn", "durable_lsn", "indexed_lsn", "history_from_lsn",
                            "indexer_pid", "console_pid", "oldest_ready")  # fmt: skip
"""Fields of the status that are often copied into commands, and so are shown without separators."""


def _leave(ctx: click.Context, found: list[Problem]) -> None:
    ctx.exit(max((problem.code for problem in found), default=0))


@click.command(epilog=f"{COUNTED}\n\n{CODES}")
@click.option(
    "--rates", "seconds", type=click.IntRange(1, RATES_SECONDS_MAX), default=None,
    metavar="SECONDS",
    help="Compare with the state after so many seconds: messages per second that came in, were"
    " delivered, acknowledged, dead-lettered and expired, and, from"
    f" {FULL_SECONDS_LEAST:.0f} seconds on, when the disk is full if it fills like that; or why"
    " that is not known.",
)  # fmt: skip
@at_option
@broker_option
@json_option
@click.pass_context
def status(ctx: click.Context, data: Path, as_json: bool, seconds: int | None) -> None:
    """Show the state of the broker."""
    if seconds is not None and asked_moment() is not None:
        raise click.UsageError("--rates measures a running broker; leave out --at")
    answer = {"running": True} | look(data, {"do": "status"})
    if seconds is not None and answer["running"]:
        answer = _measured(data, answer, seconds)
    # Problems are found while a broker runs; the journal has none.
    found = problems(answer) + _of_checks(data) if asked_moment() is None else []
    if as_json:
        show_json_pretty(answer | _texts(found))
    else:
        _show(answer)
        for problem in found:
            is_warning = problem.code == EXIT_WARNING
            click.secho(problem.text, fg="yellow" if is_warning else "red", err=True)
    _leave(ctx, found)


def _measured(data: Path, before: dict[str, Any], seconds: int) -> dict[str, Any]:
    """Return the state after so many seconds, with what changed since another, each second."""
    begun = time.monotonic()
    time.sleep(seconds)
    answer = {"running": True} | look(data, {"do": "status"})
    passed = time.monotonic() - begun
    rates = rates_between(before, answer, passed)
    forecast = disk_forecast(before, answer, passed)
    return (
        answer
        | {f"{name}_per_second": rate for name, rate in rates.items()}
        | {"disk_full_in_seconds": forecast.seconds, "disk_forecast": forecast.words}
    )


def _texts(found: list[Problem]) -> dict[str, list[str]]:
    """Return the sentences of problems and of warnings, for programs."""
    return {
        "problems": [problem.text for problem in found if problem.code != EXIT_WARNING],
        "warnings": [problem.text for problem in found if problem.code == EXIT_WARNING],
    }


def _show(answer: dict[str, Any]) -> None:
    acceptors = answer.pop("acceptors", [])
    blocked = answer.pop("blocked", [])
    troubled = [each for each in answer.pop("background", []) if each["trouble"]]
    # Shown among the problems.
    answer.pop("queues_unreadable", None)
    answer.pop("queues_paused", None)
    answer.pop("connectors_in_trouble", None)
    answer.pop("cluster", None)
    memory = answer.pop("memory", {})
    holders = [
        each | {"transactions_bytes": each["transactions"]}
        for each in answer.pop("memory_holders", [])
    ]
    users = [
        each | {"transactions_bytes": each["transactions"], "objects_bytes": each["objects"]}
        for each in answer.pop("memory_users", [])
    ]
    slow = answer.pop("slow_consumers", [])
    # The forecast says the same in words.
    answer.pop("disk_full_in_seconds", None)
    seconds = answer.pop("uptime_seconds", None)
    if seconds is not None:
        answer["uptime"] = f"{timedelta(seconds=int(seconds))} (h:mm:ss)"
    show_table(
        ("", "status"),
        [
            (heading(key), str(value) if key in NUMBERS_THAT_NAME else value)
            for key, value in answer.items()
            if value not in ("", None)
        ],
    )
    if acceptors:
        click.echo("")
        show_table(
            ("acceptor", "url", "connections"),
            [(each["name"], each["url"], each["connections"]) for each in acceptors],
        )
    _show_connections(BLOCKED_COLUMNS, blocked)
    if troubled:
        click.echo("")
        show_rows(TROUBLED_COLUMNS, troubled)
    if memory:
        click.echo("")
        show_table(("memory", "bytes"), list(memory.items()))
    _show_connections(HOLDER_COLUMNS, holders)
    if users:
        click.echo("")
        show_rows(USER_COLUMNS, users)
    _show_connections(SLOW_COLUMNS, slow)


def _show_connections(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    """Show rows about connections, whose ids are shown without separators."""
    if rows:
        click.echo("")
        show_rows(columns, [each | {"connection": str(each["connection"])} for each in rows])


@click.command(epilog=CODES)
@broker_option
@json_option
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
@click.pass_context
def health(ctx: click.Context, data: Path, as_json: bool, strict: bool) -> None:
    """Report in one line whether the broker is healthy; for supervisors and monitoring."""
    answer = reach(data, {"do": "status"})
    healthy = "healthy"
    if answer is not None:
        found = problems(answer) + _of_checks(data)
    elif (node := _node(data)) is not None:
        found, healthy = cluster_problems(node), f"healthy: {role_for_clients(node)}"
    else:
        found = problems({"running": False})
    if as_json:
        show_json({"healthy": not found, **_texts(found)})
    else:
        click.echo("; ".join(_line(problem) for problem in found) or healthy)
    if strict and found:
        ctx.exit(max(EXIT_WRONG, *(problem.code for problem in found)))
    _leave(ctx, found)


def _of_checks(data: Path) -> list[Problem]:
    """Return what the last verification and audit found, of a broker on this machine."""
    if is_elsewhere():
        return []
    # Slow to import.
    from daybook.history.reports.report_files import faults  # noqa: PLC0415

    with contextlib.suppress(OSError):
        return check_problems(faults(data))
    return []


def _node(data: Path) -> dict[str, Any] | None:
    """Return the state of the node that follows on a data directory, None if there is none."""
    answer = ask(data, {"do": "cluster"}, name=NODE_SOCKET)
    # While it leads its broker must answer.
    return answer if answer is not None and role_for_clients(answer) else None


def _line(problem: Problem) -> str:
    return f"warning: {problem.text}" if problem.code == EXIT_WARNING else problem.text
