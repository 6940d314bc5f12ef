"""The tables of the benchmark, in Markdown so that they can be pasted into a page as they are."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from bench.reports.report import Machine, Summary


def print_report(
    console: Console,
    machine: Machine,
    summaries: Sequence[Summary],
    notes: Sequence[str],
    niceness: int,
) -> None:
    """Print tables for each number of busy neighbours, which had this niceness."""
    console.print(described(machine), soft_wrap=True)
    for busy in dict.fromkeys(summary.busy for summary in summaries):
        _print_tables(console, [one for one in summaries if one.busy == busy], busy, niceness)
    for note in notes:
        console.print(f"- {note}", soft_wrap=True, markup=False)


def described(machine: Machine) -> str:
    """Return the line about the machine, above all tables."""
    return (
        f"{machine.date}; {machine.cores} cores ({machine.processor}), {machine.memory_gib} GiB, "
        f"{machine.file_system}, Linux {machine.kernel}, Python {machine.python}; one fdatasync "
        f"{machine.fdatasync_p50_us / 1000:.2f} ms; load average at the start "
        f"{machine.load_average}\n"
    )


def _print_tables(console: Console, summaries: Sequence[Summary], busy: int, niceness: int) -> None:
    names = "neighbour" if busy == 1 else "neighbours"
    title = f"Beside {busy} busy {names}, niceness {niceness}" if busy else "Without neighbours"
    console.print(f"**{title}**\n")
    rates = [summary for summary in summaries if summary.mode != "roundtrip"]
    trips = [summary for summary in summaries if summary.mode == "roundtrip"]
    if rates:
        console.print(_rate_table(rates))
    if trips:
        console.print(_trip_table(trips))
    console.print(_cpu_table(summaries))


def markdown_table(names: Sequence[str], left: int = 1) -> Table:
    """Return a table with these columns; the first `left` have text, the others figures."""
    table = Table(box=box.MARKDOWN)
    for place, name in enumerate(names):
        table.add_column(name, justify="left" if place < left else "right", no_wrap=True)
    return table


def _compared(summaries: Sequence[Summary]) -> tuple[list[str], list[list[str]]]:
    """Return the columns that compare: their names, and their cells for each summary."""
    references = list(dict.fromkeys(name for one in summaries for name in one.ratios))
    names = [f"x {name}" for name in references]
    cells = [[_ratio(one.ratios.get(name)) for name in references] for one in summaries]
    if any(one.to_idle is not None for one in summaries):
        names.append("x idle")
        for one, row in zip(summaries, cells, strict=True):
            row.append(_ratio(one.to_idle))
    return names, cells


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _rate_table(summaries: Sequence[Summary]) -> Table:
    names, cells = _compared(summaries)
    table = markdown_table(("mode", "target", "msg/s", "min - max", *names, "others"), left=2)
    for one, compared in zip(summaries, cells, strict=True):
        table.add_row(
            one.mode,
            one.target,
            f"{one.value:,.0f}",
            f"{one.lowest:,.0f} - {one.highest:,.0f}",
            *compared,
            f"{one.others:.0%}",
        )
    return table


def _trip_table(summaries: Sequence[Summary]) -> Table:
    names, cells = _compared(summaries)
    table = markdown_table(
        ("mode", "target", "p50 ms", "min - max", "p99 ms", *names, "others"), left=2
    )
    for one, compared in zip(summaries, cells, strict=True):
        table.add_row(
            one.mode,
            one.target,
            f"{one.value / 1000:.2f}",
            f"{one.lowest / 1000:.2f} - {one.highest / 1000:.2f}",
            f"{one.p99_us / 1000:.2f}",
            *compared,
            f"{one.others:.0%}",
        )
    return table


def _cpu_table(summaries: Sequence[Summary]) -> Table:
    """Show processor time for each message, and the other users of the cores."""
    cpu = ("broker us", "producer us", "consumer us")
    table = markdown_table(("mode", "target", *cpu, "neighbours", "others"), left=2)
    for one in summaries:
        table.add_row(
            one.mode,
            one.target,
            f"{one.broker_cpu_us:.1f}",
            f"{one.producer_cpu_us:.1f}",
            f"{one.consumer_cpu_us:.1f}",
            f"{one.neighbours:.0%}",
            f"{one.others:.0%}",
        )
    return table
