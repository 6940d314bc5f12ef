"""Browsers and sequences on a real broker: what each sentence of Apollo's manual promises, in the
order of its sections.

| sentence | test |
|---|---|
| "browse all the messages ... non-destructive" | `..._in_a_non_destructive_fashion` |
| "also works with durable subscriptions" | `..._also_work_with_durable_subscriptions` |
| "a special end of browse message", with the example | `..._end_with_a_special_message` |
| "should not expect any more messages" | `..._get_no_more_messages_after_the_end` |
| "browser-end:false ... continue to listen" | `..._listen_with_browser_end_false` |
| "assigned an incrementing sequence number", example | `..._grow_with_each_message` |
| "equal to or greater than a requested value" | `..._from_a_requested_value` |
| "If the from-seq is set to -1 ... new messages" | `..._from_the_tail` |
| "with a wildcard or composite destination ... closed" | `test_invalid_usage_...` |
| "multiple browsers against one queue ... broadcast" | `..._by_browsers_broadcast` |
| "on restart ... continues receiving", "once and only once" | `..._resume_after_a_kill` |
| "0 to start receiving at the head" | `..._by_browsers_broadcast` |
| "-1 to start receiving at the tail" | `..._skip_what_is_there_from_the_tail` |
| "Send messages to the queue with an expiration time" | `..._with_messages_that_expire` |
| "Periodically run a normal consumer application" | `..._with_a_consumer_that_cleans_up` |
"""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.interop.using import connected, daybook, queues, sent
from tests.interop.wire import Frame, Wire
from tests.meta import tree
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

PAGED = """
[broker]
message-expiry-scan-period = 200
address-queue-scan-period = 200

[[address-setting]]
match = "paged.#"
max-size-bytes = 0
page-size-bytes = 4096
"""

EXAMPLE = tree.ROOT / "docs" / "examples" / "browsing_subscriber.py"
LISTENING = {"browser": "true", "browser_end": "false"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for all tests; each uses names of its own."""
    directory = tmp_path_factory.mktemp("browsing") / "data"
    with BrokerProcess(directory, config=PAGED) as process:
        yield process.start()
        assert process.stop() == 0, process.log_text()


def fill(broker: BrokerProcess, destination: str, *bodies: bytes, **headers: str) -> None:
    with connected(broker) as wire:
        for body in bodies:
            sent(wire, destination, body, **headers)


def subscribe(wire: Wire, destination: str, **headers: str) -> None:
    wire.send("SUBSCRIBE", id="s", destination=destination, **headers)


def until_end(wire: Wire) -> list[Frame]:
    """Return the messages that a browser gets before the end message."""
    found = []
    while (frame := wire.expect("MESSAGE")).headers.get("browser") != "end":
        found.append(frame)
    return found


def read_all(broker: BrokerProcess, destination: str, **headers: str) -> list[bytes]:
    with connected(broker) as wire:
        subscribe(wire, destination, browser="true", **headers)
        return [frame.body for frame in until_end(wire)]


def of(broker: BrokerProcess, queue: str) -> dict[str, Any]:
    """Return the row of a queue in the output of the command line."""
    return queues(broker)[queue]


# ---- Browsing Subscriptions


def test_browsing_subscriptions_read_all_messages_in_a_non_destructive_fashion(
    broker: BrokerProcess,
) -> None:
    fill(broker, "/queue/all", b"a", b"b", b"c")
    assert read_all(broker, "/queue/all") == [b"a", b"b", b"c"]
    assert read_all(broker, "/queue/all") == [b"a", b"b", b"c"]
    with connected(broker) as wire:
        subscribe(wire, "/queue/all", ack="client-individual")
        assert [wire.expect("MESSAGE").body for _ in range(3)] == [b"a", b"b", b"c"]


def test_browsing_subscriptions_also_work_with_durable_subscriptions(
    broker: BrokerProcess,
) -> None:
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="kept", destination="/topic/n", persistent="true", receipt="r")
        wire.expect("RECEIPT")
    fill(broker, "/topic/n", b"a", b"b")
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="kept", destination="/topic/n", persistent="true", browser="true")
        assert [frame.body for frame in until_end(wire)] == [b"a", b"b"]
    assert read_all(broker, "/dsub/kept") == [b"a", b"b"]
    assert read_all(broker, "n::dsub.kept") == [b"a", b"b"]
    assert of(broker, "dsub.kept")["messages"] == 2


def test_browsing_subscriptions_end_with_a_special_message(broker: BrokerProcess) -> None:
    fill(broker, "/queue/end", b"a")
    with connected(broker) as wire:
        subscribe(wire, "/queue/end", browser="true")
        wire.expect("MESSAGE")
        end = wire.expect("MESSAGE")
        assert end.headers == {
            "subscription": "s", "destination": "", "message-id": "", "browser": "end",
        }  # fmt: skip
        assert end.body == b""


def test_browsing_subscriptions_get_no_more_messages_after_the_end(broker: BrokerProcess) -> None:
    with connected(broker) as wire:
        subscribe(wire, "/queue/over", browser="true")
        assert until_end(wire) == []
        sent(wire, "/queue/over", b"late")
        wire.send("UNSUBSCRIBE", id="s", receipt="u")
        assert wire.expect("RECEIPT").headers["receipt-id"] == "u"
        subscribe(wire, "/queue/over", browser="true")
        assert [frame.body for frame in until_end(wire)] == [b"late"]


def test_browsing_subscriptions_listen_with_browser_end_false(broker: BrokerProcess) -> None:
    fill(broker, "/queue/listen", b"a")
    with connected(broker) as wire:
        subscribe(wire, "/queue/listen", **LISTENING)
        assert wire.expect("MESSAGE").body == b"a"
        for body in (b"b", b"c"):
            sent(wire, "/queue/listen", body)
            assert wire.expect("MESSAGE").body == body


def test_browsing_with_a_selector(broker: BrokerProcess) -> None:
    for color in ("red", "blue", "red"):
        fill(broker, "/queue/colors", color.encode(), color=color)
    assert read_all(broker, "/queue/colors", selector="color = 'blue'") == [b"blue"]
    assert read_all(broker, "/queue/colors", filter="color = 'none'") == []


def test_browsing_a_paged_queue(broker: BrokerProcess) -> None:
    bodies = [b"%d" % number * 100 for number in range(400)]
    with connected(broker) as wire:
        for body in bodies[:-1]:
            wire.send("SEND", body, destination="/queue/paged.a")
        sent(wire, "/queue/paged.a", bodies[-1])
    deadline = time.monotonic() + 20
    while not of(broker, "paged.a")["paging"] and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1.5)
    assert read_all(broker, "/queue/paged.a") == bodies
    with connected(broker) as wire:
        subscribe(wire, "/queue/paged.a", browser="true", include_seq="seq", from_seq="0")
        numbers = [int(frame.headers["seq"]) for frame in until_end(wire)]
    assert numbers == sorted(numbers)
    assert len(numbers) == len(bodies)
    assert read_all(broker, "/queue/paged.a", from_seq=str(numbers[300])) == bodies[300:]
    assert of(broker, "paged.a")["messages"] == len(bodies)


def test_browsing_shows_what_is_in_delivery_and_not_what_is_scheduled(
    broker: BrokerProcess,
) -> None:
    fill(broker, "/queue/flight", b"a", b"b")
    fill(broker, "/queue/flight", b"later", AMQ_SCHEDULED_DELAY="600000")
    with connected(broker) as consumer:
        subscribe(consumer, "/queue/flight", ack="client-individual", credit="1,0")
        assert consumer.expect("MESSAGE").body == b"a"
        assert read_all(broker, "/queue/flight") == [b"a", b"b"]


def test_browsing_never_shows_expired_messages(broker: BrokerProcess) -> None:
    fill(broker, "/queue/old", b"old", ttl="300")
    fill(broker, "/queue/old", b"new")
    time.sleep(0.5)
    assert read_all(broker, "/queue/old") == [b"new"]


def test_browsing_does_not_count_as_consuming(broker: BrokerProcess) -> None:
    daybook(broker, "queue", "create", "one", "--max-consumers", "1", "--exclusive")
    fill(broker, "/queue/one", b"a")
    with connected(broker) as reader, connected(broker) as consumer:
        subscribe(reader, "/queue/one", **LISTENING)
        assert reader.expect("MESSAGE").body == b"a"
        subscribe(consumer, "/queue/one", ack="client-individual")
        message = consumer.expect("MESSAGE")
        assert "redelivered" not in message.headers
        assert of(broker, "one")["consumers"] == 1
        assert of(broker, "one")["browsers"] == 1


def test_browsing_with_credit_and_acknowledgements(broker: BrokerProcess) -> None:
    fill(broker, "/queue/credit", b"a", b"b")
    with connected(broker) as wire:
        subscribe(wire, "/queue/credit", browser="true", ack="client-individual", credit="1,0")
        first = wire.expect("MESSAGE")
        wire.send("ACK", id=first.headers["ack"])
        second = wire.expect("MESSAGE")
        assert wire.expect("MESSAGE").headers["browser"] == "end"
        wire.send("NACK", id=second.headers["ack"], receipt="n")
        wire.expect("RECEIPT")
    assert of(broker, "credit")["ready"] == 2


def test_browsing_a_hanging_browser_holds_nothing_back(broker: BrokerProcess) -> None:
    body = b"x" * 10_000
    with Wire(broker.port, receive_buffer=4096) as hanging, connected(broker) as wire:
        hanging.connect()
        subscribe(hanging, "/queue/hang", **LISTENING)
        subscribe(wire, "/queue/hang")
        for _ in range(500):
            wire.send("SEND", body, destination="/queue/hang")
            assert wire.expect("MESSAGE").body == body


def test_browsing_ends_with_the_queue(broker: BrokerProcess) -> None:
    fill(broker, "/queue/gone", b"a")
    with connected(broker) as wire:
        subscribe(wire, "/queue/gone", **LISTENING)
        wire.expect("MESSAGE")
        daybook(broker, "queue", "delete", "gone", "--force")
        assert until_end(wire) == []


@pytest.mark.parametrize(
    ("destination", "headers", "part"),
    [
        ("/topic/x", {"browser": "true"}, "keeps no messages to browse"),
        ("/topic/x", {"browser": "true", "persistent": "true"}, "no durable subscription"),
        ("/queue/x", {"browser": "true", "priority": "5"}, "a browser that has a priority"),
        ("/topic/x.*", {"from_seq": "5"}, "cannot be used with wildcards"),
        ("/queue/a,/queue/b", {"from_seq": "5"}, "may be several destinations"),
        ("/queue/x", {"include_seq": "destination"}, "include-seq is 'destination'"),
    ],
)
def test_invalid_usage_closes_the_connection(
    broker: BrokerProcess, destination: str, headers: dict[str, str], part: str
) -> None:
    with connected(broker) as wire:
        subscribe(wire, destination, **headers)
        assert part in wire.expect("ERROR").headers["message"]
        assert wire.at_end()


# ---- Queue Message Sequences


def test_queue_message_sequences_grow_with_each_message(broker: BrokerProcess) -> None:
    fill(broker, "/queue/seq", b"Hello", b"World")
    with connected(broker) as wire:
        subscribe(wire, "/queue/seq", include_seq="seq")
        first, second = wire.expect("MESSAGE"), wire.expect("MESSAGE")
        assert [first.body, second.body] == [b"Hello", b"World"]
        assert 0 < int(first.headers["seq"]) < int(second.headers["seq"])


def test_queue_message_sequences_from_a_requested_value(broker: BrokerProcess) -> None:
    fill(broker, "/queue/from", b"a", b"b", b"c")
    with connected(broker) as wire:
        subscribe(wire, "/queue/from", browser="true", include_seq="n")
        numbers = [frame.headers["n"] for frame in until_end(wire)]
    with connected(broker) as wire:
        subscribe(wire, "/queue/from", from_seq=numbers[1])
        assert [wire.expect("MESSAGE").body for _ in range(2)] == [b"b", b"c"]
    with connected(broker) as wire:
        subscribe(wire, "/queue/from")
        assert wire.expect("MESSAGE").body == b"a"


def test_queue_message_sequences_from_the_tail(broker: BrokerProcess) -> None:
    fill(broker, "/queue/tail", b"old")
    with connected(broker) as wire:
        subscribe(wire, "/queue/tail", from_seq="-1")
        sent(wire, "/queue/tail", b"new")
        assert wire.expect("MESSAGE").body == b"new"


# ---- Using Queue Browsers to Implement Durable Topic Subscriptions


def test_durable_topics_by_browsers_broadcast(broker: BrokerProcess) -> None:
    fill(broker, "/queue/cast", b"a")
    with connected(broker) as first, connected(broker) as second:
        for wire in (first, second):
            subscribe(wire, "/queue/cast", from_seq="0", include_seq="seq", **LISTENING)
            assert wire.expect("MESSAGE").body == b"a"
        fill(broker, "/queue/cast", b"b")
        numbers = [wire.expect("MESSAGE").headers["seq"] for wire in (first, second)]
        assert numbers[0] == numbers[1]


def test_durable_topics_by_browsers_skip_what_is_there_from_the_tail(
    broker: BrokerProcess,
) -> None:
    fill(broker, "/queue/skip", b"a")
    with connected(broker) as wire:
        subscribe(wire, "/queue/skip", from_seq="-1", include_seq="seq", **LISTENING)
        sent(wire, "/queue/skip", b"b")
        assert wire.expect("MESSAGE").body == b"b"


def test_durable_topics_by_browsers_resume_after_a_kill(tmp_path_factory: Any) -> None:
    directory = tmp_path_factory.mktemp("resume") / "data"
    with BrokerProcess(directory, config=PAGED) as process:
        process.start()
        seen: list[bytes] = []
        last = 0
        for turn in range(3):
            fill(process, "/queue/paged.r", b"%d-a" % turn, b"%d-b" % turn)
            fill(process, "/queue/paged.r", b"%d-c" % turn, priority="9")
            with connected(process) as wire:
                # The unit of work: a body and its number, together.
                first = str(last + 1) if last else "0"
                subscribe(wire, "/queue/paged.r", from_seq=first, include_seq="seq", **LISTENING)
                for _ in range(2 if turn == 0 else 3):
                    frame = wire.expect("MESSAGE")
                    assert int(frame.headers["seq"]) > last
                    seen.append(frame.body)
                    last = int(frame.headers["seq"])
                process.kill()
            process.start()
        with connected(process) as wire:
            subscribe(
                wire, "/queue/paged.r", browser="true", from_seq=str(last + 1), include_seq="seq"
            )
            seen += [frame.body for frame in until_end(wire)]
        assert seen == [b"%d-%c" % (turn, name) for turn in range(3) for name in b"abc"]


def test_durable_topics_by_browsers_with_messages_that_expire(broker: BrokerProcess) -> None:
    fill(broker, "/queue/expire", b"a", ttl="3000")
    with connected(broker) as wire:
        subscribe(wire, "/queue/expire", from_seq="0", include_seq="seq", **LISTENING)
        assert wire.expect("MESSAGE").body == b"a"
        deadline = time.monotonic() + 20
        while of(broker, "expire")["messages"] and time.monotonic() < deadline:
            time.sleep(0.1)
        assert of(broker, "expire")["messages"] == 0
        # The queue stays as long as somebody listens, however short the scans are.
        sent(wire, "/queue/expire", b"b")
        assert wire.expect("MESSAGE").body == b"b"


def test_durable_topics_by_browsers_with_a_consumer_that_cleans_up(broker: BrokerProcess) -> None:
    fill(broker, "/queue/clean", b"a", b"b")
    with connected(broker) as reader, connected(broker) as cleaner:
        subscribe(cleaner, "/queue/clean", ack="client-individual", credit="1,0")
        old = cleaner.expect("MESSAGE")
        # It looks at `a` and keeps it; a subscriber that comes meanwhile does not miss it.
        subscribe(reader, "/queue/clean", from_seq="0", include_seq="seq", **LISTENING)
        assert [reader.expect("MESSAGE").body for _ in range(2)] == [b"a", b"b"]
        cleaner.send("ACK", id=old.headers["ack"])
        assert cleaner.expect("MESSAGE").body == b"b"
    assert read_all(broker, "/queue/clean") == [b"b"]


def test_the_example_of_the_manual_resumes_after_a_kill(tmp_path: Path) -> None:
    database = tmp_path / "prices.db"
    bodies = [f"{number}" for number in range(30)]
    with BrokerProcess(tmp_path / "data") as process:
        process.start()
        for part in (bodies[:10], bodies[10:20], bodies[20:]):
            fill(process, "/queue/prices", *(body.encode() for body in part))
            subscriber = subprocess.Popen(
                [sys.executable, str(EXAMPLE), str(database), "prices", "--port", str(process.port)]
            )
            try:
                _wait_for(lambda last=part[-1]: stored(database)[-1:] == [last])
            finally:
                subscriber.kill()
                subscriber.wait()
            process.kill()
            process.start()
        assert stored(database) == bodies
        assert of(process, "prices")["messages"] == len(bodies)


def stored(database: Path) -> list[str]:
    """The bodies that the example has stored, in the order of their numbers."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(database, timeout=10)) as connection:
        try:
            rows = connection.execute("SELECT body FROM message ORDER BY seq").fetchall()
        except sqlite3.OperationalError:
            return []
    return [body for (body,) in rows]


def _wait_for(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.05)
