"""What is not indexed holds senders above a limit, and no longer than to three quarters of it."""

from daybook.engine.setting_keys import BLOCK, FAIL
from daybook.server.unindexed import Unindexed


class FakeBroker:
    """Remembers how it was held."""

    def __init__(self) -> None:
        self.holds: list[tuple[str, str]] = []

    def hold(self, text: str, policy: str) -> None:
        self.holds.append((text, policy))


def test_senders_are_held_above_the_limit_and_go_on_below() -> None:
    broker = FakeBroker()
    unindexed = Unindexed(broker)  # type: ignore[arg-type]
    unindexed.add(100, 100)
    assert broker.holds == []
    unindexed.add(1, 100)
    ((text, policy),) = broker.holds
    assert "max-unindexed-bytes" in text
    assert policy == BLOCK
    unindexed.add(50, 100)
    assert not unindexed.index(75, 100)
    assert len(broker.holds) == 1
    assert unindexed.index(76, 100)
    assert broker.holds[1:] == [("", BLOCK)]
    assert not unindexed.index(151, 100)
    assert unindexed.bytes == 0


def test_what_cannot_go_on_is_refused_and_not_held() -> None:
    broker = FakeBroker()
    unindexed = Unindexed(broker)  # type: ignore[arg-type]
    unindexed.add(101, 100)
    unindexed.fail("segment 7 is damaged", 100)
    assert broker.holds[-1] == ("segment 7 is damaged", FAIL)
    assert not unindexed.index(90, 100)
    assert broker.holds[-1] == ("segment 7 is damaged", FAIL)
    unindexed.fail("", 100)
    assert broker.holds[-1] == ("", BLOCK)
