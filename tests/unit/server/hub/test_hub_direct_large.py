"""The body of a large message to a direct address must stay readable until its receiver has it."""

from typing import Final

from daybook.engine import commands as c
from daybook.engine.facts.definitions import DistributionEntry
from daybook.engine.facts.settlements import BY_GRANT
from tests.unit.server.hub.test_hub import Bench
from tests.unit.server.hub.test_hub_large import BODY, SMALL

SEND: Final = b"SEND\ndestination:/queue/work\ncontent-length:1024\n\n"


def test_a_body_that_waits_for_credit_stays() -> None:
    bench = Bench()
    bench.hub.broker.handle(c.ChangeDistributions((DistributionEntry(prefix="work"),)), bench.now)
    producer, consumer = bench.connect(**SMALL), bench.connect()
    attach = c.Attach(
        consumer.peer.session.connection, "work", subscription="r", receiver=None,
        credit_policy=BY_GRANT, credit_messages=0, credit_bytes=0,
    )  # fmt: skip
    link = bench.hub.broker.handle(attach, bench.now)
    assert isinstance(link, int)
    first = bench.hub.broker.lsn + 1
    producer.send(SEND + BODY + b"\0")
    bench.run()
    assert bench.hub.first_chunk() == first
    bench.hub.broker.handle(c.Detach(link), bench.now)
    assert bench.hub.first_chunk() == 0
