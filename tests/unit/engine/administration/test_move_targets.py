"""Whether messages may be moved into a queue: asked once, about the real target, by every command
that moves."""

import pytest

from daybook.engine.commands import ActOnMessages, CreateAddress, DeleteQueue
from daybook.engine.core.permission_checks import put_in_force
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.limits.host_limits import HostLimits
from daybook.engine.refusals import Code
from daybook.engine.settings.permissions import CONSUME, MANAGE, SEND, Actor, Permissions
from tests.support.topology import create_queue
from tests.support.world import World
from tests.unit.engine.administration.test_message_moves import act, dead

DEPUTY = Actor("dan", "tcp:1.2.3.4:5")


def ruled(world: World, *managed: str) -> World:
    """Rules by which dan may manage only this, and everybody send and consume."""
    rules: dict[str, dict[str, tuple[str, ...]]] = {"#": {SEND: ("*",), CONSUME: ("*",)}}
    for match in managed:
        rules[match] = {SEND: ("*",), CONSUME: ("*",), MANAGE: ("user:dan",)}
    put_in_force(world.broker, Permissions(rules))
    return world


def dying(world: World, *addresses: str) -> None:
    """One dead letter of each address."""
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "DLQ"})
    for address in addresses:
        dead(world, address, address.encode())


def test_the_right_is_asked_on_the_real_origin(world: World) -> None:
    dying(world, "payroll", "orders")
    ruled(world, "DLQ", "orders")
    command = act(world, "DLQ", "retry", actor=DEPUTY)
    assert (command.acted, command.passed_over) == (1, 1)
    (why,) = command.whys
    assert "user 'dan' may not administer address 'payroll'" in why
    assert (world.bodies("orders"), world.bodies("payroll")) == ([b"orders"], [])
    (denial,) = world.broker.rights.denials
    assert (denial.user, denial.permission, denial.address) == ("dan", MANAGE, "payroll")
    assert act(world, "DLQ", "retry").acted == 1
    assert world.bodies("payroll") == [b"payroll"]


def test_a_target_is_checked_once_a_turn(world: World) -> None:
    dying(world, *["payroll"] * 9)
    ruled(world, "DLQ")
    command = ActOnMessages("DLQ", "retry", actor=DEPUTY)
    world.ok(command)
    assert command.passed_over == 9
    assert len(world.broker.rights.denials) == 1


def test_nothing_is_created_for_whoever_may_not_manage_it(world: World) -> None:
    dying(world, "payroll")
    world.handle(DeleteQueue("payroll"))
    ruled(world, "DLQ")
    assert act(world, "DLQ", "retry", actor=DEPUTY).acted == 0
    assert "payroll" not in world.state.queue_by_name
    assert act(world, "DLQ", "retry").acted == 1
    assert world.bodies("payroll") == [b"payroll"]


@pytest.mark.parametrize("action", ["move", "copy"])
def test_moves_ask_the_same(world: World, action: str) -> None:
    world.send("DLQ", b"x")
    world.ok(create_queue("payroll", "payroll"))
    ruled(world, "DLQ", "mine")
    refusal = world.refused(ActOnMessages("DLQ", action, target="payroll", actor=DEPUTY))
    assert refusal.code is Code.NOT_ALLOWED
    # The same answer where there is no queue.
    other = world.refused(ActOnMessages("DLQ", action, target="nowhere", actor=DEPUTY))
    assert other.text == refusal.text.replace("payroll", "nowhere")
    world.ok(create_queue("mine", "mine"))
    assert act(world, "DLQ", action, target="mine", actor=DEPUTY).acted == 1
    assert world.bodies("mine") == [b"x"]


def test_a_right_that_is_taken_ends_a_walk_in_the_middle(world: World) -> None:
    for number in range(100):
        world.send("DLQ", b"%d" % number)
    world.ok(create_queue("mine", "mine"))
    ruled(world, "DLQ", "mine")
    command = ActOnMessages("DLQ", "move", target="mine", actor=DEPUTY, limit=10)
    world.ok(command)
    ruled(world, "DLQ")
    assert world.refused(command).code is Code.NOT_ALLOWED
    assert len(world.bodies("mine")) == 10


def test_a_virtual_host_is_never_left() -> None:
    world = World(hosts={"default": HostLimits(), "eu": HostLimits()})
    dying(world, "eu::orders")
    world.ok(create_queue("orders", "orders"))
    (queue,) = [name for name in world.state.queue_by_name if name.startswith("eu::DLQ")]
    assert act(world, queue, "retry").acted == 1
    assert (world.bodies("eu::orders"), world.bodies("orders")) == ([b"eu::orders"], [])
    refusal = world.refused(ActOnMessages("eu::orders", "move", target="orders"))
    assert "on another virtual host" in refusal.text
    guest = Actor("dan", "tcp", ("us",))
    put_in_force(world.broker, None)
    refusal = world.refused(ActOnMessages("eu::orders", "copy", target=queue, actor=guest))
    assert refusal.code is Code.NOT_ALLOWED


def test_no_history_is_a_target(world: World) -> None:
    world.settings(all={"retroactive_message_count": 5})
    world.ok(CreateAddress("news", (MULTICAST,)))
    world.send("news", b"n", routing_type=MULTICAST)
    (history,) = [q.name for q in world.state.queues.values() if q.definition.keeps]
    world.send("q", b"x", routing_type=ANYCAST)
    refusal = world.refused(ActOnMessages("q", "move", target=history))
    assert "is the history of address" in refusal.text
