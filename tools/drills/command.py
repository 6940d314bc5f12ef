"""The commands `daybook drill`: rehearsals of crashes and losses, for staging and for auditors."""

import random
from pathlib import Path
from typing import Any, Final

import click

from daybook.tools.failures import Commands
from daybook.tools.history_options import data_option, json_option
from daybook.tools.paths import DIRECTORY, PathThatIsNamed, chosen

SEED_MAX: Final = 1 << 32
TAIL_NAMES: Final = (
    "nothing", "whole", "inside", "garbage", "zeroed", "sector", "reordered", "behind", "proven",
    "rotten", "sealing", "not-renamed", "no-successor",
)  # fmt: skip

seed_option = click.option(
    "--seed", type=click.IntRange(0, SEED_MAX), metavar="N",
    help="Decides everything that is drawn by chance; a fresh one is drawn and shown.",
)  # fmt: skip
report_option = click.option(
    "--report", "html", type=PathThatIsNamed(dir_okay=False, path_type=Path), metavar="FILE.html",
    help="Write the report as a page that needs no other file, and as JSON beside it.",
)  # fmt: skip


@click.group("drill", cls=Commands)
def drill_group() -> None:
    """Rehearse crashes and losses, and prove that the promises hold.

    The data of a broker is only read; what is started works on scratch data. Exit code 0: nothing
    wrong was found; 1: something was; 2: wrong usage.
    """


def drawn_seed(given: int | None) -> int:
    """Return the seed that was given, or a fresh one."""
    return given if given is not None else random.SystemRandom().randrange(SEED_MAX)


@drill_group.command("crash-points")
@click.argument("directory", required=False, metavar="[DATA]", type=DIRECTORY)
@data_option
@click.option(
    "--points", type=click.IntRange(1), default=100, show_default=True, metavar="N",
    help="At how many blocks the machine dies; the same seed draws the same.",
)  # fmt: skip
@click.option(
    "--at", default="", metavar="LSN|SEGMENT:OFFSET", help="At this block only."
)  # fmt: skip
@click.option(
    "--tail", "tails", multiple=True, type=click.Choice(TAIL_NAMES),
    help="What the disk has of the block; may be repeated. Default: everything.",
)  # fmt: skip
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True,
    metavar="N", help="Stop after this time, and report what was not tried.",
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Processes. Default: one for each core."
)  # fmt: skip
@seed_option
@report_option
@json_option
@click.pass_context
def crash_points_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """Recover a journal as a crash at any of its blocks would have left it.

    DATA is read, never written. For a sample of blocks and every kind of torn or lost tail a
    virtual copy is recovered by the code of a start, and held against what clients had been told
    by then.
    """
    path = chosen(ctx, directory, data)
    from daybook.tools.drills import crash_points, report  # noqa: PLC0415 (slow to import)

    asked = crash_points.Asked(
        path, flags["points"], drawn_seed(flags["seed"]), flags["minutes"],
        flags["jobs"] or crash_points.jobs_default(), flags["tails"] or TAIL_NAMES, flags["at"],
    )  # fmt: skip
    report.give(crash_points.run(asked), html=flags["html"], as_json=flags["as_json"])
