"""Formats of content: bits of the flags, the registry, and the view with types."""

import pytest

from daybook.engine.commands import Send
from daybook.engine.facts import events, formats
from daybook.engine.facts.formats import LINES, Standard
from daybook.engine.messages import headers
from daybook.engine.messages.content import CODECS, UnknownFormat, View, codec_of, is_known, view_of
from daybook.engine.messages.message import Message
from tests.support.world import World
from tests.support.worlds.deaths import without_deaths
from tests.support.worlds.second_format import MAPS, encode, installed

BLOCK = headers.build(
    [
        ("destination", "/queue/a"),
        ("content-type", "text/plain"),
        ("reply-to", "/queue/b"),
        ("correlation-id", "c:1"),
        ("timestamp", "1700000000000"),
        ("type", "order"),
        ("priority", "7"),
        ("stock", "apples"),
        ("stock", "pears"),
        ("n", "1"),
    ]
)


def test_the_bits_of_a_format_are_nobody_elses() -> None:
    others = events.PERSISTENT | events.BODY_OMITTED | events.LARGE | events.REDELIVERED
    assert events.FORMAT & others == 0
    assert events.FORMAT == 7 << formats.FORMAT_SHIFT
    assert events.MESSAGE_FLAGS & events.FORMAT == events.FORMAT
    assert [formats.number_of(flags) for flags in (LINES, 0xFF, MAPS, 1)] == [0, 7, 5, 0]


def test_what_was_journaled_before_there_were_formats_is_header_lines() -> None:
    for flags in range(16):
        assert codec_of(flags) is CODECS[LINES]
        assert is_known(flags)


def test_every_codec_is_where_its_flags_say() -> None:
    assert all(codec.flags == flags for flags, codec in CODECS.items())
    assert all(flags & events.FORMAT == flags for flags in CODECS)


def test_header_lines_with_types() -> None:
    message = Message(9, 1, 7, events.PERSISTENT, 5, BLOCK, b"body")
    view = view_of(message)
    assert (view.message_id, view.priority, view.persistent) == (9, 7, True)
    assert (view.expires, view.body_bytes) == (5, 4)
    assert view.standard == Standard(
        "/queue/a", "text/plain", "/queue/b", "c:1", "", "order", 1_700_000_000_000
    )
    assert view.properties == {"stock": "apples", "n": "1"}
    assert view.lines() is BLOCK


@pytest.mark.parametrize("name", ["JMSXGroupID", "_AMQ_GROUP_ID", "message_group"])
def test_a_group_has_several_names(name: str) -> None:
    view = View(0, headers.build([(name, "g")]))
    assert view.standard.group_id == "g"
    assert view.properties == {}
    assert view.get(name) is None


@pytest.mark.parametrize("text", ["", "soon", "-1", "1.5", "9" * 19, "\u0661"])
def test_a_timestamp_that_is_no_number_is_none(text: str) -> None:
    assert View(0, headers.build([("timestamp", text)])).standard.timestamp == 0


def test_one_property_before_and_after_all_were_asked_for() -> None:
    view = View(0, BLOCK)
    for _ in range(2):
        assert (view.get("stock"), view.get("n"), view.get("none")) == ("apples", "1", None)
        assert (view.get("destination"), view.get("priority")) == (None, None)
        assert view.properties


def test_nothing_is_parsed_before_somebody_asks_and_then_once() -> None:
    with installed() as codec:
        view = View(MAPS | events.PERSISTENT, encode({"n": 1}, destination="a"))
        assert codec.reads == 0
        assert view.standard.destination == view.standard.destination == "a"
        assert view.properties == view.properties == {"n": 1}
        assert codec.reads == 2
        assert view.get("n") == 1
        assert codec.reads == 2


def test_types_of_another_format_become_texts_of_lines() -> None:
    said = {"on": True, "off": False, "n": 7, "x": 0.5, "raw": b"\x01\xff", "s": "a:b\nc", "": "no"}
    with installed():
        view = View(MAPS, encode(said, destination="d", timestamp=12, group_id="g"))
        assert view.properties == said
        assert headers.parse(view.lines()) == [
            ("destination", "d"), ("JMSXGroupID", "g"), ("timestamp", "12"), ("on", "true"),
            ("off", "false"), ("n", "7"), ("x", "0.5"), ("raw", "01ff"), ("s", "a:b\nc"),
        ]  # fmt: skip


def test_translated_lines_say_the_same() -> None:
    given = Standard("d", "t", "r", "c", "g", "k", 1_700_000_000_000)
    with installed():
        lines = View(MAPS, encode({"a": "b"}, **given._asdict())).lines()
    assert View(LINES, lines).standard == given
    assert View(LINES, lines).properties == {"a": "b"}


def test_a_format_of_a_later_version_is_refused_by_its_number() -> None:
    assert not is_known(MAPS)
    with pytest.raises(UnknownFormat, match="content format 5, which this version does not know"):
        View(MAPS, b"")
    with installed():
        assert is_known(MAPS | events.LARGE)


@pytest.mark.parametrize(
    ("address", "values"),
    [
        ("q", {}),
        ("q", {"persistent": False}),
        ("q", {"expires": 1 << 50}),
        ("q", {"duplicate_id": "1"}),
        ("topic", {"routing_type": "multicast"}),
        ("topic", {"routing_type": "multicast", "persistent": False}),
    ],
)
def test_a_message_keeps_its_format_however_it_is_sent(
    address: str, values: dict[str, object]
) -> None:
    with installed():
        world = World()
        connection = world.connect()
        if address == "topic":
            for _ in range(2):
                world.attach(connection, "topic", routing_type="multicast")
        block = encode({"n": 1})
        world.ok(Send(connection, address, block, b"x", format=MAPS, **values))  # type: ignore[arg-type]
        found = [
            entry.message
            for queue in world.state.queues.values()
            for entry in queue.entries.values()
        ]
        assert found
        assert {message.flags & events.FORMAT for message in found} == {MAPS}
        assert {message.headers for message in found} == {block}
        flags = [event.row[events.FLAGS] for event in world.journal if event.name == "Routed"]
        assert [each & events.FORMAT for each in flags] == [MAPS]
        world.check()


def test_a_copy_at_a_dead_letter_address_is_in_the_format_of_its_original() -> None:
    with installed():
        world = World()
        world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "dead"})
        connection = world.connect()
        consumer = world.attach(connection, "q")
        world.ok(Send(connection, "q", encode({"n": 1}, type="t"), b"x", format=MAPS))
        [message] = world.queue("q").entries
        world.nack(consumer, message)
        [entry] = world.queue("dead").entries.values()
        view = view_of(entry.message)
        assert entry.message.flags & events.FORMAT == MAPS
        assert view.standard.type == "t"
        assert without_deaths(view.properties) == {
            "n": 1, "_AMQ_ORIG_ADDRESS": "q", "_AMQ_ORIG_QUEUE": "q",
            "_AMQ_ORIG_MESSAGE_ID": message, "_AMQ_ORIG_ROUTING_TYPE": 0,
        }  # fmt: skip
