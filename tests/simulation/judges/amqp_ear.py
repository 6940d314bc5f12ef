"""Hears AMQP: deliveries of many frames, dispositions of ranges, and whose link each is about."""

from typing import Any

from daybook.protocols.amqp.wire.errors import INVALID_FIELD, STOLEN
from daybook.protocols.amqp.wire.frames import Frame
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Transfer,
)
from daybook.protocols.amqp.wire.termini import Rejected
from tests.simulation.judges.ears import Listener, Told
from tests.simulation.judges.violation import Violation
from tests.simulation.machine.network import Link
from tests.simulation.peers.amqp_wire import AmqpReader, content_of, head_of, message_of_tag

DUPLICATE = "is a duplicate"


class Arriving:
    """A delivery on its way: its number, its message, and the bytes of it so far."""

    def __init__(self, number: int, message: int) -> None:
        self.number = number
        self.message = message
        self.data = b""


class AmqpEar:
    """Hears one connection."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._reader = AmqpReader()
        # By channel and handle: the name of a link by which the broker sends, and what arrives.
        self._names: dict[tuple[int, int], str] = {}
        self._arriving: dict[tuple[int, int], Arriving] = {}
        self._is_open = False

    def hear(self, link: Link, data: bytes) -> None:
        """Bytes leave the broker."""
        for found in self._reader.feed(data):
            if not isinstance(found, Frame):
                continue
            said, channel = found.performative, found.channel
            if isinstance(said, Begin):
                if not self._is_open:
                    self._listener.opened(link, 0)
                self._is_open = True
            elif isinstance(said, Attach):
                self._attach(link, channel, said)
            elif isinstance(said, Transfer):
                self._transfer(link, channel, said, found.payload)
            elif isinstance(said, Disposition):
                self._disposition(link, channel, said)
            elif isinstance(said, Detach):
                self._detach(link, channel, said)
            elif isinstance(said, End):
                self._end(link, channel, said)
            elif isinstance(said, Close) and _condition_of(said) == INVALID_FIELD:
                self._listener.kept_out(link)

    def _answer(self, link: Link, key: str) -> None:
        """Answer what nobody needs to wait for."""
        if (link.serial, key) in self._listener.ledger.expected:
            self._listener.answered(link, key)

    def _attach(self, link: Link, channel: int, said: Attach) -> None:
        if said.role == SENDER and said.source is not None:
            self._names[channel, said.handle] = said.name
            self._answer(link, f"attach {said.name}")

    def _detach(self, link: Link, channel: int, said: Detach) -> None:
        name = self._names.pop((channel, said.handle), "")
        self._arriving.pop((channel, said.handle), None)
        is_stolen = _condition_of(said) == STOLEN
        if is_stolen and said.closed:
            raise Violation("protocol", f"{said} ends {name}, which another link took over")
        self._listener.parted(link, name, is_stolen=is_stolen)
        if said.error is None:
            self._answer(link, f"detach {name}")

    def _end(self, link: Link, channel: int, said: End) -> None:
        for place in [each for each in self._names if each[0] == channel]:
            self._listener.parted(link, self._names.pop(place), is_stolen=False)
        if said.error is None:
            self._answer(link, f"end {channel}")

    def _transfer(self, link: Link, channel: int, said: Transfer, payload: bytes) -> None:
        place = channel, said.handle
        name = self._names.get(place)
        if name is None:
            raise Violation("protocol", f"link {link.serial}: {said} on a link that is not there")
        arriving = self._arriving.get(place)
        if arriving is None:
            arriving = self._begin(link, name, said, payload)
            self._arriving[place] = arriving
        arriving.data += payload
        if said.aborted or not said.more:
            del self._arriving[place]
        if not (said.aborted or said.more):
            content = content_of(arriving.data)
            told = Told(
                name, arriving.message, content.body, content.attempt, content.flagged,
                f"{said} of {name}", content.bare,
            )  # fmt: skip
            self._listener.told(link, told)

    def _begin(self, link: Link, name: str, said: Transfer, payload: bytes) -> Arriving:
        assert said.delivery_id is not None, said
        message = message_of_tag(said.delivery_tag)
        head = head_of(payload)
        self._listener.begun(link, name, message, head.delivery_count + 1, durable=head.durable)
        return Arriving(said.delivery_id, message)

    def _disposition(self, link: Link, channel: int, said: Disposition) -> None:
        last = said.last if said.last is not None else said.first
        kind = "transfer" if said.role == RECEIVER else "settle"
        for number in range(said.first, last + 1):
            key = f"{kind} {channel} {number}"
            if kind == "transfer" and isinstance(said.state, Rejected):
                self._listener.declined(link, key, _duplicate(said.state))
            else:
                self._listener.answered(link, key)


def _condition_of(said: Detach | Close) -> str:
    return said.error.condition if said.error is not None else ""


def _duplicate(state: Any) -> str:
    text = (state.error.description or "") if state.error is not None else ""
    return text if DUPLICATE in text else ""
