"""Dead letters say why, to clients and to operators, and count how often."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daybook.engine.facts.own_headers import DEATH_HEADERS
from daybook.server.administration.deaths import chosen_by
from tests.interop.using import audited, connected, daybook, sent
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

CONFIG = """
[[address-setting]]
match = "#"
max-delivery-attempts = 2
expiry-address = "late"

[[address-setting]]
match = "orders"
dead-letter-address = "DLQ"

[[address-setting]]
match = "bills"
dead-letter-address = "DLQ"
"""


@pytest.fixture(name="broker")
def running(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", config=CONFIG) as broker:
        yield broker.start()


def fail(wire: Wire, name: str, times: int = 2, **headers: str) -> None:
    """Fail the next message of a queue so often."""
    wire.send("SUBSCRIBE", id=name, destination=f"/queue/{name}", ack="client-individual")
    for _ in range(times):
        frame = wire.expect("MESSAGE")
        wire.send("NACK", id=frame.headers["ack"], receipt="n", **headers)
        wire.expect("RECEIPT")
    wire.send("UNSUBSCRIBE", id=name, receipt="u")
    # A dead letter may be on its way again.
    while wire.read().command == "MESSAGE":
        pass


def listed(broker: BrokerProcess, *words: str) -> Any:
    return json.loads(daybook(broker, "queue", "messages", *words, "--json"))


def test_clients_and_operators_see_why(broker: BrokerProcess) -> None:
    with connected(broker) as wire:
        for name, error in (("orders", "no customer: 7"), ("orders", "no price"), ("bills", "")):
            sent(wire, f"/queue/{name}", b"x", **dict.fromkeys(DEATH_HEADERS, "forged"))
            fail(wire, name, **({"error": error.replace(":", "\\c")} if error else {}))
        wire.send("SUBSCRIBE", id="d", destination="/queue/DLQ", ack="client-individual")
        first, *_, last = [wire.expect("MESSAGE").headers for _ in range(3)]
        assert first["_DAYBOOK_DEATH_REASON"] == "delivery-limit"
        assert first["_DAYBOOK_DEATH_ERROR"].replace("\\c", ":") == "no customer: 7"
        assert first["_DAYBOOK_DEATH_QUEUE"] == first["_DAYBOOK_DEATH_ADDRESS"] == "orders"
        assert (first["_DAYBOOK_DEATH_ATTEMPTS"], first["_DAYBOOK_DEATH_COUNT"]) == ("2", "1")
        assert first["_DAYBOOK_DEATH_ENDED"] == "nack"
        assert "_DAYBOOK_DEATH_ERROR" not in last
    answer = listed(broker, "DLQ")
    assert [row["death"]["error"] for row in answer["messages"]] == [
        "no customer: 7", "no price", "",
    ]  # fmt: skip
    table = daybook(broker, "queue", "messages", "DLQ")
    assert "no customer: 7" in table
    assert "delivery-limit" in table
    groups = listed(broker, "DLQ", "--group-by", "queue")["groups"]
    assert [(each["queue"], each["messages"]) for each in groups] == [("orders", 2), ("bills", 1)]
    assert groups[0]["first_time"] <= groups[0]["last_time"]
    assert "delivery-limit" in daybook(broker, "queue", "messages", "DLQ", "--group-by", "reason")
    few = listed(broker, "DLQ", "--group-by", "address", "--limit", "2")
    assert (few["left"], few["groups"][0]["messages"]) == (1, 2)
    for period, length in (("hour", 16), ("day", 10)):
        [*periods] = listed(broker, "DLQ", "--group-by", period)["groups"]
        assert sum(each["messages"] for each in periods) == 3
        assert all(len(each[period]) == length for each in periods)
        chosen = chosen_by(period, periods[0][period])
        found = listed(broker, "DLQ", "--filter", chosen)["messages"]
        assert len(found) == periods[0]["messages"]
    audited(broker)
    # Without a broker the journal answers.
    groups = listed(broker, "DLQ", "--group-by", "error")["groups"]
    assert {each["error"] for each in groups} == {"no customer: 7", "no price", ""}


def test_the_count_outlives_a_kill_and_a_retry(broker: BrokerProcess) -> None:
    with connected(broker) as wire:
        sent(wire, "/queue/orders", b"x")
        fail(wire, "orders")
    daybook(broker, "queue", "retry", "DLQ")
    broker.kill()
    broker.start()
    with connected(broker) as wire:
        fail(wire, "orders")
    (row,) = listed(broker, "DLQ")["messages"]
    assert row["death"]["count"] == 2
    audited(broker)


def test_a_dead_letter_that_fails_is_delivered_again_and_said(broker: BrokerProcess) -> None:
    with connected(broker) as wire:
        sent(wire, "/queue/orders", b"x")
        fail(wire, "orders")
        fail(wire, "DLQ", 4)
    (row,) = listed(broker, "DLQ")["messages"]
    assert (row["state"], row["delivery_count"]) == ("ready", 4)
    assert "failed 2 times and is delivered again" in broker.log_text()
    audited(broker)


def test_a_message_that_did_not_die_has_no_death(broker: BrokerProcess) -> None:
    with connected(broker) as wire:
        sent(wire, "/queue/orders", b"x")
    assert listed(broker, "orders")["messages"][0]["death"] is None
    assert listed(broker, "orders", "--group-by", "reason")["groups"] == [
        {"reason": None, "messages": 1, "first_time": None, "last_time": None}
    ]
    assert "1" in daybook(broker, "queue", "messages", "orders", "--group-by", "reason")
