"""Unindexed bytes block senders above a limit, and those to large topics above half of it."""

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.setting_keys import BLOCK, FAIL
from daybook.server.hub.unindexed import NOTICE_US, SEVERAL, Unindexed
from tests.support.world import World


class FakeBroker:
    """Remembers how it was blocked."""

    def __init__(self) -> None:
        self.blocks: list[tuple[str, str, int]] = []
        self.notices: list[str] = []
        self.now = 0
        self.most = SEVERAL

    def has_topics(self, least: int) -> bool:
        return self.most >= least

    def block_senders(self, text: str, policy: str, least: int = 0) -> None:
        self.blocks.append((text, policy, least))


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


@pytest.fixture
def unindexed(broker: FakeBroker) -> Unindexed:
    return Unindexed(broker)  # type: ignore[arg-type]


def test_senders_are_blocked_above_the_limit_and_not_below(
    broker: FakeBroker, unindexed: Unindexed
) -> None:
    unindexed.add(50, 100)
    assert broker.blocks == []
    unindexed.add(51, 100)
    ((text, policy, least),) = broker.blocks
    assert "max-unindexed-bytes" in text
    assert (policy, least) == (BLOCK, 0)
    unindexed.add(50, 100)
    assert not unindexed.index(75, 100)
    assert len(broker.blocks) == 1
    assert unindexed.index(76, 100)
    assert broker.blocks[-1][2] == SEVERAL
    assert unindexed.index(151, 100)
    assert broker.blocks[2:] == [("", BLOCK, 0)]
    assert unindexed.bytes == 0


def test_senders_to_large_topics_are_blocked_above_half_of_it(
    broker: FakeBroker, unindexed: Unindexed
) -> None:
    unindexed.add(51, 100)
    ((text, policy, least),) = broker.blocks
    assert "more than 50 bytes wait for the index (half of max-unindexed-bytes)" in text
    assert (policy, least) == (BLOCK, SEVERAL)
    assert not unindexed.index(13, 100)
    assert len(broker.blocks) == 1
    assert unindexed.index(14, 100)
    assert broker.blocks[-1] == ("", BLOCK, 0)
    unindexed.add(70, 100)
    assert len(broker.blocks) == 3
    assert broker.blocks[-1][2] == 0


def test_the_log_hears_of_it_once_a_minute(broker: FakeBroker, unindexed: Unindexed) -> None:
    for _ in range(3):
        unindexed.add(60, 100)
        unindexed.index(unindexed.journaled, 100)
    assert len(broker.notices) == 1
    broker.now += NOTICE_US
    broker.most = 0
    unindexed.add(60, 100)
    unindexed.index(unindexed.journaled, 100)
    assert len(broker.notices) == 1
    unindexed.add(101, 100)
    assert len(broker.notices) == 2


def test_what_cannot_go_on_is_refused_and_not_blocked(
    broker: FakeBroker, unindexed: Unindexed
) -> None:
    unindexed.add(101, 100)
    unindexed.fail("segment 7 is damaged", 100)
    assert broker.blocks[-1] == ("segment 7 is damaged", FAIL, 0)
    assert not unindexed.index(90, 100)
    assert broker.blocks[-1] == ("segment 7 is damaged", FAIL, 0)
    unindexed.fail("", 100)
    assert broker.blocks[-1] == ("", BLOCK, 0)


@pytest.mark.parametrize("limits", [{}, {"max_size_bytes": 1 << 30}])
def test_a_broker_blocks_messages_to_large_topics_alone(limits: dict[str, int]) -> None:
    world = World()
    world.settings(all=limits)
    peer = world.connect()
    for name, count in (("large", SEVERAL), ("small", SEVERAL - 1)):
        for _ in range(count):
            world.attach(peer, name, routing_type=MULTICAST)
        # Its limits are checked, and from here on no more.
        world.send(name, routing_type=MULTICAST)
    assert world.broker.has_topics(SEVERAL)
    assert not world.broker.has_topics(SEVERAL + 1)
    sender = world.connect()
    publication = c.Send(sender, "large", b"", b"x", routing_type=MULTICAST)
    world.broker.block_senders("the index is behind", BLOCK, SEVERAL)
    answer = world.handle(publication)
    assert isinstance(answer, Refusal)
    assert answer.code is Code.BLOCKED
    assert answer.text == "the index is behind"
    world.send("small", connection=world.connect(), routing_type=MULTICAST)
    world.send("new", connection=world.connect())
    world.broker.block_senders("much behind", BLOCK)
    for name in ("large", "small", "other"):
        assert world.refused(c.Send(world.connect(), name, b"", b"")).code is Code.BLOCKED
    world.broker.block_senders("", BLOCK)
    world.ok(publication)
    world.check()
