"""stompman, an asyncio client, which sends and reads in another way than synchronous ones."""

import asyncio

import pytest
import stompman

from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop


def test_a_conversation(broker: BrokerProcess) -> None:
    asyncio.run(asyncio.wait_for(converse(broker.port), 60))
    assert broker.stop() == 0
    assert "Traceback" not in broker.log_text()


async def converse(port: int) -> None:
    """Send plainly and in a transaction; one handler fails, is nacked, and gets it again."""
    heard: list[tuple[bytes, str]] = []
    everything = asyncio.Event()

    async def handle(frame: stompman.MessageFrame) -> None:
        heard.append((frame.body, str(frame.headers.get("redelivered"))))
        if len(heard) == 2:
            raise ValueError("this one fails at first")
        if len(heard) == 12:
            everything.set()

    server = stompman.ConnectionParameters(
        host="127.0.0.1", port=port, login="guest", passcode="guest"
    )
    async with stompman.Client(servers=[server]) as client:
        subscription = await client.subscribe(
            "/queue/man", handle, ack="client-individual", on_suppressed_exception=lambda *_: None
        )
        await client.send(b"plain", "/queue/man", headers={"kind": "plain"})
        async with client.begin() as transaction:
            for number in range(10):
                await transaction.send(b"%d" % number, "/queue/man")
        await everything.wait()
        await subscription.unsubscribe()
    bodies = {b"plain", *(b"%d" % number for number in range(10))}
    assert {body for body, _ in heard} == bodies
    assert [flag for _, flag in heard].count("true") == 1
