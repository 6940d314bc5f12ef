"""Points of the address model that no other module here is about, on one broker for all of them."""

import time
from collections.abc import Iterator
from typing import Final

import msgspec
import pytest

from tests.interop.using import connected, daybook, queues, rows, sent
from tests.interop.wire import Frame, Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

CONFIG: Final = """
message-expiry-scan-period = "100ms"
address-queue-scan-period = "100ms"

[[acceptor]]
listen = "127.0.0.1:0"
anycast-prefix = ["anycast://"]
multicast-prefix = ["multicast://"]

[[address-setting]]
match = "#"
max-delivery-attempts = -1
auto-delete-queues = false
auto-delete-addresses = false

[[address-setting]]
match = "closed.#"
auto-create-queues = false
auto-create-addresses = false

[[address-setting]]
match = "gone.#"
auto-delete-queues = true
auto-delete-addresses = true

[[address-setting]]
match = "gone.count"
auto-delete-queues-message-count = 1

[[address-setting]]
match = "gone.skipped"
auto-delete-queues-skip-usage-check = true

[[address-setting]]
match = "old.#"
expiry-address = "old-letters"

[[address-setting]]
match = "old.kept"
expiry-address = ""

[[address-setting]]
match = "stocks"
expiry-address = "EXPIRED"
auto-create-expiry-resources = true

[[address-setting]]
match = "EXPIRED"
auto-delete-queues = true

[[address-setting]]
match = "spread"
redelivery-delay = "100s"
redelivery-collision-avoidance-factor = 0.5

[[address-setting]]
match = "failing.#"
max-delivery-attempts = 1
dead-letter-address = "DLA"
auto-create-dead-letter-resources = true

[[address-setting]]
match = "unheard"
dead-letter-address = "UNHEARD"
send-to-dla-on-no-route = true

[[address-setting]]
match = "slow"
slow-consumer-threshold = 100
slow-consumer-policy = "KILL"
slow-consumer-check-period = 1

[[queue]]
name = "gone.listed"
address = "gone.listed"

[[divert]]
name = "copied-back"
address = "copied"
forwarding-addresses = ["copies"]
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for all tests of this module; each uses names of its own."""
    directory = tmp_path_factory.mktemp("model") / "data"
    with BrokerProcess(directory, config=CONFIG, listen=[]) as process:
        yield process.start()
        assert process.stop() == 0, process.log_text()


@pytest.fixture
def wire(model: BrokerProcess) -> Iterator[Wire]:
    with connected(model) as found:
        yield found


def subscribe(wire: Wire, destination: str, ack: str = "client-individual", **more: str) -> None:
    name = more.pop("id", "s")
    wire.send("SUBSCRIBE", id=name, destination=destination, ack=ack, receipt="s", **more)
    wire.expect("RECEIPT")


def settle(wire: Wire, how: str, message: Frame) -> None:
    wire.send(how, id=message.headers["ack"], receipt="a")
    # A message that has the credit of this one may come before.
    while wire.read().command != "RECEIPT":
        pass


def taken(broker: BrokerProcess, destination: str) -> Frame:
    """Take one message, by a connection of its own."""
    with connected(broker) as wire:
        subscribe(wire, destination, credit="1,0")
        message = wire.expect("MESSAGE")
        settle(wire, "ACK", message)
        return message


def outcome(wire: Wire, destination: str, body: bytes = b"x", **headers: str) -> dict[str, str]:
    """Return the outcome that the receipt of a message reports."""
    wire.send("SEND", body, destination=destination, receipt="o", receipt_outcome="true", **headers)
    return wire.expect("RECEIPT").headers


def refused(broker: BrokerProcess, command: str, **headers: str) -> str:
    with connected(broker) as wire:
        wire.send(command, **headers)
        error = wire.expect("ERROR")
        return error.headers["message"] + error.body.decode()


# ---- addresses and queues


def test_nothing_is_created_where_settings_forbid_it(model: BrokerProcess) -> None:
    for destination in ("/queue/closed.q", "/topic/closed.t", "closed.a"):
        assert "auto-create-" in refused(model, "SEND", destination=destination)
        assert "auto-create-" in refused(model, "SUBSCRIBE", id="s", destination=destination)


def test_a_type_that_the_address_lacks_needs_it_created(model: BrokerProcess) -> None:
    daybook(model, "queue", "create", "closed.only")
    text = refused(model, "SEND", destination="closed.only", destination_type="MULTICAST")
    assert "is not multicast" in text
    with connected(model) as wire:
        assert outcome(wire, "closed.only")["routed"] == "closed.only"


def test_a_queue_has_its_name_once_in_the_broker(model: BrokerProcess, wire: Wire) -> None:
    sent(wire, "/queue/first::named", b"x")
    text = refused(model, "SEND", destination="/queue/second::named")
    assert "is on address 'first'" in text
    assert "unique" in text


def test_a_slash_behind_a_url_like_prefix_is_no_part_of_the_name(
    model: BrokerProcess, wire: Wire
) -> None:
    sent(wire, "anycast://slashed/", b"x")
    assert queues(model)["slashed"]["messages"] == 1
    destination = taken(model, "anycast://slashed/").headers["destination"]
    assert destination.replace("\\c", ":") == "anycast://slashed/"


def test_a_paused_address_pauses_what_is_created_and_no_queue_for_itself(
    model: BrokerProcess, wire: Wire
) -> None:
    sent(wire, "/queue/still::still.one", b"1")
    daybook(model, "address", "pause", "still")
    daybook(model, "queue", "create", "still::still.two")
    daybook(model, "queue", "pause", "still.one")
    sent(wire, "/queue/still::still.two", b"2")
    subscribe(wire, "/queue/still::still.two", id="two")
    with connected(model) as other:
        subscribe(other, "/queue/still::still.one")
        assert queues(model)["still.two"]["ready"] == 1
        daybook(model, "address", "resume", "still")
        assert wire.expect("MESSAGE").body == b"2"
        # It was paused by another command, and waits for that one's counterpart.
        assert queues(model)["still.one"]["ready"] == 1
        daybook(model, "queue", "resume", "still.one")
        assert other.expect("MESSAGE").body == b"1"


def test_the_creator_of_a_queue_is_shown(model: BrokerProcess, wire: Wire) -> None:
    sent(wire, "/queue/owned", b"x")
    assert queues(model)["owned"]["user"] == "guest"


# ---- automatic deletion


def test_which_queues_go(model: BrokerProcess, wire: Wire) -> None:
    for name in ("purged", "many", "paused", "listed"):
        sent(wire, f"/queue/gone.{name}", b"x")
    # Both at once: with one message it would be one of those that go.
    wire.send("BEGIN", transaction="both")
    for body in (b"x", b"y"):
        wire.send("SEND", body, destination="/queue/gone.count", transaction="both")
    wire.send("COMMIT", transaction="both", receipt="both")
    wire.expect("RECEIPT")
    daybook(model, "queue", "create", "gone.skipped", "--auto-delete")
    daybook(model, "queue", "create", "gone.asked", "--auto-delete")
    daybook(model, "queue", "create", "gone.unused", "--auto-delete")
    daybook(model, "queue", "create", "gone.updated")
    daybook(model, "queue", "update", "gone.updated", "--auto-delete")
    daybook(model, "queue", "pause", "gone.paused")
    sent(wire, "/queue/gone.ids", b"x", _AMQ_DUPL_ID="1")
    sent(wire, "/queue/gone.asked", b"x")
    sent(wire, "/queue/gone.updated", b"x")
    for name in ("purged", "paused", "listed", "asked", "updated", "ids"):
        daybook(model, "queue", "purge", f"gone.{name}")
    taken(model, "/queue/gone.count")

    def left() -> set[str]:
        return {name.removeprefix("gone.") for name in queues(model) if name.startswith("gone.")}

    wait_for(lambda: left() == {"many", "paused", "listed", "unused"}, "the scans")
    addresses = rows(model, "address")
    assert "gone.ids" in addresses
    assert "gone.purged" not in addresses


def test_a_queue_for_expired_messages_goes_like_any_other(model: BrokerProcess, wire: Wire) -> None:
    sent(wire, "/queue/stocks", b"x", ttl="1")
    row = wait_for(lambda: queues(model).get("EXP.stocks"), "the expiry")
    assert (row["routing_type"], row["address"]) == ("multicast", "EXPIRED")
    taken(model, "/queue/EXPIRED::EXP.stocks")
    wait_for(lambda: "EXP.stocks" not in queues(model), "the scan")


# ---- dispatch


def test_priorities_come_in_order_and_messages_of_one_as_they_were_sent(
    model: BrokerProcess, wire: Wire
) -> None:
    for number, priority in enumerate("4900491"):
        sent(wire, "/queue/ordered", b"%s%d" % (priority.encode(), number), priority=priority)
    sent(wire, "/queue/ordered", b"default")
    subscribe(wire, "/queue/ordered")
    bodies = [wire.expect("MESSAGE").body for _ in range(8)]
    assert bodies == [b"91", b"95", b"40", b"44", b"default", b"16", b"02", b"03"]


def test_consumers_take_turns(model: BrokerProcess, wire: Wire) -> None:
    with connected(model) as first, connected(model) as second:
        for each in (first, second):
            subscribe(each, "/queue/turns")
        for number in range(6):
            sent(wire, "/queue/turns", b"%d" % number)
        assert [first.expect("MESSAGE").body for _ in range(3)] == [b"0", b"2", b"4"]
        assert [second.expect("MESSAGE").body for _ in range(3)] == [b"1", b"3", b"5"]


def test_what_was_sent_without_acknowledgement_does_not_come_again(
    model: BrokerProcess, wire: Wire
) -> None:
    subscribe(wire, "/queue/auto", ack="auto")
    sent(wire, "/queue/auto", b"x")
    assert wire.expect("MESSAGE").body == b"x"
    row = queues(model)["auto"]
    assert (row["messages"], row["acknowledged"]) == (0, 1)


def test_groups_beyond_those_known_share_places(model: BrokerProcess, wire: Wire) -> None:
    subscribe(wire, "/queue/crowd", ack="auto")
    count = 20_010
    frames = [
        f"SEND\ndestination:/queue/crowd\npersistent:false\nJMSXGroupID:g{number}\n\nx\0"
        for number in range(count)
    ]
    for begin in range(0, count, 500):
        some = frames[begin : begin + 500]
        wire.write("".join(some).encode())
        for _ in some:
            wire.expect("MESSAGE")
    rows = msgspec.json.decode(daybook(model, "queue", "groups", "crowd", "--json"))
    shared = [row for row in rows if row["shared_place"] is not None]
    assert len(rows) == 20_000 + len(shared)
    assert 0 < len(shared) <= 10


def test_a_reset_with_messages_in_flight(model: BrokerProcess, wire: Wire) -> None:
    daybook(model, "queue", "create", "resting", "--group-rebalance-pause-dispatch")
    with connected(model) as first, connected(model) as second:
        for each in (first, second):
            subscribe(each, "/queue/resting")
        sent(wire, "/queue/resting", b"1", JMSXGroupID="g")
        message = first.expect("MESSAGE")
        daybook(model, "queue", "reset-groups", "resting", "--group", "g")
        sent(wire, "/queue/resting", b"2", JMSXGroupID="g")
        assert queues(model)["resting"]["ready"] == 1
        settle(first, "ACK", message)
        assert second.expect("MESSAGE").body == b"2"


# ---- filters


@pytest.mark.parametrize(
    "condition",
    [
        "n = 0x1F AND n = 037 AND n = 31L AND n >= 3.1E1",
        "\"my-name\" = 'it''s'",
        "hyphenated_props:my-name LIKE 'it%' ESCAPE '!'",
        "convert_string_expressions:n + 1 = 32",
        "missing IS NULL AND n IS NOT NULL AND n IN ('31', 'x')",
        "NOT missing = 'x' OR n NOT BETWEEN 40 AND 50 -- a comment",
        "AMQAddress = 'asked' AND AMQPriority = 7 AND AMQDurable = 'DURABLE' /* here */",
        "AMQGroupID = 'g' AND AMQExpiration = 0 AND AMQSize > 0 AND AMQUserID LIKE 'ID:%'",
        "AMQTimestamp = 5 AND JMSType = 'kind'",
    ],
)
def test_what_a_filter_may_say(model: BrokerProcess, wire: Wire, condition: str) -> None:
    subscribe(wire, "/topic/asked", ack="auto", selector=condition)
    headers = {"my-name": "it's", "n": "31", "JMSXGroupID": "g", "type": "kind"}
    sent(wire, "/topic/asked", b"x", priority="7", timestamp="5", **headers)
    assert wire.expect("MESSAGE").body == b"x"


@pytest.mark.parametrize("condition", ["missing = 'x'", "NOT missing = 'x'", "missing <> 'x'"])
def test_what_is_unknown_does_not_pass(model: BrokerProcess, wire: Wire, condition: str) -> None:
    subscribe(wire, "/topic/unknown", ack="auto", selector=condition)
    with connected(model) as producer:
        assert outcome(producer, "/topic/unknown")["dropped"] == "no-matching-filter"


@pytest.mark.parametrize("condition", ["XPATH '/a'", "XQUERY '/a'"])
def test_conditions_on_xml_are_refused(model: BrokerProcess, condition: str) -> None:
    text = refused(model, "SUBSCRIBE", id="s", destination="/queue/xml", selector=condition)
    assert "column" in text


# ---- expiry


def test_expired_messages_go_by_the_address_that_they_were_sent_to(
    model: BrokerProcess, wire: Wire
) -> None:
    subscribe(wire, "/topic/old.*", persistent="true", id="old-subscription")
    wire.send("UNSUBSCRIBE", id="old-subscription", receipt="u")
    wire.expect("RECEIPT")
    before = queues(model)["dsub.old-subscription"]["expired"]
    sent(wire, "/topic/old.kept", b"dropped", ttl="1")
    sent(wire, "/topic/old.moved", b"moved", ttl="1")
    wait_for(lambda: queues(model)["dsub.old-subscription"]["expired"] == before + 2, "the expiry")
    row = queues(model)["old-letters"]
    assert (row["messages"], row["address"]) == (1, "old-letters")
    message = taken(model, "/queue/old-letters")
    assert message.body == b"moved"
    assert message.headers["_AMQ_ORIG_QUEUE"] == "dsub.old-subscription"
    assert "expires" not in message.headers


def test_each_subscription_expires_its_own(model: BrokerProcess, wire: Wire) -> None:
    for name in ("one", "two"):
        subscribe(wire, "/topic/old.each", persistent="true", id=f"each-{name}")
        wire.send("UNSUBSCRIBE", id=f"each-{name}", receipt="u")
        wire.expect("RECEIPT")
    wanted = {name for name in queues(model) if name.startswith(("dsub.each", "dsub.old"))}
    sent(wire, "/topic/old.each", b"both", ttl="1")
    found = {taken(model, "/queue/old-letters").headers["_AMQ_ORIG_QUEUE"] for _ in wanted}
    assert found == wanted >= {"dsub.each-one", "dsub.each-two"}


# ---- redelivery


def test_delays_are_spread_by_the_factor(model: BrokerProcess, wire: Wire) -> None:
    for number in range(20):
        sent(wire, "/queue/spread", b"%d" % number)
    subscribe(wire, "/queue/spread")
    for message in list(wire.frames(20)):
        settle(wire, "NACK", message)
    now = time.time_ns() // 1_000_000
    browsed = msgspec.json.decode(daybook(model, "browse", "spread", "--json"))
    delays = [message["due"] - now for message in browsed["messages"]]
    assert len(delays) == 20
    assert 45_000 < min(delays) < max(delays) <= 150_000
    assert max(delays) - min(delays) > 10_000


def test_what_returns_comes_in_its_old_order(model: BrokerProcess, wire: Wire) -> None:
    for number in range(20):
        sent(wire, "/queue/back", b"%d" % number)
    with connected(model) as first:
        subscribe(first, "/queue/back")
        for _ in range(20):
            first.expect("MESSAGE")
    subscribe(wire, "/queue/back")
    found = [wire.expect("MESSAGE") for _ in range(20)]
    assert [message.body for message in found] == [b"%d" % number for number in range(20)]
    assert {message.headers["redelivered"] for message in found} == {"true"}


def test_a_lost_connection_is_a_failed_attempt(model: BrokerProcess, wire: Wire) -> None:
    sent(wire, "/queue/failing.lost", b"x")
    with connected(model) as first:
        subscribe(first, "/queue/failing.lost")
        first.expect("MESSAGE")
    assert taken(model, "/queue/DLA::DLQ.failing.lost").body == b"x"


def test_dead_letters_of_a_wildcard_subscription_are_named_by_their_address(
    model: BrokerProcess, wire: Wire
) -> None:
    subscribe(wire, "/topic/failing.any.*")
    with connected(model) as producer:
        sent(producer, "/topic/failing.any.one", b"x")
    settle(wire, "NACK", wire.expect("MESSAGE"))
    message = taken(model, "/queue/DLA::DLQ.failing.any.one")
    assert message.headers["_AMQ_ORIG_ADDRESS"] == "failing.any.one"
    assert message.headers["_AMQ_ORIG_ROUTING_TYPE"] == "1"


def test_a_name_that_would_be_too_long_is_cut(model: BrokerProcess, wire: Wire) -> None:
    name = "failing." + "x" * 4085
    sent(wire, f"/queue/{name}", b"x")
    subscribe(wire, f"/queue/{name}")
    settle(wire, "NACK", wire.expect("MESSAGE"))
    (cut,) = [each for each in queues(model) if each.startswith("DLQ.failing.xxx")]
    assert len(cut) == 4096
    assert "~" in cut
    assert taken(model, f"/queue/DLA::{cut}").body == b"x"


def test_ids_of_messages_that_no_queue_took_are_remembered(
    model: BrokerProcess, wire: Wire
) -> None:
    daybook(model, "address", "create", "unheard", "--routing-type", "multicast")
    for _ in range(2):
        sent(wire, "/topic/unheard", b"x", _AMQ_DUPL_ID="1")
    assert queues(model)["UNHEARD"]["messages"] == 1
    assert taken(model, "/queue/UNHEARD").headers["_AMQ_ORIG_QUEUE"] == ""


# ---- delivery


def test_a_consumer_that_is_too_slow_is_closed(model: BrokerProcess, wire: Wire) -> None:
    subscribe(wire, "/queue/slow", credit="1,0")
    with connected(model) as producer:
        for _ in range(300):
            producer.send("SEND", b"x", destination="/queue/slow")
        sent(producer, "/queue/slow", b"x")
    wire.expect("MESSAGE")
    text = wire.expect("ERROR").body.decode()
    assert "slow-consumer-threshold is 100" in text


@pytest.mark.parametrize(
    ("header", "value", "count"),
    [
        ("consumer-window-size", "0", 1),
        ("consumer-window-size", "250", 3),
        ("consumer-window-size", "-1", 10),
        ("activemq.prefetchSize", "4", 4),
        ("credit", "2,0", 2),
    ],
)
def test_windows(model: BrokerProcess, wire: Wire, header: str, value: str, count: int) -> None:
    """A window of bytes is open until it is used up."""
    name = f"/queue/window.{header}.{count}"
    for _ in range(10):
        sent(wire, name, b"x" * 100)
    wire.send("SUBSCRIBE", id="s", destination=name, ack="client", **{header: value})
    for _ in range(count):
        wire.expect("MESSAGE")
    assert queues(model)[name.removeprefix("/queue/")]["in_flight"] == count
    sent(wire, name, b"the next frame is the receipt")


def test_counters(model: BrokerProcess, wire: Wire) -> None:
    name = "failing.counted"
    for body in (b"acknowledged", b"dead", b"flying"):
        sent(wire, f"/queue/{name}", body)
    sent(wire, f"/queue/{name}", b"scheduled", AMQ_SCHEDULED_DELAY="100000")
    subscribe(wire, f"/queue/{name}")
    first, second, third = wire.frames(3)
    settle(wire, "ACK", first)
    settle(wire, "NACK", second)
    daybook(model, "queue", "pause", name)
    sent(wire, f"/queue/{name}", b"expired", ttl="1")
    wait_for(lambda: queues(model)[name]["expired"] == 1, "the expiry")
    row = queues(model)[name]
    figures = ("messages", "in_flight", "scheduled", "added", "acknowledged", "dead_lettered")
    assert [row[each] for each in figures] == [2, 1, 1, 5, 1, 1]
    sent(wire, "/topic/failing.nobody", b"x")
    addresses = rows(model, "address")
    assert (addresses[name]["routed"], addresses[name]["unrouted"]) == (5, 0)
    assert addresses["failing.nobody"]["unrouted"] == 1
    shown = msgspec.json.decode(
        daybook(model, "browse", name, "--filter", "AMQPriority = 4", "--json")
    )
    assert [each["state"] for each in shown["messages"]] == ["in flight", "scheduled"]
    assert third.body == b"flying"


def test_an_unrouted_message_is_retried_by_its_routing_type(
    model: BrokerProcess, wire: Wire
) -> None:
    sent(wire, "/topic/unheard", b"again")
    daybook(model, "queue", "create", "unheard.anycast", "--address", "unheard")
    daybook(
        model, "queue", "create", "unheard.late", "--address", "unheard",
        "--routing-type", "multicast",
    )  # fmt: skip
    daybook(model, "queue", "retry", "UNHEARD")
    row = queues(model)
    assert (row["unheard.late"]["messages"], row["unheard.anycast"]["messages"]) == (1, 0)


def test_the_id_of_a_message_does_not_make_its_copy_a_duplicate(
    model: BrokerProcess, wire: Wire
) -> None:
    sent(wire, "/queue/copies", b"x", _AMQ_DUPL_ID="7")
    for _ in range(2):
        sent(wire, "/queue/copied", b"x", _AMQ_DUPL_ID="7")
    found = queues(model)
    assert (found["copied"]["messages"], found["copies"]["messages"]) == (1, 2)


@pytest.mark.parametrize("header", ["JMSXGroupSeq", "_AMQ_GROUP_SEQUENCE"])
def test_either_header_closes_a_group(model: BrokerProcess, wire: Wire, header: str) -> None:
    subscribe(wire, f"/queue/closing.{header}", ack="auto")
    with connected(model) as producer:
        sent(producer, f"/queue/closing.{header}", b"x", _AMQ_GROUP_ID="g")
        assert queues(model)[f"closing.{header}"]["groups"] == 1
        more = {header: "-1", "_AMQ_GROUP_ID": "g"}
        sent(producer, f"/queue/closing.{header}", b"y", **more)
        assert queues(model)[f"closing.{header}"]["groups"] == 0


def test_the_queue_of_a_subscription_ends_with_it(model: BrokerProcess, wire: Wire) -> None:
    subscribe(wire, "/topic/passing")
    (name,) = [each for each in queues(model) if each.startswith("passing.sub-")]
    assert queues(model)[name]["temporary"]
    wire.send("UNSUBSCRIBE", id="s", receipt="u")
    wire.expect("RECEIPT")
    assert name not in queues(model)


def test_a_paused_queue_is_browsed_and_a_browser_keeps_its_queue(
    model: BrokerProcess, wire: Wire
) -> None:
    sent(wire, "/queue/gone.read", b"x")
    daybook(model, "queue", "pause", "gone.read")
    subscribe(wire, "/queue/gone.read", ack="auto", browser="true", browser_end="false")
    assert wire.expect("MESSAGE").body == b"x"
    daybook(model, "queue", "purge", "gone.read")
    daybook(model, "queue", "resume", "gone.read")
    # A scan has seen this one, and with it the other.
    with connected(model) as other:
        sent(other, "/queue/gone.beside", b"x")
    daybook(model, "queue", "purge", "gone.beside")
    wait_for(lambda: "gone.beside" not in queues(model), "a scan")
    assert "gone.read" in queues(model)
    wire.send("UNSUBSCRIBE", id="s", receipt="u")
    wire.expect("RECEIPT")
    wait_for(lambda: "gone.read" not in queues(model), "the next scan")
