"""The registry: the protocols by the scheme of their acceptors. Adding one is a line here.

The first protocol is the default.
"""

from typing import Final

from daybook.protocols.amqp.offer import OFFER as AMQP
from daybook.protocols.control.offer import OFFER as CONTROL
from daybook.protocols.port import Offer
from daybook.protocols.probe.offer import OFFER as PROBE
from daybook.protocols.stomp.offer import OFFER as STOMP

OFFERS: Final[dict[str, Offer]] = {
    offer.scheme: offer
    for offer in (
        STOMP,
        AMQP,
        PROBE,
        CONTROL,
    )
}
DEFAULT: Final[Offer] = next(iter(OFFERS.values()))
