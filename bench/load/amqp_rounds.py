"""The rounds of an honest client of AMQP 1.0. Must never know who measures them."""

import time
from typing import Final

from bench.load.amqp_peer import WIDE, AmqpPeer, flow, message, receiver, sender
from bench.load.frames import LoadError
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.sections import COMPOSITES, Header
from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import Disposition, Flow, Transfer
from daybook.protocols.amqp.wire.termini import Accepted

BODY: Final = b"an honest message "


class AmqpRounds:
    """The rounds of one connection: a message to a queue of its own is sent, accepted and
    delivered, and its settlement is answered."""

    def __init__(self, port: int, queue: str) -> None:
        """Connect, and attach both links. Raises LoadError."""
        self._peer: Final = AmqpPeer(port)
        self._number = 0
        # The credit of the sender is the second flow in sight.
        self._peer.ask(receiver(0, queue) + flow(0, WIDE) + sender(1, queue), Flow)

    def round(self) -> float:
        """Do one round and return how many milliseconds it took. Raises LoadError."""
        number = self._number
        self._number += 1
        body = BODY + b"%d" % number
        begun = time.perf_counter()
        transfer = Transfer(1, number, b"%d" % number, 0)
        found = self._peer.until(
            frame(0, transfer, message(body)),
            lambda each: isinstance(each.performative, Transfer | Disposition),
            2,
        )
        took = (time.perf_counter() - begun) * 1000
        delivered = next((each for each in found if isinstance(each.performative, Transfer)), None)
        if delivered is None or not delivered.payload.endswith(body):
            raise LoadError(f"round {number}: unexpected answers {found!r}")
        header = COMPOSITES.read(Reader(delivered.payload, 0, len(delivered.payload)))
        if isinstance(header, Header) and header.delivery_count:
            raise LoadError(f"round {number}: the message came before")
        self._settle(delivered.performative.delivery_id)
        return took

    def _settle(self, delivery: int) -> None:
        """Settle a delivery, and wait for the answer."""
        said = frame(0, Disposition(RECEIVER, delivery, None, False, Accepted()))
        (answer,) = self._peer.ask(said, Disposition)
        settled = answer.performative
        if settled.role is not SENDER or settled.first != delivery or not settled.settled:
            raise LoadError(f"unexpected answer {settled!r}")
