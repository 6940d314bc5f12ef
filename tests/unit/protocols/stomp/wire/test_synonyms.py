"""Headers that mean the same: every row of the table, by what the broker makes of a frame."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from daybook.engine.commands import Attach, Send
from daybook.engine.messages.headers import _STANDARD
from daybook.engine.queues.groups import SEQUENCES
from daybook.protocols.stomp.wire import synonyms
from daybook.protocols.stomp.wire.synonyms import Rule, Synonyms
from tests.meta.drawn import synonyms_page
from tests.unit.protocols.stomp.exchange import Exchange
from tests.unit.protocols.stomp.fakes import connected

OF_THE_ENGINE = {
    synonyms.GROUP: _STANDARD["group_id"],
    synonyms.GROUP_SEQUENCE: SEQUENCES,
}
"""The headers that the engine itself reads."""
REFUSED_ALONE = {"JMSDeliveryTime", "x-delay"}


# A destination, what a command has of the setting, and two values that it makes a difference for.
SAMPLES: dict[Synonyms, tuple[str, Callable[[Any], Any], str, str]] = {
    synonyms.CREDIT: ("/queue/a", lambda command: command.credit_messages, "7", "9"),
    synonyms.CONSUMER_PRIORITY: ("/queue/a", lambda command: command.priority, "7", "9"),
    synonyms.FILTER: ("/queue/a", lambda command: command.filter, "a = 1", "a = 2"),
    synonyms.EXCLUSIVE: ("/queue/a", lambda command: command.exclusive, "true", "false"),
    synonyms.NO_LOCAL: ("/topic/a", lambda command: command.no_local, "true", "false"),
    synonyms.RETROACTIVE: ("/topic/a", lambda command: command.after, "true", "false"),
    synonyms.SUBSCRIPTION_TYPE: (
        "a", lambda command: command.routing_type, "ANYCAST", "MULTICAST",
    ),
    synonyms.DESTINATION_TYPE: ("a", lambda command: command.routing_type, "ANYCAST", "MULTICAST"),
    synonyms.LIFETIME: ("/queue/a", lambda command: command.expires, "5", "9"),
    synonyms.DELIVERY_TIME: ("/queue/a", lambda command: command.due, "5", "9"),
    synonyms.DELIVERY: ("/queue/a", lambda command: command.due, "5", "9"),
}  # fmt: skip
"""Durable names are read with what else a connection says, and have a test of their own."""
BY_COMMAND = sorted(SAMPLES, key=synonyms.ALL.index)


def answer(row: Synonyms, headers: dict[str, str]) -> tuple[list[Any], bytes]:
    """The commands of a frame with these headers, and the answer of the session."""
    destination, read, _, _ = SAMPLES[row]
    peer = connected()
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    command, own, body = ("SEND", "", "x") if row.frames == "SEND" else ("SUBSCRIBE", "id:1\n", "")
    output = peer.send(f"{command}\n{own}destination:{destination}\n{lines}\n{body}\0".encode())
    kind = Send if row.frames == "SEND" else Attach
    return [read(found) for found in peer.broker.of(kind)], output


def meant(row: Synonyms, headers: dict[str, str]) -> Any:
    """The meaning of an accepted frame."""
    found, output = answer(row, headers)
    assert not output.startswith(b"ERROR"), output
    return found[0]


def test_every_row_is_asked_here() -> None:
    assert {*SAMPLES, *OF_THE_ENGINE, synonyms.DURABLE_NAME} == set(synonyms.ALL)


@pytest.mark.parametrize("row", OF_THE_ENGINE, ids=lambda row: row.what)
def test_the_engine_reads_them_in_the_order_of_the_page(row: Synonyms) -> None:
    assert row.rule is Rule.FIRST
    assert OF_THE_ENGINE[row] == row.names


@pytest.mark.parametrize("row", BY_COMMAND, ids=lambda row: f"{row.frames}-{row.what}")
def test_all_spellings_with_one_value(row: Synonyms) -> None:
    value = SAMPLES[row][2]
    alone = meant(row, {row.names[0]: value})
    assert meant(row, dict.fromkeys(row.names, value)) == alone
    assert meant(row, dict.fromkeys(reversed(row.names), value)) == alone


@pytest.mark.parametrize("row", BY_COMMAND, ids=lambda row: f"{row.frames}-{row.what}")
def test_two_values(row: Synonyms) -> None:
    _, _, one, two = SAMPLES[row]
    for (first, a), (second, b) in permutations(zip(row.names, (one, two), strict=False), 2):
        found, output = answer(row, {first: a, second: b})
        if row.rule is Rule.SAME:
            assert found == []
            says = f"message:{row.names[0]} and {row.names[1]} mean the same, and their values"
            assert says.encode() in output
            assert f"send only {row.names[0]}".encode() in output
        elif row.rule is Rule.FIRST:
            assert found == [meant(row, {row.names[0]: one})]
        else:
            chosen = min if row.rule is Rule.EARLIEST else max
            assert found == [chosen(meant(row, {first: a}), meant(row, {second: b}))]


@pytest.mark.parametrize(
    ("row", "chosen", "ignored"),
    [
        (row, chosen, ignored)
        for row in BY_COMMAND
        if row.rule is Rule.FIRST and row is not synonyms.DELIVERY
        for chosen, ignored in zip(row.names, row.names[1:], strict=False)
    ],
)
def test_nonsense_is_refused_only_in_the_one_that_counts(
    row: Synonyms, chosen: str, ignored: str
) -> None:
    value = SAMPLES[row][2]
    assert meant(row, {ignored: "nonsense", chosen: value}) == meant(row, {chosen: value})
    found, output = answer(row, {ignored: value, chosen: "nonsense"})
    assert found == []
    assert f"message:{chosen} is 'nonsense'".encode() in output


@pytest.mark.parametrize("ignored", ["AMQ_SCHEDULED_DELAY", *sorted(REFUSED_ALONE)])
def test_a_time_makes_nonsense_of_delays_harmless(ignored: str) -> None:
    assert meant(synonyms.DELIVERY, {"AMQ_SCHEDULED_TIME": "5", ignored: "nonsense"}) == 5


@pytest.mark.parametrize("name", sorted(REFUSED_ALONE))
def test_a_schedule_of_another_broker_counts_for_nothing_alone(name: str) -> None:
    assert answer(synonyms.DELIVERY, {name: "5"})[0] == []
    peer = connected()
    peer.send(f"SEND\ndestination:/queue/a\nAMQ_SCHEDULED_DELAY:60\n{name}:5\n\nx\0".encode())
    (send,) = peer.broker.of(Send)
    assert send.due == peer.now // 1000 + 60


@pytest.mark.parametrize("row", [synonyms.CREDIT, synonyms.FILTER], ids=lambda row: row.what)
def test_an_empty_one_counts_only_alone(row: Synonyms) -> None:
    value = SAMPLES[row][2]
    assert meant(row, {row.names[0]: "", row.names[1]: value}) == meant(row, {row.names[1]: value})


def test_a_routing_type_may_be_a_number_or_a_name() -> None:
    headers = {"_AMQ_ROUTING_TYPE": "1", "destination-type": "multicast"}
    assert meant(synonyms.DESTINATION_TYPE, headers) == "multicast"


def test_what_a_portable_client_sends() -> None:
    peer = connected()
    peer.send(
        b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\nprefetch-count:10\n"
        b"activemq.prefetchSize:10\nconsumer-window-size:100000\ncredit:10,0\n\n\0"
    )
    (attach,) = peer.broker.of(Attach)
    assert (attach.credit_messages, attach.credit_bytes) == (10, 0)


def test_expiration_of_0_beside_another_time_asks_for_nothing() -> None:
    assert meant(synonyms.LIFETIME, {"expiration": "0", "expires": "5"}) == 5


def test_names_of_durable_subscriptions() -> None:
    exchange = Exchange()
    every = "".join(f"{name}:all\n" for name in synonyms.DURABLE_NAME.names)
    client = exchange.client(client_id="shop")
    client.send(f"SUBSCRIBE\nid:1\ndestination:/topic/news\n{every}persistent:true")
    assert set(exchange.broker.state.queue_by_name) == {"dsub.shop.all"}
    client.send(f"UNSUBSCRIBE\nid:1\n{every}durable:true")
    assert not exchange.broker.state.queue_by_name
    (refused,) = client.send(
        "SUBSCRIBE\nid:2\ndestination:/topic/news\nsubscription-name:a\ndurable-subscription-name:b"
    )
    assert b"mean the same, and their values differ" in refused
    assert not exchange.broker.state.queue_by_name


def test_rabbitmq_deletes_a_durable_subscription_with_the_header_of_its_own() -> None:
    exchange = Exchange()
    client = exchange.client()
    client.send("SUBSCRIBE\nid:1\ndestination:/topic/news\npersistent:true")
    client.send("UNSUBSCRIBE\nid:1\npersistent:true\ndurable:true")
    assert not exchange.broker.state.queue_by_name


def test_the_page_has_the_table() -> None:
    assert synonyms_page.PART.is_current()
