"""Message groups on a real broker, by the headers that Artemis reads."""

import msgspec
import pytest

from tests.interop.using import daybook, queues
from tests.interop.wire import Frame, Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop


class Worker(Wire):
    """A consumer of the queue `jobs`."""

    def __init__(
        self, broker: BrokerProcess, destination: str = "/queue/jobs", **more: str
    ) -> None:
        super().__init__(broker.port, seconds=20)
        self.connect()
        headers = {"ack": "client-individual", "destination": destination, **more}
        self.send("SUBSCRIBE", id="s", receipt="s", **headers)
        self.expect("RECEIPT")

    def get(self, count: int) -> str:
        """The bodies of the next messages, which are acknowledged after all have come."""
        frames = [self.expect("MESSAGE") for _ in range(count)]
        self.ack(*frames)
        return " ".join(frame.body.decode() for frame in frames)

    def ack(self, *frames: Frame) -> None:
        """Acknowledge messages; nothing else has come before the receipt."""
        for frame in frames:
            self.send("ACK", id=frame.headers["ack"])

    def has_no_more(self) -> bool:
        """Whether nothing was delivered by now."""
        self.send("BEGIN", transaction="x", receipt="b")
        found = self.read()
        self.send("ABORT", transaction="x")
        return found.command == "RECEIPT"


class Producer(Wire):
    """A client that sends messages whose bodies begin with the letter of their group."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(broker.port, seconds=20)
        self.connect()

    def put(self, bodies: str, header: str = "JMSXGroupID", **more: str) -> None:
        for body in bodies.split():
            group = {} if body[0] == "-" else {header: body[0]}
            headers = {"destination": "/queue/jobs", **group, **more}
            self.send("SEND", body.encode(), receipt="r", **headers)
            self.expect("RECEIPT")


@pytest.mark.parametrize("header", ["JMSXGroupID", "_AMQ_GROUP_ID", "message_group"])
def test_each_group_sticks_to_a_consumer(broker: BrokerProcess, header: str) -> None:
    with Worker(broker) as first, Worker(broker) as second, Producer(broker) as producer:
        producer.put("a1 b1 a2 a3 b2 c1 c2", header)
        assert (first.get(5), second.get(2)) == ("a1 a2 a3 c1 c2", "b1 b2")
        assert queues(broker)["jobs"]["groups"] == 3


def test_another_consumer_gets_the_group_in_order(broker: BrokerProcess) -> None:
    with Worker(broker) as second, Producer(broker) as producer:
        with Worker(broker, credit="2,0") as first:
            producer.put("b0 a1 a2 a3 b1")
            assert second.get(2) == "b0 b1"
            assert first.expect("MESSAGE").body == b"a1"
        assert second.get(3) == "a1 a2 a3"


def test_a_busy_consumer_does_not_delay_other_groups(broker: BrokerProcess) -> None:
    one = {"credit": "1,0"}
    with (
        Producer(broker) as producer,
        Worker(broker, **one) as slow,
        Worker(broker, **one) as quick,
    ):
        producer.put("a1 b1 a2 a3 b2 -1 c1 b3")
        frame = slow.expect("MESSAGE")
        assert frame.body == b"a1"
        assert [quick.get(1) for _ in range(5)] == ["b1", "b2", "-1", "c1", "b3"]
        assert quick.has_no_more()
        slow.ack(frame)
        assert [slow.get(1) for _ in range(2)] == ["a2", "a3"]


@pytest.mark.parametrize("header", ["JMSXGroupSeq", "_AMQ_GROUP_SEQUENCE"])
def test_minus_one_closes_a_group(broker: BrokerProcess, header: str) -> None:
    with Worker(broker) as first, Worker(broker) as second, Producer(broker) as producer:
        producer.put("a1")
        producer.put("a2", **{header: "-1"})
        producer.put("a3 a4")
        assert (first.get(2), second.get(2)) == ("a1 a2", "a3 a4")


def test_buckets_and_none(broker: BrokerProcess) -> None:
    daybook(broker, "queue", "create", "jobs", "--group-buckets", "1")
    with Worker(broker) as first, Worker(broker) as second, Producer(broker) as producer:
        producer.put("a1 b1 -1 c1")
        assert (first.get(3), second.get(1)) == ("a1 b1 c1", "-1")
        assert queues(broker)["jobs"]["groups"] == 1
    daybook(broker, "queue", "create", "none", "--group-buckets", "0")
    none = "/queue/none"
    with (
        Producer(broker) as producer,
        Worker(broker, none) as first,
        Worker(broker, none) as second,
    ):
        producer.put("a1 a2 a3 a4", destination=none)
        assert (first.get(2), second.get(2)) == ("a1 a3", "a2 a4")


def test_the_first_of_a_group_is_marked(broker: BrokerProcess) -> None:
    daybook(broker, "queue", "create", "jobs", "--group-first-key", "first-of-group")
    with Producer(broker) as producer:
        producer.put("a1 a2 b1 -1")
        for _ in range(2):
            # The mark is of the delivery: the next consumer gets it again.
            with Worker(broker) as worker:
                found = [worker.expect("MESSAGE") for _ in range(4)]
                assert [each.headers.get("first-of-group") for each in found] == [
                    "true", None, "true", None,
                ]  # fmt: skip
                assert found[0].headers["JMSXGroupID"] == "a"


def test_rebalance_waits_for_what_is_in_flight(broker: BrokerProcess) -> None:
    daybook(
        broker, "queue", "create", "jobs", "--group-rebalance",
        "--group-rebalance-pause-dispatch",
    )  # fmt: skip
    with Producer(broker) as producer, Worker(broker) as first:
        producer.put("a1 b1")
        frames = [first.expect("MESSAGE") for _ in range(2)]
        with Worker(broker) as second:
            producer.put("a2 b2 a3 b3")
            assert first.has_no_more()
            assert second.has_no_more()
            first.ack(*frames)
            found = [first.get(2).split(), second.get(2).split()]
            assert sorted(found) == [["a2", "a3"], ["b2", "b3"]]


def test_rebalance_at_once_by_a_setting(broker: BrokerProcess) -> None:
    broker.stop()
    broker.configure(
        '[[address-setting]]\nmatch = "jobs"\ndefault-group-rebalance = true\n'
        'default-group-first-key = "first"\n'
    )
    broker.start()
    with Producer(broker) as producer, Worker(broker) as first:
        producer.put("a1 b1")
        assert first.get(2) == "a1 b1"
        with Worker(broker) as second:
            producer.put("a2 b2")
            (one,) = [first.expect("MESSAGE")]
            (other,) = [second.expect("MESSAGE")]
            assert sorted((one.body, other.body)) == [b"a2", b"b2"]
            assert (one.headers["first"], other.headers["first"]) == ("true", "true")


def test_a_message_that_its_consumer_does_not_want(broker: BrokerProcess) -> None:
    wanted = {"selector": "kind = 'big'"}
    with Producer(broker) as producer, Worker(broker, **wanted) as big, Worker(broker) as other:
        producer.put("a1", kind="big")
        producer.put("a2", kind="small")
        producer.put("a3", kind="big")
        assert (big.get(2), other.get(1)) == ("a1 a3", "a2")


def test_groups_of_a_queue_that_pages(broker: BrokerProcess) -> None:
    broker.stop()
    broker.configure(
        '[[address-setting]]\nmatch = "jobs"\nmax-size-messages = 0\n'
        "max-read-page-messages = 1\nprefetch-page-messages = 1\n"
    )
    broker.start()
    with Producer(broker) as producer:
        producer.put(" ".join(f"{group}{number}" for number in range(20) for group in "ab-"))
        broker.kill()
    broker.start()
    with Worker(broker, credit="1,0") as slow, Worker(broker, credit="1,0") as quick:
        frame = slow.expect("MESSAGE")
        assert frame.body == b"a0"
        got = [quick.get(1) for _ in range(40)]
        assert [body for body in got if body[0] == "b"] == [f"b{number}" for number in range(20)]
        assert not [body for body in got if body[0] == "a"]
        slow.ack(frame)
        assert [slow.get(1) for _ in range(19)] == [f"a{number}" for number in range(1, 20)]


def test_a_group_goes_to_one_queue_of_an_address(broker: BrokerProcess) -> None:
    """The seed on sharded queues: the broker routes grouped messages to the same queue."""
    for name in ("q1", "q2", "q3"):
        daybook(broker, "queue", "create", name, "--address", "jobs")
    with Producer(broker) as producer:
        producer.put("a1 b1 c1 d1 e1 f1 g1 h1 a2 b2 c2 d2 e2 f2 g2 h2 a3 b3 c3 d3 e3 f3 g3 h3")
    shards = []
    for name in ("q1", "q2", "q3"):
        browsed = msgspec.json.decode(daybook(broker, "browse", name, "--json"))
        shards.append([row["body"] for row in browsed["messages"]])
    groups = [{body[0] for body in bodies} for bodies in shards]
    assert sum(map(len, groups)) == 8
    assert sum(map(bool, groups)) > 1
    assert sum(map(len, shards)) == 24


def test_an_exclusive_queue_knows_no_groups(broker: BrokerProcess) -> None:
    daybook(broker, "queue", "create", "jobs", "--exclusive")
    with Worker(broker) as first, Worker(broker) as second, Producer(broker) as producer:
        producer.put("a1 b1 c1")
        assert first.get(3) == "a1 b1 c1"
        assert second.has_no_more()


def test_groups_are_listed_and_reset_by_command(broker: BrokerProcess) -> None:
    with Worker(broker) as first, Worker(broker) as second, Producer(broker) as producer:
        producer.put("a1 b1 a2")
        assert (first.get(2), second.get(1)) == ("a1 a2", "b1")
        rows = msgspec.json.decode(daybook(broker, "queue", "groups", "jobs", "--json"))
        assert [row["group"] for row in rows] == ["a", "b"]
        assert rows[0]["consumer"] != rows[1]["consumer"]
        assert "guest" in daybook(broker, "queue", "groups", "jobs")
        told = daybook(broker, "queue", "reset-groups", "jobs", "--group", "b")
        assert told == "reset group 'b' of queue 'jobs'\n"
        producer.put("b2 a3")
        assert first.get(2) == "b2 a3"
        told = daybook(broker, "queue", "reset-groups", "jobs")
        assert told == "reset all message groups of queue 'jobs'\n"
        assert msgspec.json.decode(daybook(broker, "queue", "groups", "jobs", "--json")) == []
        again = daybook(broker, "queue", "reset-groups", "jobs")
        assert again == "already set; nothing changed\n"
        producer.put("a4 b3")
        assert (second.get(1), first.get(1)) == ("a4", "b3")
