"""Attacks by clients that are logged in: each keeps the broker busy, so that others must wait.

Each attack is a class: `prepare` creates what it needs and may take any time, `attack` must not be
noticed by other clients. It runs in a separate process (`Attack`), so that it takes no time of the
process that measures. `scale` multiplies the size that the tests use. Must never know which client
is measured beside it.
"""

import contextlib
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from bench.attacks import amqp_attacks, console_attacks, filter_attacks, kind_attacks
from bench.attacks.scenarios import BODY, LOTS, Peer, Scenario, ready_in, sends, settle, wait_until
from bench.load.child import Child
from bench.load.frames import LoadError
from daybook.client.control import ControlError, ask


class OldAcks(Scenario):
    """STOMP 1.0 ACKs, which name a message only, with 2,000 subscriptions"""

    version = "1.0"

    def prepare(self) -> None:
        """Subscribe to much, and have the last one hold messages."""
        count = 4000 * self.scale
        for number in range(2000):
            self.peer.put(
                f"SUBSCRIBE\nid:{number}\ndestination:/topic/t.{number}\nack:client\n\n\0".encode()
            )
        self.names = self.in_flight(count, "client-individual", "/queue/old")

    def attack(self) -> None:
        """Acknowledge all in one go."""
        acks = [f"ACK\nmessage-id:{name}\n\n\0" for name in self.names]
        self.peer.put("".join(acks).encode())
        self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")


class FanOut(Scenario):
    """SENDs to 500 subscribers that do not read"""

    subscriptions = 500
    messages = 900
    header = ""

    def prepare(self) -> None:
        """Subscribe; a credit of one byte is used up by the first message."""
        made = (
            f"SUBSCRIBE\nid:{number}\ndestination:/topic/wide\nack:client\ncredit:0,1\n\n\0"
            for number in range(self.subscriptions)
        )
        self.peer.put("".join(made).encode())
        self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")

    def attack(self) -> None:
        """At once, from another connection."""
        other = Peer(self.port)
        other.put(sends("/topic/wide", self.messages * self.scale, self.header))
        other.do(f"SEND\ndestination:/topic/wide\n{self.header}\n{BODY}")


class WidestFanOut(FanOut):
    """SENDs to 10,000 subscribers that do not read, as many as one user may have"""

    subscriptions = 10_000
    messages = 40


class ScheduledFanOut(WidestFanOut):
    """SENDs to 10,000 subscribers, all to be delivered a second later"""

    header = "AMQ_SCHEDULED_DELAY:1000\n"

    def attack(self) -> None:
        """Send, and wait until they are due."""
        super().attack()
        time.sleep(3)


class Drip(Scenario):
    """a SEND with 990 escaped headers, byte by byte from the end of its head on"""

    def attack(self) -> None:
        """Drip the body, so that the head is whole each time."""
        lines = "".join(f"h{number}:\\c\\c\\c\n" for number in range(990))
        body = "x" * 1000 * self.scale
        head = f"SEND\ndestination:/queue/drip\nreceipt:dripped\n{lines}"
        self.peer.put(f"{head}content-length:{len(body)}\n\n".encode())
        for byte in body:
            self.peer.put(byte.encode())
            time.sleep(0.0002)
        self.peer.ask(b"\0", b"receipt-id:dripped")


class TransactedAcks(Scenario):
    """`ack:client` in transactions, message by message, with as much in flight as one takes"""

    def prepare(self) -> None:
        """Have as much in flight."""
        self.names = self.in_flight(980, "client")

    def attack(self) -> None:
        """Acknowledge all, one after the other, in transactions that are then rolled back."""
        for _ in range(25 * self.scale):
            acks = [f"ACK\ntransaction:t\nid:{name}\n\n\0" for name in self.names]
            self.peer.put(("BEGIN\ntransaction:t\n\n\0" + "".join(acks)).encode())
            self.peer.do("ABORT\ntransaction:t\n\n")


class TemporaryQueue(Scenario):
    """the owner of a temporary queue with 20,000 messages leaves"""

    def prepare(self) -> None:
        """Subscribe and do not read; others send."""
        self.peer.do("SUBSCRIBE\nid:1\ndestination:/topic/temporary\nack:client\ncredit:0,1\n\n")
        self.fill("/topic/temporary", 20_000 * self.scale)

    def attack(self) -> None:
        """Leave, and wait until it is gone."""
        self.peer.close()
        settle(self.data)


class DurableSubscription(Scenario):
    """a durable subscription with 20,000 messages is deleted"""

    def prepare(self) -> None:
        """Subscribe, go away, and let it grow."""
        self.peer.do(
            "SUBSCRIBE\nid:durable\ndestination:/topic/durable\npersistent:true\nack:client\n"
            "credit:0,1\n\n"
        )
        self.fill("/topic/durable", 20_000 * self.scale)

    def attack(self) -> None:
        """Delete it with its messages."""
        self.peer.do("UNSUBSCRIBE\nid:durable\npersistent:true\n\n")
        settle(self.data)


class Unsubscribe(Scenario):
    """UNSUBSCRIBE with 20,000 messages in flight"""

    def prepare(self) -> None:
        """Have them in flight."""
        self.in_flight(20_000 * self.scale, "client-individual")

    def attack(self) -> None:
        """All of them return."""
        self.peer.do("UNSUBSCRIBE\nid:mine\n\n")


class Vanish(Unsubscribe):
    """a connection with 20,000 messages in flight vanishes"""

    def attack(self) -> None:
        """Without a word."""
        self.peer.close()
        settle(self.data)


class Crowd(Scenario):
    """a connection with 2,000 subscriptions to one queue and 20,000 messages in flight vanishes"""

    def prepare(self) -> None:
        """Have them in flight, each subscription with its share."""
        made = (
            f"SUBSCRIBE\nid:{number}\ndestination:/queue/crowded\nack:client\n"
            f"credit:{LOTS},{LOTS}\n\n\0"
            for number in range(2000)
        )
        self.peer.put("".join(made).encode())
        self.fill("/queue/crowded", 20_000 * self.scale)
        self.peer.take(20_000 * self.scale)

    def attack(self) -> None:
        """Without a word."""
        self.peer.close()
        settle(self.data)


class CumulativeAck(Scenario):
    """one ACK of 20,000 messages (`ack:client`)"""

    command = "ACK"

    def prepare(self) -> None:
        """Have them in flight."""
        self.names = self.in_flight(20_000 * self.scale, "client")

    def attack(self) -> None:
        """All of them by the last one."""
        self.peer.do(f"{self.command}\nid:{self.names[-1]}\n\n")


class CumulativeNack(CumulativeAck):
    """one NACK of 20,000 messages (`ack:client`)"""

    command = "NACK"


class Nacks(Scenario):
    """NACKs as fast as they come back"""

    def prepare(self) -> None:
        """Have some in flight."""
        self.names = self.in_flight(2000, "client-individual")

    def attack(self) -> None:
        """Nack and get again, until no message comes any more."""
        for _ in range(3 * self.scale):
            self.peer.put("".join(f"NACK\nid:{name}\n\n\0" for name in self.names).encode())
            self.names = self.peer.take(len(self.names))


class Commits(Scenario):
    """commits of transactions as large as may be"""

    def attack(self) -> None:
        """Send as much as one takes, several times."""
        for _ in range(15 * self.scale):
            self.peer.put(b"BEGIN\ntransaction:t\n\n\0")
            self.peer.put(sends("/queue/committed", 980, "transaction:t\n"))
            self.peer.do("COMMIT\ntransaction:t\n\n")


class Subscriptions(Scenario):
    """5,000 subscriptions made and ended, over and over"""

    def attack(self) -> None:
        """Make and end them in the same breath."""
        for _ in range(self.scale):
            made = (
                f"SUBSCRIBE\nid:{number}\ndestination:/topic/s\nack:client\n\n\0"
                for number in range(5000)
            )
            self.peer.put("".join(made).encode())
            ended = (f"UNSUBSCRIBE\nid:{number}\n\n\0" for number in range(5000))
            self.peer.put("".join(ended).encode())
            self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")


class ManySubscriptions(Scenario):
    """a connection with 5,000 subscriptions vanishes"""

    def prepare(self) -> None:
        """Make them."""
        made = (
            f"SUBSCRIBE\nid:{number}\ndestination:/topic/many\nack:client\n\n\0"
            for number in range(5000)
        )
        self.peer.put("".join(made).encode())
        self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")

    def attack(self) -> None:
        """Without a word."""
        self.peer.close()
        settle(self.data)


class Leaving(Scenario):
    """connections with 10,000 subscriptions to a topic each, and five messages, vanish"""

    subscriptions = 10_000
    messages = 5

    def prepare(self) -> None:
        """Subscribe as often as a connection may, and let all of them hold messages."""
        self.peers = [Peer(self.port) for _ in range(self.scale)]
        for peer in self.peers:
            made = (
                f"SUBSCRIBE\nid:{number}\ndestination:/topic/left\nack:client\ncredit:0,1\n\n\0"
                for number in range(self.subscriptions)
            )
            peer.put("".join(made).encode())
            peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")
        self.fill("/topic/left", self.messages)

    def attack(self) -> None:
        """Without a word."""
        for peer in self.peers:
            peer.close()
        settle(self.data)


class Deaf(Scenario):
    """100 subscribers that never read are sent 4 MB each, and vanish"""

    def prepare(self) -> None:
        """Subscribe with each, and stop reading."""
        self.peers = [Peer(self.port) for _ in range(100 * self.scale)]
        for peer in self.peers:
            peer.do("SUBSCRIBE\nid:1\ndestination:/topic/deaf\n\n")

    def attack(self) -> None:
        """Publish, and leave."""
        for _ in range(200):
            self.peer.do(f"SEND\ndestination:/topic/deaf\n\n{'x' * 20_000}")
        for peer in self.peers:
            peer.close()
        settle(self.data)


class OpenTransactions(Scenario):
    """six connections with transactions as large as may be, which vanish"""

    def attack(self) -> None:
        """Send without a commit."""
        body = "x" * 20_000
        for _ in range(self.scale):
            peers = [Peer(self.port) for _ in range(6)]
            for peer in peers:
                peer.put(b"BEGIN\ntransaction:t\n\n\0")
                frame = f"SEND\ndestination:/queue/open\ntransaction:t\n\n{body}\0".encode()
                peer.put(frame * 400)
                peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")
            for peer in peers:
                peer.close()
            settle(self.data)


class Expiry(Scenario):
    """10,000 messages expire at once"""

    def prepare(self) -> None:
        """Send messages that expire soon."""
        self.soon = int(time.time() * 1000) + 8000 * self.scale
        self.fill("/queue/expiring", 10_000 * self.scale, f"expires:{self.soon}\n")

    def approach(self) -> None:
        """Until they expire."""
        self.wait_for(self.soon)

    def attack(self) -> None:
        """Look at the queue, so that they are found out."""
        self.peer.put(b"SUBSCRIBE\nid:1\ndestination:/queue/expiring\nack:client\n\n\0")
        wait_until(lambda: ready_in(self.data, "expiring") == 0, "all messages to expire")


class Purge(Scenario):
    """an administrator purges 20,000 messages, and deletes a queue with as many"""

    def prepare(self) -> None:
        """Fill two queues."""
        self.fill("/queue/purged", 20_000 * self.scale)
        self.fill("/queue/deleted", 20_000 * self.scale)

    def attack(self) -> None:
        """As the command line does."""
        ask(self.data, {"do": "purge-queue", "queue": "purged"})
        ask(self.data, {"do": "delete-queue", "queue": "deleted", "force": True})
        settle(self.data)


class Flood(Scenario):
    """small frames of every kind, as fast as they are taken"""

    def attack(self) -> None:
        """Sends, transactions, subscriptions, and line ends between them."""
        frames = (
            b"BEGIN\ntransaction:t\n\n\0ABORT\ntransaction:t\n\n\0\n\n\n\n"
            b"SEND\ndestination:/queue/f\n\n\0SEND\ndestination:/topic/nobody\n\n\0"
            b"SUBSCRIBE\nid:f\ndestination:/queue/f\nack:auto\n\n\0UNSUBSCRIBE\nid:f\n\n\0"
        )
        for _ in range(10 * self.scale):
            self.peer.ask(frames * 300, b"")
        self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")


class Backlog(Scenario):
    """a backlog that leaves memory as fast as it grows"""

    def attack(self) -> None:
        """Send to a queue without consumers."""
        self.fill("/queue/backlog", 30_000 * self.scale)


SCENARIOS: Final[dict[str, type[Scenario]]] = {
    "old-acks": OldAcks,
    "fan-out": FanOut,
    "widest-fan-out": WidestFanOut,
    "scheduled-fan-out": ScheduledFanOut,
    "drip": Drip,
    "transacted-acks": TransactedAcks,
    "temporary-queue": TemporaryQueue,
    "durable-subscription": DurableSubscription,
    "unsubscribe": Unsubscribe,
    "vanish": Vanish,
    "crowd": Crowd,
    "cumulative-ack": CumulativeAck,
    "cumulative-nack": CumulativeNack,
    "nacks": Nacks,
    "commits": Commits,
    "subscriptions": Subscriptions,
    "many-subscriptions": ManySubscriptions,
    "leaving": Leaving,
    "deaf": Deaf,
    "open-transactions": OpenTransactions,
    "expiry": Expiry,
    "purge": Purge,
    "flood": Flood,
    "backlog": Backlog,
    "selectors": filter_attacks.Selectors,
    "selective-fan-out": filter_attacks.SelectiveFanOut,
    "shared-selectors": filter_attacks.SharedSelectors,
    "selective-commits": filter_attacks.SelectiveCommits,
    "parsing": filter_attacks.Parsing,
    "temporaries": kind_attacks.Temporaries,
    "duplicates": kind_attacks.Duplicates,
    "retained": kind_attacks.Retained,
    "groups": kind_attacks.Groups,
    "due-at-once": kind_attacks.DueAtOnce,
    "wildcard-queues": kind_attacks.WildcardQueues,
    "browsers": kind_attacks.Browsers,
    **amqp_attacks.SCENARIOS,
    **console_attacks.SCENARIOS,
}


class Attack(Child):
    """An attack in a separate process, which prepares it on entry."""

    def __init__(self, name: str, port: int, data: Path, scale: int = 1) -> None:
        """Choose one of SCENARIOS, on a broker that listens at `port` for its protocol, and has its
        files in `data`."""
        super().__init__(
            "the attacker", "bench.attacks.attacks", name, str(port), str(data), str(scale)
        )

    def approach(self) -> None:
        """Wait until the attack can begin. Raises LoadError if its moment has passed."""
        self.say("come")
        self.answer()

    def run(self) -> None:
        """Run the attack until its end. Raises LoadError if it failed."""
        self.say("go")
        self.answer()


def main(arguments: Iterable[str]) -> int:
    """Run the process: prepare and answer; wait for the moment of the attack at the first line,
    attack at the line `go`, and answer each."""
    name, port, data, scale = arguments
    with _telling():
        scenario = SCENARIOS[name](int(port), Path(data), int(scale))
        scenario.prepare()
        print("{}", flush=True)
        is_near = False
        for line in sys.stdin:
            if not is_near:
                scenario.approach()
                is_near = True
            if line.strip() == "go":
                scenario.attack()
            print("{}", flush=True)
    return 0


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    """Send an error as an answer."""
    try:
        yield
    except (LoadError, OSError, ControlError) as error:
        print(json.dumps({"wrong": str(error)}), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
