"""The types of fields that only links, sessions and connections have. Must never know a frame."""

from typing import Annotated, Any, Final, TypeAlias

from daybook.engine.facts.definitions import EXPIRY_POLICIES
from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.kinds import ANY, Kind

SENDER: Final = False
RECEIVER: Final = True

UNSETTLED: Final = 0
SETTLED: Final = 1
MIXED: Final = 2

FIRST: Final = 0
SECOND: Final = 1

NOT_DURABLE: Final = 0
CONFIGURATION: Final = 1
UNSETTLED_STATE: Final = 2

MOVE: Final = "move"
COPY: Final = "copy"

OK: Final = 0
AUTH: Final = 1
SYS: Final = 2
SYS_PERM: Final = 3
SYS_TEMP: Final = 4

STATE: Final = "delivery-state"
OUTCOME: Final = "outcome"
SOURCE: Final = "source"
TARGET: Final = "target"
LIFETIME: Final = "lifetime-policy"
FRAME: Final = "frame"
SASL_FRAME: Final = "sasl-frame"
ERROR: Final = "error"

_SHORT: Final = 32

Role: TypeAlias = Annotated[bool, Kind("role", "boolean")]
Handle: TypeAlias = Annotated[int, Kind("handle", "uint")]
DeliveryNumber: TypeAlias = Annotated[int, Kind("delivery-number", "uint")]
TransferNumber: TypeAlias = Annotated[int, Kind("transfer-number", "uint")]
SequenceNumber: TypeAlias = Annotated[int, Kind("sequence-no", "uint")]
MessageFormat: TypeAlias = Annotated[int, Kind("message-format", "uint")]
DeliveryTag: TypeAlias = Annotated[bytes, Kind("delivery-tag", "binary", longest=_SHORT)]
SenderSettleMode: TypeAlias = Annotated[
    int, Kind("sender-settle-mode", "ubyte", (UNSETTLED, SETTLED, MIXED))
]
ReceiverSettleMode: TypeAlias = Annotated[
    int, Kind("receiver-settle-mode", "ubyte", (FIRST, SECOND))
]
Languages: TypeAlias = Annotated[
    tuple[str, ...], Kind("ietf-language-tag", "symbol", is_multiple=True, wraps=Symbol)
]
Durability: TypeAlias = Annotated[
    int, Kind("terminus-durability", "uint", (NOT_DURABLE, CONFIGURATION, UNSETTLED_STATE))
]
ExpiryPolicy: TypeAlias = Annotated[
    str,
    Kind(
        "terminus-expiry-policy", "symbol",
        EXPIRY_POLICIES, wraps=Symbol,
    ),
]  # fmt: skip
DistributionMode: TypeAlias = Annotated[
    str, Kind("std-dist-mode", "symbol", (MOVE, COPY), wraps=Symbol)
]
NodeProperties: TypeAlias = Annotated[dict[str, Any], Kind("fields", "map")]
FilterSet: TypeAlias = Annotated[dict[str, Any], Kind("fields", "map")]
"""Filters by their names: `Described` values, and null for one that is not asked for."""
SaslCode: TypeAlias = Annotated[
    int, Kind("sasl-code", "ubyte", (OK, AUTH, SYS, SYS_PERM, SYS_TEMP))
]
TransactionId: TypeAlias = Annotated[
    bytes, Kind("transaction-id", ANY, primitives=("binary",), longest=_SHORT)
]

State: TypeAlias = Annotated[Any, Kind("delivery-state", ANY, provides=STATE)]
Outcome: TypeAlias = Annotated[Any, Kind("outcome", ANY, provides=OUTCOME)]
Source: TypeAlias = Annotated[Any, Kind("source", ANY, provides=SOURCE)]
Target: TypeAlias = Annotated[Any, Kind("target", ANY, provides=TARGET)]
Problem: TypeAlias = Annotated[Any, Kind("error", ANY, provides=ERROR)]
