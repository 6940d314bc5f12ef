"""Deciding about messages that no queue takes: some go to the dead letter address instead.

With `send-to-dla-on-no-route` the message gets the headers of a dead letter and is routed at the
dead letter address, once: what that takes no more is dropped. `engine.routing.routing` carries it
out.
"""

from typing import NamedTuple

from daybook.engine.commands import Send
from daybook.engine.core.core import Core
from daybook.engine.facts import reasons
from daybook.engine.facts.details import Origin
from daybook.engine.messages import deaths
from daybook.engine.messages.content import codec_of
from daybook.engine.messages.origins import ORIGIN_PROPERTIES, origin, shown
from daybook.engine.queues.queue import Address
from daybook.engine.routing.dead_letter_addresses import for_dead_letters, home
from daybook.engine.settings.expiry_rules import expires_of


class Redirected(NamedTuple):
    """Where an unrouted message goes, and what it is there."""

    address: Address
    headers: bytes
    expires: int
    origin: Origin


def redirect(core: Core, command: Send, address: Address, flags: int) -> Redirected | None:
    """Return where a message goes that no queue of its address takes, None for nowhere.

    The dead letter address is created with its queue if it does not exist.
    """
    settings = core.state.settings.resolve(address.name)
    target = settings.dead_letter_address
    if not settings.send_to_dla_on_no_route or not target or target == address.name:
        return None
    found = home(core, target, address.name, for_dead_letters(settings))
    if isinstance(found, str):
        return None
    before = command.origin.deaths if command.origin is not None else ()
    newest = deaths.death(deaths.NO_ROUTE, address.name, "", core.now)
    past = origin(
        reasons.NO_ROUTE, address.name, "", routing_type=command.routing_type,
        deaths=deaths.counted(before, newest),
    )  # fmt: skip
    said = shown(past) | deaths.shown(past.deaths)
    headers = codec_of(flags).copied(command.headers, ORIGIN_PROPERTIES, said)
    expires = expires_of(core.state.settings.resolve(target), 0, core.now // 1000)
    return Redirected(found, headers, expires, past)
