"""Mishaps of every run: power cuts, kills, errors of the disk, a full disk, clean stops."""

import errno
from typing import TYPE_CHECKING

from daybook.engine.commands import PauseQueue, PurgeQueue, ResumeQueue

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

FALLIBLE = (
    "pwrite", "pwrite", "fdatasync", "fdatasync", "sync_directory", "rename", "allocate",
    "truncate", "pread", "create",
)  # fmt: skip
"""Calls of the disk that may end in EIO."""

KINDS = (
    "crash", "crash soon", "crash soon", "crash soon", "error", "error", "full", "full", "stop",
)  # fmt: skip


def administrate(simulation: "Simulation") -> None:
    """Pause, resume or empty a queue."""
    life, chance = simulation.life, simulation.chance
    assert life is not None
    name = chance.choice(list(simulation.queues))
    if life.hub.stopping or life.hub.failure or name not in life.broker.state.queue_by_name:
        return
    if chance.random() < 0.1:
        simulation.ledger.purges += 1
        life.hub.request(PurgeQueue(name))
    elif life.broker.state.queue_by_name[name].paused:
        life.hub.request(ResumeQueue(name))
    else:
        life.hub.request(PauseQueue(name))


def break_something(simulation: "Simulation") -> None:
    """Break something now, or in one of the next calls of the disk."""
    chance, disk, life = simulation.chance, simulation.disk, simulation.life
    kind = chance.choice(KINDS)
    simulation.note(f"fault: {kind}")
    if kind == "crash":
        simulation.died("at once")
    elif kind == "crash soon":
        disk.crash_after(chance.randint(1, 8))
    elif kind == "error":
        disk.fail_next(chance.choice(FALLIBLE), errno.EIO)
        if chance.random() < 0.3:
            # With a disk that is broken when the broker starts again.
            simulation.died("at once")
            simulation.disk.fail_next(chance.choice(FALLIBLE), errno.EIO)
    elif kind == "full":
        _fill_or_free(simulation)
    elif life is not None and not life.hub.stopping and not life.hub.failure:
        life.stop()


def _fill_or_free(simulation: "Simulation") -> None:
    disk = simulation.disk
    if disk.capacity_bytes is None:
        simulation.counts.disk_full += 1
        disk.capacity_bytes = disk.used_bytes() + simulation.chance.choice((0, 5_000, 20_000))
    else:
        disk.capacity_bytes = None
