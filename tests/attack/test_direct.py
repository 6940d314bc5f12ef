"""Direct addresses beside an honest client: very many names, patterns and names that were made to
agree, receivers that never settle or never read, a sender that ignores its credit."""

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from bench.load.amqp_peer import AmqpPeer, message, receiver, sender
from bench.load.honest import Honest
from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.performatives import Attach, Detach, Flow, Transfer
from tests.attack.honest import Beside
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

PATTERNS: Final = 500
BODY: Final = b"x" * 1000
MEMORY: Final = 64 << 20


def _config() -> str:
    """Patterns that all begin alike, so that a name is compared with many of them."""
    entries = [f'[[address]]\npattern = "flood.#.a.*.{each}.#"\n' for each in range(PATTERNS)]
    return "\n".join([*entries, '[[address]]\nprefix = "flood"\n'])


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    with BrokerProcess(
        tmp_path / "data", config=_config(), listen=("amqp+stomp://127.0.0.1:0",)
    ) as broker:
        broker.start()
        with Honest(broker.port) as honest:
            yield Beside(broker, honest)


def test_very_many_addresses_and_links_that_come_and_go(beside: Beside, scale: int) -> None:
    count = 2_000 * scale
    with beside.attack(memory_bytes=MEMORY), Wire(beside.broker.port) as wire:
        wire.connect()
        for number in range(count):
            name = f"/queue/flood.a.a.b.a.{number}"
            wire.send("SUBSCRIBE", destination=name, id=number)
            wire.send("UNSUBSCRIBE", id=number)
            if number % 200 == 199:
                wire.send("SUBSCRIBE", destination=name, id="kept", receipt=number)
                wire.expect("RECEIPT")
                wire.send("UNSUBSCRIBE", id="kept")


def test_very_many_addresses_that_all_have_links(beside: Beside, scale: int) -> None:
    """Each has a sender and a receiver, and then one message."""
    count = 500 * scale
    with beside.attack(memory_bytes=MEMORY * scale):
        for number in range(4):
            peer = AmqpPeer(beside.broker.port)
            names = [f"flood.of.{number}.{each}" for each in range(count)]
            links = (receiver(at, name) for at, name in enumerate(names))
            peer.ask(b"".join(links), Attach, count)
            senders = (sender(count + at, name) for at, name in enumerate(names))
            peer.ask(b"".join(senders), Flow, count)
            sent = (Transfer(count + at, at, b"t", 0, settled=True) for at in range(count))
            peer.put(b"".join(frame(0, each, message(BODY)) for each in sent))
            # It leaves without a word.
            peer.close()


def test_patterns_and_names_that_were_made_to_agree(tmp_path: Path, scale: int) -> None:
    """Each place of a name can be at very many places of the patterns."""
    draw = random.Random(1)
    bodies = sorted({"".join(draw.choices("a*", k=24)) for _ in range(300)})
    texts = [
        ".".join(["#", *each[:8], "#", *each[8:16], "#", *each[16:], "#", "z"]) for each in bodies
    ]
    with BrokerProcess(
        tmp_path / "data", config="\n".join(f'[[address]]\npattern = "{each}"\n' for each in texts),
        listen=("amqp+stomp://127.0.0.1:0",),
    ) as broker:  # fmt: skip
        broker.start()
        with Honest(broker.port) as honest:
            beside, peer = Beside(broker, honest), AmqpPeer(broker.port)
            long = ".".join(["a"] * 2_000)
            with beside.attack(memory_bytes=MEMORY):
                for number in range(4 * scale):
                    pairs = (
                        sender(0, f"{long}.{number}.{each}.z") + frame(0, Detach(0, True))
                        for each in range(50)
                    )
                    peer.ask(b"".join(pairs), Detach, 50)
            peer.close()


def _send(beside: Beside, count: int) -> None:
    with Wire(beside.broker.port) as wire:
        wire.connect()
        for number in range(count):
            wire.send("SEND", BODY, destination="/queue/flood.one")
            if number % 500 == 499:
                wire.send("SEND", BODY, destination="/queue/flood.one", receipt=number)
                wire.expect("RECEIPT")


@pytest.mark.parametrize("ack", ["client-individual", "auto"])
def test_a_receiver_that_never_settles_or_never_reads(beside: Beside, scale: int, ack: str) -> None:
    with Wire(beside.broker.port) as receiver:
        receiver.connect()
        receiver.send("SUBSCRIBE", destination="/queue/flood.one", id=1, ack=ack, receipt=1)
        receiver.expect("RECEIPT")
        with beside.attack(memory_bytes=MEMORY):
            _send(beside, 10_000 * scale)


def test_a_sender_that_ignores_its_credit(beside: Beside, scale: int) -> None:
    """Its link ends, again and again, while somebody receives."""
    with Wire(beside.broker.port) as receiver:
        receiver.connect()
        receiver.send("SUBSCRIBE", destination="/queue/flood.one", id=1, receipt=1)
        receiver.expect("RECEIPT")
        with beside.attack(memory_bytes=MEMORY):
            for _ in range(5 * scale):
                peer = AmqpPeer(beside.broker.port)
                peer.ask(sender(0, "flood.one"), Flow)
                with suppress(OSError, AssertionError):
                    for number in range(2_000):
                        said = Transfer(0, number, b"t", 0, settled=False)
                        peer.put(frame(0, said, message(BODY)))
                peer.close()
