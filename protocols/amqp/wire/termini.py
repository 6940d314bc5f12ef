"""What links and deliveries say: sources, targets, states and outcomes (part 3, sections 3.4 and
3.5), and transactions (part 4).

Must never know what an address is to the broker.
"""

import msgspec

from daybook.engine.facts.definitions import SESSION_END
from daybook.engine.messages.amqp.kinds import (
    Address,
    Anything,
    Boolean,
    Fields,
    Names,
    Seconds,
    UInt,
    ULong,
)
from daybook.protocols.amqp.wire.kinds import (
    NOT_DURABLE,
    DistributionMode,
    Durability,
    ExpiryPolicy,
    FilterSet,
    NodeProperties,
    Outcome,
    Problem,
    TransactionId,
)


class Received(msgspec.Struct, frozen=True):
    section_number: UInt
    section_offset: ULong


class Accepted(msgspec.Struct, frozen=True):
    pass


class Rejected(msgspec.Struct, frozen=True):
    error: Problem = None


class Released(msgspec.Struct, frozen=True):
    pass


class Modified(msgspec.Struct, frozen=True):
    delivery_failed: Boolean = False
    undeliverable_here: Boolean = False
    message_annotations: Fields | None = None


class Source(msgspec.Struct, frozen=True):
    address: Address | None = None
    durable: Durability = NOT_DURABLE
    expiry_policy: ExpiryPolicy = SESSION_END
    timeout: Seconds = 0
    dynamic: Boolean = False
    dynamic_node_properties: NodeProperties | None = None
    distribution_mode: DistributionMode | None = None
    filter: FilterSet | None = None
    default_outcome: Outcome = None
    outcomes: Names = ()
    capabilities: Names = ()


class Target(msgspec.Struct, frozen=True):
    address: Address | None = None
    durable: Durability = NOT_DURABLE
    expiry_policy: ExpiryPolicy = SESSION_END
    timeout: Seconds = 0
    dynamic: Boolean = False
    dynamic_node_properties: NodeProperties | None = None
    capabilities: Names = ()


class DeleteOnClose(msgspec.Struct, frozen=True):
    pass


class DeleteOnNoLinks(msgspec.Struct, frozen=True):
    pass


class DeleteOnNoMessages(msgspec.Struct, frozen=True):
    pass


class DeleteOnNoLinksOrMessages(msgspec.Struct, frozen=True):
    pass


class Coordinator(msgspec.Struct, frozen=True):
    capabilities: Names = ()


class Declare(msgspec.Struct, frozen=True):
    global_id: Anything = None


class Discharge(msgspec.Struct, frozen=True):
    txn_id: TransactionId
    fail: Boolean = False


class Declared(msgspec.Struct, frozen=True):
    txn_id: TransactionId


class TransactionalState(msgspec.Struct, frozen=True):
    txn_id: TransactionId
    outcome: Outcome = None
