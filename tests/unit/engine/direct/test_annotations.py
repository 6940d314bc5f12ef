"""Annotations that a receiver of a direct address sends with modified: bounded, and charged."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.settlements import FAILED
from daybook.engine.facts.values import Symbol
from daybook.engine.messages.annotations import BYTES_MAX, COUNT_MAX, DEPTH_MAX, packed
from daybook.engine.refusals import Code
from tests.unit.engine.direct.test_forwarding import Direct

NOTED = Symbol("x-opt-page")


def deep(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    "annotations",
    [
        {NOTED: "x" * BYTES_MAX},
        {Symbol(f"x-opt-{each}"): 1 for each in range(COUNT_MAX + 1)},
        {NOTED: [deep(DEPTH_MAX)]},
    ],
)
def test_what_a_queue_would_not_keep_is_refused(annotations: dict[Any, Any]) -> None:
    direct = Direct()
    receiver = direct.attach()
    direct.send()
    command = c.Settle(
        receiver, direct.message(receiver), outcome=FAILED, annotations=annotations, modified=True
    )
    refusal = direct.world.refused(command)
    assert refusal.code is Code.LIMIT
    assert "cannot pass on these annotations" in refusal.text
    assert not direct.heard.ends
    command.annotations = {NOTED: "y"}
    direct.world.ok(command)
    direct.hear()
    assert direct.heard.ends[1].annotations == {NOTED: "y"}


def test_annotations_are_for_one_delivery() -> None:
    direct = Direct()
    receiver = direct.attach()
    direct.send()
    command = c.Settle(
        receiver, direct.message(receiver), True, outcome=FAILED, annotations={NOTED: 1}
    )
    refusal = direct.world.refused(command)
    assert (refusal.code, "one delivery" in refusal.text) == (Code.INVALID, True)


def test_they_are_charged_to_their_receiver_until_all_have_ended_the_message() -> None:
    direct = Direct("news.a")
    peers = [direct.world.connect() for _ in range(3)]
    receivers = [direct.attach(connection=each) for each in peers]
    direct.send()
    noted = {NOTED: "x" * 1000}
    connections = [direct.world.state.connections[each] for each in peers]
    first, second, last = (direct.message(each) for each in receivers)
    direct.settle(receivers[0], first, FAILED, annotations=noted, modified=True)
    assert connections[0].forwarded_bytes == len(packed(noted))
    assert connections[0].unacked_bytes == connections[0].forwarded_bytes
    # Of equal outcomes the first one counts: nothing is kept of the other.
    direct.settle(receivers[1], second, FAILED, annotations=noted, modified=True)
    assert connections[1].forwarded_bytes == 0
    direct.world.check()
    direct.settle(receivers[2], last)
    assert [each.forwarded_bytes for each in connections] == [0, 0, 0]
