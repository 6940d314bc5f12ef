"""Frames by chance that fit what the connection has: its sessions, links, credit and deliveries.

Frames that know nothing (`frames_by_chance`) mostly end their connection; these go far into it.
"""

import random
from typing import Any

from daybook.engine.facts.definitions import NEVER
from daybook.protocols.amqp.connection import AmqpConnection
from daybook.protocols.amqp.incoming import Incoming
from daybook.protocols.amqp.outgoing import Outgoing
from daybook.protocols.amqp.sessions import AmqpSession
from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from daybook.protocols.amqp.wire.termini import Source, Target
from tests.support.amqp.frames_by_chance import (
    STATES,
    a_payload,
    a_source,
    a_target,
    an_unsettled_map,
)
from tests.support.amqp.peer import message

HANDLES = range(3)
PLACES = ("a", "a", "b", "topic://t")


def an_apt_frame(chance: random.Random, connection: AmqpConnection) -> bytes:
    """A frame that the connection can understand at this moment."""
    sessions = [each for each in connection._sessions.values() if not each.is_ended]
    if not sessions or (len(sessions) < 2 and chance.random() < 0.1):
        channel = next(each for each in range(250) if each not in connection._sessions)
        return frame(channel, Begin(next_outgoing_id=0, incoming_window=9, outgoing_window=9))
    session = chance.choice(sessions)
    said, payload = _in_session(chance, session)
    return frame(session.channel, said, payload)


def _in_session(chance: random.Random, session: AmqpSession) -> tuple[Any, bytes]:
    links = [each for each in session.links.values() if type(each) in (Incoming, Outgoing)]
    roll = chance.random()
    if not links or (roll < 0.15 and session.output.attached < len(HANDLES)):
        return _attach(chance, session), b""
    if roll < 0.17:
        return End(), b""
    if roll < 0.24:
        return Detach(chance.choice(links).handle, closed=chance.random() < 0.4), b""
    if roll < 0.45 and (session.unsettled or session.unsettled_by_peer):
        return _disposition(chance, session), b""
    link = chance.choice(links)
    if isinstance(link, Incoming) and link.credit.link_credit:
        return _transfer(chance, link)
    return _flow(chance, session, link), b""


def _attach(chance: random.Random, session: AmqpSession) -> Attach:
    free = [each for each in HANDLES if each not in session.links and each not in session.leaving]
    is_plain = chance.random() < 0.7
    topic = chance.random() < 0.5
    subscription = Source("t", durable=2, expiry_policy=NEVER, capabilities=("topic",))
    plain_source = subscription if topic else Source(chance.choice(PLACES))
    return Attach(
        f"l{chance.randrange(3)}", free[0] if free else 3, chance.choice([SENDER, RECEIVER]),
        snd_settle_mode=chance.choice([0, 0, 1, 2]), rcv_settle_mode=chance.randrange(2),
        source=plain_source if is_plain else a_source(chance),
        target=Target(chance.choice(PLACES)) if is_plain else a_target(chance),
        unsettled=an_unsettled_map(chance), initial_delivery_count=0,
        properties=chance.choice([None, {"priority": chance.randrange(3)}]),
    )  # fmt: skip


def _transfer(chance: random.Random, link: Incoming) -> tuple[Transfer, bytes]:
    number = link.session.windows.next_incoming_id
    is_short = chance.random() < 0.7
    said = Transfer(
        link.handle, number, b"t%d" % number, 0, chance.choice([None, True, False]),
        more=chance.random() < 0.2, state=chance.choice([None, None, *STATES]),
        rcv_settle_mode=chance.choice([None, 0]), resume=chance.random() < 0.05,
        aborted=chance.random() < 0.05,
    )  # fmt: skip
    durable = chance.random() < 0.5
    return said, message(b"x", durable=durable) if is_short else a_payload(chance)


def _disposition(chance: random.Random, session: AmqpSession) -> Disposition:
    role = SENDER if session.unsettled_by_peer and chance.random() < 0.5 else RECEIVER
    known = list(session.unsettled_by_peer if role == SENDER else session.unsettled)
    first = chance.choice(known) if known else 0
    last = chance.choice([None, first + 2])
    return Disposition(role, first, last, chance.random() < 0.7, chance.choice(STATES))


def _flow(chance: random.Random, session: AmqpSession, link: Any) -> Flow:
    windows = session.windows
    is_outgoing = isinstance(link, Outgoing)
    count = (link._count if is_outgoing else link.credit.delivery_count) % (1 << 32)
    return Flow(
        next_incoming_id=windows.next_outgoing_id, incoming_window=chance.choice([0, 1, 99]),
        next_outgoing_id=windows.next_incoming_id, outgoing_window=99, handle=link.handle,
        delivery_count=count if chance.random() < 0.9 else chance.randrange(1 << 32),
        link_credit=chance.choice([0, 1, 5, 0xFFFF_FFFF]),
        drain=is_outgoing and chance.random() < 0.2, echo=chance.random() < 0.2,
    )  # fmt: skip
