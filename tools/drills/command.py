"""The commands `daybook drill`: rehearsals of crashes and losses, for staging and for auditors."""

import math
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn, TypeVar

import click

from daybook.tools.terminal.failures import Commands
from daybook.tools.terminal.history_options import archive_option, data_option, json_option
from daybook.tools.terminal.history_options import config_option as history_config_option
from daybook.tools.terminal.paths import DIRECTORY, PathThatIsNamed, chosen

Command = TypeVar("Command", bound=Callable[..., Any])
SEED_MAX: Final = 1 << 32
ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
SIGNALLED: Final = 128
"""The offset that shells add to the number of the signal that ended a process."""
TAIL_NAMES: Final = (
    "nothing", "whole", "inside", "garbage", "zeroed", "sector", "reordered", "behind", "proven",
    "rotten", "sealing", "not-renamed", "no-successor",
)  # fmt: skip

MINUTES_MAX: Final = 366 * 24 * 60
DELAY_MS_MAX: Final = 1000
LEASE_S_MAX: Final = 3600
LEASE_MS_MIN: Final = 1000


class Amount(click.FloatRange):
    """A number between 0 and a bound, that is a number."""

    def __init__(self, most: float) -> None:
        super().__init__(0, most, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert as the base class does; "nan" compares with no bound."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} must be a finite number", param, ctx)
        return number


seed_option = click.option(
    "--seed", type=click.IntRange(0, SEED_MAX), metavar="N",
    help="Decides everything that is drawn by chance; a fresh one is drawn and shown.",
)  # fmt: skip
report_option = click.option(
    "--report", "html", type=PathThatIsNamed(dir_okay=False, path_type=Path), metavar="FILE.html",
    help="Write the report as a page that needs no other file, and as JSON beside it.",
)  # fmt: skip


@click.group("drill", cls=Commands)
@click.pass_context
def drill_group(ctx: click.Context, /) -> None:
    """Rehearse crashes and losses, and prove that the promises hold.

    Drills only read the data of a broker; their own brokers work on scratch data. Exit code 0: no
    faults found; 1: faults found; 2: wrong usage.
    """
    ctx.with_resource(ending_cleanly())


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """Let signals that end a process end a drill as Ctrl-C does: without leftovers.

    The exit code is that of a process that the signal ended, as shells show it.
    """
    # Only the main thread handles signals; a signal that is ignored (nohup) stays ignored.
    is_main = threading.current_thread() is threading.main_thread()
    handled = [each for each in ENDING if is_main and signal.getsignal(each) != signal.SIG_IGN]
    before = [signal.signal(each, _end) for each in handled]
    try:
        yield
    finally:
        for number, handler in zip(handled, before, strict=True):
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """End the drill; its clean-up cannot be interrupted."""
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(SIGNALLED + number)


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
    help="The state of the block on disk; may be repeated. Default: everything.",
)  # fmt: skip
@click.option(
    "--minutes", type=Amount(MINUTES_MAX), default=10.0, show_default=True,
    metavar="N", help="Stop after this time, and report the cases not tried.",
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
    virtual copy is recovered by the code of a start, and compared with the confirmations to clients
    by then.
    """
    path = chosen(ctx, directory, data)
    from daybook.tools.drills.crash_points import drill  # noqa: PLC0415 (slow to import)
    from daybook.tools.drills.reports import output  # noqa: PLC0415 (slow to import)

    asked = drill.Asked(
        path, flags["points"], drawn_seed(flags["seed"]), flags["minutes"],
        flags["jobs"] or drill.jobs_default(), flags["tails"] or TAIL_NAMES, flags["at"],
    )  # fmt: skip
    output.give(drill.run(asked), html=flags["html"], as_json=flags["as_json"], data=path)


config_option = click.option(
    "--config", type=PathThatIsNamed(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="The broker's configuration, as for `daybook serve`. Default: the defaults.",
)  # fmt: skip
minutes_option = click.option(
    "--minutes", type=Amount(MINUTES_MAX), default=10.0, show_default=True,
    metavar="N", help="Begin no more rounds after this time.",
)  # fmt: skip
keep_option = click.option(
    "--keep", type=PathThatIsNamed(file_okay=False, path_type=Path), metavar="DIR",
    help="Work in this empty folder and keep it, with the log of the broker.",
)  # fmt: skip


protocol_option = click.option(
    "--protocol", type=click.Choice(["stomp", "amqp", "both"]), default="stomp", show_default=True,
    help="What the clients speak; with both each second one speaks AMQP 1.0. Dead letters are read"
    " by STOMP, which names their numbers.",
)  # fmt: skip


def campaign_command(name: str, rounds: int) -> Callable[[Command], Command]:
    """Make a function the command of a campaign, with the options that all have."""

    def decorate(command: Command) -> Command:
        made = drill_group.command(name)
        rounds_option = click.option(
            "--rounds", type=click.IntRange(1), default=rounds, show_default=True, metavar="N",
            help="How often the broker is killed.",
        )  # fmt: skip
        for option in (
            json_option, report_option, keep_option, seed_option, minutes_option, protocol_option,
            rounds_option, config_option,
        ):  # fmt: skip
            command = option(command)
        made(command)
        return command

    return decorate


def _campaign(name: str, flags: dict[str, Any]) -> None:
    from daybook.tools.drills.campaigns import drills  # noqa: PLC0415 (slow to import)
    from daybook.tools.drills.reports import output  # noqa: PLC0415 (slow to import)

    asked = drills.Asked(
        name, flags["config"], flags["rounds"], flags["minutes"], drawn_seed(flags["seed"]),
        flags.get("delay_ms", 0.0), flags["keep"], flags["protocol"],
    )  # fmt: skip
    report = drills.run(asked)
    output.give(
        report, html=flags["html"], as_json=flags["as_json"], data=drills.data_of(flags["config"])
    )


@campaign_command("kill", 10)
def kill_command(**flags: Any) -> None:
    """Kill a broker under load again and again.

    A broker of this installation with your configuration works on scratch data and a port of its
    own; producers, consumers, transactions, rejections and dead letters keep it busy. The records
    of the clients are compared with the journal.
    """
    _campaign("kill", flags)


@campaign_command("power-cut", 10)
def power_cut_command(**flags: Any) -> None:
    """Kill a broker, and take away its unsynced writes.

    As `drill kill`. The broker records the content of each sector before it writes; after the kill
    each unsynced sector gets it back, or not, by chance.
    """
    _campaign("power-cut", flags)


@campaign_command("slow-disk", 5)
@click.option(
    "--delay-ms", type=Amount(DELAY_MS_MAX), default=20.0, show_default=True,
    metavar="N", help="How much longer each sync of the journal takes.",
)  # fmt: skip
def slow_disk_command(**flags: Any) -> None:
    """Kill a broker whose syncs are slow, and do not return at all for a while.

    Meanwhile no receipt may come for messages that are not on the disk, and all other requests must
    be answered.
    """
    _campaign("slow-disk", flags)


@campaign_command("disk-full", 4)
def disk_full_command(**flags: Any) -> None:
    """Let the disk of a broker become full, and give it room again.

    It must not confirm operations that it cannot write, must keep running, and must take messages
    again when there is room. It is also killed, and started while the disk is full.
    """
    _campaign("disk-full", flags)


@drill_group.command("restore")
@click.argument("directory", required=False, metavar="[DATA]", type=DIRECTORY)
@data_option
@archive_option
@history_config_option
@seed_option
@keep_option
@report_option
@json_option
@click.pass_context
def restore_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """Rebuild a broker from its archive alone.

    The archive is verified, fetched to scratch data, folded, and a broker starts on it. DATA is the
    original: if it is given, both must have the same state at the last archived event.
    """
    path = chosen(ctx, directory, data)
    from daybook.tools.drills import restore  # noqa: PLC0415 (slow to import)
    from daybook.tools.drills.reports import output  # noqa: PLC0415 (slow to import)
    from daybook.tools.terminal.opening import opened_archive  # noqa: PLC0415 (slow to import)

    archive = opened_archive(path, flags["url"], flags["config_file"])
    asked = restore.Asked(
        archive, path, flags["config_file"], drawn_seed(flags["seed"]), flags["keep"]
    )
    output.give(restore.run(asked), html=flags["html"], as_json=flags["as_json"], data=path)


@drill_group.command("bit-rot")
@click.argument("directory", required=False, metavar="[DATA]", type=DIRECTORY)
@data_option
@config_option
@click.option(
    "--flips", type=click.IntRange(1), default=20, show_default=True, metavar="N",
    help="How many bits are turned, one after the other.",
)  # fmt: skip
@minutes_option
@seed_option
@keep_option
@report_option
@json_option
@click.pass_context
def bit_rot_command(
    ctx: click.Context, /, directory: Path | None, data: Path | None, **flags: Any
) -> None:
    """Turn bits in the files of a copy of a data directory.

    DATA is copied. After each bit the copy is verified and a broker is started on it: it must
    refuse with a reason, or serve the state of the journal.
    """
    path = chosen(ctx, directory, data)
    from daybook.tools.drills import bit_rot  # noqa: PLC0415 (slow to import)
    from daybook.tools.drills.reports import output  # noqa: PLC0415 (slow to import)

    asked = bit_rot.Asked(
        path, flags["config"], flags["flips"], flags["minutes"], drawn_seed(flags["seed"]),
        flags["keep"],
    )  # fmt: skip
    output.give(bit_rot.run(asked), html=flags["html"], as_json=flags["as_json"], data=path)


@drill_group.command("failover")
@click.argument("directory", required=False, metavar="[DATA]", type=DIRECTORY)
@config_option
@click.option(
    "--rounds", type=click.IntRange(1), default=10, show_default=True, metavar="N",
    help="How many mishaps: each kind comes once before one comes again.",
)  # fmt: skip
@click.option(
    "--acks", default="", type=click.Choice(["", "one", "majority", "all"]),
    metavar="one|majority|all",
    help="Followers that have what is confirmed. Default: as configured, else majority.",
)  # fmt: skip
@click.option(
    "--lease", "lease_s", type=Amount(LEASE_S_MAX), metavar="SECONDS",
    help="The lease of the leader, 1 or more. Default: as configured, else 3.",
)  # fmt: skip
@click.option(
    "--arbiter", type=click.Choice(["file", "etcd"]), default="file", show_default=True,
    help="What decides who leads: a file, or an etcd that is started for the drill.",
)  # fmt: skip
@minutes_option
@protocol_option
@seed_option
@keep_option
@report_option
@json_option
def failover_command(directory: Path | None, **flags: Any) -> None:
    """Lose, stop and restart the nodes of a cluster under load.

    Three nodes of this installation with your configuration work on scratch data and loopback,
    each with a copy of DATA; without it they begin empty. Clients know all addresses. The report
    says how long it took after each mishap until a message was confirmed; the records of the
    clients are compared with the journals of all nodes.
    """
    from daybook.tools.drills.failover import drill  # noqa: PLC0415 (slow to import)
    from daybook.tools.drills.reports import output  # noqa: PLC0415 (slow to import)

    lease_ms = round((flags["lease_s"] or 0) * 1000)
    if lease_ms and lease_ms < LEASE_MS_MIN:
        raise click.UsageError("--lease must be 1 second or more")
    asked = drill.Asked(
        directory, flags["config"], flags["rounds"], flags["minutes"], drawn_seed(flags["seed"]),
        flags["acks"], lease_ms, flags["arbiter"], flags["keep"], flags["protocol"],
    )  # fmt: skip
    report = drill.run(asked)
    output.give(report, html=flags["html"], as_json=flags["as_json"], data=directory)
