"""A link to the coordinator: transactions are declared and discharged by its messages (part 4).

They are open on the connection: links of all its sessions may take part. Must never know what a
transaction does.
"""

from typing import Any, Final

from daybook.engine.commands import Begin, Command, Commit, Rollback
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.places import places_of
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.sections import VALUE
from daybook.protocols.amqp.faults import error
from daybook.protocols.amqp.incoming import Incoming, Message, Unsendable
from daybook.protocols.amqp.sessions import AmqpSession
from daybook.protocols.amqp.wire.errors import (
    DECODE_ERROR,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    TRANSACTION_ROLLBACK,
    UNKNOWN_ID,
)
from daybook.protocols.amqp.wire.performatives import Error
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import Accepted, Declare, Declared, Discharge
from daybook.protocols.port import COORDINATES, LinkRow

CAPABILITIES: Final = (
    "amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn",
)  # fmt: skip
"""Its abilities, which do not depend on the wishes of its peer (part 4, 4.5.8)."""
_TXN_ID_BYTES: Final = 8
CONTROL_BYTES_MAX: Final = 1024


class Coordinator(Incoming):
    """The link. Its transactions are rolled back when it goes."""

    __slots__ = ("_declared", "_ids")

    def __init__(
        self, session: AmqpSession, handle: int, name: str, number: int, initial_count: int
    ) -> None:
        super().__init__(session, handle, name, number, None, initial_count)
        self.single_max = -1
        self._ids: list[bytes] = []
        # The transaction that the message in front is about, once it was read.
        self._declared: tuple[Message, Declare | Discharge, bytes] | None = None

    def row(self) -> LinkRow:
        """Return it for administrators."""
        return super().row()._replace(role=COORDINATES)

    def give_up(self, now: int) -> None:
        """Roll back what was not discharged: the link ends."""
        super().give_up(now)
        for txn_id in self._ids:
            self._roll_back(txn_id, now)
        self._ids.clear()

    def _next(self, message: Message, now: int) -> Command | None:
        if message.bytes > CONTROL_BYTES_MAX:
            raise Unsendable(
                error(RESOURCE_LIMIT_EXCEEDED, "no message to a coordinator is so long")
            )
        if not message.is_whole:
            return None
        known = self._declared
        if known is None or known[0] is not message:
            known = self._declared = self._read(message)
        _, asked, txn_id = known
        output = self.session.output
        name = txn_id.hex()
        if isinstance(asked, Declare):
            return Begin(output.connection, name)
        if asked.fail:
            return Rollback(output.connection, name)
        if txn_id in output.doomed:
            raise Unsendable(error(TRANSACTION_ROLLBACK, "a settled message of it was refused"))
        if output.has_work(txn_id):
            # Its messages came first, and wait in their links.
            output.discharging[self.number] = self
            return None
        return Commit(output.connection, name, self.number)

    def _read(self, message: Message) -> tuple[Message, Declare | Discharge, bytes]:
        data = self._take(message)
        try:
            places = places_of(data)
            value = next(each for each in places if each.code == VALUE)
            asked = COMPOSITES.read(Reader(data, value.value, value.end))
        except (Malformed, StopIteration) as found:
            text = str(found) or "the message has no value"
            raise Unsendable(error(DECODE_ERROR, text)) from None
        output = self.session.output
        if isinstance(asked, Declare):
            if asked.global_id is not None:
                raise Unsendable(error(NOT_IMPLEMENTED, "there are no distributed transactions"))
            output.txn_count += 1
            return message, asked, output.txn_count.to_bytes(_TXN_ID_BYTES, "big")
        if not isinstance(asked, Discharge):
            raise Unsendable(
                error(DECODE_ERROR, "only declare and discharge are for a coordinator")
            )
        if asked.txn_id not in output.transactions:
            raise Unsendable(error(UNKNOWN_ID, "there is no such transaction"))
        return message, asked, asked.txn_id

    def _done(self, message: Message, answer: int, before: int) -> None:
        assert self._declared is not None
        _, asked, txn_id = self._declared
        self._forget(self._messages.pop(0))
        output = self.session.output
        output.gate = max(output.gate, answer)
        state: Any = Accepted()
        if isinstance(asked, Declare):
            output.transactions[txn_id] = []
            self._ids.append(txn_id)
            state = Declared(txn_id)
        else:
            self._end(txn_id, give_back=asked.fail)
        self._tell(message.delivery, message.mode, state)

    def _reject(self, message: Message, problem: Error) -> None:
        known = self._declared
        if known is not None and known[0] is message and isinstance(known[1], Discharge):
            # A commit that is refused is rolled back.
            self._roll_back(known[2], 0)
            problem = Error(TRANSACTION_ROLLBACK, problem.description, problem.info)
        super()._reject(message, problem)

    def _roll_back(self, txn_id: bytes, now: int) -> None:
        output = self.session.output
        if txn_id not in output.transactions:
            return
        if output.connection:
            output.broker.handle(Rollback(output.connection, txn_id.hex()), now)
        self._end(txn_id, give_back=True)

    def _end(self, txn_id: bytes, *, give_back: bool) -> None:
        """Forget a transaction; deliveries that it settled in vain come again."""
        output = self.session.output
        settled = output.transactions.pop(txn_id)
        output.doomed.discard(txn_id)
        if txn_id in self._ids:
            self._ids.remove(txn_id)
        if give_back:
            output.give_back += settled
