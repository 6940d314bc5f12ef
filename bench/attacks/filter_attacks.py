"""Attacks with selectors that are long, many, or different each time."""

import time
from typing import Final

from bench.attacks.scenarios import BODY, SECONDS, Peer, Scenario, sends


def selector(number: int, like: int = 60) -> str:
    """A long selector that no message of these attacks passes, unlike every other one."""
    parts = " OR ".join(f"kind LIKE '%{number}x{each}%'" for each in range(like))
    return f"n = 'mine-{number}' OR {parts}"


LONG_HEADERS: Final = f"kind:{'abc' * 300}\nother:{'xyz' * 300}\n"


class Selectors(Scenario):
    """300 consumers with long LIKE selectors, and 20,000 messages of 2 KB on their queue"""

    consumers = 300
    messages = 20_000

    def prepare(self) -> None:
        """Fill the queue."""
        self.fill("/queue/selected", self.messages * self.scale, LONG_HEADERS)

    def attack(self) -> None:
        """Subscribe, and search for missing messages for some seconds."""
        for number in range(self.consumers):
            self.peer.put(
                f"SUBSCRIBE\nid:{number}\ndestination:/queue/selected\nack:client\n"
                f"selector:{selector(number)}\n\n\0".encode()
            )
        self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")
        time.sleep(SECONDS)


class SelectiveFanOut(Scenario):
    """SENDs to 2,000 subscribers with LIKE selectors"""

    subscriptions = 2000
    different = 2000
    like = 5

    def prepare(self) -> None:
        """Subscribe."""
        for number in range(self.subscriptions):
            text = selector(number % self.different, self.like)
            self.peer.put(
                f"SUBSCRIBE\nid:{number}\ndestination:/topic/picky\nack:client\n"
                f"selector:{text}\n\n\0".encode()
            )
        self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")

    def attack(self) -> None:
        """Send to all of them."""
        other = Peer(self.port)
        other.put(sends("/topic/picky", 10 * self.scale, LONG_HEADERS))
        other.do(f"SEND\ndestination:/topic/picky\n\n{BODY}")


class SharedSelectors(SelectiveFanOut):
    """the same with ten different selectors"""

    different = 10
    like = 60


class SelectiveCommits(SelectiveFanOut):
    """commits of messages to 450 subscribers with LIKE selectors"""

    subscriptions = 450

    def attack(self) -> None:
        """Send in a transaction, as much as one takes."""
        for _ in range(12 * self.scale):
            self.peer.put(b"BEGIN\ntransaction:t\n\n\0")
            self.peer.put(sends("/topic/picky", 2, f"transaction:t\n{LONG_HEADERS}"))
            self.peer.do("COMMIT\ntransaction:t\n\n")


class Parsing(Scenario):
    """subscriptions with the longest selectors that there may be, made and ended"""

    def attack(self) -> None:
        """Each is another one, so that each is parsed."""
        for number in range(50 * self.scale):
            text = " OR ".join(f"a{number}={each}" for each in range(100, 420))
            self.peer.put(
                f"SUBSCRIBE\nid:{number}\ndestination:/queue/parsed\nack:client\n"
                f"selector:{text}\n\n\0UNSUBSCRIBE\nid:{number}\n\n\0".encode()
            )
        self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")
