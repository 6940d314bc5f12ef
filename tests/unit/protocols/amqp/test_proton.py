"""Against another codec: proton reads what is written here, and what it writes is read here."""

import uuid
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.facts.values import Char, Decimal, Symbol, Timestamp, Uuid
from daybook.engine.messages.amqp.content_codec import SectionsCodec, stored
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.places import places_of, properties_of
from daybook.engine.messages.amqp.reader import decoded
from daybook.engine.messages.amqp.sections import COMPOSITES, Header, Properties
from daybook.engine.messages.amqp.writer import array_of, encoded, map_of, of_type, section_of
from daybook.protocols.amqp.wire.frames import AMQP, Frame, FrameReader, frame, protocol_header
from daybook.protocols.amqp.wire.kinds import RECEIVER
from daybook.protocols.amqp.wire.performatives import Attach, Begin, Close, Flow, Open, Transfer
from daybook.protocols.amqp.wire.termini import Source, Target
from tests.support.amqp.strategies import SIMPLE, symbols

proton = pytest.importorskip("proton")

PUT: Final = {
    "null": "put_null", "boolean": "put_bool", "decimal32": "put_decimal32",
    **{
        name: f"put_{name}"
        for name in ("ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long", "float",
                     "double", "char", "timestamp", "uuid", "binary", "string", "symbol")
    },
}  # fmt: skip


def foreign(value: Any) -> Any:
    """A value as proton has it."""
    if isinstance(value, Char | Symbol):
        return value.text
    if isinstance(value, Timestamp):
        return value.milliseconds
    if isinstance(value, Uuid):
        return uuid.UUID(bytes=value.raw)
    return int.from_bytes(value.raw) if isinstance(value, Decimal) else value


def ours(value: Any) -> Any:
    """A value of proton as it is here, in any depth."""
    if isinstance(value, proton.symbol):
        return Symbol(str(value))
    if isinstance(value, proton.timestamp):
        return Timestamp(int(value))
    if isinstance(value, proton.char):
        return Char(str(value))
    if isinstance(value, uuid.UUID):
        return Uuid(value.bytes)
    if isinstance(value, proton.decimal32):
        return Decimal(int(value).to_bytes(4))
    if isinstance(value, proton.Described):
        return Described(ours(value.descriptor), ours(value.value))
    if isinstance(value, proton.Array):
        items = [ours(each) for each in value.elements]
        if value.descriptor is proton.UNDESCRIBED:
            return items
        return [Described(ours(value.descriptor), each) for each in items]
    if isinstance(value, list):
        return [ours(each) for each in value]
    if isinstance(value, dict):
        return {ours(key): ours(each) for key, each in value.items()}
    return bytes(value) if isinstance(value, memoryview) else value


def without_nul(value: Any) -> bool:
    """Whether no text of a value has a NUL, where the texts of proton end."""
    return "\0" not in (value.text if isinstance(value, Symbol | Char) else str(value))


typed = st.sampled_from(sorted(PUT)).flatmap(
    lambda name: st.tuples(st.just(name), SIMPLE[name].filter(without_nul))
)
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of([SIMPLE[name].filter(without_nul) for name in ("null", "boolean", "long", "double",
               "timestamp", "uuid", "binary", "string", "symbol")]),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(max_size=9).filter(without_nul), inner, max_size=4)
        # Proton loses a value behind a described one in a described one.
        | st.builds(
            Described,
            symbols.filter(without_nul) | st.integers(0, 1 << 62),
            inner.filter(lambda each: not isinstance(each, Described)),
        )
    ),
    max_leaves=12,
)  # fmt: skip


def read_by_proton(data: bytes) -> Any:
    found = proton.Data()
    assert found.decode(data) == len(data)
    found.rewind()
    assert found.next() is not None
    return ours(found.get_object())


@given(typed)
def test_proton_writes_every_type_for_us(case: tuple[str, Any]) -> None:
    name, value = case
    data = proton.Data()
    given = () if value is None else (foreign(value),)
    getattr(data, PUT[name])(*given)
    assert decoded(bytes(data.encode())) == value


@given(typed)
def test_proton_reads_every_type_of_ours(case: tuple[str, Any]) -> None:
    name, value = case
    assert read_by_proton(of_type(name, value)) == value


@given(values)
def test_proton_reads_values_in_values(value: Any) -> None:
    assert read_by_proton(encoded(value)) == value


@given(values)
def test_what_proton_copies_is_read_here(value: Any) -> None:
    data = proton.Data()
    data.decode(encoded(value))
    assert decoded(bytes(data.encode())) == value


@given(st.lists(symbols.filter(without_nul), min_size=1, max_size=6))
def test_arrays_both_ways(items: list[Symbol]) -> None:
    data = array_of("symbol", items)
    assert read_by_proton(data) == items
    copy = proton.Data()
    copy.decode(data)
    assert decoded(bytes(copy.encode())) == items


def test_a_message_of_proton_is_read() -> None:
    message = proton.Message(
        body="text", id="m", correlation_id=uuid.UUID(bytes=b"\1" * 16), user_id=b"u", address="a",
        subject="s", reply_to="r", content_type="text/plain", group_id="g", group_sequence=3,
        durable=True, priority=7, ttl=1.5, properties={"n": 5, "t": "x", "none": None},
        annotations={proton.symbol("x-opt-a"): 1}, instructions={proton.symbol("i"): True},
    )  # fmt: skip
    data = bytes(message.encode())
    places = {each.code: each for each in places_of(data)}
    assert set(places) == {0x70, 0x71, 0x72, 0x73, 0x74, 0x77}
    properties = properties_of(data, places[0x73])
    assert (properties.message_id, properties.to, properties.subject) == ("m", "a", "s")
    headers, body = stored(data, places_of(data))
    codec = SectionsCodec()
    assert codec.properties(headers) == {"n": 5, "t": "x", "none": None}
    assert codec.standard(headers).correlation_id == Uuid(b"\1" * 16)
    assert codec.body(headers, body) == "text"


def test_proton_reads_a_message_of_ours() -> None:
    message = proton.Message()
    message.decode(
        COMPOSITES.encoded(Header(durable=True, priority=9, ttl=2500, delivery_count=3))
        + section_of(0x72, map_of({Symbol("x-opt-a"): 1}))
        + COMPOSITES.encoded(Properties(message_id=7, to="a", content_type="text/x", group_id="g"))
        + section_of(0x74, map_of({"n": 5}))
        + section_of(0x75, encoded(b"body"))
    )
    assert (message.durable, message.priority, message.ttl) == (True, 9, 2.5)
    assert (message.delivery_count, message.id, message.address) == (3, 7, "a")
    assert (message.content_type, message.group_id) == ("text/x", "g")
    assert (message.properties, bytes(message.body)) == ({"n": 5}, b"body")
    assert message.annotations == {"x-opt-a": 1}


class Talk:
    """A connection of proton's engine, and our reader of what it says."""

    def __init__(self) -> None:
        self.transport = proton.Transport()
        self.connection = proton.Connection()
        self.connection.container = "peer"
        self.collector = proton.Collector()
        self.connection.collect(self.collector)
        self.transport.bind(self.connection)
        self.reader = FrameReader(1 << 20)

    def hear(self) -> list[Any]:
        """The next output of the peer, without headers."""
        size = self.transport.pending()
        self.reader.receive(bytes(self.transport.peek(size)))
        self.transport.pop(size)
        found = []
        while (each := self.reader.next()) is not None:
            if isinstance(each, Frame):
                found.append(each)
        return found

    def say(self, data: bytes) -> None:
        """Say something to the peer."""
        self.transport.push(data)


def test_a_conversation_with_proton() -> None:
    talk = Talk()
    talk.connection.open()
    session = talk.connection.session()
    session.open()
    link = session.receiver("link")
    link.source.address = "queue"
    link.source.filter.put_dict({proton.symbol("f"): proton.Described(proton.symbol("d"), "x")})
    link.open()
    link.flow(10)
    opened, begun, attached, flowed = (each.performative for each in talk.hear())
    talk.say(protocol_header(AMQP))
    talk.say(frame(0, Open("daybook", max_frame_size=4096, offered_capabilities=("A", "B"))))
    talk.say(
        frame(0, Begin(remote_channel=0, next_outgoing_id=0, incoming_window=9, outgoing_window=9))
    )
    assert talk.hear() == []
    assert isinstance(opened, Open)
    assert opened.container_id == "peer"
    assert isinstance(begun, Begin)
    assert isinstance(attached, Attach)
    assert (attached.name, attached.role, attached.source.address) == ("link", RECEIVER, "queue")
    assert attached.source.filter == {"f": Described(Symbol("d"), "x")}
    assert isinstance(flowed, Flow)
    assert flowed.link_credit == 10
    assert talk.connection.remote_container == "daybook"
    assert [str(each) for each in talk.connection.remote_offered_capabilities] == [
        "A",
        "B",
    ]
    talk.say(frame(0, Attach("link", 0, not RECEIVER, source=Source("queue"), target=Target(),
                             initial_delivery_count=0)))  # fmt: skip
    body = section_of(0x75, encoded(b"b" * 100))
    talk.say(frame(0, Transfer(0, 0, b"tag", 0, settled=False), body))
    assert link.remote_source.address == "queue"
    delivery = link.current
    assert (delivery.tag, delivery.pending) == ("tag", len(body))
    assert link.recv(1000) == body
    delivery.update(proton.Delivery.ACCEPTED)
    delivery.settle()
    (settled,) = talk.hear()
    assert settled.performative.settled
    assert frame(0, settled.performative)[8:] == bytes.fromhex(
        "00 53 15 c0 09 05 41 43 40 41 00 53 24 45"
    )
    talk.say(frame(0, Close()))
    assert talk.connection.state & proton.Endpoint.REMOTE_CLOSED
