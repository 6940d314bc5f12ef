"""No answer says whether something exists that a client may not use (ADR 77).

Each way to name something is tried with a name that exists and is closed to the client, and with
one of the same rules that does not exist. The answers are equal byte by byte, but for the name, and
so is the number of events: ids of messages count those.
"""

import pytest

from daybook.engine.commands import (
    Attach,
    CreateAddress,
    OpenConnection,
    RecordDenial,
    Send,
)
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.settings.permissions import PERMISSIONS, Permissions
from tests.support.topology import create_queue
from tests.unit.protocols.stomp.exchange import Exchange
from tests.unit.protocols.stomp.fakes import NOW

MINE = dict.fromkeys(PERMISSIONS, ("user:user",))
THEIRS = dict.fromkeys(PERMISSIONS, ("user:root",))

NAMES = (
    "secret.queue", "secret.inner", "secret.desks", "secret.topic", "secret.twice", "secret.empty",
)  # fmt: skip
ABSENT = "secret.other"
"""All have one length, as frames say theirs."""

SENDS = (
    "/queue/{}", "/topic/{}", "{}", "/queue/mine.x::{}", "/topic/mine.x::{}", "mine.new::{}",
    "/queue/{}::mine.q", "/queue/{}::{}", "/queue/temp.default.1.x::{}",
    "/queue/temp.default.99.x::{}",
    "/queue/mine.x,/queue/{}", "/queue/mine.x,/topic/{}", "/temp-queue/x,/queue/mine.x::{}",
)  # fmt: skip
SEND_HEADERS = (
    "", "persistent:true", "destination-type:MULTICAST", "_AMQ_DUPL_ID:known", "expires:1",
    "retain:set", "transaction:t",
)  # fmt: skip
SUBSCRIBE_HEADERS = (
    "", "browser:true", "from-seq:0", "selector:a = 1", "no-local:true", "ack:client", "credit:5",
    "persistent:true", "persistent:true\nbrowser:true", "durable-subscription-name:d",
    "exclusive:true", "retroactive-after:1", "destination-type:MULTICAST",
    "destination-type:ANYCAST",
)  # fmt: skip
OFTEN = ("/queue/{}", "/topic/{}", "{}", "/queue/mine.x::{}")
WAYS = (
    *(f"SEND\ndestination:{each}\n{more}" for each in SENDS for more in SEND_HEADERS),
    *(f"SUBSCRIBE\nid:1\ndestination:{each}\n{more}"
      for each in (*SENDS, "/queue/{}.*", "/topic/{}.>", "/queue/{}.#")
      for more in SUBSCRIBE_HEADERS[: None if each in OFTEN else 2]),
)  # fmt: skip
OPEN_WAYS = (
    "SEND\ndestination:/queue/temp.default.1.{}\n",
    "SEND\ndestination:/topic/temp.default.1.{}\n",
)
"""Everybody may send to temporary destinations, whose names only correspondents know."""
DURABLE_WAYS = (
    "SUBSCRIBE\nid:1\ndestination:/dsub/{}",
    "SUBSCRIBE\nid:1\ndestination:/dsub/{}\nbrowser:true",
    "SUBSCRIBE\nid:1\ndestination:/dsub/{},/queue/mine.x",
    "SUBSCRIBE\nid:{}\ndestination:/topic/mine.x\npersistent:true",
    "SUBSCRIBE\nid:{}\ndestination:/topic/mine.x\npersistent:true\nbrowser:true",
    "SUBSCRIBE\nid:{}\ndestination:/topic/secret.topic\npersistent:true",
    "SUBSCRIBE\nid:1\ndestination:/queue/mine.x::dsub.{}",
    "SEND\ndestination:/dsub/{}\n",
    "SEND\ndestination:/dsub/{}\ntransaction:t",
    "SEND\ndestination:/queue/mine.x::dsub.{}\n",
    "SEND\ndestination:/queue/dsub.{}\n",
    "UNSUBSCRIBE\nid:{}\npersistent:true",
    "UNSUBSCRIBE\ndurable-subscription-name:{}",
)
ID_WAYS = (
    "ACK\nid:1-{}", "NACK\nid:1-{}", "ACK\nid:0-{}", "ACK\nid:1-{}\ntransaction:t",
)  # fmt: skip


class Place:
    """A broker with things that are closed, and one connection of each user."""

    def __init__(self) -> None:
        self.exchange = Exchange()
        broker = self.exchange.broker
        root = broker.handle(OpenConnection("stomp", "peer", "root", client_id="r"), NOW)
        assert isinstance(root, int)
        for command in (
            create_queue("secret.queue", "secret.queue"),
            create_queue("secret.inner", "secret.desks"),
            create_queue("secret.twice", "secret.twice"),
            CreateAddress("secret.topic", (MULTICAST,)),
            CreateAddress("secret.twice", (ANYCAST, MULTICAST)),
            CreateAddress("secret.empty", (ANYCAST,)),
            create_queue("temp-like", "secret.topic", MULTICAST),
            Attach(root, "secret.topic", durable_name="theirs", subscription="s"),
            Attach(root, "secret.topic", durable_name="c.theirs", subscription="u"),
            Send(root, "secret.queue", b"", b"x", duplicate_id="known"),
            Send(root, f"temp.default.{root}.secret.queue", b"", b"x"),
        ):
            answer = broker.handle(command, NOW)
            assert isinstance(answer, int), answer
        self.message = broker.lsn
        broker.permit(
            Permissions({"mine.#": MINE, "temp.#": MINE, "secret.#": THEIRS, "dsub.#": THEIRS})
        )

    def answer(self, frame: str, name: str) -> tuple[bytes, int]:
        """Return the answer to a client about a name, and the number of its events."""
        broker = self.exchange.broker
        client = self.exchange.client(client_id="c")
        client.send("BEGIN\ntransaction:t")
        before = broker.lsn
        told = b"\0".join(client.send(frame.replace("{}", name) + "\nreceipt:r"))
        for each in broker.rights.denials:
            broker.handle(
                RecordDenial(each.connection, each.user, each.permission, each.address,
                             each.queue, each.peer, 1), NOW,
            )  # fmt: skip
        broker.rights.denials.clear()
        told += b"\0".join(client.send("COMMIT\ntransaction:t"))
        return told.replace(name.encode(), b"NAME"), broker.lsn - before


def same(frame: str, names: tuple[str, ...], absent: str) -> None:
    expected = Place().answer(frame, absent)
    for name in names:
        found = Place().answer(frame, name)
        assert found == expected, f"{frame!r} tells that {name!r} exists"


@pytest.mark.parametrize("frame", WAYS)
def test_a_closed_name_is_like_one_that_does_not_exist(frame: str) -> None:
    same(frame, NAMES, ABSENT)


@pytest.mark.parametrize("frame", OPEN_WAYS)
def test_a_temporary_destination_of_others_is_like_none(frame: str) -> None:
    answers = {Place().answer(frame, name)[0] for name in ("secret.queue", ABSENT)}
    assert len(answers) == 1


@pytest.mark.parametrize("frame", DURABLE_WAYS)
def test_a_durable_subscription_of_others_is_like_none(frame: str) -> None:
    same(frame, ("theirs",), "nosuch")


@pytest.mark.parametrize("frame", ID_WAYS)
def test_a_delivery_of_others_is_like_none(frame: str) -> None:
    number = str(Place().message)
    same(frame, (number,), "9" * len(number))


def test_the_walk_sees_what_exists() -> None:
    place = Place()
    place.exchange.broker.permit(None)
    there, _ = place.answer("SEND\ndestination:/queue/mine.x::{}\n", "secret.queue")
    assert b"is on address 'NAME', not on 'mine.x'" in there
    absent, _ = Place().answer("SEND\ndestination:/queue/mine.x::{}\n", ABSENT)
    assert b"no rule is for" in absent
