"""Columns: which there are, and what SQL and Arrow call them."""

import pyarrow as pa
import pytest

from daybook.engine.facts import events
from daybook.pipeline.schema import (
    ALL_COLUMNS,
    BY_NAME,
    HEAP_COLUMNS,
    NAMED_COLUMNS,
    PLAIN_COLUMNS,
    WIDENED,
    SchemaError,
    arrow_schema,
    check_columns,
    spark_ddl,
)


def test_every_column_of_the_row_is_there_in_a_type_that_holds_it() -> None:
    for column in events.COLUMNS:
        named = BY_NAME.get(column.name + "_id", BY_NAME[column.name])
        assert named.type == WIDENED[column.code]
        assert named.doc
    for code, kind in WIDENED.items():
        if code != "q":
            bits = {"B": 8, "H": 16, "I": 32, "Q": 63}[code]
            assert pa.scalar((1 << bits) - 1, kind).as_py() == (1 << bits) - 1


def test_a_star_is_all_plain_columns() -> None:
    assert check_columns(["*"]) == PLAIN_COLUMNS
    assert check_columns(["body", "*"])[0] == "body"
    assert sorted(check_columns(["body", "*", "lsn"])) == sorted(PLAIN_COLUMNS)
    assert not any(BY_NAME[name].raw for name in PLAIN_COLUMNS)
    assert {*HEAP_COLUMNS, *NAMED_COLUMNS} <= set(ALL_COLUMNS)


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["lsn", "quue"], r"^events have no column 'quue'; did you mean queue\?$"),
        (["LSN"], r"no column 'LSN'; did you mean lsn\?$"),
        (["zzz"], r"no column 'zzz'; columns: lsn, time, kind, "),
        ([], r"^no column is named; name one, or \* for all plain ones$"),
    ],
)
def test_what_is_no_column_is_refused(names: list[str], what: str) -> None:
    with pytest.raises(SchemaError, match=what):
        check_columns(names)


def test_schemas_are_in_the_order_asked_for() -> None:
    assert arrow_schema(["queue", "lsn"]) == pa.schema(
        [pa.field("queue", pa.string()), pa.field("lsn", pa.int64())]
    )
    assert spark_ddl(["time", "headers", "queues", "persistent", "body", "delivery_count"]) == (
        "time timestamp, headers map<string,string>, queues array<string>, persistent boolean, "
        "body binary, delivery_count int"
    )
    for name in ALL_COLUMNS:
        assert spark_ddl([name]).startswith(f"{name} ")
    nested = spark_ddl(["application_properties"])
    assert nested == (
        "application_properties map<string,"
        "struct<type:string,text:string,integer:bigint,double:double,boolean:boolean>>"
    )
