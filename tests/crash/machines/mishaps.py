"""What goes wrong, drawn by chance.

A mishap begins when it is called and lasts until `Cluster.restore`. None takes more than the
cluster promises to bear: one disk is lost at a time, and not before the others have what was
confirmed.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

from tests.crash.machines.clients import Crowd
from tests.crash.machines.cluster import LEASE_SECONDS, PATIENCE_SECONDS, Cluster, Machine
from tests.crash.machines.judge import CLOCKS_SECONDS
from tests.crash.machines.network import CLIENTS, MACHINES

LONGER_THAN_A_LEASE: Final = LEASE_SECONDS * 2
QUIET_SECONDS: Final = 2.0
FLAPS: Final = 5
AHEAD: Final = 50
"""More events and confirms than are under way to a client that is slow."""
TRIES: Final = 3
STEPS: Final = 3
STEP_SECONDS_MAX: Final = 140
"""Less than makes a transaction that is open too old: that is measured by the time of day."""

Mishap: TypeAlias = Callable[["Bad"], None]


class Bad:
    """The cluster for which something goes wrong. `victim` is the leader or another machine."""

    def __init__(self, cluster: Cluster, crowd: Crowd, chance: random.Random) -> None:
        self.cluster: Final = cluster
        self.crowd: Final = crowd
        self.chance: Final = chance

    @property
    def leader(self) -> Machine:
        """The machine that leads, or will."""
        return self.cluster.wait_for_leader()

    @property
    def anyone(self) -> Machine:
        """A machine."""
        return self.cluster.machines[self.chance.choice(MACHINES)]

    def another(self, machine: Machine) -> Machine:
        """A machine that is another one."""
        others = [each for each in MACHINES if each != machine.name]
        return self.cluster.machines[self.chance.choice(others)]

    def wait_for_another(self, machine: Machine) -> None:
        """Wait until another machine leads, and confirms."""
        self.cluster.wait_for_leader(other_than=[machine.name])
        self.wait_for_confirms(other_than=machine.name)

    def wait_for_confirms(
        self, count: int = 20, *, other_than: str = "", unless: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait until clients hear so many confirms, or cannot."""
        confirms = self.crowd.confirms
        begun = len(confirms)

        def found() -> bool:
            enough = sum(each.machine != other_than for each in confirms[begun:]) >= count
            return enough or unless()

        self.cluster.wait_for(found, "confirms")

    def confirm_without(self, third: Machine) -> None:
        """Cut a follower off, and wait until clients have heard of events that it lacks."""
        self.cluster.network.isolate(third.name, "node")
        leader = self.leader

        def is_ahead() -> bool:
            confirmed, there = (each.status() for each in (leader, third))
            lacks: int = confirmed.get("confirmed_lsn", 0) - there.get("lsn", sys.maxsize)
            return lacks > AHEAD

        # Confirms that clients have not read yet may be of events from before.
        self.cluster.wait_for(is_ahead, f"events that {third.name} lacks")
        self.wait_for_confirms(AHEAD)

    def wait_for_quiet(self) -> None:
        """Wait until nothing is confirmed any more."""

        def is_quiet() -> bool:
            before = len(self.crowd.confirms)
            time.sleep(QUIET_SECONDS)
            return len(self.crowd.confirms) == before

        self.cluster.wait_for(is_quiet, "the last confirm")


# ---- processes


def kill_leader(bad: Bad) -> None:
    victim = bad.leader
    victim.kill()
    bad.wait_for_another(victim)


def kill_node_of_leader(bad: Bad) -> None:
    bad.leader.kill_node()


def kill_broker(bad: Bad) -> None:
    bad.leader.signal_broker(signal.SIGKILL)
    bad.wait_for_confirms()


def kill_follower(bad: Bad) -> None:
    bad.another(bad.leader).kill()
    bad.wait_for_confirms()


def stop_leader(bad: Bad) -> None:
    victim = bad.leader
    victim.stop()
    bad.wait_for_another(victim)


def freeze_leader(bad: Bad) -> None:
    victim = bad.leader
    victim.signal(signal.SIGSTOP)
    bad.wait_for_another(victim)


def freeze_node_of_leader(bad: Bad) -> None:
    victim = bad.leader
    victim.freeze_node()
    bad.wait_for_another(victim)


def freeze_broker(bad: Bad) -> None:
    bad.leader.signal_broker(signal.SIGSTOP)
    time.sleep(bad.chance.uniform(1, LONGER_THAN_A_LEASE))


def freeze_follower(bad: Bad) -> None:
    bad.another(bad.leader).signal(signal.SIGSTOP)
    bad.wait_for_confirms()


def wake_broker_before_its_node(bad: Bad) -> None:
    """It was allowed to confirm while it stood still, and wakes long after its lease has ended."""
    victim = bad.leader
    bad.crowd.patience["stomp"] = PATIENCE_SECONDS
    # So that something is under way at any moment.
    bad.cluster.network.disturb(delay=0.05)
    bad.wait_for_confirms()
    broker = victim.status().get("broker_pid")
    victim.signal_broker(signal.SIGSTOP)
    time.sleep(0.5)
    victim.signal(signal.SIGSTOP)
    bad.cluster.network.heal()
    bad.wait_for_another(victim)
    time.sleep(CLOCKS_SECONDS)
    if broker:
        with suppress(ProcessLookupError):
            os.kill(broker, signal.SIGCONT)
    time.sleep(1)


# ---- disks


def cut_power_of_leader(bad: Bad) -> None:
    victim = bad.leader
    victim.cut_power(bad.chance)
    bad.wait_for_another(victim)


def cut_power_of_two(bad: Bad) -> None:
    """The leader and a follower, so that the other one alone has what nobody else has."""
    victim = bad.leader
    other = bad.another(victim)
    for each in (victim, other):
        each.signal(signal.SIGSTOP)
    for each in (victim, other):
        each.cut_power(bad.chance)


def cut_power_of_all(bad: Bad) -> None:
    for each in bad.cluster.machines.values():
        each.signal(signal.SIGSTOP)
    for each in bad.cluster.machines.values():
        each.cut_power(bad.chance)


def leave_what_one_follower_has(bad: Bad) -> None:
    """Clients hear of events that the leader and a follower have; power fails there, and the leader
    does not come back before others have led."""
    victim = bad.leader
    other, third = (each for each in bad.cluster.machines.values() if each is not victim)
    bad.cluster.wait_until_all_have_all()
    bad.confirm_without(third)
    for each in (victim, other):
        each.signal(signal.SIGSTOP)
    for each in (victim, other):
        each.cut_power(None)
    bad.cluster.network.heal()
    other.start(bad.cluster.libraries)
    bad.wait_for_another(victim)


def fill_disk_of_leader(bad: Bad) -> None:
    break_disk(bad, bad.leader, "full")
    time.sleep(bad.chance.uniform(1, LONGER_THAN_A_LEASE))


def slow_disk_of_leader(bad: Bad) -> None:
    break_disk(bad, bad.leader, "slow")
    bad.wait_for_confirms()


def hang_disk_of_leader(bad: Bad) -> None:
    break_disk(bad, bad.leader, "stuck")
    time.sleep(bad.chance.uniform(1, LONGER_THAN_A_LEASE))


def fill_disk_of_follower(bad: Bad) -> None:
    """On a machine that is busy with much else it may lead meanwhile: then it takes no messages."""
    victim = bad.another(bad.leader)
    break_disk(bad, victim, "full")
    bad.wait_for_confirms(unless=lambda: bad.cluster.leader() is victim)


def slow_disk_of_follower(bad: Bad) -> None:
    break_disk(bad, bad.another(bad.leader), "slow")
    bad.wait_for_confirms()


def hang_disk_of_follower(bad: Bad) -> None:
    break_disk(bad, bad.another(bad.leader), "stuck")
    bad.wait_for_confirms()


def break_disk(bad: Bad, victim: Machine, fault: str) -> None:
    """Wait, too, until the fault is felt."""
    victim.break_disk(fault)
    bad.cluster.wait_for(lambda: victim.feels(fault), f"a disk that is {fault}")


def lose_disk_of_leader(bad: Bad) -> None:
    bad.cluster.wait_until_all_have_all()
    victim = bad.leader
    victim.lose_data()
    bad.wait_for_another(victim)


def lose_disk_of_follower(bad: Bad) -> None:
    bad.cluster.wait_until_all_have_all()
    bad.another(bad.leader).lose_data()
    bad.wait_for_confirms()


def come_back_empty_beside_one_that_lags(bad: Bad) -> None:
    """The leader loses its disk, and the only other node that has what was confirmed stands still:
    the other two must wait for it."""
    victim = bad.leader
    other, third = (each for each in bad.cluster.machines.values() if each is not victim)
    bad.cluster.wait_until_all_have_all()
    bad.confirm_without(third)
    other.signal(signal.SIGSTOP)
    victim.lose_data()
    bad.cluster.network.heal()
    victim.start(bad.cluster.libraries)

    epochs: set[int] = set()

    def has_tried() -> bool:
        status = third.status()
        if status.get("promised") == third.name:
            epochs.add(status["epoch"])
        return len(epochs) > TRIES or status.get("role") == "leading"

    bad.cluster.wait_for(has_tried, "the third to stand for the lead")
    other.signal(signal.SIGCONT)
    bad.wait_for_confirms()


# ---- clocks


def step_clocks(bad: Bad) -> None:
    """The time of day jumps on each machine, back and forth; leases count on another clock."""
    for _ in range(STEPS):
        for machine in bad.cluster.machines.values():
            machine.step_clock(bad.chance.uniform(-STEP_SECONDS_MAX, STEP_SECONDS_MAX))
        time.sleep(bad.chance.uniform(0.1, 1))
    bad.wait_for_confirms()


# ---- networks


def isolate_leader(bad: Bad) -> None:
    """Clients still reach it."""
    victim = bad.leader
    bad.cluster.network.isolate(victim.name)
    bad.wait_for_another(victim)


def isolate_leader_from_nodes(bad: Bad) -> None:
    bad.cluster.network.isolate(bad.leader.name, "node")
    time.sleep(bad.chance.uniform(1, LONGER_THAN_A_LEASE))


def isolate_leader_from_etcd(bad: Bad) -> None:
    """Its own member of etcd has no other, and it reaches none of the others."""
    victim = bad.leader
    for service in ("etcd", "peer"):
        bad.cluster.network.isolate(victim.name, service)
    time.sleep(bad.chance.uniform(1, LONGER_THAN_A_LEASE))


def cut_off_leader(bad: Bad) -> None:
    """Clients cannot reach it either."""
    victim = bad.leader
    bad.cluster.network.isolate(victim.name)
    bad.cluster.network.block(CLIENTS, victim.name)
    bad.cluster.network.block(victim.name, CLIENTS)
    bad.wait_for_another(victim)


def block_one_way(bad: Bad) -> None:
    source = bad.anyone
    bad.cluster.network.block(source.name, bad.another(source).name)
    time.sleep(bad.chance.uniform(1, LONGER_THAN_A_LEASE))


def block_all_that_leader_says(bad: Bad) -> None:
    victim = bad.leader
    for each in MACHINES:
        if each != victim.name:
            bad.cluster.network.block(victim.name, each)
    bad.wait_for_another(victim)


def flap(bad: Bad) -> None:
    victim = bad.leader
    for _ in range(FLAPS):
        bad.cluster.network.isolate(victim.name)
        time.sleep(bad.chance.uniform(0.1, 1.5))
        bad.cluster.network.heal()
        time.sleep(bad.chance.uniform(0.1, 1.5))


def be_late(bad: Bad) -> None:
    bad.cluster.network.disturb(delay=bad.chance.choice((0.005, 0.03, 0.1)))
    time.sleep(bad.chance.uniform(1, LONGER_THAN_A_LEASE))


def lose_packets(bad: Bad) -> None:
    bad.cluster.network.disturb(loss=bad.chance.choice((0.02, 0.1, 0.3)))
    time.sleep(bad.chance.uniform(1, LONGER_THAN_A_LEASE))


# ---- etcd


def kill_one_etcd(bad: Bad) -> None:
    bad.anyone.kill_etcd()
    bad.wait_for_confirms()


def freeze_one_etcd(bad: Bad) -> None:
    bad.anyone.signal_etcd(signal.SIGSTOP)
    bad.wait_for_confirms()


def kill_all_etcd(bad: Bad) -> None:
    """The leader continues until its lease ends; then nobody confirms."""
    for each in bad.cluster.machines.values():
        each.kill_etcd()
    bad.wait_for_quiet()


def freeze_etcd(bad: Bad) -> None:
    """Two members, so that the third has no majority."""
    first = bad.anyone
    for each in (first, bad.another(first)):
        each.signal_etcd(signal.SIGSTOP)
    bad.wait_for_quiet()


MISHAPS: Final[tuple[Mishap, ...]] = (
    kill_leader, kill_node_of_leader, kill_broker, kill_follower, stop_leader, freeze_leader,
    freeze_node_of_leader, freeze_broker, freeze_follower, wake_broker_before_its_node,
    cut_power_of_leader, cut_power_of_two, cut_power_of_all, leave_what_one_follower_has,
    fill_disk_of_leader, slow_disk_of_leader, hang_disk_of_leader, fill_disk_of_follower,
    slow_disk_of_follower, hang_disk_of_follower, lose_disk_of_leader, lose_disk_of_follower,
    come_back_empty_beside_one_that_lags, step_clocks, isolate_leader, isolate_leader_from_nodes,
    isolate_leader_from_etcd, cut_off_leader, block_one_way, block_all_that_leader_says, flap,
    be_late, lose_packets, kill_one_etcd, freeze_one_etcd, kill_all_etcd, freeze_etcd,
)  # fmt: skip
