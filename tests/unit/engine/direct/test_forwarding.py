"""Direct addresses: who gets a message, what its sender hears, and when it may send.

Rules: Interconnect, chapter 12.1.1; facts about the router, part 1, sections 1 to 4.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.commands import FORWARDED
from daybook.engine.direct.forwarding import DETAILS_MAX
from daybook.engine.effects import Ended
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import DistributionEntry, QueueDefinition
from daybook.engine.facts.events import CONSUMER
from daybook.engine.facts.settlements import (
    ACCEPTED,
    BY_GRANT,
    BY_SETTLEMENT,
    FAILED,
    REJECTED,
    RELEASED,
)
from daybook.engine.facts.values import Symbol
from daybook.engine.links.links import CAPACITY, IN_DOUBT, Ending
from daybook.engine.refusals import Code, Refusal
from tests.support.world import Delivery, World

TABLE = (
    DistributionEntry(prefix="work"),
    DistributionEntry(prefix="near", distribution="closest"),
    DistributionEntry(prefix="news", distribution="multicast"),
    DistributionEntry(prefix="urgent", priority=9),
    DistributionEntry(prefix="closed", distribution="unavailable"),
    DistributionEntry(prefix="kept", waypoint=True),
)


class Heard:
    """The outcomes that a sender hears of."""

    def __init__(self) -> None:
        self.ends: dict[Any, Ending] = {}
        self.is_open = False

    def ended(self, token: Any, ending: Ending, now: int) -> None:
        assert token not in self.ends
        self.ends[token] = ending

    def opened(self, is_open: bool, now: int) -> None:
        assert is_open != self.is_open
        self.is_open = is_open


class Direct:
    """A world with direct addresses, and a sender to one of them."""

    def __init__(
        self,
        address: str = "work.a",
        table: tuple[DistributionEntry, ...] = TABLE,
        **options: Any,
    ) -> None:
        self.world = World(**options)
        self.begin(table)
        self.address = address
        self.heard = Heard()
        self.peer = self.world.connect()
        self.count = 0
        self.sender = self.attach_sender(address)

    def begin(self, table: tuple[DistributionEntry, ...]) -> None:
        self.world.ok(c.ChangeDistributions(table))

    def attach_sender(self, address: str, heard: Heard | None = None) -> int:
        answer = self.world.ok(
            c.AttachSender(self.peer, address, link=1, name="s", receiver=heard or self.heard)
        )
        self.hear()
        return answer

    def attach(self, credit: int = 1000, address: str = "", **values: Any) -> int:
        peer = values.pop("connection", None) or self.world.connect()
        receiver = self.world.attach(
            peer, address or self.address,
            **{"credit_policy": BY_GRANT, "credit_messages": credit, "credit_bytes": 0, **values},
        )  # fmt: skip
        self.hear()
        return receiver

    def send(self, **values: Any) -> int:
        self.count += 1
        send = c.Send(
            self.peer, self.address,
            **{
                "headers": b"", "body": b"%d" % self.count, "sender": self.sender,
                "token": self.count, **values,
            },
        )  # fmt: skip
        answer = self.world.ok(send)
        self.hear()
        return answer

    def hear(self) -> None:
        self.world.dispatch()
        for effect in self.world.effects:
            effect.hand_to(effect.consumer.receiver, self.world.now)
        self.world.effects.clear()

    def settle(self, receiver: int, message: int, outcome: int = ACCEPTED, **values: Any) -> None:
        self.world.ok(c.Settle(receiver, message, outcome=outcome, **values))
        self.hear()

    def accept(self, receiver: int, messages: list[int]) -> None:
        self.world.ok(c.AcceptAll(receiver, messages))
        self.hear()

    def detach(self, receiver: int) -> None:
        self.world.ok(c.Detach(receiver))
        self.hear()

    def deliveries(self, receiver: int) -> list[Delivery]:
        return [each for each in self.world.deliveries if each.consumer == receiver]

    def taken(self, receiver: int) -> list[int]:
        return [int(each.body) for each in self.deliveries(receiver)]

    def message(self, receiver: int) -> int:
        return self.deliveries(receiver)[-1].message


def test_a_message_passes_and_its_outcome_comes_back() -> None:
    direct = Direct()
    receiver = direct.attach()
    assert direct.send() == FORWARDED
    assert direct.heard.ends == {}
    direct.settle(receiver, direct.message(receiver))
    assert direct.heard.ends == {1: Ending(ACCEPTED)}
    assert [each.name for each in direct.world.journal[-2:]] == ["Forwarded", "ForwardSettled"]
    direct.world.check()


# ---- credit


def test_a_sender_may_send_while_somebody_receives() -> None:
    direct = Direct()
    assert not direct.heard.is_open
    first, second = direct.attach(), direct.attach(credit=0)
    assert direct.heard.is_open
    direct.detach(first)
    assert direct.heard.is_open
    direct.detach(second)
    assert not direct.heard.is_open


def test_a_receiver_without_credit_opens_too() -> None:
    direct = Direct()
    receiver = direct.attach(credit=0)
    assert direct.heard.is_open
    assert direct.send() == FORWARDED
    assert direct.taken(receiver) == []
    direct.world.ok(c.Credit(receiver, in_all=1))
    assert direct.taken(receiver) == [1]


def test_a_sender_that_comes_later_may_send_at_once() -> None:
    direct = Direct()
    direct.attach()
    heard = Heard()
    direct.attach_sender("work.a", heard)
    assert heard.is_open


def test_a_drain_is_answered_when_nothing_waits() -> None:
    direct = Direct()
    receiver = direct.attach(credit=0)
    direct.send()
    direct.world.ok(c.Credit(receiver, in_all=5, drains=True))
    assert direct.taken(receiver) == [1]
    (drained,) = direct.world.effects
    assert (drained.unused, drained.total) == (4, 5)  # type: ignore[attr-defined]


# ---- who gets it


def test_balanced_takes_turns_while_all_settle() -> None:
    direct = Direct()
    receivers = [direct.attach() for _ in range(3)]
    for _ in range(9):
        direct.send()
        for each in receivers:
            if direct.world.broker.direct.receivers[each].outstanding:
                direct.settle(each, direct.message(each))
    assert [len(direct.taken(each)) for each in receivers] == [3, 3, 3]


def test_balanced_prefers_the_receiver_that_settles() -> None:
    direct = Direct()
    quick, slow = direct.attach(), direct.attach()
    for _ in range(100):
        direct.send()
        open_at_quick = direct.world.broker.direct.receivers[quick].outstanding
        for message in list(open_at_quick):
            direct.settle(quick, message)
    assert len(direct.taken(slow)) == 1
    assert len(direct.taken(quick)) == 99


def test_closest_takes_turns_whatever_waits() -> None:
    direct = Direct("near.a")
    first, second = direct.attach(), direct.attach(credit=0)
    for _ in range(6):
        direct.send()
    assert direct.taken(first) == [1, 3, 5]
    direct.world.ok(c.Credit(second, in_all=9))
    assert direct.taken(second) == [2, 4, 6]


def test_multicast_gives_to_all() -> None:
    direct = Direct("news.a")
    receivers = [direct.attach() for _ in range(3)]
    direct.send()
    assert [direct.taken(each) for each in receivers] == [[1]] * 3
    forwarded = direct.world.events_named("Forwarded")[-1]
    assert forwarded.decoded.receivers == tuple(receivers)


def test_two_addresses_of_one_entry_are_two() -> None:
    direct = Direct()
    other = direct.attach(address="work.b")
    receiver = direct.attach()
    direct.send()
    assert direct.taken(receiver) == [1]
    assert direct.taken(other) == []


def test_what_waits_comes_by_priority() -> None:
    direct = Direct("work.a")
    receiver = direct.attach(credit=0)
    for priority in (1, 9, 4, 9):
        direct.send(priority=priority)
    direct.world.ok(c.Credit(receiver, in_all=9))
    assert direct.taken(receiver) == [2, 4, 3, 1]


def test_the_priority_of_the_address_comes_before_that_of_the_message() -> None:
    direct = Direct("urgent.a")
    receiver = direct.attach(credit=0)
    direct.send(priority=0)
    direct.send(priority=5)
    direct.world.ok(c.Credit(receiver, in_all=9))
    assert direct.taken(receiver) == [1, 2]
    assert direct.world.events_named("Forwarded")[-1].row[5] == 9


def test_a_connection_with_room_again_serves_the_highest_priority_first() -> None:
    direct = Direct()
    peer = direct.world.connect(room=1)
    receivers = {each: direct.attach(address=f"work.{each}", connection=peer) for each in "abc"}
    senders = {each: direct.attach_sender(f"work.{each}", Heard()) for each in "abc"}
    for name, priority in (("a", 4), ("a", 1), ("b", 2), ("c", 8)):
        direct.address = f"work.{name}"
        direct.send(priority=priority, sender=senders[name])
    assert direct.taken(receivers["a"]) == [1]
    direct.world.ok(c.Room(peer, 1 << 20))
    order = [int(each.body) for each in direct.world.deliveries if each.consumer]
    assert order[-3:] == [4, 3, 2]


# ---- outcomes (12.1.1.4)


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (ACCEPTED, {}),
        (REJECTED, {"error": "no", "condition": "app:bad"}),
        (RELEASED, {}),
        (FAILED, {"not_here": True, "annotations": {Symbol("x-opt-a"): 1}, "modified": True}),
        (RELEASED, {"modified": True}),
    ],
)
def test_anycast_passes_the_outcome_on(outcome: int, said: dict[str, Any]) -> None:
    direct = Direct()
    other = direct.attach(credit=0)
    receiver = direct.attach()
    direct.send()
    direct.send()
    direct.settle(receiver, direct.message(receiver), outcome, **said)
    assert list(direct.heard.ends.values()) == [Ending(outcome, **said)]
    assert direct.taken(other) == []


@pytest.mark.parametrize(
    ("outcomes", "heard"),
    [
        ((ACCEPTED, ACCEPTED), ACCEPTED),
        ((ACCEPTED, RELEASED), ACCEPTED),
        ((FAILED, ACCEPTED), ACCEPTED),
        ((ACCEPTED, REJECTED), REJECTED),
        ((RELEASED, REJECTED), REJECTED),
        ((RELEASED, FAILED), FAILED),
        ((RELEASED, RELEASED), RELEASED),
    ],
)
@pytest.mark.parametrize("is_turned", [False, True])
def test_multicast_tells_the_strongest_outcome_when_all_have_ended(
    outcomes: tuple[int, int], heard: int, is_turned: bool
) -> None:
    direct = Direct("news.a")
    receivers = [direct.attach(), direct.attach()]
    direct.send()
    pairs = list(zip(receivers, outcomes, strict=True))
    for receiver, outcome in reversed(pairs) if is_turned else pairs:
        assert direct.heard.ends == {}
        direct.settle(receiver, direct.message(receiver), outcome)
    assert direct.heard.ends[1].outcome == heard


def test_without_receivers_a_message_is_released() -> None:
    direct = Direct()
    assert direct.send() == FORWARDED
    assert direct.heard.ends == {1: Ending(RELEASED)}
    assert direct.world.journal[-1].reason == reasons.NO_RECEIVERS


def test_a_receiver_that_ends_leaves_doubt_about_what_it_got() -> None:
    direct = Direct()
    receiver = direct.attach(credit=6)
    for _ in range(10):
        direct.send()
    assert len(direct.taken(receiver)) == 6
    direct.detach(receiver)
    outcomes = [direct.heard.ends[each].outcome for each in range(1, 11)]
    assert outcomes == [FAILED] * 6 + [RELEASED] * 4


def test_a_connection_that_is_lost_ends_its_links() -> None:
    direct = Direct()
    peer = direct.world.connect()
    direct.attach(connection=peer)
    direct.send()
    direct.world.close(peer, reasons.DISCONNECTED)
    direct.hear()
    assert direct.heard.ends[1].outcome == FAILED
    assert not direct.heard.is_open
    direct.world.close(direct.peer)
    links = direct.world.broker.direct
    assert not (links.addresses)
    assert not (links.senders)
    assert not (links.receivers)
    assert not (links.of_connection)
    direct.world.check()


def test_a_sender_that_ends_hears_nothing_more() -> None:
    direct = Direct()
    receiver = direct.attach()
    direct.send()
    direct.world.ok(c.DetachSender(direct.sender))
    direct.settle(receiver, direct.message(receiver))
    assert direct.heard.ends == {}


def test_nothing_is_settled_twice() -> None:
    direct = Direct()
    receiver = direct.attach()
    direct.send()
    message = direct.message(receiver)
    direct.settle(receiver, message)
    refusal = direct.world.refused(c.Settle(receiver, message, outcome=REJECTED))
    assert refusal.code is Code.NOT_FOUND
    assert direct.heard.ends == {1: Ending(ACCEPTED)}


def test_a_receiver_that_settles_nothing_accepts() -> None:
    direct = Direct()
    direct.attach(acknowledges=False)
    direct.send()
    assert direct.heard.ends == {1: Ending(ACCEPTED)}
    assert direct.world.journal[-1].reason == reasons.AUTOMATIC


def test_a_cumulative_settlement_ends_all_before() -> None:
    direct = Direct()
    receiver = direct.attach()
    for _ in range(4):
        direct.send()
    third = direct.deliveries(receiver)[2].message
    direct.settle(receiver, third, cumulative=True)
    assert sorted(direct.heard.ends) == [1, 2, 3]


# ---- senders that hear of no outcome


def test_a_settled_message_is_forwarded() -> None:
    direct = Direct()
    receiver = direct.attach()
    assert direct.send(token=None) == 0
    direct.settle(receiver, direct.message(receiver))
    assert direct.heard.ends == {}


def test_settled_messages_do_not_pile_up_before_a_receiver_that_is_behind() -> None:
    direct = Direct()
    receiver = direct.attach(credit=0)
    for _ in range(3 * CAPACITY):
        direct.send(token=None)
    waiting = direct.world.broker.direct.receivers[receiver].waits
    assert waiting <= CAPACITY
    dropped = [each for each in direct.world.journal if each.reason == reasons.LIMIT]
    assert len(dropped) == 3 * CAPACITY - waiting
    direct.world.ok(c.Credit(receiver, in_all=4 * CAPACITY))
    assert direct.taken(receiver)[0] == 1
    assert direct.taken(receiver)[-1] == 3 * CAPACITY


def test_a_client_without_a_link_is_refused_where_nobody_receives() -> None:
    direct = Direct()
    send = c.Send(direct.peer, "work.a", b"", b"")
    assert "nobody receives" in direct.world.refused(send).text
    receiver = direct.attach(credit_policy=BY_SETTLEMENT, credit_messages=1)
    for _ in range(2):
        assert direct.world.ok(c.Send(direct.peer, "work.a", b"", b"7")) == 0
    assert direct.taken(receiver) == [7]
    direct.settle(receiver, direct.message(receiver))
    assert direct.taken(receiver) == [7, 7]


# ---- one or the other


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"durable_name": "d"}, "a durable subscription needs a queue"),
        ({"filter": "a = 1"}, "a filter needs a queue"),
        ({"browses": True}, "browsing needs a queue"),
        ({"no_local": True}, "no-local needs a queue"),
        ({"needs_queue": "durable:true"}, "durable:true needs a queue"),
    ],
)
def test_what_needs_a_queue_is_refused(wish: dict[str, Any], words: str) -> None:
    direct = Direct()
    refusal = direct.world.refused(c.Attach(direct.peer, "work.a", **wish))
    assert words in refusal.text


def test_a_transaction_is_refused() -> None:
    direct = Direct()
    receiver = direct.attach()
    direct.send()
    direct.world.begin(direct.peer)
    send = c.Send(direct.peer, "work.a", b"", b"", transaction="t", sender=direct.sender, token=9)
    assert "in no transaction" in direct.world.refused(send).text
    settle = c.Settle(receiver, direct.message(receiver), transaction="t")
    assert "in no transaction" in direct.world.refused(settle).text


def test_an_unavailable_address_is_refused() -> None:
    direct = Direct()
    for command in (
        c.Attach(direct.peer, "closed.a"),
        c.AttachSender(direct.peer, "closed.a"),
        c.Send(direct.peer, "closed.a", b"", b"", sender=direct.sender, token=1),
    ):
        refusal = direct.world.refused(command)
        assert refusal.code is Code.NOT_FOUND
        assert "is unavailable" in refusal.text


def test_a_waypoint_and_other_names_are_stored() -> None:
    direct = Direct()
    for address in ("kept.a", "elsewhere"):
        assert direct.world.ok(c.AttachSender(direct.peer, address)) == 0
        direct.world.ok(c.Send(direct.peer, address, b"", b"1", routing_type="anycast"))
        assert direct.world.queue(address).ready_count == 1


def test_an_address_that_stores_messages_stays_so_until_it_is_deleted() -> None:
    world = World()
    peer = world.connect()
    world.ok(c.Send(peer, "work.a", b"", b"1", routing_type="anycast"))
    world.ok(c.ChangeDistributions(TABLE))
    assert world.ok(c.AttachSender(peer, "work.a")) == 0
    consumer = world.attach(peer, "work.a")
    assert world.taken_bodies(consumer) == [b"1"]
    world.detach(consumer)
    world.ok(c.DeleteAddress("work.a", force=True))
    assert world.ok(c.AttachSender(peer, "work.a")) > 0


@pytest.mark.parametrize(
    "command",
    [
        c.Send(0, "work.a", b"", b"", queue="q"),
        c.Attach(0, "work.a", queue="q"),
        c.CreateAddress("work.a"),
        c.CreateQueue("work.a", QueueDefinition(name="q")),
    ],
)
def test_a_direct_address_gets_no_queue(command: Any) -> None:
    direct = Direct()
    if hasattr(command, "connection"):
        command.connection = direct.peer
    assert "has no queues; take another name" in direct.world.refused(command).text


def test_a_name_that_no_address_may_have_is_refused() -> None:
    direct = Direct()
    for name in ("work.*", "work.a\n", "work." + "a" * 5000):
        for command in (c.Attach(direct.peer, name), c.AttachSender(direct.peer, name)):
            assert "is not a name for an address" in direct.world.refused(command).text


def test_an_expired_message_is_released() -> None:
    direct = Direct()
    receiver = direct.attach(credit=0)
    direct.send(expires=direct.world.now // 1000 + 5)
    direct.world.sleep(1)
    direct.world.ok(c.Credit(receiver, in_all=5))
    direct.hear()
    assert direct.taken(receiver) == []
    assert direct.heard.ends == {1: Ending(RELEASED)}
    assert direct.world.journal[-1].reason == reasons.EXPIRY


def test_of_equal_outcomes_the_one_that_says_more_counts() -> None:
    direct = Direct("news.a")
    receivers = [direct.attach() for _ in range(3)]
    direct.send()
    said: list[dict[str, Any]] = [{}, {"error": "no", "condition": "app:bad"}, {}]
    for receiver, each in zip(receivers, said, strict=True):
        direct.settle(receiver, direct.message(receiver), REJECTED, **each)
    assert direct.heard.ends == {1: Ending(REJECTED, "no", "app:bad")}


def test_an_address_in_use_stays_as_it_is() -> None:
    direct = Direct()
    receiver = direct.attach()
    direct.world.ok(c.ChangeDistributions((DistributionEntry("work", distribution="multicast"),)))
    second = direct.attach()
    direct.send()
    assert (direct.taken(receiver), direct.taken(second)) == ([1], [])


@pytest.mark.parametrize("mode", ["off", "decisions", "content"])
def test_the_journal_has_as_much_as_is_wanted(mode: str) -> None:
    direct = Direct(journal_direct=mode)
    receiver = direct.attach()
    direct.send()
    direct.settle(receiver, direct.message(receiver))
    bodies = [each.body for each in direct.world.events_named("Forwarded")]
    assert bodies == {"off": [], "decisions": [b""], "content": [b"1"]}[mode]
    assert len(direct.world.events_named("ForwardSettled")) == len(bodies)
    assert direct.deliveries(receiver)[0].gate <= len(direct.world.journal)
    assert direct.heard.ends == {1: Ending(ACCEPTED)}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "settle", "accept", "attach", "detach", "credit", "lose"]),
        st.integers(0, 3),
        st.sampled_from([ACCEPTED, REJECTED, RELEASED, FAILED]),
    ),
    max_size=60,
)


@given(st.sampled_from(["work.a", "near.a", "news.a"]), STEPS)
def test_every_message_ends_once_and_loads_are_right(
    address: str, steps: list[tuple[str, int, int]]
) -> None:
    direct = Direct(address)
    peers: dict[int, int] = {}
    for step, number, outcome in steps:
        links = direct.world.broker.direct.receivers
        found = sorted(links)
        chosen = found[number % len(found)] if found else 0
        if step == "send":
            direct.send()
        elif step == "attach" and len(found) < 4:
            peer = direct.world.connect()
            peers[direct.attach(credit=number, connection=peer)] = peer
        elif chosen and step == "settle" and links[chosen].outstanding:
            direct.settle(chosen, next(iter(links[chosen].outstanding)), outcome)
        elif chosen and step == "accept":
            direct.accept(chosen, list(links[chosen].outstanding)[: outcome + 1])
        elif chosen and step == "detach":
            direct.detach(chosen)
        elif chosen and step == "credit":
            direct.world.ok(c.Credit(chosen, messages=number))
        elif chosen and step == "lose":
            direct.world.close(peers[chosen], reasons.DISCONNECTED)
            direct.hear()
        known = direct.world.broker.direct.addresses[address]
        assert direct.heard.is_open == bool(known.receivers)
        if known.receivers:
            least = min(each.load for each in known.receivers.values())
            assert known.least_loaded().load == least
    for receiver in sorted(direct.world.broker.direct.receivers):
        direct.detach(receiver)
    assert sorted(direct.heard.ends) == list(range(1, direct.count + 1))
    direct.world.check()


def test_deliveries_are_accepted_together() -> None:
    direct = Direct()
    receiver = direct.attach(credit=3, credit_policy=BY_SETTLEMENT)
    for _ in range(6):
        direct.send()
    assert direct.taken(receiver) == [1, 2, 3]
    first, second, third = (each.message for each in direct.deliveries(receiver))
    spent = direct.world.broker.budget.spent
    direct.world.ok(c.AcceptAll(receiver, [first, 4711, third]))
    assert direct.world.broker.budget.spent - spent >= 3
    # One effect has all that ended alike.
    direct.world.dispatch()
    assert [each.tokens for each in direct.world.effects if isinstance(each, Ended)] == [[1, 3]]
    direct.hear()
    assert direct.heard.ends == {1: Ending(ACCEPTED), 3: Ending(ACCEPTED)}
    assert direct.taken(receiver) == [1, 2, 3, 4, 5]
    direct.accept(receiver, [first, second])
    assert sorted(direct.heard.ends) == [1, 2, 3]
    assert [each.reason for each in direct.world.events_named("ForwardSettled")] == [
        reasons.BY_CONSUMER
    ] * 3
    direct.world.check()


def test_nobody_accepts_deliveries_together() -> None:
    direct = Direct()
    refused = direct.world.broker.handle(c.AcceptAll(4711, [1]), direct.world.now)
    assert isinstance(refused, Refusal)
    assert refused.code is Code.NOT_FOUND


def test_an_address_in_use_stays_direct_when_the_table_is_emptied() -> None:
    direct = Direct()
    receiver = direct.attach()
    direct.world.ok(c.ChangeDistributions(()))
    assert direct.send() == FORWARDED
    assert direct.taken(receiver) == [1]
    direct.detach(receiver)
    direct.world.ok(c.DetachSender(direct.sender))
    assert direct.attach_sender("work.a") == 0


def test_receivers_that_settle_by_message_are_found_by_it() -> None:
    direct = Direct("news.a")
    peer = direct.world.connect()
    first, second, third = (
        direct.attach(connection=peer, settles_by_message=by_message)
        for by_message in (True, True, False)
    )
    direct.send()
    message = direct.message(first)
    broker = direct.world.broker
    assert broker.holders(peer, message) == [first, second]
    direct.settle(third, message)
    direct.settle(first, message)
    assert broker.holders(peer, message) == [second]
    direct.detach(second)
    assert broker.holders(peer, message) == []
    direct.detach(first)
    direct.detach(third)
    assert not broker.direct.holders


def test_the_journal_names_the_receivers_of_each_copy_as_they_come_and_go() -> None:
    direct = Direct("news.a")
    first = direct.attach()
    direct.send()
    second = direct.attach()
    direct.send()
    direct.send()
    direct.detach(first)
    direct.send()
    found = [
        (each.row[CONSUMER], each.decoded.receivers)
        for each in direct.world.events_named("Forwarded")
    ]
    assert found == [(first, ()), *[(0, (first, second))] * 2, (second, ())]


def test_the_journal_says_how_long_content_is_that_it_omits() -> None:
    direct = Direct()
    direct.attach()
    for body in (b"", b"a", b"bcd", b"e"):
        direct.send(headers=b"x:1\n", body=body)
    assert [each.decoded.omitted_bytes for each in direct.world.events_named("Forwarded")] == [
        4, 5, 7, 5,
    ]  # fmt: skip


def test_an_address_remembers_few_details_of_messages() -> None:
    direct = Direct()
    direct.attach()
    for size in range(2 * DETAILS_MAX):
        direct.send(body=bytes(size))
    assert len(direct.world.broker.direct.addresses["work.a"].details) <= DETAILS_MAX
    found = [each.decoded.omitted_bytes for each in direct.world.events_named("Forwarded")]
    assert found == list(range(2 * DETAILS_MAX))


# ---- large messages


def large(direct: Direct, pieces: int = 3, **values: Any) -> c.Send:
    send = c.Send(
        direct.peer, direct.address, b"", b"", sender=direct.sender, token="large", **values
    )
    lsns: list[int] = []
    for _ in range(pieces):
        lsns.append(direct.world.ok(c.Chunk(send, b"a" * 1000, lsns[-1] if lsns else 0)))
        send.body_bytes += 1000
    send.chunks = tuple(lsns)
    return send


def test_a_large_message_goes_to_a_receiver() -> None:
    direct = Direct()
    receiver = direct.attach()
    assert direct.world.ok(large(direct)) == FORWARDED
    direct.hear()
    (forwarded,) = direct.world.events_named("Forwarded")
    assert forwarded.decoded.body_bytes == 3000
    direct.settle(receiver, direct.message(receiver))
    assert direct.heard.ends == {"large": Ending(ACCEPTED)}
    direct.world.check()


def test_a_large_message_is_released_if_nobody_receives() -> None:
    direct = Direct()
    direct.world.ok(large(direct))
    direct.hear()
    assert direct.heard.ends == {"large": Ending(RELEASED)}


def test_no_piece_is_taken_of_a_message_that_would_be_refused() -> None:
    direct = Direct()
    send = c.Send(direct.peer, "closed.a", b"", b"")
    assert "is unavailable" in direct.world.refused(c.Chunk(send, b"a")).text
    send = c.Send(direct.peer, "work.a", b"", b"", due=1_800_000_000_000)
    assert "cannot delay" in direct.world.refused(c.Chunk(send, b"a")).text
    direct.world.broker.room.disk_full = "the disk is full"
    send = c.Send(direct.peer, "work.a", b"", b"")
    assert direct.world.refused(c.Chunk(send, b"a")).code == Code.LIMIT


# ---- very many receivers


def crowd(count: int = 40) -> tuple[Direct, list[int]]:
    """A broker that hands out a message to more than 10 receivers in slices of 8."""
    direct = Direct("news.a", entered_at_once=10)
    return direct, [direct.attach() for _ in range(count)]


def hand_out(direct: Direct) -> int:
    """Do a slice of what is left to do."""
    budget = direct.world.broker.budget
    before = budget.spent
    budget.allow(8)
    direct.world.broker.go_on(direct.world.now)
    direct.hear()
    return budget.spent - before


def test_a_message_to_very_many_is_handed_out_in_slices() -> None:
    direct, receivers = crowd()
    for _ in range(2):
        direct.send()
    assert not any(direct.taken(each) for each in receivers)
    slices = 0
    while direct.world.broker.has_more:
        assert hand_out(direct) <= 10
        slices += 1
    assert slices >= 10
    assert all(direct.taken(each) == [1, 2] for each in receivers)
    for each in receivers:
        for delivery in direct.deliveries(each):
            direct.settle(each, delivery.message)
    assert direct.heard.ends == {1: Ending(ACCEPTED), 2: Ending(ACCEPTED)}


def test_receivers_come_and_go_while_a_message_is_handed_out() -> None:
    direct, receivers = crowd()
    direct.send()
    hand_out(direct)
    got = [each for each in receivers if direct.taken(each)]
    assert 0 < len(got) < len(receivers)
    direct.detach(got[0])
    direct.detach(receivers[-1])
    late = direct.attach()
    while direct.world.broker.has_more:
        hand_out(direct)
    assert direct.taken(late) == []
    assert direct.taken(receivers[-1]) == []
    for each in receivers[1:-1]:
        direct.settle(each, direct.message(each), RELEASED)
    assert direct.heard.ends == {1: IN_DOUBT}
    ended = direct.world.events_named("ForwardSettled")
    assert sorted(each.row[CONSUMER] for each in ended) == sorted(receivers)
    direct.world.check()


def test_the_end_of_all_receivers_ends_what_is_handed_out() -> None:
    direct, receivers = crowd()
    direct.send()
    for each in receivers:
        direct.detach(each)
    assert direct.heard.ends == {1: Ending(RELEASED)}
    while direct.world.broker.has_more:
        hand_out(direct)
    assert not direct.world.broker.direct.copying
    direct.world.check()


def test_the_event_says_where_a_message_came_from() -> None:
    """Those in front of it and behind it, that came from no broker, are as they were."""
    direct = Direct()
    direct.attach(10)
    came_from = f"{'ab' * 16}/7/0123abcd"
    for each in ("", came_from, ""):
        direct.send(came_from=each)
    found = direct.world.events_named("Forwarded")
    assert [each.decoded.came_from for each in found] == ["", came_from, ""]
