"""Running `journal diff`: what changed between two moments."""

from pathlib import Path
from typing import Any, Final

import click

from daybook.journal.disk import Disk
from daybook.tools.past import found, opened, overview
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.opening import history
from daybook.tools.terminal.printing import show_json, show_table
from daybook.tools.terminal.texts import moment, printable

KEYS: Final = {
    "addresses": ("address", ()),
    "queues": ("queue", ("added", "acknowledged", "dead_lettered", "expired", "replaced",
                         "evicted", "recalled", "messages", "ready", "in_flight", "scheduled",
                         "held", "bytes", "consumers", "browsers", "groups")),
    "connections": ("connection", ("consumers", "transactions", "in_flight")),
    "consumers": ("consumer", ("in_flight", "credit_messages", "credit_bytes")),
}  # fmt: skip
"""What is compared, the name of each row, and its figures, which may change by themselves."""
_SILENT: Final = ("routed", "unrouted", "messages", "bytes", "queues", "queue_count")
"""What changes at an address because of its queues and messages."""


def run(
    ctx: click.Context, path: Path, first: Moment, second: Moment, flags: dict[str, Any]
) -> None:
    """Print what changed. Raises Failure, click.UsageError and JournalError."""
    disk, _, _ = history(ctx, path, flags)
    before, after = found(path, disk, first), found(path, disk, second)
    if after.lsn < before.lsn:
        raise click.UsageError(
            f"the second moment (event {after.lsn}) is before the first (event {before.lsn})"
        )
    told = difference(_at(path, disk, before), _at(path, disk, after))
    if flags["as_json"]:
        show_json(told)
    else:
        _show(told)


def _at(path: Path, disk: Disk, at: Moment) -> dict[str, Any]:
    with opened(path, disk, at.lsn) as state:
        return overview(state, at)


def difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return what changed between two overviews."""
    told: dict[str, Any] = {
        "from": {"lsn": before["lsn"], "time": before["time"]},
        "to": {"lsn": after["lsn"], "time": after["time"]},
    }
    for what, (name, figures) in KEYS.items():
        told[what] = _compared(
            {row[name]: row for row in before[f"list_of_{what}"]},
            {row[name]: row for row in after[f"list_of_{what}"]},
            (*figures, *(_SILENT if what == "addresses" else ())),
        )
    told["traffic"] = _traffic(before, after)
    told["settings"] = [
        change
        for which in ("settings", "settings_at_run_time")
        for change in _settings(before[which], after[which], which)
    ]
    return told


def _compared(
    before: dict[Any, dict[str, Any]], after: dict[Any, dict[str, Any]], figures: tuple[str, ...]
) -> dict[str, Any]:
    """Return what began, what ended, and which attributes of the others changed."""
    changed = [
        {"name": name, "attribute": key, "from": before[name][key], "to": value}
        for name, row in after.items()
        if name in before
        for key, value in row.items()
        if key not in figures and before[name].get(key) != value
    ]
    return {
        "new": [row for name, row in after.items() if name not in before],
        "gone": [row for name, row in before.items() if name not in after],
        "changed": changed,
    }


def _traffic(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what came and went in each queue that exists at the end, where anything did."""
    former = {row["queue"]: row for row in before["list_of_queues"]}
    counters = ("added", "acknowledged", "dead_lettered", "expired", "replaced", "evicted")
    rows = []
    for row in after["list_of_queues"]:
        old = former.get(row["queue"], {})
        moved = {key: row[key] - old.get(key, 0) for key in counters}
        held = {"before": old.get("messages", 0), "after": row["messages"]}
        left = sum(moved.values()) - moved["added"]
        other = held["before"] + moved["added"] - left - held["after"]
        if any(moved.values()) or other:
            rows.append({"queue": row["queue"], **held, **moved, "otherwise_left": other})
    return rows


def _settings(
    before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]], which: str
) -> list[dict[str, Any]]:
    found_changes = []
    for match in sorted({*before, *after}):
        old, new = before.get(match, {}), after.get(match, {})
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                found_changes.append(
                    {"match": match, "key": key, "from": old.get(key), "to": new.get(key),
                     "at_run_time": which != "settings"}
                )  # fmt: skip
    return found_changes


def _show(told: dict[str, Any]) -> None:
    first, last = told["from"], told["to"]
    click.echo(
        f"from event {first['lsn']} ({moment(first['time'])}) to event {last['lsn']} "
        f"({moment(last['time'])}) UTC"
    )
    is_same = True
    for what, (name, _) in KEYS.items():
        changes = told[what]
        for sign, which in (("+", "new"), ("-", "gone")):
            for row in changes[which]:
                is_same = False
                click.echo(f"{sign} {what}: {printable(_named(row, name))}")
        for change in changes["changed"]:
            is_same = False
            click.echo(
                f"~ {what}: {printable(str(change['name']))}: {change['attribute']} was "
                f"{_shown(change['from'])}, is {_shown(change['to'])}"
            )
    for change in told["settings"]:
        is_same = False
        when = " (at run time)" if change["at_run_time"] else ""
        click.echo(
            f"~ setting {change['key']} of match {printable(change['match'])}{when}: was "
            f"{_shown(change['from'])}, is {_shown(change['to'])}"
        )
    if told["traffic"]:
        headings = tuple(key.replace("_", " ") for key in told["traffic"][0])
        click.echo("")
        show_table(headings, [tuple(row.values()) for row in told["traffic"]], "messages")
    elif is_same:
        click.echo("nothing changed")


def _named(row: dict[str, Any], name: str) -> str:
    """Return a row as a line: its name, and who it is about."""
    more = [str(row[key]) for key in ("user", "peer", "queue") if row.get(key) and key != name]
    return f"{row[name]}" + (f" ({', '.join(more)})" if more else "")


def _shown(value: Any) -> str:
    return "not set" if value is None else printable(str(value))
