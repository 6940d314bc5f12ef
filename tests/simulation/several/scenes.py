"""The work of several brokers together: their connections, and the queues behind each name."""

from typing import Final

import msgspec

from daybook.engine.facts.definitions import (
    BY_GROUP,
    BY_LOAD,
    AutoLink,
    DistributionEntry,
    Waypoint,
)

NAME: Final = "orders"
FULL: Final = f"{NAME}::{NAME}"
WAYPOINT: Final = (DistributionEntry(prefix=NAME, waypoint=True),)


class Connector(msgspec.Struct, frozen=True):
    """The auto-links of one broker to another one, by their numbers. By a connector of its own, or
    if the other one `dials`, over a connection that it accepts from there."""

    near: int
    far: int
    links: tuple[AutoLink, ...]
    dials: bool = False


class Scene(msgspec.Struct, frozen=True):
    """The brokers, each with a table of direct addresses and one of waypoints, the connectors, and
    where clients send and receive: at a broker, to an address.

    What is accepted has been stored. A receiver's broker `keeps` the queue that it receives from,
    or passes on what others keep. It `is_grouped` if there is one store for each group, which
    has what a client sent of it in that order.
    """

    name: str
    brokers: int
    connectors: tuple[Connector, ...]
    entries: tuple[int, ...] = (0,)
    exits: tuple[int, ...] = (0,)
    table: tuple[DistributionEntry, ...] = ()
    waypoints: tuple[Waypoint, ...] = ()
    queues: tuple[int, ...] = ()
    keeps: bool = False
    is_grouped: bool = False


def _pair(number: int, shard: str = "") -> tuple[AutoLink, AutoLink]:
    """The links of a waypoint: out to a queue of broker `number`, and in from it."""
    return (
        AutoLink(f"out-{number}", NAME, FULL, is_out=True, shard=shard),
        AutoLink(f"in-{number}", NAME, FULL, is_out=False, phase=1),
    )


def _push(near: int, far: int, *, dials: bool = False) -> Connector:
    return Connector(near, far, (AutoLink("push", NAME, NAME, is_out=True),), dials)


def _pull(near: int, far: int, *, dials: bool = False) -> Connector:
    return Connector(near, far, (AutoLink("pull", NAME, NAME, is_out=False),), dials)


def _sharded(by: str, *, local: bool, dials: bool) -> Scene:
    shards = ("one", "two")
    return Scene(
        f"a queue sharded by {by}", 3,
        tuple(
            Connector(0, number, _pair(number, shard), dials and number == 1)
            for number, shard in enumerate(shards, 1)
        ),
        table=WAYPOINT, waypoints=(Waypoint(NAME, local, by, shards),), queues=(1, 2),
        is_grouped=by == BY_GROUP,
    )  # fmt: skip


def _fallback(*, dials: bool) -> Scene:
    links = (
        AutoLink("out", NAME, FULL, is_out=True, is_fallback=True),
        AutoLink("in", NAME, FULL, is_out=False, is_fallback=True),
    )
    return Scene(
        "fallback to a queue of another broker", 2, (Connector(0, 1, links, dials),),
        table=(DistributionEntry(prefix=NAME, enable_fallback=True),),
        waypoints=(Waypoint(NAME),), queues=(1,),
    )  # fmt: skip


SCENES: Final = (
    Scene("a bridge that pushes", 2, (_push(0, 1),), exits=(1,), queues=(0, 1), keeps=True),
    Scene("a bridge that pulls", 2, (_pull(1, 0),), exits=(1,), queues=(0, 1), keeps=True),
    Scene(
        "a bridge of bridges", 3, (_push(0, 1, dials=True), _pull(2, 1)),
        exits=(2,), queues=(0, 1, 2), keeps=True,
    ),
    Scene(
        "two bridges to one", 3, (_push(0, 2), _pull(2, 1, dials=True)),
        entries=(0, 1), exits=(2,), queues=(0, 1, 2), keeps=True,
    ),
    Scene(
        "a waypoint over another broker", 2, (Connector(0, 1, _pair(1)),),
        table=WAYPOINT, waypoints=(Waypoint(NAME),), queues=(1,),
    ),
    _sharded(BY_LOAD, local=True, dials=False),
    _sharded(BY_LOAD, local=False, dials=True),
    _sharded(BY_GROUP, local=True, dials=True),
    _sharded(BY_GROUP, local=False, dials=False),
    _fallback(dials=False),
    _fallback(dials=True),
)  # fmt: skip
"""A run takes the scene of its seed, so that as many seeds in a row play all."""
