"""Scheduled messages on a real broker, by the headers that Artemis reads."""

import time
from typing import Any

import msgspec
import pytest

from tests.interop.conftest import NO_LIMIT
from tests.interop.using import daybook, journal, queues
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

DELAY_MS = 1_500


def figures(broker: BrokerProcess) -> dict[str, Any]:
    (row,) = queues(broker).values()
    return row


def send(wire: Wire, body: bytes, **headers: str) -> None:
    wire.send("SEND", body, destination="/queue/jobs", receipt="r", **headers)
    wire.expect("RECEIPT")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize(
    "header", ["AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_TIME", "_AMQ_SCHED_DELIVERY"]
)
@pytest.mark.parametrize("is_killed", [False, True])
def test_not_before_its_time(broker: BrokerProcess, header: str, is_killed: bool) -> None:
    with Wire(broker.port) as wire:
        wire.connect()
        begun = now_ms()
        value = DELAY_MS if header == "AMQ_SCHEDULED_DELAY" else begun + DELAY_MS
        send(wire, b"later", **{header: str(value)})
        send(wire, b"now")
        row = figures(broker)
        assert (row["messages"], row["ready"], row["scheduled"]) == (2, 1, 1)
    if is_killed:
        broker.kill()
        broker.start()
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send("SUBSCRIBE", id="s", destination="/queue/jobs")
        late = wire.expect("MESSAGE")
        if late.body == b"now":
            late = wire.expect("MESSAGE")
        else:
            # The start took longer than the delay.
            assert is_killed
        assert late.body == b"later"
        assert "redelivered" not in late.headers
        assert now_ms() >= begun + DELAY_MS
        # A client that passes the headers on does not delay the message once more.
        assert "AMQ_SCHEDULED_DELAY" not in late.headers
        assert int(late.headers.get("_AMQ_SCHED_DELIVERY", value)) >= begun + DELAY_MS


def test_it_stands_at_the_head_when_it_is_due(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        wire.connect()
        send(wire, b"A", AMQ_SCHEDULED_DELAY=str(DELAY_MS))
        for body in (b"B", b"C", b"D"):
            send(wire, body)
        row = figures(broker)
        assert (row["messages"], row["scheduled"]) == (4, 1)
        while figures(broker)["scheduled"]:
            time.sleep(0.05)
        wire.send("SUBSCRIBE", id="s", destination="/queue/jobs")
        assert [wire.expect("MESSAGE").body for _ in range(4)] == [b"A", b"B", b"C", b"D"]


def test_in_a_transaction_and_to_a_topic(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire, Wire(broker.port) as other:
        for each in (wire, other):
            each.connect()
            each.send("SUBSCRIBE", id="s", destination="/topic/news", receipt="s")
            each.expect("RECEIPT")
        wire.send("BEGIN", transaction="t")
        begun = now_ms()
        wire.send(
            "SEND", b"x", destination="/topic/news", transaction="t",
            AMQ_SCHEDULED_DELAY=str(DELAY_MS),
        )  # fmt: skip
        wire.send("COMMIT", transaction="t", receipt="c")
        wire.expect("RECEIPT")
        for each in (wire, other):
            assert each.expect("MESSAGE").body == b"x"
            assert now_ms() >= begun + DELAY_MS


def test_an_administrator_does_not_wait(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        wire.connect()
        send(wire, b"x", AMQ_SCHEDULED_DELAY="3600000")
        browsed = msgspec.json.decode(daybook(broker, "browse", "jobs", "--json"))
        (message,) = browsed["messages"]
        assert message["state"] == "scheduled"
        assert 3_500_000 < message["due"] - now_ms() <= 3_600_000
        wire.send("SUBSCRIBE", id="s", destination="/queue/jobs")
        answer = daybook(broker, "queue", "deliver-scheduled", "jobs")
        assert answer == "queue 'jobs': 1 message made ready\n"
        assert wire.expect("MESSAGE").body == b"x"
        answer = daybook(broker, "queue", "deliver-scheduled", "jobs")
        assert answer == "queue 'jobs': none were scheduled\n"

    def told() -> str:
        story = journal(broker, "inspect")
        return story if "Delivered" in story else ""

    story = wait_for(told, "the journal")
    assert story.index("due 20") < story.index("Due")
    assert story.index("an administrator asked for it") < story.index("Delivered")


def test_it_expires_while_it_waits(broker: BrokerProcess) -> None:
    broker.stop()
    broker.configure("[broker]\nmessage-expiry-scan-period = 100\n" + NO_LIMIT)
    broker.start()
    with Wire(broker.port) as wire:
        wire.connect()
        send(wire, b"x", AMQ_SCHEDULED_DELAY="3600000", ttl="300")
        while figures(broker)["messages"]:
            time.sleep(0.05)
        assert figures(broker)["expired"] == 1


@pytest.mark.parametrize("value", ["soon", "-1", "1.5", "", "9" * 30])
def test_wrong_values_are_an_error(shared_broker: BrokerProcess, value: str) -> None:
    for header in ("AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_TIME", "_AMQ_SCHED_DELIVERY"):
        with Wire(shared_broker.port) as wire:
            wire.connect()
            wire.send("SEND", b"x", destination="/queue/jobs", **{header: value})
            error = wire.expect("ERROR")
            assert error.headers["message"].startswith(f"{header} is ")
            assert b"0 for at once" in error.body


def test_another_priority_and_another_queue_do_not_hasten_it(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        wire.connect()
        begun = now_ms()
        send(wire, b"later", AMQ_SCHEDULED_DELAY=str(2 * DELAY_MS))
        daybook(broker, "queue", "priority", "jobs", "9")
        daybook(broker, "queue", "create", "other", "--address", "other")
        daybook(broker, "queue", "move", "jobs", "other")
        wire.send("SUBSCRIBE", id="s", destination="/queue/other")
        assert wire.expect("MESSAGE").body == b"later"
        assert now_ms() >= begun + 2 * DELAY_MS


@pytest.mark.parametrize("name", ["CRON", "PERIOD", "REPEAT"])
def test_a_refused_repetition_says_at_once_what_to_use(
    shared_broker: BrokerProcess, name: str
) -> None:
    with Wire(shared_broker.port) as wire:
        wire.connect()
        wire.send("SEND", b"x", destination="/queue/a", **{f"AMQ_SCHEDULED_{name}": "1"})
        first = wire.expect("ERROR").headers["message"]
        assert f"AMQ_SCHEDULED_{name}" in first
        assert "`daybook send`" in first
        assert "AMQ_SCHEDULED_DELAY" in first
        assert "Recurring messages" in first


def test_a_consumer_repeats_a_message_through_kills(broker: BrokerProcess) -> None:
    """As docs/stomp.md says: the next one is sent in the transaction of the ACK."""
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send("SEND", b"poll", destination="/queue/poll", receipt="r")
        wire.expect("RECEIPT")
    for _ in range(3):
        with Wire(broker.port) as wire:
            wire.connect()
            wire.send("SUBSCRIBE", destination="/queue/poll", id="1", ack="client-individual")
            message = wire.expect("MESSAGE")
            assert message.body == b"poll"
            wire.send("BEGIN", transaction="t")
            wire.send("ACK", id=message.headers["ack"], transaction="t")
            wire.send(
                "SEND", b"poll", destination="/queue/poll", transaction="t",
                AMQ_SCHEDULED_DELAY=str(DELAY_MS),
            )  # fmt: skip
            wire.send("COMMIT", transaction="t", receipt="c")
            wire.expect("RECEIPT")
        broker.kill()
        broker.start()
        assert figures(broker)["messages"] == 1


def test_a_timer_on_two_machines_sends_one_message(broker: BrokerProcess) -> None:
    for _ in range(2):
        with Wire(broker.port) as wire:
            wire.connect()
            wire.send(
                "SEND", b"start", destination="/queue/report", receipt="r",
                _AMQ_DUPL_ID="report-2026-11-24",
            )  # fmt: skip
            wire.expect("RECEIPT")
    assert figures(broker)["messages"] == 1
