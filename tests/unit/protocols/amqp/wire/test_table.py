"""The table of composite types is that of the specification, and all of them come back."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.composites import Composite, Field
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.sections import COMPOSITES as SECTIONS
from daybook.engine.messages.amqp.writer import array_of, described, encoded, list_of, of_type
from daybook.protocols.amqp.wire import performatives, termini
from daybook.protocols.amqp.wire.table import COMPOSITES
from tests.support.amqp.strategies import struct

SPECIFICATION = """
10 open: container-id string!; hostname string; max-frame-size uint =4294967295;
 channel-max ushort =65535; idle-time-out milliseconds; outgoing-locales ietf-language-tag*;
 incoming-locales ietf-language-tag*; offered-capabilities symbol*; desired-capabilities symbol*;
 properties fields
11 begin: remote-channel ushort; next-outgoing-id transfer-number!; incoming-window uint!;
 outgoing-window uint!; handle-max handle =4294967295; offered-capabilities symbol*;
 desired-capabilities symbol*; properties fields
12 attach: name string!; handle handle!; role role!; snd-settle-mode sender-settle-mode =2;
 rcv-settle-mode receiver-settle-mode =0; source source; target target; unsettled map;
 incomplete-unsettled boolean =False; initial-delivery-count sequence-no; max-message-size ulong;
 offered-capabilities symbol*; desired-capabilities symbol*; properties fields
13 flow: next-incoming-id transfer-number; incoming-window uint!; next-outgoing-id transfer-number!;
 outgoing-window uint!; handle handle; delivery-count sequence-no; link-credit uint; available uint;
 drain boolean =False; echo boolean =False; properties fields
14 transfer: handle handle!; delivery-id delivery-number; delivery-tag delivery-tag;
 message-format message-format; settled boolean; more boolean =False;
 rcv-settle-mode receiver-settle-mode; state delivery-state; resume boolean =False;
 aborted boolean =False; batchable boolean =False
15 disposition: role role!; first delivery-number!; last delivery-number; settled boolean =False;
 state delivery-state; batchable boolean =False
16 detach: handle handle!; closed boolean =False; error error
17 end: error error
18 close: error error
1d error: condition symbol!; description string; info fields
40 sasl-mechanisms: sasl-server-mechanisms symbol*!
41 sasl-init: mechanism symbol!; initial-response binary; hostname string
42 sasl-challenge: challenge binary!
43 sasl-response: response binary!
44 sasl-outcome: code sasl-code!; additional-data binary
23 received: section-number uint!; section-offset ulong!
24 accepted:
25 rejected: error error
26 released:
27 modified: delivery-failed boolean =False; undeliverable-here boolean =False;
 message-annotations fields
28 source: address address; durable terminus-durability =0;
 expiry-policy terminus-expiry-policy =session-end; timeout seconds =0; dynamic boolean =False;
 dynamic-node-properties fields; distribution-mode std-dist-mode; filter fields;
 default-outcome outcome; outcomes symbol*; capabilities symbol*
29 target: address address; durable terminus-durability =0;
 expiry-policy terminus-expiry-policy =session-end; timeout seconds =0; dynamic boolean =False;
 dynamic-node-properties fields; capabilities symbol*
2b delete-on-close:
2c delete-on-no-links:
2d delete-on-no-messages:
2e delete-on-no-links-or-messages:
30 coordinator: capabilities symbol*
31 declare: global-id *
32 discharge: txn-id transaction-id!; fail boolean =False
33 declared: txn-id transaction-id!
34 transactional-state: txn-id transaction-id!; outcome outcome
70 header: durable boolean =False; priority ubyte =4; ttl milliseconds;
 first-acquirer boolean =False; delivery-count uint =0
73 properties: message-id message-id; user-id binary; to address; subject string; reply-to address;
 correlation-id message-id; content-type symbol; content-encoding symbol;
 absolute-expiry-time timestamp; creation-time timestamp; group-id string; group-sequence uint;
 reply-to-group-id string
"""
"""Parts 2 to 5: descriptor, name and fields; `*` is multiple, `!` mandatory, `=` a default."""

ROWS = (*COMPOSITES.rows, *SECTIONS.rows)


def shown(field: Field) -> str:
    default = "" if field.default in (None, ()) else f" ={field.default}"
    mandatory = "!" if field.is_mandatory else ""
    return f"{field.name} {field.kind.name}{'*' * field.kind.is_multiple}{mandatory}{default}"


def test_the_table_has_every_type_with_its_fields() -> None:
    ours = [
        f"{row.code:02x} {row.name}: {'; '.join(map(shown, row.fields))}".strip() for row in ROWS
    ]
    assert ours == SPECIFICATION.replace("\n ", " ").strip().split("\n")


def test_no_descriptor_and_no_struct_is_there_twice() -> None:
    assert len({row.code for row in ROWS}) == len({row.struct for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", COMPOSITES.rows, ids=lambda row: row.name)
@settings(max_examples=20)
@given(st.data())
def test_every_struct_comes_back(row: Composite, data: st.DataObject) -> None:
    value = data.draw(struct(row))
    encoding = COMPOSITES.encoded(value)
    assert encoding[:3] == bytes((0, 0x53, row.code))
    reader = Reader(encoding, 0, len(encoding))
    assert COMPOSITES.read(reader) == value
    assert reader.at == len(encoding)


def read(code: int, *items: bytes) -> Any:
    data = described(of_type("ulong", code), list_of(items))
    return COMPOSITES.read(Reader(data, 0, len(data)))


def attach(*more: bytes) -> Any:
    return read(0x12, encoded("l"), of_type("uint", 0), encoded(True), *more)


NULL = b"\x40"
WRONG = [
    (0x16, [of_type("uint", 1), NULL, COMPOSITES.encoded(termini.Accepted())],
     "error of detach cannot be accepted"),
    (0x15, [encoded(True), b"\x43", NULL, NULL, COMPOSITES.encoded(termini.Source())],
     "cannot be source"),
    (0x14, [b"\x43", b"\x43", encoded(b"t" * 33)], "more than 32 bytes"),
    (0x14, [b"\x43", b"\x43", encoded("t")], "is not of type delivery-tag"),
    (0x44, [of_type("ubyte", 5)], "cannot be 5"),
    (0x28, [encoded(5)], "is not of type address"),
    (0x28, [NULL, of_type("uint", 3)], "cannot be 3"),
    (0x29, [NULL, NULL, encoded(Symbol("later"))], "cannot be 'later'"),
    (0x32, [encoded(b"t" * 33)], "more than 32 bytes"),
    (0x40, [array_of("string", ["a"])], "is not of type symbol"),
    (0x34, [encoded(b"t"), COMPOSITES.encoded(termini.TransactionalState(b"t"))],
     "outcome of transactional-state cannot be transactional-state"),
    (0x28, [*[NULL] * 7, encoded({"text": 1})], "is not a symbol"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "items", "expected"), WRONG, ids=[each[2] for each in WRONG])
def test_a_field_that_cannot_have_its_value_is_malformed(
    code: int, items: list[bytes], expected: str
) -> None:
    with pytest.raises(Malformed) as found:
        read(code, *items)
    assert expected in str(found.value)


def test_extensions_are_kept() -> None:
    selector = Described(0x468C_0000_0004, "a = 1")
    source = termini.Source(filter={"selector": selector, "none": None})
    other = Described(Symbol("com:target:list"), ["a"])
    found = attach(NULL, NULL, COMPOSITES.encoded(source), encoded(other))
    assert found == performatives.Attach("l", 0, True, source=source, target=other)
    assert attach(of_type("ubyte", 1)).snd_settle_mode == 1
