"""Attacks with the kinds of queues and messages that have work of their own."""

import time

from bench.attacks.scenarios import BODY, LOTS, Peer, Scenario, ready_in, settle, wait_until


class Temporaries(Scenario):
    """3,000 temporary queues with a message each, over and over, whose owner vanishes"""

    def attack(self) -> None:
        """Make them, use them, and leave without a word."""
        for _ in range(2 * self.scale):
            other = Peer(self.port)
            for number in range(3000):
                name = f"/temp-queue/t{number}"
                other.put(
                    f"SUBSCRIBE\nid:{number}\ndestination:{name}\nack:client\n\n\0"
                    f"SEND\ndestination:{name}\n\n{BODY}\0".encode()
                )
            other.do(f"SEND\ndestination:/queue/other\n\n{BODY}")
            other.close()
            settle(self.data)


class Duplicates(Scenario):
    """10,000 messages with ids, and all of them again"""

    def attack(self) -> None:
        """The second time all are duplicates."""
        for _ in range(2):
            self.peer.put(
                b"".join(
                    f"SEND\ndestination:/queue/twice\n_AMQ_DUPL_ID:{number}\n\n{BODY}\0".encode()
                    for number in range(10_000 * self.scale)
                )
            )
        self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")


class Retained(Scenario):
    """subscriptions to 3,000 topics that retain a message each, made and ended"""

    def prepare(self) -> None:
        """Let each topic remember one."""
        for number in range(3000):
            self.peer.put(
                f"SEND\ndestination:/topic/kept.{number}\nretain:set\n\n{BODY}\0".encode()
            )
        self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")

    def attack(self) -> None:
        """Ask for all of them again and again."""
        for number in range(20 * self.scale):
            self.peer.put(
                f"SUBSCRIBE\nid:{number}\ndestination:/topic/kept.*\nack:client\n\n\0".encode()
            )
        self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")
        for number in range(20 * self.scale):
            self.peer.do(f"UNSUBSCRIBE\nid:{number}\n\n")


class Groups(Scenario):
    """20,000 messages, each of a group of its own, and 300 consumers that come and go"""

    def prepare(self) -> None:
        """Fill the queue."""
        other = Peer(self.port)
        for number in range(20_000 * self.scale):
            other.put(
                f"SEND\ndestination:/queue/grouped\nJMSXGroupID:{number}\n\n{BODY}\0".encode()
            )
        other.do(f"SEND\ndestination:/queue/other\n\n{BODY}")
        other.close()

    def attack(self) -> None:
        """Each takes some, and leaves again."""
        for _ in range(2 * self.scale):
            for number in range(300):
                self.peer.put(
                    f"SUBSCRIBE\nid:{number}\ndestination:/queue/grouped\nack:client\n"
                    "credit:60,0\n\n\0".encode()
                )
            self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")
            for number in range(300):
                self.peer.put(f"UNSUBSCRIBE\nid:{number}\n\n\0".encode())
            self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")


class DueAtOnce(Scenario):
    """20,000 scheduled messages become due at once"""

    def prepare(self) -> None:
        """Send messages that are due soon."""
        self.due = int(time.time() * 1000) + 15_000 * self.scale
        self.fill("/queue/scheduled", 20_000 * self.scale, f"AMQ_SCHEDULED_TIME:{self.due}\n")

    def approach(self) -> None:
        """Until they are due."""
        self.wait_for(self.due)

    def attack(self) -> None:
        """Wait until all are ready."""
        wait_until(
            lambda: ready_in(self.data, "scheduled") >= 20_000 * self.scale,
            "all messages to be due",
        )


class WildcardQueues(Scenario):
    """subscriptions with wildcards to 2,000 queues, made and ended"""

    def prepare(self) -> None:
        """Make the queues."""
        for number in range(2000):
            self.peer.put(f"SEND\ndestination:/queue/wild.{number}\n\n{BODY}\0".encode())
        self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")

    def attack(self) -> None:
        """Take from all of them, and stop."""
        for _ in range(2 * self.scale):
            for number in range(3):
                self.peer.put(
                    f"SUBSCRIBE\nid:{number}\ndestination:/queue/wild.*\nack:client\n\n\0".encode()
                )
            self.peer.do(f"SEND\ndestination:/queue/other\n\n{BODY}")
            for number in range(3):
                self.peer.do(f"UNSUBSCRIBE\nid:{number}\n\n")


class Browsers(Scenario):
    """50 browsers of a queue with 20,000 messages, half of them in flight"""

    def prepare(self) -> None:
        """Fill it, and take half."""
        self.fill("/queue/browsed", 20_000 * self.scale)
        self.peer.put(
            "SUBSCRIBE\nid:mine\ndestination:/queue/browsed\nack:client\n"
            f"credit:{10_000 * self.scale},0\n\n\0".encode()
        )
        self.peer.take(10_000 * self.scale)

    def attack(self) -> None:
        """Read with all of them, for some seconds."""
        other = Peer(self.port)
        for number in range(50):
            other.put(
                f"SUBSCRIBE\nid:{number}\ndestination:/queue/browsed\nack:auto\nbrowser:true\n"
                f"credit:{LOTS},{LOTS}\n\n\0".encode()
            )
        other.take(50_000)
        other.close()
