"""What states of deliveries mean to the broker (part 3, section 3.4). Must never know a link."""

from typing import Any, Final

from daybook.engine.commands import Settle
from daybook.engine.facts.own_headers import ANNOTATIONS
from daybook.engine.facts.settlements import ACCEPTED, FAILED, REJECTED, RELEASED
from daybook.engine.facts.values import Symbol
from daybook.engine.links.links import UNTRIED, Ending
from daybook.engine.messages.amqp.content_codec import undescribed
from daybook.engine.messages.annotations import Annotations
from daybook.engine.messages.conversions import text_of
from daybook.protocols.amqp.faults import error
from daybook.protocols.amqp.wire.errors import INTERNAL_ERROR
from daybook.protocols.amqp.wire.performatives import Error
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import (
    Accepted,
    Modified,
    Rejected,
    Released,
    TransactionalState,
)

OUTCOMES: Final = (
    "amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list",
)  # fmt: skip
"""The outcomes that sources of the broker offer, and those that it asks for."""
_OF_THE_BROKER: Final = frozenset(ANNOTATIONS.values())
ERROR_BYTES_MAX: Final = 4096
"""How large the error of a receiver of a direct address can be, or its map is not passed on."""
ACCEPTANCE: Final = Ending(ACCEPTED)
_PLAIN: Final = {Accepted: ACCEPTANCE, Released: UNTRIED}


def ending_of(state: Any) -> Ending | None:
    """Return what a state means, perhaps in a transaction; None for one that ends no delivery."""
    plain = _PLAIN.get(type(state))
    if plain is not None:
        return plain
    if isinstance(state, Rejected):
        problem = state.error
        if isinstance(problem, Error):
            info = problem.info or None
            if info and len(COMPOSITES.encoded(problem)) > ERROR_BYTES_MAX:
                info = None
            return Ending(REJECTED, problem.description or "", problem.condition, info=info)
        return Ending(REJECTED)
    if isinstance(state, Modified):
        outcome = FAILED if state.delivery_failed else RELEASED
        noted: Annotations = {
            Symbol(key): undescribed(each)
            for key, each in (state.message_annotations or {}).items()
            if key not in _OF_THE_BROKER
        }
        return Ending(
            outcome, not_here=state.undeliverable_here, annotations=noted or None, modified=True
        )
    if isinstance(state, TransactionalState):
        return ending_of(state.outcome)
    return None


def transaction_of(state: Any) -> bytes | None:
    """Return the id of the transaction that a state waits for."""
    return state.txn_id if isinstance(state, TransactionalState) else None


def state_of(ending: Ending) -> Any:
    """Return the state by which a sender hears how a receiver of a direct address ended its
    message."""
    if ending.outcome == ACCEPTED:
        return Accepted()
    if ending.outcome == REJECTED:
        if not (ending.condition or ending.error):
            return Rejected()
        return Rejected(error(ending.condition or INTERNAL_ERROR, ending.error, ending.info))
    has_failed = ending.outcome == FAILED
    if not (has_failed or ending.modified):
        return Released()
    noted: dict[str, Any] = {text_of(key): each for key, each in (ending.annotations or {}).items()}
    return Modified(has_failed, ending.not_here, noted or None)


def fitting(state: Any, room: int) -> Any:
    """Return a state that has room in a frame: if need be, without some of what was said."""
    if len(COMPOSITES.encoded(state)) <= room:
        return state
    if isinstance(state, Rejected) and isinstance(state.error, Error) and state.error.info:
        return fitting(Rejected(error(state.error.condition, state.error.description or "")), room)
    return echoed(state)


def settlement_of(
    consumer: int, message: int, ending: Ending, transaction: str | None = None
) -> Settle:
    """Return the command that ends a delivery so."""
    return Settle(
        consumer, message, False, transaction, ending.outcome, ending.error, ending.condition,
        ending.not_here, ending.annotations, ending.modified, ending.info,
    )  # fmt: skip


def echoed(state: Any) -> Any:
    """Return a state as the broker repeats it: without what the peer has said with it."""
    if isinstance(state, TransactionalState):
        return TransactionalState(state.txn_id, echoed(state.outcome))
    if isinstance(state, Rejected):
        return Rejected()
    if isinstance(state, Modified):
        return Modified(state.delivery_failed, state.undeliverable_here)
    return state
