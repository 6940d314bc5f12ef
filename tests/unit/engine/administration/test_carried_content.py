"""Carrying changes where content is, and nothing that anybody is delivered."""

from daybook.engine.administration.carried_content import SLICE_ENTRIES, large_before, relocate
from daybook.engine.administration.retention_commands import Carry, CarryChunk, NoteSegmentsRemoved
from daybook.engine.commands import Send
from daybook.engine.facts.events import CARRIED, LARGE
from daybook.engine.messages.message import Message
from daybook.engine.state.digest import digest
from tests.support.world import World


def resident(world: World, last_lsn: int) -> list[Message]:
    return [entry.message for part in large_before(world.state, last_lsn) for entry in part]


def test_content_is_written_again_and_the_state_is_the_same(world: World) -> None:
    message = world.send("q", b"body", routing_type="anycast", headers={"a": "b"})
    before = digest(world.state)
    sent = world.journal[message - 1]
    lsn = world.ok(
        Carry(
            message=message, address=1, priority=4, flags=1, before=message,
            headers=sent.headers, body=sent.body,
        )
    )  # fmt: skip
    carried = world.journal[lsn - 1]
    assert (carried.name, carried.headers, carried.body) == ("Carried", sent.headers, b"body")
    assert digest(world.state) == before
    assert world.bodies("q") == [b"body"]
    world.check()


def test_a_large_message_has_its_chunks_elsewhere(world: World) -> None:
    message = world.send_large("q", [b"one", b"two"], routing_type="anycast")
    old = world.entries("q")[0].message.chunks
    first = world.ok(CarryChunk(b"one"))
    second = world.ok(CarryChunk(b"two", first))
    assert [each.message.id for each in world.entries("q")] == [message]
    assert [each.id for each in resident(world, old[0])] == [message]
    assert resident(world, old[0] - 1) == []
    lsn = world.ok(
        Carry(
            message=message, address=1, priority=4, flags=1 | LARGE, before=message, headers=b"",
            chunks=(first, second), body_bytes=6,
        )
    )  # fmt: skip
    # Until the index has it, the index answers with the old place.
    assert world.entries("q")[0].message.chunks == old
    event = world.journal[lsn - 1]
    relocate(world.entries("q")[0].message, CARRIED, event.detail)
    assert world.entries("q")[0].message.chunks == (first, second)
    assert resident(world, old[-1]) == []


def test_queues_are_looked_through_in_slices(world: World) -> None:
    large = world.send_large("q", [b"one"], routing_type="anycast")
    connection = world.connect()
    for _ in range(3 * SLICE_ENTRIES):
        world.handle(Send(connection, "q", b"", b"", routing_type="anycast"))
    world.turn()
    parts = list(large_before(world.state, world.broker.lsn))
    assert len(parts) == 3
    assert [entry.message.id for part in parts for entry in part] == [large]


def test_what_left_is_recorded(world: World) -> None:
    before = digest(world.state)
    lsn = world.ok(NoteSegmentsRemoved(last_lsn=7, segments=2, bytes=99, archive="s3://b/a"))
    detail = world.journal[lsn - 1].decoded
    assert (detail.segments, detail.bytes, detail.archive) == (2, 99, "s3://b/a")
    assert digest(world.state) == before
