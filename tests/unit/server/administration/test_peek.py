"""One message of a queue, with the types of its headers, and its body by pieces."""

from collections.abc import Callable
from typing import Any

import pytest

from daybook.engine.messages.message import Message
from daybook.engine.refusals import Code, Refusal
from daybook.server.administration.views import BODY_BYTES_MAX, no_piece, peek
from tests.support.amqp.content import FORMAT, headers_for
from tests.support.paged_world import PagedWorld
from tests.support.world import World


@pytest.fixture(params=[World, lambda: PagedWorld(1, 0)], ids=["resident", "paged"])
def any_world(request: pytest.FixtureRequest) -> World:
    """A world in memory, or one that has all but one entry in the store."""
    make: Callable[[], World] = request.param
    return make()


def peeked(world: World, message: int, piece: int = 1) -> dict[str, Any]:
    told = peek(world.state, "q", message, piece, no_piece)
    assert not isinstance(told, Refusal), told
    return told


def test_a_body_is_read_by_pieces(any_world: World) -> None:
    world = any_world
    body = bytes(range(97, 123)) * 6000
    for each in (b"first", body, b""):
        world.send("q", each, headers={"kind": "big"})
    _, message, empty = [entry.message.id for entry in world.entries("q")]
    found = peeked(world, message)
    assert (found["pieces"], found["body_bytes"], found["queue"]) == (3, len(body), "q")
    whole = "".join(peeked(world, message, number)["body"] for number in (1, 2, 3))
    assert whole.encode() == body
    assert {"name": "kind", "type": "string", "value": "big"} in found["properties"]
    assert (peeked(world, empty)["body"], peeked(world, empty)["pieces"]) == ("", 1)
    refused = peek(world.state, "q", message, 4, no_piece)
    assert isinstance(refused, Refusal)
    assert "has 3 pieces" in refused.text
    assert len(body) > BODY_BYTES_MAX
    world.check()


def test_a_large_message_is_read_by_its_chunks(any_world: World) -> None:
    world = any_world
    world.send("q", b"x")
    [entry] = world.entries("q")
    message = Message(entry.message.id, 1, 4, 1, 0, b"", b"")
    message.enlarge((5, 9), 70_000)
    entry.message = message

    def piece(message: Message, number: int) -> bytes:
        return b"chunk %d" % message.chunks[number]

    told = peek(world.state, "q", entry.message.id, 2, piece)
    assert not isinstance(told, Refusal)
    assert (told["body"], told["pieces"], told["body_bytes"]) == ("chunk 9", 2, 70_000)
    assert peeked(world, entry.message.id)["body"] == ""


def test_properties_have_the_types_of_their_sender(any_world: World) -> None:
    world = any_world
    world.send("q", b"x")
    [entry] = world.entries("q")
    headers = headers_for(b"body", [("kind", "<b>big</b>")], group="g")
    entry.message = Message(entry.message.id, 1, 4, 1 | FORMAT, 0, headers, b"body")
    found = peeked(world, entry.message.id)
    assert found["body"] == "body"
    assert found["standard"]["group_id"] == "g"
    typed = {each["name"]: (each["type"], each["value"]) for each in found["properties"]}
    assert typed["kind"] == ("string", "<b>big</b>")
    assert typed["flag"] == ("boolean", "true")
    assert typed["number"][1] == "7"
    assert typed["number"][0] in ("long", "int", "smalllong", "smallint")


def test_what_is_not_there_is_said_so(any_world: World) -> None:
    any_world.send("q", b"x")
    for name, message in (("none", 1), ("q", 10**9)):
        told = peek(any_world.state, name, message, 1, no_piece)
        assert isinstance(told, Refusal)
        assert told.code is Code.NOT_FOUND
