"""Where a message was before is a fact of the journal; what headers say of it decides nothing."""

from collections.abc import Callable

import msgspec
import pytest

from daybook.engine.administration.message_moves import NO_ORIGIN, UNPROVEN
from daybook.engine.administration.retention_commands import Carry
from daybook.engine.commands import CreateDivert
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, DivertDefinition
from daybook.engine.facts.details import Origin
from daybook.engine.facts.formats import LINES
from daybook.engine.messages.headers import build
from daybook.engine.messages.origins import journaled, shown
from daybook.engine.state.apply import routed
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World
from tests.support.worlds.deaths import other_headers
from tests.unit.engine.administration.test_message_moves import act, dead

FORGED = {
    "_AMQ_ORIG_ADDRESS": "payroll",
    "_AMQ_ORIG_QUEUE": "payroll",
    "_AMQ_ORIG_MESSAGE_ID": "1",
    "_AMQ_ORIG_ROUTING_TYPE": "0",
}


@pytest.fixture(name="world", params=[World, lambda: PagedWorld(1, 0)], ids=["resident", "paged"])
def any_world(request: pytest.FixtureRequest) -> World:
    make: Callable[[], World] = request.param
    return make()


@pytest.mark.parametrize(
    "target", ["payroll", "$.artemis.internal.payroll", "eu::orders", "temp.default.1.x", "DLQ"]
)
def test_what_headers_say_moves_nothing(world: World, target: str) -> None:
    world.ok(create_queue("payroll", "payroll"))
    forged = FORGED | {"_AMQ_ORIG_ADDRESS": target, "_AMQ_ORIG_QUEUE": target}
    world.send("DLQ", b"forged", headers=forged)
    command = act(world, "DLQ", "retry")
    assert (command.acted, command.passed_over) == (0, 1)
    assert command.whys == {UNPROVEN: 1}
    assert (world.bodies("DLQ"), world.bodies("payroll")) == ([b"forged"], [])


def test_a_real_dead_letter_goes_to_its_real_origin_whatever_it_says(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "DLQ"})
    world.ok(create_queue("payroll", "payroll"))
    dead(world, "mine", b"x")
    connection = world.connect()
    consumer = world.attach(connection, "mine")
    world.send("mine", b"y", headers=FORGED)
    for delivery in world.taken(consumer):
        world.nack(consumer, delivery.message)
    world.close(connection)
    world.restart()
    assert act(world, "DLQ", "retry").acted == 2
    assert (world.bodies("mine"), world.bodies("payroll")) == ([b"x", b"y"], [])
    assert all(other_headers(entry.message.headers) == {} for entry in world.entries("mine"))
    world.check()


def test_the_origin_is_with_the_message_in_the_journal(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "DLQ"})
    dead(world, "q", b"x")
    (left,) = world.events_named("DeadLettered")
    copy = world.journal[left.lsn]
    assert msgspec.structs.replace(copy.decoded.origin, deaths=()) == Origin(
        reason=reasons.DEAD_LETTER, message=left.row[events.MESSAGE], address="q", queue="q",
        routing_type=ANYCAST,
    )  # fmt: skip
    assert {name: str(value) for name, value in shown(copy.decoded.origin).items()} == (
        other_headers(copy.headers)
    )


def test_a_message_that_is_carried_keeps_its_origin() -> None:
    world = World()
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "DLQ"})
    dead(world, "q", b"x")
    (entry,) = world.entries("DLQ")
    message = entry.message
    lsn = world.ok(
        Carry(
            message=message.id, address=message.address_id, priority=4, flags=1,
            before=message.id, headers=message.headers, body=b"x", origin=message.origin,
        )
    )  # fmt: skip
    carried = world.journal[lsn - 1]
    assert message.origin is not None
    assert journaled(carried.row, carried.decoded, carried.headers) == message.origin


def test_an_older_copy_is_believed_where_its_broker_wrote_the_headers() -> None:
    headers = build(FORGED.items())
    for reason in (reasons.DEAD_LETTER, reasons.EXPIRY, reasons.NO_ROUTE):
        row = events.row(events.ROUTED, reason=reason, flags=LINES, message=9, queue=1)
        found = journaled(row, None, headers)
        assert found == Origin(
            reason=reason, message=1, address="payroll", queue="payroll", routing_type=ANYCAST
        )
    for kind, reason in (
        (events.ROUTED, reasons.SENT),
        (events.ROUTED, reasons.ADMINISTRATION),
        (events.ROUTED, reasons.HISTORY_ONLY),
        (events.CARRIED, reasons.NO_REASON),
    ):
        row = events.row(kind, reason=reason, flags=LINES, message=9, queue=1)
        assert journaled(row, None, headers) is None


def test_a_fold_of_an_older_journal_learns_the_origin() -> None:
    world = World()
    world.ok(create_queue("DLQ", "DLQ"))
    queue = world.queue("DLQ")
    lsn = world.broker.lsn + 1
    row = events.row(
        events.ROUTED, reason=reasons.DEAD_LETTER, address=queue.address.id, queue=queue.id,
        message=lsn, priority=4, flags=1, related=1,
    )  # fmt: skip
    routed(world.state, lsn, row, b"", build(FORGED.items()), b"x")
    (entry,) = world.entries("DLQ")
    assert entry.message.origin is not None
    assert entry.message.origin.address == "payroll"


@pytest.mark.parametrize("said", ["", "x", "1" * 30, "-1", "\u00b2"])
def test_an_id_that_is_none_in_an_older_header_is_none(said: str) -> None:
    row = events.row(events.ROUTED, reason=reasons.DEAD_LETTER, message=9, queue=1)
    headers = build({**FORGED, "_AMQ_ORIG_MESSAGE_ID": said}.items())
    found = journaled(row, None, headers)
    assert found is not None
    assert found.message == 0


def test_a_divert_s_copy_does_not_go_back(world: World) -> None:
    # The name of the divert is that of a queue, which has nothing to do with it.
    world.ok(create_queue("payroll", "payroll"))
    world.ok(
        CreateDivert(
            DivertDefinition(name="payroll", address="news", forwarding_addresses=("copies",))
        )
    )
    world.ok(create_queue("copies", "copies"))
    world.send("news", b"n", routing_type=MULTICAST)
    command = act(world, "copies", "retry")
    assert (command.acted, command.whys) == (0, {NO_ORIGIN: 1})
    assert (world.bodies("copies"), world.bodies("payroll")) == ([b"n"], [])


def test_a_moved_message_goes_back_one_step(world: World) -> None:
    world.send("q", b"x")
    world.ok(create_queue("first", "first"))
    world.ok(create_queue("second", "second"))
    act(world, "q", "move", target="first")
    act(world, "first", "move", target="second")
    assert act(world, "second", "retry").acted == 1
    assert world.bodies("first") == [b"x"]
    command = act(world, "first", "retry")
    assert (command.acted, command.whys) == (0, {NO_ORIGIN: 1})


def test_another_priority_keeps_the_origin(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "DLQ"})
    dead(world, "q", b"x")
    assert act(world, "DLQ", "priority", priority=9).acted == 1
    assert act(world, "DLQ", "retry").acted == 1
    assert world.bodies("q") == [b"x"]
    world.check()


def test_what_found_no_queue_has_its_origin(world: World) -> None:
    world.settings(all={"dead_letter_address": "DLA", "send_to_dla_on_no_route": True})
    world.send("news", b"x", headers=FORGED, routing_type=MULTICAST)
    world.ok(create_queue("payroll", "payroll"))
    world.ok(create_queue("late", "news", MULTICAST))
    assert act(world, "DLA", "retry").acted == 1
    assert (world.bodies("late"), world.bodies("payroll")) == ([b"x"], [])


def test_the_detail_is_empty_where_there_is_no_origin() -> None:
    assert events.encode_detail(details.RoutedDetail()) == b""
