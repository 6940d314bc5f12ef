"""What clients of all kinds do to a broker for as long as a soak lasts.

The honest ones keep a ledger: each confirmed message must arrive, once, and be gone when it
was acknowledged. All others come, misbehave, and go. Nothing here looks at the broker itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Final

from tests.soak.client import Client, Gone

PAIRS: Final = 3
IDLE: Final = 1000
BEAT_MS: Final = 5000
AT_ONCE: Final = 100
"""So many idle connections log in at a time."""
WRONG_MAX: Final = 20
QUIET_SECONDS: Final = 45.0
"""A broker that says nothing for so long keeps no heart-beats, on however slow a machine."""


class Crowd:
    """All clients of one soak. `pace` is how many things of each kind happen in a second."""

    def __init__(self, port: int, seed: int, *, idle: int = IDLE, pace: float = 8.0) -> None:
        self.port = port
        self.idle = idle
        self.chance = Random(seed)
        self.stored: dict[int, set[int]] = {pair: set() for pair in range(PAIRS)}
        self.settled: dict[int, set[int]] = {pair: set() for pair in range(PAIRS)}
        self.counts: dict[str, int] = {}
        self.wrong: list[str] = []
        self.beating = 0
        self._pause = 1.0 / pace
        self._serial = 0
        self._over = asyncio.Event()
        self._idle_over = asyncio.Event()

    # ---- the whole

    async def run(self, seconds: float) -> None:
        """Let all of them act for so long; then everything honest is drained."""
        idle: list[asyncio.Task[None]] = []
        while len(idle) < self.idle and not self.wrong:
            idle.append(asyncio.create_task(self._idle()))
            while len(idle) - self.beating >= AT_ONCE and not self.wrong:
                await asyncio.sleep(0.01)
        honest = [asyncio.create_task(self._pair(pair)) for pair in range(PAIRS)]
        others = [asyncio.create_task(self._repeat(work)) for work in self._works()]
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)
        self._over.set()
        await asyncio.gather(*honest, *others)
        self._idle_over.set()
        await asyncio.gather(*idle)

    def _works(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        return (
            self._churn, self._churn, self._churn, self._strange, self._half, self._deaf,
            self._names, self._durable, self._large, self._request, self._aborted, self._browse,
        )  # fmt: skip

    async def _repeat(self, work: Callable[[], Awaitable[None]]) -> None:
        name = work.__name__.strip("_")
        while not self._over.is_set():
            try:
                await work()
                self.counts[name] = self.counts.get(name, 0) + 1
            except (Gone, OSError, TimeoutError) as error:
                self._note(f"{name}: {error!r}")
            await asyncio.sleep(self.chance.random() * 2 * self._pause)

    def _note(self, text: str) -> None:
        if len(self.wrong) < WRONG_MAX:
            self.wrong.append(text)
        else:
            self._over.set()

    def _next(self) -> int:
        self._serial += 1
        return self._serial

    # ---- the honest ones

    async def _pair(self, pair: int) -> None:
        """Send with receipts, also in transactions, and acknowledge each message once."""
        try:
            async with Client(self.port) as sender, Client(self.port) as receiver:
                place = f"/queue/soak.{pair}"
                mode = ("client-individual", "client", "client-individual")[pair % 3]
                await receiver.confirmed("SUBSCRIBE", id=1, destination=place, ack=mode)
                reading = asyncio.create_task(self._receive(pair, receiver))
                while not self._over.is_set() and not reading.done():
                    numbers = [self._next() for _ in range(self.chance.randint(1, 10))]
                    await self._send(sender, place, numbers)
                    self.stored[pair].update(numbers)
                    await asyncio.sleep(self.chance.random() * self._pause)
                await sender.confirmed("SEND", b"end", destination=place)
                await reading
        except (Gone, OSError, TimeoutError) as error:
            self._note(f"pair {pair}: {error!r}")

    async def _send(self, sender: Client, place: str, numbers: list[int]) -> None:
        if self.chance.random() < 0.5:
            for number in numbers:
                await sender.confirmed("SEND", b"%d" % number, destination=place)
            return
        sender.send("BEGIN", transaction="t")
        for number in numbers:
            sender.send("SEND", b"%d" % number, destination=place, transaction="t")
        await sender.confirmed("COMMIT", transaction="t")

    async def _receive(self, pair: int, receiver: Client) -> None:
        last = 0
        while True:
            message = await receiver.message()
            if message.body == b"end":
                await receiver.confirmed("ACK", id=message.headers["ack"])
                return
            number = int(message.body)
            if number <= last or "redelivered" in message.headers:
                self._note(f"message {number} after {last}, {message.headers}")
            last = number
            kind = self.chance.random()
            if kind < 0.1:
                receiver.send("BEGIN", transaction="a")
                receiver.send("ACK", id=message.headers["ack"], transaction="a")
                await receiver.confirmed("COMMIT", transaction="a")
            elif kind < 0.2:
                await receiver.confirmed("ACK", id=message.headers["ack"])
            else:
                receiver.send("ACK", id=message.headers["ack"])
            self.settled[pair].add(number)

    async def _idle(self) -> None:
        """Keep the heart-beats that were agreed, and hear those of the broker."""
        try:
            async with Client(self.port, heart_beat=f"{BEAT_MS},{BEAT_MS}") as client:
                self.beating += 1
                while not self._idle_over.is_set():
                    beat = asyncio.create_task(self._beat(client))
                    try:
                        await asyncio.wait_for(client.some(), QUIET_SECONDS)
                    finally:
                        await beat
                self.beating -= 1
        except (Gone, OSError, TimeoutError) as error:
            self._note(f"an idle connection ended: {error!r}")

    async def _beat(self, client: Client) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle_over.wait(), BEAT_MS / 1000 * 0.7)
        client.write(b"\n")

    # ---- all others

    async def _churn(self) -> None:
        """Connect, use something, and leave, politely or not."""
        for _ in range(5):
            async with Client(self.port, client_id=f"c{self._next()}") as client:
                place = f"/queue/churn.{self.chance.randrange(4)}"
                await client.confirmed("SUBSCRIBE", id=1, destination=place)
                await client.confirmed("SEND", b"x", destination=place, ttl=2000)
                way = self.chance.randrange(3)
                if way == 0:
                    await client.confirmed("DISCONNECT")
                elif way == 1:
                    client.reset()

    async def _strange(self) -> None:
        """Say anything at all; the broker closes."""
        client = Client(self.port)
        await client.open()
        client.write(self.chance.randbytes(self.chance.randint(1, 20_000)) + b"\n\n\0")
        with suppress(Gone, OSError):
            while True:
                await client.some()
        await client.close()

    async def _half(self) -> None:
        """Begin a frame and never end it."""
        async with Client(self.port) as client:
            client.write(b"SEND\ndestination:/queue/half\ncontent-length:500000\n\n")
            client.write(bytes(self.chance.randrange(300_000)))
            await asyncio.sleep(self._pause)
            if self.chance.random() < 0.5:
                client.reset()

    async def _deaf(self) -> None:
        """Subscribe with a small window and read nothing, while much is sent."""
        client = Client(self.port)
        await client.open(4096)
        client.send("CONNECT", accept_version="1.2", host="soak")
        client.send("SUBSCRIBE", id=1, destination="/topic/flood", receipt=1)
        await asyncio.sleep(self._pause)
        async with Client(self.port) as sender:
            for _ in range(20):
                sender.send("SEND", bytes(20_000), destination="/topic/flood", persistent="false")
            await sender.confirmed("SEND", b"", destination="/topic/flood")
        await asyncio.sleep(self._pause)
        client.reset()

    async def _names(self) -> None:
        """Use names that nobody used before; they go when they are not used."""
        async with Client(self.port) as client:
            for _ in range(3):
                name = f"name.{self._next()}"
                await client.confirmed("SUBSCRIBE", id=name, destination=f"/queue/{name}")
                await client.confirmed("SEND", b"x", destination=f"/queue/{name}")
                await client.message()
                await client.confirmed("UNSUBSCRIBE", id=name)

    async def _durable(self) -> None:
        """A durable subscription comes, gets something, and is deleted."""
        async with Client(self.port, client_id=f"d{self._next()}") as client:
            name = f"durable.{self._next()}"
            place = f"/topic/news.{self.chance.randrange(3)}"
            await client.confirmed("SUBSCRIBE", id=name, destination=place, persistent="true")
            await client.confirmed("SEND", b"news", destination=place)
            await client.message()
            await client.confirmed("UNSUBSCRIBE", id=name, persistent="true")

    async def _large(self) -> None:
        """A body that goes through the journal in chunks."""
        body = bytes(self.chance.randint(100_000, 700_000))
        async with Client(self.port) as client:
            place = f"/queue/large.{self._next() % 3}"
            await client.confirmed("SEND", body, destination=place)
            await client.confirmed("SUBSCRIBE", id=1, destination=place, ack="client")
            message = await client.message()
            await client.confirmed("ACK", id=message.headers["ack"])

    async def _request(self) -> None:
        """A request and its answer by a temporary queue."""
        async with Client(self.port) as asking, Client(self.port) as answering:
            place = f"/queue/service.{self._next() % 2}"
            await asking.confirmed("SUBSCRIBE", id=1, destination="/temp-queue/answers")
            await answering.confirmed("SUBSCRIBE", id=1, destination=place, ack="client")
            await asking.confirmed("SEND", b"?", destination=place, reply_to="/temp-queue/answers")
            question = await answering.message()
            where = question.headers["reply-to"].replace("\\c", ":")
            await answering.confirmed("SEND", b"!", destination=where)
            await answering.confirmed("ACK", id=question.headers["ack"])
            if (await asking.message()).body != b"!":
                self._note("another answer")

    async def _aborted(self) -> None:
        """Transactions that end in nothing."""
        async with Client(self.port) as client:
            for number in range(3):
                client.send("BEGIN", transaction="t")
                for _ in range(10):
                    client.send("SEND", bytes(500), destination="/queue/never", transaction="t")
                if number < 2:
                    await client.confirmed("ABORT", transaction="t")
            await client.flush()

    async def _browse(self) -> None:
        """Read a queue without taking anything."""
        async with Client(self.port) as client:
            await client.confirmed("SEND", b"x", destination="/queue/shelf", ttl=1500)
            client.send("SUBSCRIBE", id=1, destination="/queue/shelf", browser="true")
            await client.flush()
            while (await client.message()).headers.get("browser") != "end":
                pass
