"""The flow of messages never stalls: room, credit, back-pressure and their interplay.

A consumer that gets nothing any more though messages are ready is the bug that these tests hunt.
"""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.using import status
from tests.interop.wire import Frame, Wire
from tests.support.process import BrokerProcess, wait_for
from tests.support.suite.chance import seed_of

pytestmark = pytest.mark.interop

MIB = 1 << 20


def send_many(port: int, destination: str, count: int, body: bytes) -> None:
    """Send messages, and wait for the receipt of the last one."""
    with Wire(port) as producer:
        producer.connect()
        for number in range(count):
            receipt = {"receipt": "last"} if number == count - 1 else {}
            producer.send("SEND", body, destination=destination, n=number, **receipt)
        assert producer.expect("RECEIPT").headers["receipt-id"] == "last"


def take(consumer: Wire, count: int) -> list[Frame]:
    """Read messages, and nothing else."""
    frames = list(consumer.frames(count))
    assert {frame.command for frame in frames} == {"MESSAGE"}
    return frames


@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
def test_a_new_subscription_has_room_that_an_old_one_used_up(
    broker: BrokerProcess, ack: str
) -> None:
    """Without receipts and heart-beats nothing but the subscription itself can set it going."""
    body = bytes(100_000)
    send_many(broker.port, "/queue/a", 60, body)
    with Wire(broker.port) as consumer:
        consumer.connect()
        for number in range(6):
            consumer.send("SUBSCRIBE", destination="/queue/a", id=number, ack=ack, credit="1000")
            first = consumer.expect("MESSAGE")
            consumer.send("UNSUBSCRIBE", id=number)
            # Messages that were on the way when UNSUBSCRIBE arrived come first.
            consumer.send("SEND", b"end", destination=f"/queue/end{number}", receipt=number)
            while (frame := consumer.read()).command == "MESSAGE":
                assert frame.headers["subscription"] == first.headers["subscription"]
            assert frame.headers["receipt-id"] == str(number)
            send_many(broker.port, "/queue/a", 12, body)
        consumer.send("SUBSCRIBE", destination="/queue/a", id="x", ack="auto")
        consumer.expect("MESSAGE")


@pytest.mark.parametrize("ack", ["auto", "client-individual"])
def test_a_small_room_does_not_stall(tmp_path: Path, ack: str) -> None:
    """Less room than the socket's buffer: no event says when the kernel takes the rest."""
    config = '[[acceptor]]\nlisten = "127.0.0.1:0"\nbuffer-size = "4KiB"\n'
    with BrokerProcess(tmp_path / "data", config=config, listen=()) as broker:
        broker.start()
        send_many(broker.port, "/queue/a", 400, bytes(20_000))
        with Wire(broker.port, receive_buffer=4096) as consumer:
            consumer.connect()
            consumer.send("SUBSCRIBE", destination="/queue/a", id=1, ack=ack)
            for number, frame in enumerate(consumer.frames(400)):
                assert frame.headers["n"] == str(number)
                if ack != "auto":
                    consumer.send("ACK", id=frame.headers["ack"])
                if number % 100 == 50:
                    # The broker's buffers fill up while nobody reads.
                    time.sleep(0.2)


def test_a_consumer_that_stops_reading_and_goes_on_gets_everything(broker: BrokerProcess) -> None:
    send_many(broker.port, "/queue/a", 300, bytes(50_000))
    with Wire(broker.port, receive_buffer=8192) as consumer:
        consumer.connect()
        consumer.send("SUBSCRIBE", destination="/queue/a", id=1)
        wait_for(
            lambda: status(broker)["consumers"] == 1,
            "the subscription",
        )
        for number, frame in enumerate(take(consumer, 300)):
            assert frame.headers["n"] == str(number)


def test_credit_counts_bodies_and_holds_without_acknowledgements(broker: BrokerProcess) -> None:
    send_many(broker.port, "/queue/a", 30, b"x")
    with Wire(broker.port) as consumer:
        consumer.connect()
        # Two windows: of messages none, of bytes of bodies ten.
        consumer.send("SUBSCRIBE", destination="/queue/a", id=1, ack="client", credit="0,10")
        taken = take(consumer, 10)
        consumer.send("SEND", destination="/queue/b", receipt="no more")
        assert consumer.expect("RECEIPT").headers["receipt-id"] == "no more"
        consumer.send("ACK", id=taken[-1].headers["ack"])
        take(consumer, 10)
    with Wire(broker.port) as consumer:
        consumer.connect()
        consumer.send("SUBSCRIBE", destination="/queue/a", id=1, credit="5,0")
        first = take(consumer, 5)[0]
        consumer.send("SEND", destination="/queue/b", receipt="no more")
        assert consumer.expect("RECEIPT").headers["receipt-id"] == "no more"
        consumer.send("ACK", id=first.headers["ack"], receipt="acknowledged")
        assert {consumer.read().command, consumer.read().command} == {"RECEIPT", "MESSAGE"}
        consumer.send("SEND", destination="/queue/b", receipt="no more")
        assert consumer.expect("RECEIPT").headers["receipt-id"] == "no more"
    wait_for(lambda: status(broker)["messages_ready"] == 14 + 3, "what nobody took")


class Meal:
    """The bodies to consume: each once, by any consumer."""

    def __init__(self, total: int) -> None:
        self.lock = threading.Lock()
        self.total = total
        self.eaten: set[str] = set()
        self.failures: list[str] = []

    def eat(self, bodies: list[str]) -> None:
        with self.lock:
            twice = self.eaten.intersection(bodies)
            if twice:
                self.failures.append(f"{twice} came again after their ACK")
            self.eaten.update(bodies)

    @property
    def is_over(self) -> bool:
        return len(self.eaten) == self.total or bool(self.failures)


class Eater:
    """A consumer of changing habits: ack modes, credits, pauses, subscriptions that end."""

    def __init__(self, port: int, meal: Meal, seed: int) -> None:
        self.port = port
        self.meal = meal
        self.random = random.Random(seed)
        self.modes: dict[str, str] = {}
        self.unacked: list[Frame] = []
        self.current = ""
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        try:
            while not self.meal.is_over:
                with Wire(self.port, receive_buffer=self.random.choice((0, 4096))) as wire:
                    wire.connect(heart_beat="0,0")
                    wire.socket.settimeout(0.1)
                    self.serve(wire)
        except Exception as error:
            self.meal.failures.append(f"{self.current}: {error!r}")

    def serve(self, wire: Wire) -> None:
        self.modes, self.unacked, self.current = {}, [], ""
        for _ in range(self.random.randint(20, 400)):
            if self.meal.is_over:
                return
            if not self.current:
                self.subscribe(wire)
            try:
                frame = wire.read()
            except TimeoutError:
                self.settle(wire)
                continue
            assert frame.command == "MESSAGE", frame
            self.take(wire, frame)
        self.settle(wire)
        # Messages on the way to an automatic subscription count as consumed: read them all.
        if self.current:
            wire.send("UNSUBSCRIBE", id=self.current)
        wire.send("DISCONNECT", receipt="bye")
        wire.socket.settimeout(30)
        while (frame := wire.read()).command == "MESSAGE":
            if self.modes[frame.headers["subscription"]] == "auto":
                self.meal.eat([frame.headers["n"]])
        assert frame.headers.get("receipt-id") == "bye", frame

    def subscribe(self, wire: Wire) -> None:
        self.current = str(len(self.modes))
        mode = self.random.choice(("auto", "client", "client-individual"))
        self.modes[self.current] = mode
        credit = self.random.choice(("1", "3", "7,1", "0,100", "2,50000", "500"))
        wire.send("SUBSCRIBE", destination="/queue/meal", id=self.current, ack=mode, credit=credit)

    def take(self, wire: Wire, frame: Frame) -> None:
        subscription = frame.headers["subscription"]
        if self.modes[subscription] == "auto":
            self.meal.eat([frame.headers["n"]])
            if subscription == self.current:
                # It acknowledges nothing, and gives the credit back.
                wire.send("ACK", id=frame.headers["ack"])
        elif subscription == self.current:
            self.unacked.append(frame)
            if self.random.random() < 0.5:
                self.settle(wire)
        draw = self.random.random()
        if draw < 0.02:
            self.settle(wire)
            wire.send("UNSUBSCRIBE", id=self.current)
            self.current = ""
        elif draw < 0.03:
            time.sleep(0.1)

    def settle(self, wire: Wire) -> None:
        """Settle all that is unacknowledged, in the way of the subscription."""
        unacked, self.unacked = self.unacked, []
        if not unacked:
            return
        if self.modes[self.current] == "client":
            wire.send("ACK", id=unacked[-1].headers["ack"])
            self.meal.eat([frame.headers["n"] for frame in unacked])
            return
        for frame in unacked:
            if self.random.random() < 0.1:
                wire.send("NACK", id=frame.headers["ack"])
            else:
                self.meal.eat([frame.headers["n"]])
                wire.send("ACK", id=frame.headers["ack"])


def test_random_consumers_eat_everything(tmp_path: Path) -> None:
    """Many habits, small rooms: whatever they do, every message is delivered in the end."""
    seed = seed_of(__name__)
    config = (
        '[[acceptor]]\nlisten = "127.0.0.1:0"\nbuffer-size = "8KiB"\n'
        '[[address-setting]]\nmatch = "#"\nmax-delivery-attempts = -1\n'
    )
    chance = random.Random(seed)
    meal = Meal(total=4000)
    with BrokerProcess(tmp_path / "data", config=config, listen=()) as broker:
        broker.start()
        eaters = [Eater(broker.port, meal, chance.randrange(1 << 32)) for _ in range(6)]
        for eater in eaters:
            eater.thread.start()
        with Wire(broker.port) as producer:
            producer.connect()
            for number in range(meal.total):
                size = chance.choice((0, 10, 1000, 1000, 20_000, 100_000))
                producer.send("SEND", bytes(size), destination="/queue/meal", n=number)
            producer.send("DISCONNECT", receipt="all")
            producer.expect("RECEIPT")
        wait_for_progress(meal, lambda: f"seed {seed}: {ask_all(broker)}")
        for eater in eaters:
            eater.thread.join(60)
            assert not eater.thread.is_alive()
        assert not meal.failures, f"seed {seed}: {meal.failures[:3]}"
        assert status(broker)["messages_ready"] == 0


def wait_for_progress(meal: Meal, explain: Callable[[], str]) -> None:
    """Wait until the meal is over; AssertionError when nothing is eaten for a long while."""
    before = -1
    since = time.monotonic()
    while not meal.is_over:
        if len(meal.eaten) > before:
            before = len(meal.eaten)
            since = time.monotonic()
        assert time.monotonic() - since < 45, f"nothing moves any more: {explain()}"
        time.sleep(0.05)


def ask_all(broker: BrokerProcess) -> str:
    """The broker's own figures, for the report of a failure."""
    return f"{status(broker)} {status(broker, 'queues')}"
