"""Chapter 12.1 of Interconnect: messages between clients of one broker, seen by the
client of Qpid, and by one that writes frames itself.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import combinations_with_replacement
from typing import Any, Final

import pytest
from proton import Delivery, Message
from proton.utils import LinkDetached

from bench.load.amqp_peer import AmqpPeer, flow, message, receiver, sender
from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.kinds import MIXED, RECEIVER, SETTLED
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Detach,
    Disposition,
    Flow,
    Transfer,
)
from daybook.protocols.amqp.wire.termini import (
    Accepted,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
)
from tests.interop.routing.three import ACCEPTED, Client, a_broker, running
from tests.interop.using import audited, reload
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

CONFIG: Final = """
default-distribution = "balanced"

[[address]]
prefix = "all"
distribution = "multicast"

[[address]]
prefix = "urgent"
priority = 9
"""
ACCEPT, REJECT, RELEASE, MODIFY = (
    Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED,
)  # fmt: skip
STRONGEST: Final = (REJECT, ACCEPT, MODIFY, RELEASE)
"""Of what receivers say of a multicast message, the sender hears what comes first here."""
PAIRS: Final = list(combinations_with_replacement(STRONGEST, 2))
STATES: Final = {ACCEPT: Accepted, REJECT: Rejected, RELEASE: Released, MODIFY: Modified}
NAMES: Final = {ACCEPT: "accepted", REJECT: "rejected", RELEASE: "released", MODIFY: "modified"}


def _words(said: tuple[int, int]) -> str:
    return "-".join(NAMES[each] for each in said)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = a_broker(tmp_path_factory.mktemp("one"), "a", CONFIG)
    with running(process):
        yield process
        audited(process)


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Callable[[], Client]]:
    with ExitStack() as opened:
        yield lambda: opened.enter_context(Client(broker))


@pytest.fixture
def raw(broker: BrokerProcess) -> Iterator[Callable[[], AmqpPeer]]:
    opened: list[AmqpPeer] = []

    def one() -> AmqpPeer:
        opened.append(AmqpPeer(broker.port))
        return opened[-1]

    yield one
    for each in opened:
        each.close()


Connect = Callable[[], Client]
Raw = Callable[[], AmqpPeer]


def _receiver(client: Client, address: str, credit: int = 100) -> Any:
    found = client.connection.create_receiver(address, credit=credit)
    client.flush()
    return found


# ---- 12.1.1.1: credit


def test_a_sender_without_credit_waits_until_somebody_receives(connect: Connect) -> None:
    sending, receiving = connect(), connect()
    link = sending.connection.create_sender("waits")
    delivery = link.link.send(Message(body="kept by the client"))
    sending.flush()
    assert link.link.queued == 1
    taking = _receiver(receiving, "waits")
    sending.connection.wait(lambda: link.link.queued == 0, msg="the message to leave")
    sending.flush()
    assert receiving.take(taking) == "kept by the client"
    assert sending.outcomes([delivery]) == [ACCEPTED]


def test_frames_of_credit_as_receivers_come_and_go(raw: Raw) -> None:
    sending, receiving = raw(), raw()
    sending.ask(sender(0, "comes"), Attach)
    receiving.ask(receiver(0, "comes"), Attach)
    [first] = sending.until(b"", lambda each: _credit(each.performative) > 0)
    assert _credit(first.performative) == 250
    receiving.ask(frame(0, Detach(0, closed=True)), Detach)
    [last] = sending.until(
        b"", lambda each: isinstance(each.performative, Flow) and each.performative.drain
    )
    assert last.performative.handle == 0
    late = Transfer(0, 0, delivery_tag=b"t", message_format=0)
    [said] = sending.ask(frame(0, late, message(b"nobody")), Disposition)
    assert isinstance(said.performative.state, Released)


def _credit(said: Any) -> int:
    return said.link_credit or 0 if isinstance(said, Flow) and said.handle == 0 else 0


# ---- 12.1.1.4: settlement


@pytest.mark.parametrize("said", PAIRS, ids=_words)
def test_frames_of_outcomes(raw: Raw, said: tuple[int, int]) -> None:
    address = f"all.raw.{_words(said)}"
    sending, receiving = raw(), [raw(), raw()]
    for each in receiving:
        each.ask(receiver(0, address) + flow(0, 1), Attach)
    sending.until(sender(0, address), lambda each: _credit(each.performative) > 0)
    begun = Transfer(0, 0, delivery_tag=b"t", message_format=0)
    sending.put(frame(0, begun, message(b"x")))
    for each, outcome in zip(receiving, said, strict=True):
        [came] = each.ask(b"", Transfer)
        assert not came.performative.settled
        number = came.performative.delivery_id
        each.put(frame(0, Disposition(RECEIVER, number, settled=True, state=STATES[outcome]())))
    [heard] = sending.ask(b"", Disposition)
    assert isinstance(heard.performative.state, STATES[min(said, key=STRONGEST.index)])
    assert heard.performative.settled


@pytest.mark.parametrize("mode", [SETTLED, MIXED], ids=["settled", "mixed"])
def test_frames_of_a_settled_message(raw: Raw, mode: int) -> None:
    """Its sender hears nothing of it. The receiver's link says whether it comes settled."""
    address = f"forgotten.{mode}"
    sending, receiving = raw(), raw()
    asked = Attach("r", 0, RECEIVER, mode, source=Source(address), target=Target())
    receiving.ask(frame(0, asked) + flow(0, 2), Attach)
    sending.until(sender(0, address), lambda each: _credit(each.performative) > 0)
    for number, settled in enumerate((True, False)):
        begun = Transfer(0, number, delivery_tag=b"%d" % number, message_format=0, settled=settled)
        sending.put(frame(0, begun, message(b"x")))
    came = [each.performative for each in receiving.ask(b"", Transfer, 2)]
    assert [bool(each.settled) for each in came] == [mode == SETTLED] * 2
    if mode == MIXED:
        both = Disposition(
            RECEIVER, came[0].delivery_id, came[1].delivery_id, settled=True, state=Accepted()
        )
        receiving.put(frame(0, both))
    [heard] = sending.ask(b"", Disposition)
    assert heard.performative.first == 1


# ---- 12.1.1.3: balance


def test_a_receiver_that_settles_gets_more(connect: Connect) -> None:
    sending, slow, quick = connect(), connect(), connect()
    waiting = _receiver(slow, "balance")
    settling = _receiver(quick, "balance")
    link = sending.sender("balance")
    sent = [sending.begin(link, str(at)) for at in range(2)]
    assert waiting.receive(30).body in ("0", "1")
    quick.take(settling)
    sending.connection.wait(lambda: any(each.remote_state for each in sent), msg="an outcome")
    for at in range(2, 12):
        more = sending.begin(link, str(at))
        assert quick.take(settling) == str(at)
        assert sending.outcomes([more]) == [ACCEPTED]
    assert not waiting.fetcher.has_message


# ---- 12.1.3: priorities


@pytest.mark.parametrize(
    ("address", "order"), [("usual", "9 5 none 4 1"), ("urgent.q", "1 none 9 4 5")]
)
def test_what_waits_comes_by_priority(connect: Connect, address: str, order: str) -> None:
    """Without a priority it is 4, and that of the address makes all messages equal."""
    sending, receiving = connect(), connect()
    taking = receiving.connection.create_receiver(address, credit=0)
    link = sending.sender(address)
    for body in ("1", "none", "9", "4", "5"):
        said = Message(body=body)
        if body != "none":
            said.priority = int(body)
        link.link.send(said)
    sending.flush()
    sending.connection.create_sender("marker").close()
    taking.flow(5)
    receiving.flush()
    assert [receiving.take(taking) for _ in range(5)] == order.split()


# ---- 12.1.2 and 12.1.5: prefixes and patterns

TABLE: Final = {
    "prefix = 'my_address'": ("my_address my_address.1 my_address/1", "my_address1"),
    "pattern = 'my/*/address'": ("my/x/address", "my/address my/x/y/address"),
    "pattern = 'news/*'": ("news/europe news/usa", "news news/usa/sports"),
    "pattern = 'news/#'": ("news news/europe news/usa/sports", "europe usa"),
    "pattern = 'news/europe/#'": (
        "news/europe news/europe/sports news/europe/politics/fr", "news/usa europe",
    ),
    "pattern = 'news/*/sports'": (
        "news/europe/sports news/usa/sports", "news news/europe/fr/sports",
    ),
    "pattern = 'a/b/c/#'": ("a/b/c a/b/c/d a.b.c.d", "a/b a/b/cd"),
}  # fmt: skip


def test_names_match_as_in_the_table(broker: BrokerProcess, connect: Connect) -> None:
    """The last test of the broker, which gets other configurations. Names that match cannot be
    attached to."""
    client = connect()
    for entry, (matching, others) in TABLE.items():
        reload(broker, f"{CONFIG}\n[[address]]\n{entry}\ndistribution = 'unavailable'\n")
        for name in matching.split():
            with pytest.raises(LinkDetached, match="amqp:not-found"):
                client.connection.create_sender(name)
        for name in others.split():
            client.connection.create_sender(name).close()
