"""SUBSCRIBE: its command to the broker, and refusals."""

import pytest

from daybook.engine.commands import NO_HISTORY, Attach, AttachAll
from daybook.engine.refusals import Code
from daybook.protocols.stomp.wire.options import StompOptions
from tests.unit.protocols.stomp.fakes import connected, frame


def attached(head: str, version: str | None = "1.2") -> Attach:
    peer = connected(version)
    output = peer.send(frame("SUBSCRIBE\nreceipt:r\n" + head))
    assert output == b"RECEIPT\nreceipt-id:r\n\n\0"
    (command,) = peer.broker.commands
    assert isinstance(command, Attach)
    assert peer.session.gate == peer.broker.lsn
    assert command.receiver.consumer == peer.broker.lsn
    return command


def test_defaults() -> None:
    command = attached("id:s\ndestination:/queue/a")
    assert (command.connection, command.address, command.subscription) == (1, "a", "s")
    assert (command.queue, command.routing_type, command.durable_name) == (None, "anycast", None)
    assert (command.acknowledges, command.cumulative, command.filter) == (False, False, "")
    assert command.credits_early
    assert command.tells_retained
    assert (command.credit_messages, command.credit_bytes) == (655_360, 655_360)


@pytest.mark.parametrize(
    ("headers", "asked"),
    [
        ("", ""),
        ("\ndurable:true", "durable:true"),
        ("\nauto-delete:false", "auto-delete:false"),
        ("\nauto-delete:false\ndurable:true", "durable:true"),
    ],
)
def test_what_is_asked_of_a_queue_is_told(headers: str, asked: str) -> None:
    """A direct address has none."""
    assert attached(f"id:s\ndestination:/queue/a{headers}").needs_queue == asked


@pytest.mark.parametrize("version", [None, "1.1", "1.2"])
@pytest.mark.parametrize("mode", ["auto", "client", "client-individual"])
def test_ack_modes(version: str | None, mode: str) -> None:
    command = attached(f"id:s\ndestination:/queue/a\nack:{mode}", version)
    assert command.acknowledges == (mode != "auto")
    assert command.cumulative == (mode == "client")
    assert command.settles_by_message == (version is None)
    assert command.receiver.cumulative == (mode == "client")


@pytest.mark.parametrize(
    ("credit", "expected"),
    [("5,0", (5, 0)), ("5", (5, 65536)), ("0,7", (0, 7)), (" 5 , 6 ", (5, 6))],
)
def test_credit(credit: str, expected: tuple[int, int]) -> None:
    command = attached(f"id:s\ndestination:/queue/a\ncredit:{credit}")
    assert (command.credit_messages, command.credit_bytes) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ("", (0, 0)),
        ("\nretroactive-after:17", (17, 0)),
        ("\nretroactive-since: 1700000000000", (0, 1_700_000_000_000)),
        ("\nretroactive-after:5\nretroactive-since:6", (5, 6)),
        ("\nretroactive:false", (NO_HISTORY, 0)),
        ("\nactivemq.retroactive:false", (NO_HISTORY, 0)),
        ("\nretroactive:true\nretroactive-after:4", (4, 0)),
        ("\nactivemq.retroactive:true", (0, 0)),
    ],
)
def test_where_history_begins(headers: str, expected: tuple[int, int]) -> None:
    command = attached(f"id:s\ndestination:/topic/a{headers}")
    assert (command.after, command.since) == expected


@pytest.mark.parametrize(
    "header",
    [
        "retroactive:yes", "activemq.retroactive:1", "retroactive-after:-1", "retroactive-after:x",
        "retroactive-since:now", "retroactive:true\nactivemq.retroactive:false",
    ],
)  # fmt: skip
def test_a_wrong_beginning_is_told(header: str) -> None:
    output = connected("1.2").send(frame(f"SUBSCRIBE\nid:s\ndestination:/topic/a\n{header}"))
    assert output.startswith(b"ERROR")
    assert b"retroactive" in output


def test_durable_subscription() -> None:
    command = attached("id:mine\npersistent:true\ndestination:/topic/a\nselector:x = 1")
    assert (command.durable_name, command.address) == ("mine", "a")
    assert (command.routing_type, command.filter) == ("multicast", "x = 1")
    assert command.receiver.durable_name == "mine"


def test_durable_subscription_on_a_plain_name() -> None:
    assert attached("id:mine\npersistent:true\ndestination:a").routing_type == "multicast"


def test_queue_of_a_durable_subscription() -> None:
    command = attached("id:0\ndestination:/dsub/mine")
    assert (command.address, command.queue, command.durable_name) == ("", "dsub.mine", None)


def test_one_queue_of_an_address() -> None:
    command = attached("id:0\ndestination:a::q")
    assert (command.address, command.queue, command.routing_type) == ("a", "q", None)


@pytest.mark.parametrize("name", ["destination-type", "subscription-type"])
def test_types(name: str) -> None:
    assert attached(f"id:0\ndestination:a\n{name}:MULTICAST").routing_type == "multicast"
    assert attached(f"id:0\ndestination:a\n{name}:ANYCAST").routing_type == "anycast"


def test_1_0_without_id() -> None:
    assert attached("destination:/queue/a", None).subscription == "/queue/a"


@pytest.mark.parametrize(
    ("head", "part"),
    [
        ("destination:/queue/a", "SUBSCRIBE without id"),
        ("id:\ndestination:/queue/a", "SUBSCRIBE with an empty id"),
        ("id:s", "SUBSCRIBE without destination"),
        ("id:s\ndestination:/queue/a\nack:manual", "ack is 'manual'"),
        ("id:s\ndestination:/queue/a\ncredit:", "credit is ''"),
        ("id:s\ndestination:/queue/a\ncredit:5,x", "credit is '5,x'"),
        ("id:s\ndestination:/queue/a\ncredit:-5", "credit is '-5'"),
        ("id:s\ndestination:/queue/a\ncredit:5,", "credit is '5,'"),
        ("id:s\ndestination:/queue/a\npersistent:maybe", "persistent is 'maybe'"),
        ("id:s\ndestination:/queue/a\npersistent:true", "which is not a topic"),
        ("id:s\ndestination:/dsub/a\npersistent:true", "which is not a topic"),
        ("id:s\ndestination:/topic/a\\c\\cq\npersistent:true", "which is not a topic"),
        ("id:s\ndestination:/queue/a\nbrowser:maybe", "browser is 'maybe'"),
        ("id:s\ndestination:/queue/a\nbrowser:true\nbrowser-end:x", "browser-end is 'x'"),
        ("id:s\ndestination:/queue/a\nbrowser:true\npriority:3", "a browser that has a priority"),
        ("id:s\ndestination:/queue/a\nbrowser:true\nexclusive:true", "is exclusive"),
        ("id:s\ndestination:/queue/a\ninclude-seq:", "include-seq is ''"),
        ("id:s\ndestination:/queue/a\ninclude-seq:a\\cb", "include-seq is 'a:b'"),
        ("id:s\ndestination:/queue/a\ninclude-seq:destination", "must be none that MESSAGE has"),
        ("id:s\ndestination:/queue/a\nfrom-seq:x", "from-seq is 'x'"),
        ("id:s\ndestination:/queue/a\nfrom-seq:-2", "from-seq is '-2'"),
        ("id:s\ndestination:/queue/a\nfrom-seq:1234567890123456789", "from-seq is"),
        ("id:s\ndestination:/queue/a\nexclusive:maybe", "exclusive is 'maybe'"),
        ("id:s\ndestination:/topic/a\nno-local:maybe", "no-local is 'maybe'"),
        ("id:s\ndestination:/topic/a\nno-local:true\nnoLocal:false", "mean the same"),
        ("id:s\ndestination:/topic/a\ndurable-subscription-name:x", "no client-id"),
        ("id:s\ndestination:/topic/a.>*", "not every protocol can spell"),
        ("id:s\ndestination:/queue/a,/queue/a", "has a name twice"),
        ("id:s\ndestination:/queue/a,", "has an empty name"),
        ("id:s\ndestination:/queue/a,/queue/b\nfrom-seq:0", "may be several destinations"),
        ("id:s\ndestination:/queue/a.*\nfrom-seq:0", "may be several destinations"),
        ("id:s\ndestination:/topic/a,/topic/b\npersistent:true", "is several destinations"),
        ("id:s\ndestination:/queue/a.*\npersistent:true", "which is not a topic"),
    ],
)
def test_refused(head: str, part: str) -> None:
    peer = connected()
    output = peer.send(frame("SUBSCRIBE\nreceipt:r\n" + head)).decode()
    assert output.startswith("ERROR\n")
    assert part in output
    assert "\nreceipt-id:r\n" in output
    assert peer.broker.of(Attach) == []


def test_features_turned_off_are_no_reason_to_refuse() -> None:
    attached("id:s\ndestination:/queue/a\nbrowser:false\nexclusive:false\npersistent:false")


@pytest.mark.parametrize("version", [None, "1.1", "1.2"])
def test_the_same_id_twice(version: str | None) -> None:
    peer = connected(version)
    peer.send(frame("SUBSCRIBE\nid:s\ndestination:/queue/a"))
    output = peer.send(frame("SUBSCRIBE\nid:s\ndestination:/queue/b"))
    assert b"'s' exists on this connection already" in output


def several(head: str, version: str | None = "1.2", **options: int) -> AttachAll:
    peer = connected(version, StompOptions(**options))
    output = peer.send(frame("SUBSCRIBE\nreceipt:r\n" + head))
    assert output == b"RECEIPT\nreceipt-id:r\n\n\0"
    (command,) = peer.broker.commands
    assert isinstance(command, AttachAll)
    assert command.parts[0].receiver.consumer == peer.broker.lsn
    return command


@pytest.mark.parametrize("version", [None, "1.1", "1.2"])
def test_several_destinations(version: str | None) -> None:
    head = "id:s\ndestination:/queue/a, /topic/b.* ,/dsub/c\nack:client\ncredit:3,4\nselector:x=1"
    command = several(head, version)
    assert [(each.address, each.queue, each.routing_type) for each in command.parts] == [
        ("a", None, "anycast"), ("b.*", None, "multicast"), ("", "dsub.c", None),
    ]  # fmt: skip
    assert {each.filter for each in command.parts} == {"x=1"}
    first = command.parts[0]
    assert (first.credit_messages, first.credit_bytes, first.receiver.cumulative) == (3, 4, True)


def test_a_pattern_of_queues() -> None:
    command = several("id:s\ndestination:/queue/a.**", max_wildcard_queues=7)
    assert [(each.address, each.routing_type) for each in command.parts] == [("a.#", "anycast")]
    assert command.queues_max == 7
    assert isinstance(attached("id:s\ndestination:a.*"), Attach)


def test_each_destination_counts_as_a_subscription() -> None:
    peer = connected("1.2", StompOptions(max_subscriptions=3))
    peer.send(frame("SUBSCRIBE\nid:1\ndestination:/queue/a,/queue/b"))
    peer.send(frame("UNSUBSCRIBE\nid:1"))
    peer.send(frame("SUBSCRIBE\nid:1\ndestination:/queue/a,/queue/b"))
    peer.send(frame("SUBSCRIBE\nid:2\ndestination:/queue/a"))
    assert b"max-subscriptions" in peer.send(frame("SUBSCRIBE\nid:3\ndestination:/queue/a"))


def test_the_same_destination_twice_without_ids_in_1_0() -> None:
    peer = connected(None)
    peer.send(frame("SUBSCRIBE\ndestination:/queue/a"))
    assert b"exists on this" in peer.send(frame("SUBSCRIBE\ndestination:/queue/a"))


def test_the_number_of_subscriptions_is_limited() -> None:
    peer = connected("1.2", StompOptions(max_subscriptions=1))
    peer.send(frame("SUBSCRIBE\nid:1\ndestination:/queue/a"))
    assert b"max-subscriptions" in peer.send(frame("SUBSCRIBE\nid:2\ndestination:/queue/a"))


def test_a_filter_that_the_broker_refuses() -> None:
    peer = connected()
    peer.broker.refuse(Attach, Code.INVALID, "the filter is wrong: column 3")
    output = peer.send(frame("SUBSCRIBE\nid:1\ndestination:/topic/a\nselector:a = 1"))
    assert output.startswith(b"ERROR\nmessage:the filter is wrong\\c column 3\n")


@pytest.mark.parametrize(
    "name", ["priority", "consumer-priority", "activemq.priority", "x-priority"]
)
@pytest.mark.parametrize("value", ["7", "-3", "0"])
def test_priorities_of_consumers(name: str, value: str) -> None:
    peer = connected()
    peer.send(frame(f"SUBSCRIBE\nid:1\ndestination:/queue/a\n{name}:{value}"))
    (attach,) = peer.broker.of(Attach)
    assert attach.priority == int(value)


@pytest.mark.parametrize(
    ("headers", "part"),
    [
        ("priority:high", "priority is 'high'"),
        ("priority:1.5", "priority is '1.5'"),
        ("x-priority:--1", "x-priority is '--1'"),
        ("priority:12345678901", "priority is"),
        ("x-priority:2\npriority:high", "priority is 'high'"),
    ],
)
def test_priorities_that_are_none(headers: str, part: str) -> None:
    output = connected().send(frame(f"SUBSCRIBE\nid:1\ndestination:/queue/a\n{headers}"))
    assert output.startswith(b"ERROR\n")
    assert part.encode() in output
