"""Headers with their types, as columns."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from daybook.engine.facts.values import Char, Decimal, Symbol, Timestamp, Uuid
from daybook.engine.messages.amqp.content_codec import AMQP, stored
from daybook.engine.messages.amqp.places import places_of
from daybook.engine.messages.amqp.sections import (
    APPLICATION_PROPERTIES,
    COMPOSITES,
    DATA,
    MESSAGE_ANNOTATIONS,
    Properties,
)
from daybook.engine.messages.amqp.writer import (
    described,
    encoded,
    map_of_items,
    of_type,
    section_of,
)
from daybook.engine.messages.headers import build
from daybook.pipeline.typed_headers import application_properties, properties
from tests.support.worlds.second_format import MAPS, encode, installed


def amqp(items: list[bytes], standard: Properties | None = None) -> bytes:
    data = b"".join(
        (
            section_of(MESSAGE_ANNOTATIONS, encoded({Symbol("x-opt-ORIG-QUEUE"): "orders"})),
            COMPOSITES.encoded(standard) if standard else b"",
            section_of(APPLICATION_PROPERTIES, map_of_items(items)),
            section_of(DATA, encoded(b"body")),
        )
    )
    return stored(data, places_of(data))[0]


def columns(headers: bytes, flags: int = AMQP) -> tuple[dict[str, Any], dict[str, Any]]:
    blocks, formats = pa.array([headers], pa.binary()), pa.array([flags], pa.int16())
    [standard] = properties(blocks, formats).to_pylist()
    [others] = application_properties(blocks, formats).to_pylist()
    said = {name: value for name, value in standard.items() if value is not None}
    return said, {
        name: {key: part for key, part in value.items() if part is not None}
        for name, value in others
    }


VALUES: list[tuple[str, Any, dict[str, Any]]] = [
    ("null", None, {}),
    ("boolean", True, {"text": "true", "boolean": True}),
    ("ubyte", 7, {"text": "7", "integer": 7, "double": 7.0}),
    ("uint", 0, {"text": "0", "integer": 0, "double": 0.0}),
    ("short", -7, {"text": "-7", "integer": -7, "double": -7.0}),
    ("ulong", 1 << 63, {"text": "9223372036854775808", "double": float(1 << 63)}),
    ("float", 0.5, {"text": "0.5", "double": 0.5}),
    ("double", 1e300, {"text": "1e+300", "double": 1e300}),
    ("decimal32", Decimal(b"\x31\x80\x04\xd2"), {"text": "12.34", "double": 12.34}),
    ("decimal32", Decimal(b"\x7c\0\0\0"), {"text": "NaN"}),
    ("char", Char("x"), {"text": "x"}),
    ("timestamp", Timestamp(5), {"text": "5", "integer": 5, "double": 5.0}),
    ("uuid", Uuid(bytes(16)), {"text": "00000000-0000-0000-0000-000000000000"}),
    ("binary", b"\0\xff", {"text": "00ff"}),
    ("string", "7", {"text": "7"}),
    ("symbol", Symbol("name"), {"text": "name"}),
]


def test_each_type_is_kept() -> None:
    items = [
        part
        for number, (kind, value, _) in enumerate(VALUES)
        for part in (encoded(str(number)), of_type(kind, value))
    ]
    standard, others = columns(amqp(items))
    assert standard == {}
    assert others == {
        **{str(n): {"type": kind, **parts} for n, (kind, _, parts) in enumerate(VALUES)},
        "_AMQ_ORIG_QUEUE": {"type": "string", "text": "orders"},
    }


def test_descriptors_hide_no_type_and_malformed_values_have_none() -> None:
    nested = described(encoded(Symbol("a")), described(encoded(5), of_type("int", 6)))
    items = [encoded("nested"), nested, encoded("bad"), b"\xa1\x01\xff", encoded("odd"), b"\x5f\0"]
    _, others = columns(amqp(items))
    assert others["nested"] == {"type": "int", "text": "6", "integer": 6, "double": 6.0}
    assert others["bad"] == {"type": "string"}
    assert others["odd"] == {"type": ""}


def test_ids_are_texts_and_times_are_times() -> None:
    said = Properties(message_id=b"\1\2", correlation_id=7, user_id=b"\xff", creation_time=1000)
    assert columns(amqp([], said))[0] == {
        "message_id": "0102", "correlation_id": "7", "user_id": b"\xff",
        "creation_time": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
    }  # fmt: skip


def test_zeros_and_empty_texts_are_not_what_is_missing() -> None:
    said = Properties(message_id="", group_sequence=0)
    assert columns(amqp([], said))[0] == {"message_id": "", "group_sequence": 0}


def test_a_time_without_a_date_is_null() -> None:
    for time in (-(1 << 63), -62_135_596_800_001, 253_402_300_800_000, (1 << 63) - 1):
        assert columns(amqp([], Properties(creation_time=time)))[0] == {}
    for time in (-62_135_596_800_000, 253_402_300_799_999):
        assert "creation_time" in columns(amqp([], Properties(creation_time=time)))[0]


def test_header_lines_have_what_they_say() -> None:
    lines = build(
        [
            ("destination", "/queue/orders"), ("type", "new"), ("correlation-id", "7"),
            ("timestamp", "1000"), ("expires", "2000"), ("JMSXGroupID", "g"),
            ("reply-to", "/queue/answers"), ("content-type", "text/plain"), ("n", "7"),
        ]
    )  # fmt: skip
    standard, others = columns(lines, 0)
    assert standard == {
        "to": "/queue/orders", "subject": "new", "correlation_id": "7", "group_id": "g",
        "creation_time": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "absolute_expiry_time": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
        "reply_to": "/queue/answers", "content_type": "text/plain",
    }  # fmt: skip
    assert others == {"n": {"type": "string", "text": "7"}}


def test_no_headers_and_unknown_formats_are_null() -> None:
    blocks = pa.array([b"", encode({"n": 7}), b"a:1\n"], pa.binary())
    flags = pa.array([0, MAPS | 1, 1], pa.int16())
    for make in (properties, application_properties):
        with installed():
            assert make(blocks, flags).is_valid().to_pylist() == [False, True, True]
        assert make(blocks, flags).is_valid().to_pylist() == [False, False, True]
