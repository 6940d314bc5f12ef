"""What goes wrong in a cluster: nodes die, stand still, cannot reach each other or the arbiter."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from daybook.replication.handing_over import HandOverRefused
from daybook.replication.messages import Ask, Join
from daybook.replication.node import Role
from tests.simulation.standbys.cluster import HALF, Cluster, Machine
from tests.simulation.standbys.world import MS

NODES: Final = 3
WORST: Final = 0.25
RARELY: Final = 0.05
LONG: Final = 150_000
"""How many milliseconds a node may stand still, now and then."""
HARMED: Final = 0.4


def one(cluster: Cluster) -> None:
    """Let one thing go wrong, or heal."""
    chance = cluster.world.chance
    machine = cluster.machines[chance.choice(cluster.names)]
    draw = chance.choice((
        _kill, _kill, _cut_power, _crash_within, _stand_still, _stand_still, _part, _part,
        _one_way, _heal, _slow, _arbiter, _die_at, _die_at, _lose_disk, _lose_disk, _forget,
        _fill, _fail, _at_list, _hand_over, _hand_over,
        *((_flap,) * 6 if cluster.has_lanes else ()),
    ))  # fmt: skip
    draw(cluster, machine)
    if not cluster.clocks_are_right:
        if chance.random() < WORST:
            _worst(cluster)
        _clock(cluster, cluster.machines[chance.choice(cluster.names)])


def _flap(cluster: Cluster, machine: Machine) -> None:
    """Let connections between nodes end again and again, while lanes stay."""
    chance = cluster.world.chance

    def flap() -> None:
        for name, connection in list(machine.connections.items()):
            cluster.end(machine, name, connection)

    for _ in range(20):
        cluster.world.after(chance.randint(1, 3_000) * MS, flap)


def _worst(cluster: Cluster) -> None:
    """Let only promises prevent a loss: a leader takes its lease for longer than it is, cannot
    reach one node, and the other one dies when it has promised that one its next epoch."""
    leaders = [each for each in cluster.machines.values() if each.node.role is Role.LEADING]
    if len(leaders) != 1 or not leaders[0].is_alive or len(cluster.names) != NODES:
        return
    leader = leaders[0]
    others = [name for name in cluster.names if name != leader.name]
    cluster.world.chance.shuffle(others)
    cluster.world.note(f"{leader.name} is slow, and cannot reach {others[0]}")
    leader.run_clock(0.02)
    cluster.network.blocked = {(leader.name, others[0]), (others[0], leader.name)}
    cluster.machines[others[1]].dies_at = Ask
    cluster.world.run(cluster.world.now + 6_000 * MS)
    cluster.network.blocked = set()


def _clock(cluster: Cluster, machine: Machine) -> None:
    rate = cluster.world.chance.choice((0.02, 0.1, 1.0, 1.0, 5.0))
    cluster.world.note(f"the clock of {machine.name} goes at {rate}")
    machine.run_clock(rate)


def _kill(cluster: Cluster, machine: Machine) -> None:
    if machine.is_alive:
        machine.kill(power=False)
        machine.start_later(100, 9_000)


def _cut_power(cluster: Cluster, machine: Machine) -> None:
    if machine.is_alive:
        machine.kill(power=True)
        machine.start_later(100, 9_000)


def _lose_disk(cluster: Cluster, machine: Machine) -> None:
    """Let a node begin from nothing, if another one has everything: one disk at a time."""
    others = [each for each in cluster.machines.values() if each is not machine]
    if all(each.is_whole for each in others) and cluster.is_safe_without(machine):
        if machine.is_alive:
            machine.kill(power=True)
        machine.lose_disk()
        machine.start_later(10, 3_000)


def _forget(cluster: Cluster, machine: Machine) -> None:
    """Let the arbiter lose its memory."""
    if cluster.keeps_promises:
        cluster.world.note("the arbiter has lost its memory")
        cluster.arbiter.lose_memory()


def _at_list(cluster: Cluster, machine: Machine) -> None:
    """Let a leader that changes the list not hear whether that is written, not reach the node that
    comes or goes, and die."""
    chance = cluster.world.chance

    def happens(name: str, changed: str) -> bool:
        leader = cluster.machines[name]
        cluster.world.note(f"{name} does not hear that {changed} comes or goes")
        cluster.network.blocked |= {(name, changed), (changed, name)}
        _heal_later(cluster)

        def die() -> None:
            if leader.is_alive:
                leader.kill(power=False)
                leader.start_later(3_000, 9_000)

        cluster.world.after(chance.randint(50, 1_000) * MS, die)
        return chance.random() < HALF

    cluster.arbiter.on_list = happens


def _fill(cluster: Cluster, machine: Machine) -> None:
    """Let a disk be full for a while."""
    if not machine.is_alive:
        return
    cluster.world.note(f"the disk of {machine.name} is full")
    room = cluster.world.chance.choice((0, 1 << 10, 100 << 10))
    machine.disk.capacity_bytes = machine.disk.used_bytes() + room

    def heal() -> None:
        machine.disk.capacity_bytes = None

    cluster.world.after(cluster.world.chance.randint(100, 9_000) * MS, heal)


def _fail(cluster: Cluster, machine: Machine) -> None:
    """Let a call of a disk fail."""
    if machine.is_alive:
        disk = cluster.world.chance.choice((machine.disk, machine.disk, machine.notes))
        disk.fail_next(cluster.world.chance.choice(("pwrite", "fdatasync", "sync_directory")))


def _crash_within(cluster: Cluster, machine: Machine) -> None:
    if machine.is_alive:
        disk = cluster.world.chance.choice((machine.disk, machine.notes))
        disk.crash_after(cluster.world.chance.randint(1, 20))
        machine.start_later(100, 9_000)


def _die_at(cluster: Cluster, machine: Machine) -> None:
    """Let a node die when it has promised, or while it cuts."""
    machine.dies_at = cluster.world.chance.choice((Ask, Join))


def _hand_over(cluster: Cluster, machine: Machine) -> None:
    """Hand the lead over to a node, which may stand still or die meanwhile."""
    chance = cluster.world.chance
    for leader in cluster.machines.values():
        if not leader.is_alive or leader.stands_still:
            continue
        with suppress(HandOverRefused):
            leader.node.hand_over(machine.name, leader.clock)
            cluster.world.note(f"{leader.name} is to hand the lead over to {machine.name}")
            leader.do(lambda: None)
            if chance.random() < HARMED:
                mishap = chance.choice((_stand_still, _kill, _cut_power))
                harm = partial(_unless_it_rests, mishap, cluster, machine)
                cluster.world.after(chance.randint(1, 500) * MS, harm)
            return


def _unless_it_rests(
    mishap: Callable[[Cluster, Machine], None], cluster: Cluster, machine: Machine
) -> None:
    """Do what was planned, before the end: nothing goes wrong there any more."""
    if not cluster.is_resting:
        mishap(cluster, machine)


def _stand_still(cluster: Cluster, machine: Machine) -> None:
    if not machine.is_alive or machine.stands_still:
        return
    machine.stands_still = True
    life = machine.life
    cluster.world.note(f"{machine.name} stands still")

    def wake() -> None:
        if machine.life == life:
            machine.wake()

    chance = cluster.world.chance
    most = LONG if chance.random() < RARELY else 9_000
    cluster.world.after(chance.randint(100, most) * MS, wake)


def _part(cluster: Cluster, machine: Machine) -> None:
    cluster.world.note(f"{machine.name} is alone")
    for other in cluster.names:
        if other != machine.name:
            cluster.network.blocked |= {(machine.name, other), (other, machine.name)}
    _heal_later(cluster)


def _one_way(cluster: Cluster, machine: Machine) -> None:
    other = cluster.world.chance.choice([n for n in cluster.names if n != machine.name])
    cluster.world.note(f"{machine.name} reaches {other} no more")
    cluster.network.blocked.add((machine.name, other))
    _heal_later(cluster)


def _heal(cluster: Cluster, machine: Machine) -> None:
    cluster.network.blocked = set()
    cluster.network.slow = 1


def _heal_later(cluster: Cluster) -> None:
    def heal() -> None:
        cluster.network.blocked = set()

    cluster.world.after(cluster.world.chance.randint(100, 8_000) * MS, heal)


def _slow(cluster: Cluster, machine: Machine) -> None:
    cluster.network.slow = cluster.world.chance.choice((1, 10, 100))


def _arbiter(cluster: Cluster, machine: Machine) -> None:
    cluster.arbiter.is_down = not cluster.arbiter.is_down
    cluster.world.note(f"the arbiter is {'down' if cluster.arbiter.is_down else 'there'}")

    def there() -> None:
        cluster.arbiter.is_down = False

    cluster.world.after(cluster.world.chance.randint(100, 9_000) * MS, there)
