"""Clients of direct addresses do everything, beside all others, and planted mistakes are found."""

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from daybook.engine.commands import FORWARDED
from daybook.engine.consumers.fallback import Emptying
from daybook.engine.core.core import Core, Options
from daybook.engine.direct import attaching, forwarding, serving
from daybook.engine.facts import events
from daybook.engine.facts.definitions import OWN_PROTOCOL
from daybook.engine.facts.details import ConnectionDetail, ConsumerAttachedDetail
from daybook.engine.facts.settlements import ACCEPTED
from daybook.engine.links.links import UNTRIED, DirectAddress, Ending, Forwarding
from daybook.engine.queues.consumer import Connection
from daybook.engine.refusals import Refusal
from tests.simulation.judges.checkers import Judge
from tests.simulation.judges.direct_oracle import PLACES
from tests.simulation.judges.violation import Violation
from tests.simulation.mishaps.hooks import Hooks
from tests.simulation.peers.direct_clients import OUTCOMES
from tests.simulation.peers.ledger import Ledger, Sent
from tests.simulation.seeds import DIRECT_FROM
from tests.simulation.simulation import Simulation
from tests.simulation.test_mutations import is_found
from tests.simulation.test_simulation import play_until, simulate
from tests.support.compiled import replaces_parts

Plant = Callable[[pytest.MonkeyPatch], None]

SEEDS_MAX = 40
WANTED = (
    *(f"direct {place}" for place in PLACES),
    *(f"direct heard {each}" for each in OUTCOMES),
    "direct sent", "direct settled", "direct sent by STOMP", "direct drained", "direct detached",
    "direct accepted by STOMP", "direct failed by STOMP", "direct judged",
)  # fmt: skip


ONCE_FOUND = (
    # A large message to a direct address was refused; its chunks were written again meanwhile.
    (DIRECT_FROM + 11, 600),
    (274877917013, 4_000),
)
"""Seeds that failed before a fault was corrected, with their steps."""


def test_promises_are_kept_from_seeds_that_once_failed() -> None:
    for seed, steps in ONCE_FOUND:
        simulate(seed, steps)


def test_clients_of_direct_addresses_do_everything() -> None:
    def tell(simulation: Simulation) -> dict[str, int]:
        return {name: simulation.ledger.deeds[name] for name in WANTED}

    # The first five did it all once.
    numbers = (10, 12, 13, 2, 11, *range(SEEDS_MAX))
    play_until((DIRECT_FROM + each for each in numbers), dict.fromkeys(WANTED, 0), tell)


def test_stored_message_may_be_lost_on_its_way_to_a_receiver_that_settles_nothing() -> None:
    """The broker's own consumer acknowledges it when it is sent, before it arrives."""
    ledger = Ledger()
    ledger.sent[1] = Sent(1, "/queue/direct.safe", b"1 x", True, 4, 0, "", promised=True)
    judge = Judge(ledger, Options(), counts_are_durable=True)
    facts = judge.facts
    opened = events.encode_detail(ConnectionDetail(protocol=OWN_PROTOCOL))
    attached = events.encode_detail(ConsumerAttachedDetail(subscription="fallback"))
    facts.take(1, events.row(events.CONNECTION_OPENED), opened, b"", b"")
    facts.take(2, events.row(events.CONSUMER_ATTACHED, connection=1), attached, b"", b"")
    facts.routed[1], facts.tags[3], facts.lsn = 3, 1, 3
    facts.take(4, events.row(events.DELIVERED, consumer=2, message=3), b"", b"", b"")
    with pytest.raises(Violation, match="never delivered"):
        judge.check_drained(1)
    facts.may_take = lambda tag: tag == 1
    facts.take(5, events.row(events.ACKNOWLEDGED, consumer=2, message=3), b"", b"", b"")
    judge.check_drained(1)


def hears_the_first(patch: pytest.MonkeyPatch) -> None:
    """Of several receivers, the first one decides what the sender hears"""

    def end(self: Forwarding, ending: Ending, connection: Connection) -> bool:
        self.ending = self.ending or ending
        self.waits -= 1
        return not self.waits

    patch.setattr(Forwarding, "end", end)


def waits_for_one(patch: pytest.MonkeyPatch) -> None:
    """The sender hears when the first of several receivers has ended its message"""

    def end(self: Forwarding, ending: Ending, connection: Connection) -> bool:
        self.waits -= 1
        if self.ending is not None:
            return False
        self.ending = ending
        return True

    patch.setattr(Forwarding, "end", end)


def says_nobody_got_it(patch: pytest.MonkeyPatch) -> None:
    """A receiver that dies leaves nothing in doubt"""
    patch.setattr(attaching, "IN_DOUBT", UNTRIED)


def lets_the_newest_go_first(patch: pytest.MonkeyPatch) -> None:
    """What waits for credit comes in the wrong order"""
    patch.setattr("daybook.engine.links.links.deque", Backwards)


class Backwards(deque[Any]):
    """A queue that gives the newest one first."""

    def popleft(self) -> Any:
        """Return the newest one."""
        return self.pop()


def takes_before_it_is_settled(patch: pytest.MonkeyPatch) -> None:
    """A message leaves its queue as soon as a receiver gets it"""
    real = Emptying.deliver

    def deliver(self: Emptying, message: Any, count: int, marks: int, gate: int) -> None:
        real(self, message, count, marks, gate)
        self.ended(message.id, Ending(ACCEPTED), 0)

    patch.setattr(Emptying, "deliver", deliver)


def releases_what_waits_without_a_word(patch: pytest.MonkeyPatch) -> None:
    """A message that waits for a receiver that leaves is released, and its sender hears nothing"""
    real = serving._tell_sender

    def tell(core: Core, forwarding: Forwarding) -> None:
        if forwarding.ending is not UNTRIED:
            real(core, forwarding)

    patch.setattr(serving, "_tell_sender", tell)


def releases_what_comes_without_a_word(patch: pytest.MonkeyPatch) -> None:
    """A message that comes when nobody receives is released, and its sender hears nothing"""
    real = forwarding._release

    def release(core: Core, *arguments: Any) -> int | Refusal:
        answer = real(core, *arguments)
        if answer == FORWARDED:
            core.effects.pop()
        return answer

    patch.setattr(forwarding, "_release", release)


def gives_credit_for_nobody(patch: pytest.MonkeyPatch) -> None:
    """Senders keep their credit when the last receiver has gone"""
    patch.setattr(DirectAddress, "is_open_to", lambda self, sender: True)


PLANTED: dict[Plant, int] = {
    hears_the_first: 30,
    waits_for_one: 5,
    says_nobody_got_it: 2,
    lets_the_newest_go_first: 2,
    takes_before_it_is_settled: 0,
    releases_what_waits_without_a_word: 74,
    releases_what_comes_without_a_word: 14,
    gives_credit_for_nobody: 4,
}
"""With the seed, from DIRECT_FROM on, that is tried first, because it found each once."""


@replaces_parts
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_mistake_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    numbers = (PLANTED[plant], *range(SEEDS_MAX))
    assert any(is_found(Hooks(), DIRECT_FROM + number) for number in numbers)
