"""Choosing who gets a message to a direct address: its receivers, fallback links, or a queue here.

Rules: balanced by the load of receivers, closest by their cost and then in turn, multicast to all.
Where nobody receives, a message goes to a link with fallback, or to the queue of this broker; what
came by a link with fallback does not. A message with a group that is sharded by groups is for one
shard: while that is away, it is for nobody, because another shard would break the order of the
group.
"""

from hashlib import blake2b
from typing import Final, NamedTuple

from daybook.engine.commands import Send
from daybook.engine.core.core import Core
from daybook.engine.facts.definitions import BY_GROUP, Distribution, Waypoint
from daybook.engine.facts.events import GROUPED
from daybook.engine.links.links import DirectAddress, ReceivingLink, SendingLink
from daybook.engine.messages.content import codec_of
from daybook.engine.settings.distributions import CLOSEST, MULTICAST

_SCORE_BYTES: Final = 8


class Choice(NamedTuple):
    """The takers of a message: `receivers`, which are at `address`, or the queue of this broker,
    which `stores` it. `shard` is the one that its group is for, "" if no group decided."""

    address: DirectAddress | None = None
    receivers: tuple[ReceivingLink, ...] = ()
    stores: bool = False
    shard: str = ""


_HERE: Final = Choice(stores=True)


def of_receivers(address: DirectAddress) -> tuple[ReceivingLink, ...]:
    """Return those of the receivers of an address that get a message, of which there are some."""
    if len(address.receivers) == 1 or address.distribution == MULTICAST:
        return address.everybody()
    if address.distribution == CLOSEST:
        return (address.nearest(),)
    return (address.least_loaded(),)


def choose(
    core: Core,
    command: Send,
    entry: Distribution,
    address: DirectAddress | None,
    sender: SendingLink | None,
) -> Choice:
    """Return who gets a message that was sent to an address, which may have no links."""
    is_first = address is None or not address.phase
    if is_first and entry.waypoint and (entry.has_shard or _by_group(entry)):
        return _of_shards(core, command, entry, address)
    if address is not None and address.receivers:
        return Choice(address, of_receivers(address))
    if not is_first or (sender is not None and sender.is_fallback):
        return Choice(address)
    fallback = address.fallback if address is not None else None
    if fallback is not None and fallback.receivers:
        return Choice(fallback, of_receivers(fallback))
    return _HERE if entry.falls_back else Choice(address)


# ---- shards


def _by_group(entry: Distribution) -> bool:
    return entry.through is not None and entry.through.shard_by == BY_GROUP


def _of_shards(
    core: Core, command: Send, entry: Distribution, address: DirectAddress | None
) -> Choice:
    """Return the shard of a message: that of its group, or the one with the least load."""
    through = entry.through
    assert through is not None
    shard = _shard_of(through, command) if through.shard_by == BY_GROUP else ""
    receivers = address.receivers if address is not None else {}
    if shard:
        if entry.has_shard and shard == through.local:
            return _HERE
        core.budget.spent += len(receivers)
        found = tuple(each for each in receivers.values() if each.shard == shard)[:1]
        return Choice(address, found, shard=shard)
    if address is None or not receivers:
        return _HERE if entry.has_shard else Choice(address)
    least, own = address.least_loaded(), address.own_shard
    if own is not None and own.takes(core.pending.first_lsn, least.load, len(receivers)):
        return _HERE
    return Choice(address, (least,))


def _shard_of(through: Waypoint, command: Send) -> str:
    """Return the shard that the group of a message is for; "" if it has none."""
    if not command.format & GROUPED:
        return ""
    group = codec_of(command.format).said(command.headers, "group_id")
    if not group:
        return ""
    own = (through.local,) if through.has_queue else ()
    return shard_of_group(str(group), (*through.shards, *own))


def shard_of_group(group: str, shards: tuple[str, ...]) -> str:
    """Return the shard of a group: the one with the highest score, a hash of both names; "" if
    there are no shards. One that is added or removed moves no group between the others. This is for
    ever, and the same on each broker that has the same names."""
    return max(shards, key=lambda shard: (_score(group, shard), shard), default="")


def _score(group: str, shard: str) -> bytes:
    key = f"{shard}\0{group}".encode("utf-8", "surrogatepass")
    return blake2b(key, digest_size=_SCORE_BYTES).digest()
