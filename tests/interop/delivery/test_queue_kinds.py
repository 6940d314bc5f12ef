"""Kinds of queues on a real broker: non-destructive, last value, ring, exclusive."""

import time
from typing import Any

import pytest
from click.testing import CliRunner

from daybook.tools import daybook as daybook_commands
from daybook.tools import journal_cli
from tests.interop.using import daybook, queues
from tests.interop.wire import Closed, Frame, Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

CONFIG = """
[broker]
message-expiry-scan-period = 200

[[address-setting]]
match = "#"
max-delivery-attempts = 2

[[address-setting]]
match = "read.#"
default-non-destructive = true

[[address-setting]]
match = "set.#"
default-last-value-key = "ticker"

[[queue]]
name = "board"
non-destructive = true

[[queue]]
name = "prices"
last-value-key = "ticker"

[[queue]]
name = "latest"
last-value = true

[[queue]]
name = "wall"
last-value-key = "ticker"
non-destructive = true

[[queue]]
name = "alone"
exclusive = true

[[queue]]
name = "alone.ring"
exclusive = true
ring-size = 3

[[queue]]
name = "alone.prices"
exclusive = true
last-value-key = "ticker"

[[queue]]
name = "alone.board"
exclusive = true
non-destructive = true

[[queue]]
name = "two"
max-consumers = 2

[[queue]]
name = "two.board"
max-consumers = 2
non-destructive = true

[[queue]]
name = "two.ring"
max-consumers = 2
ring-size = 3

[[queue]]
name = "none"
max-consumers = 0

[[address-setting]]
match = "two.made"
default-max-consumers = 2

[[address-setting]]
match = "alone.made"
default-exclusive-queue = true

[[queue]]
name = "ring"
ring-size = 3

[[queue]]
name = "rings.made"

[[address-setting]]
match = "rings.#"
default-ring-size = 3

[[address-setting]]
match = "slow.#"
default-ring-size = 3
redelivery-delay = 1500

[[address-setting]]
match = "paged.#"
default-last-value-key = "ticker"
max-size-bytes = 0
page-size-bytes = 4096

[[address-setting]]
match = "paged.ring"
default-last-value-key = ""
default-ring-size = 5
"""


def send(wire: Wire, queue: str, *bodies: bytes, **headers: Any) -> None:
    for body in bodies:
        wire.send("SEND", body, destination=f"/queue/{queue}", receipt="r", **headers)
        wire.expect("RECEIPT")


def subscribe(wire: Wire, queue: str, **headers: str) -> None:
    wire.connect()
    wanted = {"ack": "client-individual", "destination": f"/queue/{queue}", **headers}
    wire.send("SUBSCRIBE", id="s", receipt="s", **wanted)
    wire.expect("RECEIPT")


def messages(wire: Wire, count: int) -> list[Frame]:
    return [wire.expect("MESSAGE") for _ in range(count)]


def bodies(wire: Wire, count: int) -> list[bytes]:
    return [each.body for each in messages(wire, count)]


def settle(wire: Wire, command: str, frame: Frame) -> None:
    wire.send(command, id=frame.headers["ack"], receipt="a")
    wire.expect("RECEIPT")


def nothing_comes(wire: Wire) -> None:
    """A round trip, so that whatever the broker had decided would be there."""
    wire.send("UNSUBSCRIBE", id="none-of-that-name", receipt="end")
    with pytest.raises((Closed, AssertionError)):
        wire.expect("MESSAGE")


def figures(broker: BrokerProcess, queue: str) -> dict[str, Any]:
    return queues(broker)[queue]


def audit_is_clean(broker: BrokerProcess) -> None:
    """The journal verifies, and the audit finds no fault."""
    broker.stop()
    for cli, *words in ((journal_cli.cli, "verify"), (daybook_commands.cli, "pipeline", "audit")):
        done = CliRunner().invoke(cli, [*words, "--data", str(broker.data)])
        assert done.exit_code == 0, done.output


# ---- non-destructive


@pytest.mark.parametrize("queue", ["board", "read.all"])
def test_everybody_reads_everything_and_removes_nothing(
    configured: BrokerProcess, queue: str
) -> None:
    with (
        Wire(configured.port) as first,
        Wire(configured.port) as second,
        Wire(configured.port) as producer,
    ):
        producer.connect()
        send(producer, queue, b"1", b"2")
        subscribe(first, queue)
        got = messages(first, 2)
        assert [each.body for each in got] == [b"1", b"2"]
        settle(first, "ACK", got[0])
        settle(first, "NACK", got[1])
        subscribe(second, queue)
        send(producer, queue, b"3")
        assert bodies(first, 1) == [b"3"]
        assert bodies(second, 3) == [b"1", b"2", b"3"]
        nothing_comes(first)
    row = figures(configured, queue)
    assert (row["ready"], row["in_flight"], row["acknowledged"]) == (3, 0, 0)


def test_a_killed_broker_shows_all_of_it_again(configured: BrokerProcess) -> None:
    with Wire(configured.port) as wire:
        subscribe(wire, "board")
        send_and_read = [(b"%d" % number) for number in range(3)]
        for body in send_and_read:
            wire.send("SEND", body, destination="/queue/board")
        got = messages(wire, 3)
        settle(wire, "ACK", got[2])
    configured.kill()
    configured.start()
    with Wire(configured.port) as wire:
        subscribe(wire, "board")
        again = messages(wire, 3)
        assert [each.body for each in again] == send_and_read
        assert not any("redelivered" in each.headers for each in again)
    audit_is_clean(configured)


def test_expiry_and_purge_remove_from_it(configured: BrokerProcess) -> None:
    with Wire(configured.port) as first:
        subscribe(first, "board")
        send(first, "board", b"long")
        assert bodies(first, 1) == [b"long"]
        first.send("SEND", b"short", destination="/queue/board", ttl="300")
        assert bodies(first, 1) == [b"short"]
        while figures(configured, "board")["ready"] == 2:
            time.sleep(0.1)
    with Wire(configured.port) as second:
        subscribe(second, "board")
        assert bodies(second, 1) == [b"long"]
    daybook(configured, "queue", "purge", "board")
    with Wire(configured.port) as third:
        subscribe(third, "board")
        nothing_comes(third)


def test_a_transaction_and_a_selector_over_it(configured: BrokerProcess) -> None:
    with Wire(configured.port) as wire, Wire(configured.port) as some:
        subscribe(wire, "board")
        send_headers = {"region": "eu"}
        wire.send("SEND", b"a", destination="/queue/board", **send_headers)
        wire.send("SEND", b"b", destination="/queue/board", region="us")
        got = messages(wire, 2)
        wire.send("BEGIN", transaction="t")
        wire.send("ACK", id=got[0].headers["ack"], transaction="t")
        wire.send("COMMIT", transaction="t", receipt="c")
        wire.expect("RECEIPT")
        subscribe(some, "board", selector="region = 'us'")
        assert bodies(some, 1) == [b"b"]
        nothing_comes(some)


# ---- last value


@pytest.mark.parametrize("queue", ["prices", "set.prices", "latest"])
def test_only_the_newest_value_stays(configured: BrokerProcess, queue: str) -> None:
    name = "_AMQ_LVQ_NAME" if queue == "latest" else "ticker"
    with Wire(configured.port) as wire:
        wire.connect()
        for body, key in ((b"36.83", "A"), (b"12", "B"), (b"37.02", "A")):
            head = f"SEND\ndestination:/queue/{queue}\n{name}:{key}\nreceipt:r\n\n"
            wire.write(head.encode() + body + b"\0")
            wire.expect("RECEIPT")
        send(wire, queue, b"no key")
        send(wire, queue, b"no key either")
        row = figures(configured, queue)
        assert (row["ready"], row["replaced"]) == (4, 1)
        wire.send("SUBSCRIBE", id="s", destination=f"/queue/{queue}", ack="client-individual")
        assert bodies(wire, 4) == [b"12", b"37.02", b"no key", b"no key either"]


@pytest.mark.parametrize("end", ["close", "drop", "kill", "acknowledge"])
def test_a_value_in_delivery_is_not_replaced_until_it_returns(
    configured: BrokerProcess, end: str
) -> None:
    with Wire(configured.port) as producer, Wire(configured.port) as holder:
        producer.connect()
        send(producer, "prices", b"A", ticker="k")
        subscribe(holder, "prices", credit="1,0")
        (first,) = messages(holder, 1)
        send(producer, "prices", b"B", ticker="k")
        row = figures(configured, "prices")
        assert (row["ready"], row["in_flight"]) == (1, 1)
        if end == "acknowledge":
            settle_with_message(holder, first, b"B")
        elif end == "kill":
            configured.kill()
            configured.start()
        elif end == "close":
            holder.send("UNSUBSCRIBE", id="s", receipt="u")
            holder.expect("RECEIPT")
        else:
            holder.close()
    if end != "acknowledge":
        with Wire(configured.port) as other:
            subscribe(other, "prices")
            assert bodies(other, 1) == [b"B"]
            nothing_comes(other)
    assert figures(configured, "prices")["replaced"] == int(end != "acknowledge")
    audit_is_clean(configured)


def settle_with_message(wire: Wire, frame: Frame, following: bytes) -> None:
    """Acknowledge, and get the credit back and with it the next message."""
    wire.send("ACK", id=frame.headers["ack"], receipt="a")
    found = {each.command: each.body for each in (wire.read(), wire.read())}
    assert found["MESSAGE"] == following


def test_readers_of_a_wall_get_the_newest_of_each_and_then_changes(
    configured: BrokerProcess,
) -> None:
    with Wire(configured.port) as producer, Wire(configured.port) as reader:
        producer.connect()
        for number in range(6):
            send(producer, "wall", b"%d" % number, ticker="AB"[number % 2])
        subscribe(reader, "wall")
        assert bodies(reader, 2) == [b"4", b"5"]
        send(producer, "wall", b"6", ticker="A")
        assert bodies(reader, 1) == [b"6"]
    with Wire(configured.port) as later:
        subscribe(later, "wall")
        assert bodies(later, 2) == [b"5", b"6"]


def test_paged_values_are_replaced_also_after_a_kill(configured: BrokerProcess) -> None:
    count = 40
    with Wire(configured.port) as wire:
        wire.connect()
        for number in range(3 * count):
            send(wire, "paged.prices", b"%d" % number, ticker=str(number % count))
    configured.kill()
    configured.start()
    with Wire(configured.port) as wire:
        wire.connect()
        for number in range(0, count, 2):
            send(wire, "paged.prices", b"new %d" % number, ticker=str(number))
        wire.send("SUBSCRIBE", id="s", destination="/queue/paged.prices", ack="auto")
        expected = [b"%d" % (2 * count + number) for number in range(1, count, 2)]
        expected += [b"new %d" % number for number in range(0, count, 2)]
        assert bodies(wire, count) == expected
        nothing_comes(wire)
    audit_is_clean(configured)


def test_a_transaction_and_an_expiry_over_values(configured: BrokerProcess) -> None:
    with Wire(configured.port) as wire:
        wire.connect()
        send(wire, "prices", b"old", ticker="k")
        wire.send("BEGIN", transaction="t")
        wire.send("SEND", b"1", destination="/queue/prices", ticker="k", transaction="t")
        wire.send("SEND", b"2", destination="/queue/prices", ticker="k", transaction="t")
        wire.send("COMMIT", transaction="t", receipt="c")
        wire.expect("RECEIPT")
        assert figures(configured, "prices")["ready"] == 1
        send(wire, "prices", b"short", ticker="k", ttl="300")
        while figures(configured, "prices")["ready"]:
            time.sleep(0.1)
        send(wire, "prices", b"next", ticker="k")
        wire.send("SUBSCRIBE", id="s", destination="/queue/prices", ack="auto")
        assert bodies(wire, 1) == [b"next"]


# ---- ring

RINGS = ("ring", "rings.made", "rings.on.demand")


@pytest.mark.parametrize("queue", RINGS)
def test_a_ring_of_three_with_a_b_c_d(configured: BrokerProcess, queue: str) -> None:
    with Wire(configured.port) as wire:
        wire.connect()
        send(wire, queue, b"A", b"B", b"C")
        assert figures(configured, queue)["ready"] == 3
        send(wire, queue, b"D")
        row = figures(configured, queue)
        assert (row["ready"], row["evicted"]) == (3, 1)
        wire.send("SUBSCRIBE", id="s", destination=f"/queue/{queue}", ack="auto")
        assert bodies(wire, 3) == [b"B", b"C", b"D"]
        nothing_comes(wire)


@pytest.mark.parametrize("end", ["close", "drop", "kill", "abort"])
def test_what_returns_puts_a_ring_over_its_size(configured: BrokerProcess, end: str) -> None:
    with Wire(configured.port) as producer, Wire(configured.port) as consumer:
        subscribe(consumer, "ring")
        producer.connect()
        send(producer, "ring", b"A", b"B", b"C")
        got = messages(consumer, 3)
        row = figures(configured, "ring")
        assert (row["ready"], row["in_flight"]) == (0, 3)
        send(producer, "ring", b"D")
        got += messages(consumer, 1)
        assert [each.body for each in got] == [b"A", b"B", b"C", b"D"]
        row = figures(configured, "ring")
        assert (row["ready"], row["in_flight"], row["evicted"]) == (0, 4, 0)
        if end == "abort":
            consumer.send("BEGIN", transaction="t")
            for each in got:
                consumer.send("ACK", id=each.headers["ack"], transaction="t")
            consumer.send("ABORT", transaction="t", receipt="t")
            consumer.expect("RECEIPT")
        if end in ("close", "abort"):
            consumer.send("UNSUBSCRIBE", id="s", receipt="u")
            consumer.expect("RECEIPT")
        elif end == "kill":
            configured.kill()
            configured.start()
        else:
            consumer.close()
    with Wire(configured.port) as other:
        subscribe(other, "ring")
        assert bodies(other, 3) == [b"B", b"C", b"D"]
        nothing_comes(other)
    assert figures(configured, "ring")["evicted"] == 1
    audit_is_clean(configured)


def test_a_message_that_is_due_finds_the_ring_full(configured: BrokerProcess) -> None:
    """It waits for its redelivery as a scheduled message waits for its time."""
    with Wire(configured.port) as wire:
        wire.connect()
        send(wire, "slow.ring", b"A")
        wire.send("SUBSCRIBE", id="s", destination="/queue/slow.ring", ack="client-individual")
        (first,) = messages(wire, 1)
        settle(wire, "NACK", first)
        wire.send("UNSUBSCRIBE", id="s", receipt="u")
        wire.expect("RECEIPT")
        send(wire, "slow.ring", b"B", b"C", b"D")
        row = figures(configured, "slow.ring")
        assert (row["ready"], row["scheduled"], row["evicted"]) == (3, 1, 0)
        while figures(configured, "slow.ring")["scheduled"]:
            time.sleep(0.1)
        wire.send("SUBSCRIBE", id="s", destination="/queue/slow.ring", ack="auto")
        assert bodies(wire, 3) == [b"B", b"C", b"D"]
    assert figures(configured, "slow.ring")["evicted"] == 1


def scheduled(wire: Wire, queue: str, body: bytes, milliseconds: int, key: str = "") -> None:
    head = f"SEND\ndestination:/queue/{queue}\nAMQ_SCHEDULED_DELAY:{milliseconds}\nreceipt:r\n"
    head += f"ticker:{key}\n" if key else ""
    wire.write(head.encode() + b"\n" + body + b"\0")
    wire.expect("RECEIPT")


def test_a_scheduled_message_finds_the_ring_full(configured: BrokerProcess) -> None:
    """The example of 12:05; an administrator makes it due."""
    with Wire(configured.port) as wire:
        wire.connect()
        scheduled(wire, "ring", b"A", 3_600_000)
        counts = []
        for body in (b"B", b"C", b"D"):
            send(wire, "ring", body)
            row = figures(configured, "ring")
            counts.append((row["ready"], row["scheduled"], row["evicted"]))
        assert counts == [(1, 1, 0), (2, 1, 0), (3, 1, 0)]
        daybook(configured, "queue", "deliver-scheduled", "ring")
        wire.send("SUBSCRIBE", id="s", destination="/queue/ring", ack="auto")
        assert bodies(wire, 3) == [b"B", b"C", b"D"]
    assert figures(configured, "ring")["evicted"] == 1
    audit_is_clean(configured)


def test_a_scheduled_value_replaces_when_it_is_due(configured: BrokerProcess) -> None:
    with Wire(configured.port) as wire:
        wire.connect()
        scheduled(wire, "wall", b"due", 1_500, key="k")
        send(wire, "wall", b"now", ticker="k")
        wire.send("SUBSCRIBE", id="s", destination="/queue/wall", ack="auto")
        assert bodies(wire, 2) == [b"now", b"due"]
        row = figures(configured, "wall")
        assert (row["ready"], row["replaced"]) == (1, 1)
    audit_is_clean(configured)


def test_a_smaller_ring_shrinks_with_what_is_consumed(configured: BrokerProcess) -> None:
    with Wire(configured.port) as wire:
        wire.connect()
        send(wire, "ring", b"A", b"B", b"C")
        daybook(configured, "queue", "update", "ring", "--ring-size", "1")
        assert figures(configured, "ring")["ready"] == 3
        send(wire, "ring", b"D")
        assert figures(configured, "ring")["ready"] == 3
        wire.send("SUBSCRIBE", id="s", destination="/queue/ring", ack="client", credit="2,0")
        assert bodies(wire, 2) == [b"B", b"C"]
        send(wire, "ring", b"E")
        assert figures(configured, "ring")["ready"] == 1


def test_a_ring_on_an_address_that_pages(configured: BrokerProcess) -> None:
    with Wire(configured.port) as wire:
        wire.connect()
        send(wire, "paged.ring", *(b"%d" % number for number in range(40)))
    configured.kill()
    configured.start()
    with Wire(configured.port) as wire:
        wire.connect()
        send(wire, "paged.ring", b"40")
        assert figures(configured, "paged.ring")["ready"] == 5
        wire.send("SUBSCRIBE", id="s", destination="/queue/paged.ring", ack="auto")
        assert bodies(wire, 5) == [b"%d" % number for number in range(36, 41)]
    audit_is_clean(configured)


# ---- exclusive, and how many may consume


@pytest.mark.parametrize("queue", ["alone", "alone.made", "alone.ring", "alone.prices"])
def test_an_exclusive_queue_fails_over_in_order(configured: BrokerProcess, queue: str) -> None:
    with (
        Wire(configured.port) as producer,
        Wire(configured.port) as first,
        Wire(configured.port) as second,
    ):
        subscribe(first, queue)
        subscribe(second, queue)
        producer.connect()
        for number in range(3):
            send(producer, queue, b"%d" % number, ticker=str(number))
        got = messages(first, 3)
        settle(first, "ACK", got[0])
        first.close()
        assert bodies(second, 2) == [b"1", b"2"]
        send(producer, queue, b"3", ticker="3")
        assert bodies(second, 1) == [b"3"]
    row = figures(configured, queue)
    assert row["acknowledged"] == 1
    audit_is_clean(configured)


def test_an_exclusive_queue_that_is_read_shows_itself_to_the_next(
    configured: BrokerProcess,
) -> None:
    with Wire(configured.port) as first, Wire(configured.port) as second:
        subscribe(first, "alone.board")
        subscribe(second, "alone.board")
        send(second, "alone.board", b"1", b"2")
        got = messages(first, 2)
        settle(first, "ACK", got[0])
        first.send("UNSUBSCRIBE", id="s", receipt="u")
        first.expect("RECEIPT")
        assert bodies(second, 2) == [b"1", b"2"]
        nothing_comes(first)


def refused(broker: BrokerProcess, queue: str) -> str:
    """Return the text of the ERROR for one consumer too many."""
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send("SUBSCRIBE", id="s", destination=f"/queue/{queue}", receipt="s")
        return wire.expect("ERROR").body.decode()


@pytest.mark.parametrize("queue", ["two", "two.made", "two.board", "two.ring"])
def test_there_are_no_more_consumers_than_there_may_be(
    configured: BrokerProcess, queue: str
) -> None:
    with Wire(configured.port) as first, Wire(configured.port) as second:
        subscribe(first, queue)
        subscribe(second, queue)
        assert "max-consumers is 2" in refused(configured, queue)
        first.send("UNSUBSCRIBE", id="s", receipt="u")
        first.expect("RECEIPT")
        with Wire(configured.port) as third:
            subscribe(third, queue)
            assert "max-consumers is 2" in refused(configured, queue)


def test_nobody_consumes_where_nobody_may(configured: BrokerProcess) -> None:
    assert "max-consumers is 0" in refused(configured, "none")
    with Wire(configured.port) as wire:
        wire.connect()
        send(wire, "none", b"waits")
    assert figures(configured, "none")["ready"] == 1
