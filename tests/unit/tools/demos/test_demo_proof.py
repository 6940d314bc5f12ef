"""The demo's judge: each kind of broken promise must show in its row, and only there."""

from collections.abc import Callable
from typing import Any

import pytest

from daybook.tools.demos.demo_clients import Ledger, body_of
from daybook.tools.demos.demo_proof import History, Row, judge

ORDERS = 5


def frame(number: int, message: int, count: int) -> dict[str, str]:
    headers = {"order": str(number), "message-id": str(message)}
    if count > 1:
        headers |= {"redelivered": "true", "delivery-count": str(count)}
    return headers


class Story:
    """A ledger and a history that fit together, to be spoiled by a test."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.history = History.__new__(History)
        self.history.starts = [1, 50, 90]
        self.history.routed = {}
        self.history.delivered = set()
        self.history.acknowledged = {}
        self.history.dead_lettered = set()
        for number in range(ORDERS):
            message = 10 + number
            self.ledger.sent(number)
            self.ledger.receipted(number)
            self.history.routed[number] = [message]
            for count in (1, 2):
                self.deliver(number, message, count)
            self.ledger.acked(number, 2)
            self.ledger.confirmed(number, 2)
            self.history.acknowledged[message] = 100 + number
        # In doubt: it arrived, and nobody knows.
        self.ledger.sent(ORDERS)

    def deliver(self, number: int, message: int, count: int) -> None:
        self.ledger.delivered(frame(number, message, count), body_of(number))
        self.history.delivered.add((message, count))

    def wrong(self) -> set[str]:
        return {row.what for row in self.rows() if not row.right}

    def rows(self) -> list[Row]:
        return judge(self.ledger, self.history)


def lose(story: Story) -> None:
    story.ledger.orders[1].deliveries.clear()
    story.ledger.orders[1].confirmed_count = 0


def forget(story: Story) -> None:
    del story.history.routed[2]


def invent(story: Story) -> None:
    story.ledger.delivered(frame(77, 99, 1), body_of(77))


def garble(story: Story) -> None:
    story.ledger.delivered(frame(1, 11, 2), "another body")


def double(story: Story) -> None:
    story.history.routed[3].append(33)
    story.history.acknowledged[33] = 120


def hide_the_flag(story: Story) -> None:
    story.ledger.orders[1].deliveries[1].flagged = False


def repeat_a_count(story: Story) -> None:
    story.deliver(1, 11, 2)


def raise_the_dead(story: Story) -> None:
    story.deliver(1, 11, 3)


def deliver_unwritten(story: Story) -> None:
    story.history.delivered.discard((11, 1))


def forget_an_ack(story: Story) -> None:
    del story.history.acknowledged[11]
    story.history.dead_lettered.clear()


def bury(story: Story) -> None:
    story.history.dead_lettered.add(11)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lose, {"lost: receipted, never delivered"}),
        (forget, {"lost: receipted, not in the journal"}),
        (invent, {"invented: delivered, never sent so"}),
        (garble, {"invented: delivered, never sent so"}),
        (double, {"doubled: sent once, taken twice"}),
        (hide_the_flag, {"redelivered without the flag"}),
        (repeat_a_count, {"redelivered without the flag"}),
        (raise_the_dead, {"delivered again after the receipt of its ack"}),
        (deliver_unwritten, {"delivered, not in the journal"}),
        (
            forget_an_ack,
            {"ack with a receipt, not in the journal", "left in a queue at the end"},
        ),
        (bury, {"dead-lettered"}),
    ],
)
def test_a_broken_promise_shows(spoil: Callable[[Story], None], what: set[str]) -> None:
    story = Story()
    assert story.wrong() == set()
    spoil(story)
    assert story.wrong() == what


def test_what_is_in_doubt_may_arrive_or_not() -> None:
    story = Story()
    figures = {row.what.strip(): row.value for row in story.rows()}
    assert figures["orders sent, each once"] == ORDERS + 1
    assert figures["without: in doubt when the broker was killed"] == 1
    assert figures["of these, arrived all the same"] == 0
    story.history.routed[ORDERS] = [40]
    story.history.acknowledged[40] = 140
    figures = {row.what.strip(): row.value for row in story.rows()}
    assert figures["of these, arrived all the same"] == 1
    assert story.wrong() == set()


def test_a_survivor_came_before_the_first_crash_and_left_after_the_last() -> None:
    story = Story()
    assert story.history.survivor() == 10
    story.history.acknowledged = {11: 89, 60: 120}
    assert story.history.survivor() is None


def test_the_history_is_read_from_a_journal(history: Any) -> None:
    read = History(history.data)
    assert len(read.starts) == 3
    assert read.acknowledged.keys() == {history["acknowledged"]}
    assert read.dead_lettered == {history["dead"]}
    assert {(history["dead"], 1), (history["dead"], 2)} <= read.delivered
