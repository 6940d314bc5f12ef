"""Administration of messages on a real broker, as clients and history see it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.interop.using import connected, daybook, journal, rows, run
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

CONFIG = """
[[address-setting]]
match = "#"
max-delivery-attempts = 1
dead-letter-address = "DLQ"
expiry-address = "expired"
"""


def browsed(broker: BrokerProcess, *words: str) -> list[dict[str, Any]]:
    answer = msgspec.json.decode(daybook(broker, "browse", *words, "--json"))
    found: list[dict[str, Any]] = answer["messages"]
    return found


def sent(wire: Wire, destination: str, *bodies: bytes, **headers: str) -> None:
    for body in bodies:
        wire.send("SEND", body, destination=destination, receipt="r", **headers)
        wire.expect("RECEIPT")


def taken(broker: BrokerProcess, destination: str, count: int) -> list[bytes]:
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="t", destination=destination, ack="auto")
        return [wire.expect("MESSAGE").body for _ in range(count)]


def test_move_copy_and_remove_by_a_filter(broker: BrokerProcess) -> None:
    daybook(broker, "queue", "create", "big")
    daybook(broker, "queue", "create", "spare")
    with connected(broker) as wire:
        sent(wire, "/queue/q", b"b1", b"b2", size="9")
        sent(wire, "/queue/q", b"s1", b"s2", size="1")
    assert len(browsed(broker, "q", "--filter", "size > 5")) == 2
    said = daybook(broker, "queue", "copy", "q", "spare", "--filter", "size > 5")
    assert said == "copied 2 messages to queue 'spare'\n"
    said = daybook(broker, "queue", "move", "q", "big", "--filter", "size > 5")
    assert said == "moved 2 messages to queue 'big'\n"
    (first, _) = browsed(broker, "q")
    assert daybook(broker, "queue", "remove", "q", "--message", str(first["message"])) == (
        "removed 1 message\n"
    )
    broker.kill()
    broker.start()
    assert taken(broker, "/queue/big", 2) == taken(broker, "/queue/spare", 2) == [b"b1", b"b2"]
    assert taken(broker, "/queue/q", 1) == [b"s2"]


def test_dead_letters_are_retried_and_history_links_them(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=CONFIG) as broker, connected(broker.start()) as w:
        w.send("SUBSCRIBE", id="s", destination="/queue/jobs", ack="client-individual")
        for body in (b"one", b"two"):
            w.send("SEND", body, destination="/queue/jobs")
            message = w.expect("MESSAGE")
            w.send("NACK", id=message.headers["ack"], receipt="n")
            w.expect("RECEIPT")
        w.send("UNSUBSCRIBE", id="s", receipt="u")
        w.expect("RECEIPT")
        (letter, _) = browsed(broker, "DLQ")
        assert daybook(broker, "queue", "retry", "DLQ") == "sent 2 messages back\n"
        (again, _) = browsed(broker, "jobs")
        assert "_AMQ_ORIG_QUEUE" not in again["headers"]
        assert taken(broker, "/queue/jobs", 2) == [b"one", b"two"]

        def told() -> str:
            return journal(broker, "trail", str(again["message"]))

        wait_for(lambda: f"went on as message {again['message']}" in told(), "the trail")
        assert f"made from message {letter['message']}" in told()
        counters = rows(broker, "queue")["jobs"]
        assert counters["dead_lettered"] == 2
        assert (counters["added"], counters["acknowledged"]) == (4, 2)
        assert rows(broker, "address")["jobs"]["routed"] == 4


def test_expire_and_priority(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=CONFIG) as broker, connected(broker.start()) as w:
        sent(w, "/queue/q", b"first", b"second", b"third")
        last = browsed(broker, "q")[2]["message"]
        assert daybook(broker, "queue", "priority", "q", "9", "--message", str(last)) == (
            "gave 1 message priority 9\n"
        )
        assert [row["body"] for row in browsed(broker, "q")] == ["third", "first", "second"]
        assert daybook(broker, "queue", "expire", "q", "--filter", "AMQPriority < 9") == (
            "expired 2 messages\n"
        )
        assert taken(broker, "/queue/expired", 2) == [b"first", b"second"]
        assert taken(broker, "/queue/q", 1) == [b"third"]


def test_many_messages_in_slices(broker: BrokerProcess) -> None:
    daybook(broker, "queue", "create", "other")
    with connected(broker) as wire:
        for _ in range(2999):
            wire.send("SEND", b"x", destination="/queue/q")
        sent(wire, "/queue/q", b"x")
    said = daybook(broker, "queue", "move", "q", "other")
    assert said == "moved 3,000 messages to queue 'other'\n"
    found = rows(broker, "queue")
    assert (found["other"]["ready"], found["q"]["ready"]) == (3000, 0)


def test_what_is_wrong_is_refused(broker: BrokerProcess) -> None:
    daybook(broker, "queue", "create", "q")
    for words, why in (
        (("move", "q", "none"), "there is no queue 'none'"),
        (("remove", "q"), "choose messages with --filter or --message"),
        (("copy", "q", "q"), "is the target itself"),
        (("retry", "q", "--filter", "a ="), "the filter is wrong"),
        (("expire", "q", "--filter", "a = 1", "--message", "3"), "exclude each other"),
    ):
        done = run(broker, "queue", *words)
        assert done.returncode
        assert why in done.stderr
