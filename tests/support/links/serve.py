"""The broker of this installation, which also speaks the made-up protocol: one line in a registry
for the protocol, one for its content format."""

from daybook.engine.messages.content import CODECS
from daybook.protocols.registry import OFFERS
from tests.support.links.offer import OFFER
from tests.support.worlds.second_format import MAPS, MapsCodec

if __name__ == "__main__":
    OFFERS[OFFER.scheme] = OFFER
    CODECS[MAPS] = MapsCodec()
    # Imported when the registry is complete: the options of acceptors are read then.
    from daybook.tools.entry import daybook

    daybook()
