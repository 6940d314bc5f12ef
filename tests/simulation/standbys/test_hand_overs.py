"""The lead goes where it is handed over to, soon; and if that fails, a node leads nevertheless."""

from collections.abc import Callable

import pytest

from daybook.replication.handing_over import HandOverRefused
from daybook.replication.node import Role
from tests.simulation.standbys.cluster import Cluster, Machine
from tests.simulation.standbys.world import MS


def ready(seed: int) -> tuple[Cluster, Machine, list[Machine]]:
    """Return a cluster in which one node leads, and the other ones."""
    cluster = Cluster(seed)
    cluster.arbiter.loses = 0.0
    cluster.start()
    for _ in range(20):
        cluster.world.run(cluster.world.now + 2_000 * MS)
        for machine in cluster.machines.values():
            acked = [each.acked for each in machine.node.shipments.values()]
            if machine.node.role is Role.LEADING and len(acked) == 2 and None not in acked:
                return cluster, machine, [
                    each for each in cluster.machines.values() if each is not machine
                ]  # fmt: skip
    raise AssertionError("nobody leads")


def run_until(cluster: Cluster, condition: Callable[[], bool], milliseconds: int) -> None:
    """Let time pass until something is so, for so long at most."""
    until = cluster.world.now + milliseconds * MS
    while not condition():
        assert cluster.world.now < until, "\n".join(cluster.world.log[-30:])
        cluster.world.run(cluster.world.now + 10 * MS)


def hand_over(leader: Machine, to: str) -> None:
    leader.node.hand_over(to, leader.clock)
    leader.do(lambda: None)


@pytest.mark.parametrize("seed", range(4))
def test_the_next_leader_leads_soon_and_the_others_wait(seed: int) -> None:
    cluster, leader, (other, _) = ready(seed)
    epoch = leader.node.epoch
    hand_over(leader, other.name)
    before = len(cluster.known)
    run_until(cluster, lambda: other.node.role is Role.LEADING, 1_500)
    assert other.node.epoch == epoch + 1
    assert leader.node.role is Role.FOLLOWING
    assert leader.node.hand_over_trouble == ""
    run_until(cluster, lambda: len(cluster.known) > before, 1_000)
    cluster.rest()


def test_the_first_one_leads_again_when_the_next_one_does_not_catch_up() -> None:
    cluster, leader, (other, _) = ready(8)
    epoch = leader.node.epoch
    hand_over(leader, other.name)
    cluster.network.blocked = {(leader.name, other.name), (other.name, leader.name)}
    run_until(cluster, lambda: leader.node.role is not Role.LEADING, 15_000)
    run_until(cluster, lambda: leader.node.role is Role.LEADING, 6_000)
    assert leader.node.hand_over_trouble == f"'{other.name}' did not catch up in time"
    assert leader.node.epoch > epoch
    cluster.rest()


def test_another_one_leads_when_the_next_one_dies() -> None:
    cluster, leader, (other, third) = ready(6)
    hand_over(leader, other.name)
    while leader.node.role is Role.LEADING:
        cluster.world.run(cluster.world.now + MS)
    other.kill(power=True)
    cluster.world.run(cluster.world.now + 9_000 * MS)
    assert Role.LEADING in (leader.node.role, third.node.role)
    cluster.rest()


def test_what_cannot_lead_next_is_refused() -> None:
    cluster, leader, (other, third) = ready(7)
    third.kill(power=False)
    cluster.world.run(cluster.world.now + 1_000 * MS)
    for machine, to, why in (
        (leader, leader.name, "leads already"),
        (leader, "x", f"no node 'x'; the others are {', '.join(sorted((other.name, third.name)))}"),
        (leader, third.name, "does not follow now"),
        (other, third.name, f"does not lead; '{leader.name}' does"),
    ):
        with pytest.raises(HandOverRefused, match=why):
            machine.node.hand_over(to, machine.clock)
    hand_over(leader, "")
    with pytest.raises(HandOverRefused, match=f"being handed over to '{other.name}'"):
        hand_over(leader, other.name)


def test_a_node_that_stops_with_nobody_there_gives_the_lease_back() -> None:
    cluster, leader, others = ready(8)
    for each in others:
        each.kill(power=False)
    cluster.world.run(cluster.world.now + 100 * MS)
    assert leader.node.finish(leader.clock)
    leader.do(lambda: None)
    cluster.world.run(cluster.world.now + 1_000 * MS)
    assert leader.node.role is Role.FOLLOWING
    assert not others[0].node.finish(others[0].clock)
