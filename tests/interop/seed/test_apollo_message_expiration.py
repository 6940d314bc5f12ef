"""Apollo's manual, "Message Expiration": a test for each sentence that says what happens."""

import time
from collections.abc import Iterator

import pytest

from tests.interop.using import connected, queues, sent
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

FOREVER_MS = 3_600_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for all tests; each uses a queue of its own."""
    directory = tmp_path_factory.mktemp("expiration") / "data"
    config = "[broker]\nmessage-expiry-scan-period = 200\n"
    with BrokerProcess(directory, config=config) as process:
        yield process.start()
        assert process.stop() == 0, process.log_text()


def send(broker: BrokerProcess, queue: str, body: bytes, **headers: str) -> None:
    with connected(broker) as wire:
        sent(wire, f"/queue/{queue}", body, **headers)


def messages_in(broker: BrokerProcess, queue: str) -> int:
    found = queues(broker)
    return found[queue]["messages"] if queue in found else 0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_unconsumed_expired_messages_are_automatically_removed(broker: BrokerProcess) -> None:
    """ "Unconsumed expired messages are automatically removed from the queue." """
    send(broker, "unconsumed", b"late", ttl="1")
    send(broker, "unconsumed", b"kept")
    wait_for(lambda: messages_in(broker, "unconsumed") == 1, "the message")
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="s", destination="/queue/unconsumed")
        assert wire.expect("MESSAGE").body == b"kept"


def test_expires_is_milliseconds_since_the_unix_epoch(broker: BrokerProcess) -> None:
    """ "must be specified as the number of milliseconds since the Unix epoch" """
    later = str(now_ms() + FOREVER_MS)
    send(broker, "expires", b"past", expires=str(now_ms() - 1))
    send(broker, "expires", b"future", expires=later)
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="s", destination="/queue/expires")
        frame = wire.expect("MESSAGE")
        assert (frame.body, frame.headers["expires"]) == (b"future", later)
        wire.send("SEND", b"x", destination="/queue/expires", expires="tomorrow")
        assert "expires is 'tomorrow'" in wire.expect("ERROR").headers["message"]


def test_the_example_with_expires(broker: BrokerProcess) -> None:
    """ "this message will expire on Tue Jun 21 17:02:28 EDT 2011": it did."""
    with connected(broker) as wire:
        wire.write(
            b"SEND\ndestination:/queue/example\nexpires:1308690148000\nreceipt:r\n\n"
            b"this message will expire on Tue Jun 21 17:02:28 EDT 2011\0"
        )
        wire.expect("RECEIPT")
        sent(wire, "/queue/example", b"next")
        wire.send("SUBSCRIBE", id="s", destination="/queue/example")
        assert wire.expect("MESSAGE").body == b"next"


def test_ttl_is_milliseconds_from_when_the_server_receives_the_message(
    broker: BrokerProcess,
) -> None:
    """ "the number of milliseconds from when the server receives the message. The broker will add
    an expires header to the message on your behalf." """
    before = now_ms()
    send(broker, "ttl", b"x", ttl=str(FOREVER_MS))
    after = now_ms()
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="s", destination="/queue/ttl")
        headers = wire.expect("MESSAGE").headers
    assert before + FOREVER_MS <= int(headers["expires"]) <= after + FOREVER_MS
    assert "ttl" not in headers


def test_the_example_with_ttl(broker: BrokerProcess) -> None:
    """ "This message will expire in 2 seconds." """
    sent_at = time.monotonic()
    send(broker, "short", b"This message will expire in 2 seconds.", ttl="2000")
    if time.monotonic() < sent_at + 1:
        assert messages_in(broker, "short") == 1 or time.monotonic() > sent_at + 2
    wait_for(lambda: messages_in(broker, "short") == 0, "the message to expire")
    assert time.monotonic() >= sent_at + 2


def test_of_both_headers_the_earlier_time_counts(broker: BrokerProcess) -> None:
    """The manual does not say it: nobody wants the message after either time."""
    soon = now_ms() + FOREVER_MS // 2
    send(broker, "both", b"x", ttl=str(FOREVER_MS), expires=str(soon))
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="s", destination="/queue/both")
        assert wire.expect("MESSAGE").headers["expires"] == str(soon)
