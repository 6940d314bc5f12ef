"""What frames say: the performatives of part 2, section 2.7, and those of SASL (part 5).

Must never know how a frame is encoded.
"""

from typing import Final

import msgspec

from daybook.engine.messages.amqp.kinds import (
    Binary,
    Boolean,
    Fields,
    Map,
    Milliseconds,
    Name,
    Names,
    String,
    UInt,
    ULong,
    UShort,
)
from daybook.protocols.amqp.wire.kinds import (
    FIRST,
    MIXED,
    DeliveryNumber,
    DeliveryTag,
    Handle,
    Languages,
    MessageFormat,
    Problem,
    ReceiverSettleMode,
    Role,
    SaslCode,
    SenderSettleMode,
    SequenceNumber,
    Source,
    State,
    Target,
    TransferNumber,
)

UINT_MAX: Final = 0xFFFF_FFFF


class Error(msgspec.Struct, frozen=True):
    """Why a connection, a session, a link or a delivery ended (2.8.14)."""

    condition: Name
    description: String | None = None
    info: Fields | None = None


class Open(msgspec.Struct, frozen=True):
    container_id: String
    hostname: String | None = None
    max_frame_size: UInt = UINT_MAX
    channel_max: UShort = 0xFFFF
    idle_time_out: Milliseconds | None = None
    outgoing_locales: Languages = ()
    incoming_locales: Languages = ()
    offered_capabilities: Names = ()
    desired_capabilities: Names = ()
    properties: Fields | None = None


class Begin(msgspec.Struct, frozen=True, kw_only=True):
    remote_channel: UShort | None = None
    next_outgoing_id: TransferNumber
    incoming_window: UInt
    outgoing_window: UInt
    handle_max: Handle = UINT_MAX
    offered_capabilities: Names = ()
    desired_capabilities: Names = ()
    properties: Fields | None = None


class Attach(msgspec.Struct, frozen=True):
    name: String
    handle: Handle
    role: Role
    snd_settle_mode: SenderSettleMode = MIXED
    rcv_settle_mode: ReceiverSettleMode = FIRST
    source: Source = None
    target: Target = None
    unsettled: Map | None = None
    incomplete_unsettled: Boolean = False
    initial_delivery_count: SequenceNumber | None = None
    max_message_size: ULong | None = None
    offered_capabilities: Names = ()
    desired_capabilities: Names = ()
    properties: Fields | None = None


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    next_incoming_id: TransferNumber | None = None
    incoming_window: UInt
    next_outgoing_id: TransferNumber
    outgoing_window: UInt
    handle: Handle | None = None
    delivery_count: SequenceNumber | None = None
    link_credit: UInt | None = None
    available: UInt | None = None
    drain: Boolean = False
    echo: Boolean = False
    properties: Fields | None = None


class Transfer(msgspec.Struct, frozen=True):
    handle: Handle
    delivery_id: DeliveryNumber | None = None
    delivery_tag: DeliveryTag | None = None
    message_format: MessageFormat | None = None
    settled: Boolean | None = None
    more: Boolean = False
    rcv_settle_mode: ReceiverSettleMode | None = None
    state: State = None
    resume: Boolean = False
    aborted: Boolean = False
    batchable: Boolean = False


class Disposition(msgspec.Struct, frozen=True):
    role: Role
    first: DeliveryNumber
    last: DeliveryNumber | None = None
    settled: Boolean = False
    state: State = None
    batchable: Boolean = False


class Detach(msgspec.Struct, frozen=True):
    handle: Handle
    closed: Boolean = False
    error: Problem = None


class End(msgspec.Struct, frozen=True):
    error: Problem = None


class Close(msgspec.Struct, frozen=True):
    error: Problem = None


class SaslMechanisms(msgspec.Struct, frozen=True):
    sasl_server_mechanisms: Names


class SaslInit(msgspec.Struct, frozen=True):
    mechanism: Name
    initial_response: Binary | None = None
    hostname: String | None = None


class SaslChallenge(msgspec.Struct, frozen=True):
    challenge: Binary


class SaslResponse(msgspec.Struct, frozen=True):
    response: Binary


class SaslOutcome(msgspec.Struct, frozen=True):
    code: SaslCode
    additional_data: Binary | None = None
