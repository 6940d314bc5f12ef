"""Headers of other brokers: refused by name, or obeyed; the page lists every one."""

import re
from pathlib import Path

import pytest

from daybook.engine.commands import Attach, Credit, Send
from daybook.engine.facts.settlements import BY_GRANT, BY_SETTLEMENT, UNMETERED
from daybook.protocols.stomp.wire import foreign
from tests.unit.protocols.stomp.fakes import FakeMessage, connected

PAGE = Path(__file__).resolve().parents[5] / "docs" / "stomp.md"
SECTION = re.compile(r"## Headers of other brokers\n(.*?)\n## ", re.DOTALL)
OBEYED = {
    "expiration", "prefetch-count", "activemq.prefetchSize", "consumer-window-size",
    "activemq.priority", "x-priority", "consumer-priority", "JMSXGroupID", "_AMQ_GROUP_ID",
    "message_group", "noLocal", "activemq.noLocal", "activemq.exclusive", "activemq.retroactive",
}  # fmt: skip
RULES = {"durable", "auto-delete", "requeue"}


def error(text: str) -> bytes:
    """The answer to a frame, which must be one ERROR."""
    output = connected().send(text.encode())
    assert output.startswith(b"ERROR\n"), output
    return output


@pytest.mark.parametrize("name", sorted(foreign.ON_SEND))
@pytest.mark.parametrize("value", ["x", "false", "7"])
def test_on_send(name: str, value: str) -> None:
    rule = foreign.ON_SEND[name]
    text = f"SEND\ndestination:/queue/a\n{name}:{value}\n\nx\0"
    if value in rule.harmless:
        assert connected().send(text.encode()) == b""
    else:
        assert f"header {name}: {rule.meaning} not supported".encode() in error(text)


@pytest.mark.parametrize("name", sorted(foreign.ON_SUBSCRIBE))
@pytest.mark.parametrize("value", ["x", "false", "-1"])
def test_on_subscribe(name: str, value: str) -> None:
    rule = foreign.ON_SUBSCRIBE[name]
    text = f"SUBSCRIBE\nid:1\ndestination:/queue/a\n{name}:{value}\n\n\0"
    if value in rule.harmless:
        assert connected().send(text.encode()) == b""
    else:
        assert f"header {name}: {rule.meaning} not supported".encode() in error(text)


@pytest.mark.parametrize(
    ("destination", "headers", "refused"),
    [
        ("/topic/a", "durable:true\nauto-delete:false", "durable"),
        ("/topic/a", "auto-delete:false", "auto-delete"),
        ("/topic/a", "durable:false\nauto-delete:true", ""),
        ("/topic/a", "persistent:true\ndurable:true\nauto-delete:false", ""),
        ("/topic/a", "persistent:true\nauto-delete:true", "auto-delete"),
        ("/queue/a", "durable:true\nauto-delete:false", ""),
        ("/queue/a", "durable:false", "durable"),
        ("/queue/a", "auto-delete:true", "auto-delete"),
        ("/topic/a::q", "durable:true", ""),
    ],
)
def test_attributes_of_queues(destination: str, headers: str, refused: str) -> None:
    peer = connected()
    output = peer.send(f"SUBSCRIBE\nid:1\ndestination:{destination}\n{headers}\n\n\0".encode())
    assert (f"message:header {refused}\\c ".encode() in output) == bool(refused), output
    assert bool(peer.broker.of(Attach)) == (not refused)


def test_a_durable_subscription_is_not_deleted_by_other_headers() -> None:
    assert b"persistent:true" in error("UNSUBSCRIBE\nid:1\ndurable:true\n\n\0")


def test_nack_that_drops() -> None:
    assert b"header requeue" in error("NACK\nid:1-1\nrequeue:false\n\n\0")


@pytest.mark.parametrize(
    ("header", "windows"),
    [
        ("credit:5", (5, 65536)),
        ("credit:5,0", (5, 0)),
        ("prefetch-count:5", (5, 0)),
        ("prefetch-count:0", (655360, 655360)),
        ("activemq.prefetchSize:1", (1, 0)),
        ("consumer-window-size:10240", (0, 10240)),
        ("consumer-window-size:0", (1, 0)),
        ("consumer-window-size:-1", (655360, 655360)),
        ("x:y", (655360, 655360)),
    ],
)
def test_credit_in_the_words_of_other_brokers(header: str, windows: tuple[int, int]) -> None:
    peer = connected()
    peer.send(f"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n{header}\n\n\0".encode())
    (attach,) = peer.broker.of(Attach)
    assert (attach.credit_messages, attach.credit_bytes) == windows
    assert attach.credit_policy == BY_SETTLEMENT


@pytest.mark.parametrize(
    "header",
    [
        "prefetch-count:x", "activemq.prefetchSize:0", "consumer-window-size:-2", "credit:1,x",
        "prefetch-count:x\nconsumer-window-size:1",
    ],
)  # fmt: skip
def test_credit_that_makes_no_sense(header: str) -> None:
    assert b"give " in error(f"SUBSCRIBE\nid:1\ndestination:/queue/a\n{header}\n\n\0") or (
        header.startswith("credit:1,")
    )


@pytest.mark.parametrize(
    ("header", "policy"),
    [("credit:2,0", BY_GRANT), ("prefetch-count:2", UNMETERED), ("x:y", UNMETERED)],
)
def test_credit_holds_where_nothing_is_acknowledged(header: str, policy: int) -> None:
    peer = connected()
    peer.send(f"SUBSCRIBE\nid:1\ndestination:/queue/a\n{header}\n\n\0".encode())
    (attach,) = peer.broker.of(Attach)
    assert (attach.credit_policy, attach.acknowledges) == (policy, False)


@pytest.mark.parametrize(
    ("version", "ack"),
    [
        ("1.2", "id:1-77"),
        ("1.1", "subscription:1\nmessage-id:77"),
        (None, "message-id:77"),
        ("1.2", "id:1-77\ntransaction:t"),
    ],
)
def test_an_ack_gives_credit_back_where_nothing_is_acknowledged(
    version: str | None, ack: str
) -> None:
    peer = connected(version)
    peer.send(b"SUBSCRIBE\nid:1\ndestination:/queue/a\ncredit:5,0\n\n\0")
    peer.subscribed().deliver(FakeMessage(77, b"a:b\n", b"body"), 1, False, 0)
    assert (b"\nack:1-77\n" in peer.taken()) == (version == "1.2")
    assert peer.send(f"ACK\n{ack}\n\n\0".encode()) == b""
    (credit,) = peer.broker.of(Credit)
    assert (credit.messages, credit.bytes) == (1, 4)
    assert peer.send(f"ACK\n{ack}\n\n\0".encode()).startswith(b"ERROR\n")


@pytest.mark.parametrize(
    ("headers", "expires_after_ms"),
    [("expiration:2000", 2000), ("expiration:2000\nttl:1000", 1000), ("ttl:0\nexpiration:5", 5)],
)
def test_expiration_is_a_time_to_live(headers: str, expires_after_ms: int) -> None:
    peer = connected()
    peer.send(f"SEND\ndestination:/queue/a\n{headers}\n\nx\0".encode())
    (send,) = peer.broker.of(Send)
    assert send.expires == peer.now // 1000 + expires_after_ms
    assert b"expiration" not in send.headers


@pytest.mark.parametrize("value", ["0", "x", ""])
def test_expiration_that_says_nothing(value: str) -> None:
    assert b"expiration is " in error(f"SEND\ndestination:/queue/a\nexpiration:{value}\n\nx\0")


def test_the_page_lists_every_header() -> None:
    found = SECTION.search(PAGE.read_text("utf-8"))
    assert found is not None
    listed = set(
        re.findall(
            r"`([\w.-]+)`",
            "".join(line.split("|")[1] for line in found[1].splitlines() if line.startswith("| `")),
        )
    )
    ours = {*foreign.ON_SEND, *foreign.ON_SUBSCRIBE, *foreign.ON_NACK, *OBEYED, *RULES}
    spellings = {name for name in listed if "sub" in name}
    assert listed - spellings == ours
    assert spellings == {
        "durable-subscription-name", "durable-subscriber-name", "activemq.subscriptionName",
        "activemq.subcriptionName", "subscription-name",
    }  # fmt: skip
