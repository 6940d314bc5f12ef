"""The lease in etcd: a key that the node which leads creates, and that ends with a lease of etcd.

Keys, below PREFIX/CLUSTER/: `leader` (node and address), `in-sync` (names of nodes), `base`,
`arbiter` (an id, since two clusters of etcd may have one id), and `nodes/NODE` (who uses the name),
each of which ends with a lease of etcd of its own.
The epoch is the revision of etcd that created `leader`, plus `base`. That is 0, or does not exist,
until an etcd that lost its memory counts revisions from the beginning: then the node which finds
that its epoch is too small writes the one that it knows there, gives the lease back, and tries
again. So epochs grow, whatever etcd forgets.

A call that failed may have created `leader`; its lease of etcd is remembered, and revoked before
the next try. Fault model: see `etcd_gateway`. Leases of etcd last whole seconds, counted by etcd.
Must never know what leading means.
"""

import asyncio
import math
import secrets
from typing import Final

import msgspec

from daybook.replication.arbiters.arbiter import ArbiterFault, Claim, Claimed, Holder
from daybook.replication.arbiters.etcd_gateway import Gateway
from daybook.replication.arbiters.etcd_values import (
    Granted,
    KeyValue,
    Range,
    Transacted,
    changed_at,
    created_at,
    ends_with,
    put,
    read,
    transaction,
)
from daybook.replication.in_sync import InSync
from daybook.replication.node import Lease

_SECOND: Final = 1_000_000


class _Leader(msgspec.Struct, frozen=True):
    node: str
    address: str


class EtcdArbiter:
    """Grants the lease of a cluster of nodes, for so many microseconds, or the next whole second;
    what etcd grants counts."""

    def __init__(self, gateway: Gateway, prefix: str, cluster: str, microseconds: int) -> None:
        keys = f"{prefix.rstrip('/')}/{cluster}".encode()
        self._leader: Final = keys + b"/leader"
        self._in_sync: Final = keys + b"/in-sync"
        self._base: Final = keys + b"/base"
        self._id: Final = keys + b"/arbiter"
        self._names: Final = keys + b"/nodes/"
        self._claimed = 0
        self.place = f"{gateway.place}, keys {keys.decode()}"
        self._gateway: Final = gateway
        self._seconds: Final = math.ceil(microseconds / _SECOND)
        self._held: Final[dict[int, int]] = {}
        self._doubtful: Final[set[int]] = set()
        self._turn: Final = asyncio.Lock()

    async def claim(self, node: str, claim: Claim) -> Claimed:
        """See Arbiter. A lease whose answer was lost runs out, and its key may be replaced."""
        async with self._gateway.in_time():
            found = await self._claim_again(self._names + node.encode())
            if found is not None:
                return Claimed(found, None)
            granted = await self._gateway.call(
                "lease/grant", {"TTL": str(self._seconds), "ID": "0"}, Granted
            )
            other = await self._claim_first(self._names + node.encode(), claim, granted.ID)
            if other is not None:
                await self._gateway.revoke(granted.ID)
            else:
                self._claimed = granted.ID
            return Claimed(await self._known_id(), other)

    async def _claim_again(self, key: bytes) -> str | None:
        """Renew the use of a name; return the id of the arbiter, None if either is gone."""
        if not self._claimed or not await self._gateway.keep_alive(self._claimed):
            return None
        done = await self._transact(transaction([ends_with(key, self._claimed)], [read(self._id)]))
        found = done.value(self._id)
        return None if found is None else found.value.decode("utf-8", "replace")

    async def _claim_first(self, key: bytes, claim: Claim, lease: int) -> Claim | None:
        """Use a name that nobody uses, or only this node; return who else does."""
        value = msgspec.json.encode(claim)
        done = await self._transact(
            transaction([created_at(key, 0)], [put(key, value, lease)], [read(key)])
        )
        if done.succeeded:
            return None
        found = done.value(key)
        assert found is not None
        try:
            other = msgspec.json.decode(found.value, type=Claim)
        except msgspec.DecodeError:
            raise ArbiterFault(f"{_shown(found)} of etcd is not of Daybook; remove it") from None
        if other != claim:
            return other
        condition = changed_at(key, found.mod_revision)
        done = await self._transact(transaction([condition], [put(key, value, lease)]))
        return None if done.succeeded else other

    async def _known_id(self) -> str:
        """Return the id of the arbiter, a new one if there is none."""
        first = put(self._id, secrets.token_hex(8).encode())
        await self._transact(transaction([created_at(self._id, 0)], [first]))
        done = await self._transact(transaction([], [read(self._id)]))
        found = done.value(self._id)
        return "" if found is None else found.value.decode("utf-8", "replace")

    async def acquire(self, node: str, address: str, above: int) -> Lease | None:
        """See Arbiter."""
        async with self._gateway.in_time(), self._turn:
            await self._revoke_doubtful()
            if await self.holder() is not None:
                return None
            granted = await self._gateway.call(
                "lease/grant", {"TTL": str(self._seconds), "ID": "0"}, Granted
            )
            self._doubtful.add(granted.ID)
            done = await self._create(_Leader(node, address), granted.ID)
            lease = await self._lease(done, granted, above)
            if lease is None:
                await self._revoke_doubtful()
            return lease

    async def _lease(self, done: Transacted, granted: Granted, above: int) -> Lease | None:
        """Return the lease if the key of the leader is this node's, and its epoch large enough."""
        leader = done.value(self._leader)
        if leader is None or leader.lease != granted.ID:
            return None
        epoch = leader.create_revision + _number(done.value(self._base))
        if epoch <= above:
            base = put(self._base, str(above).encode())
            await self._transact(transaction([self._is_led(granted.ID)], [base]))
            return None
        self._doubtful.discard(granted.ID)
        self._held.clear()
        self._held[epoch] = granted.ID
        return Lease(epoch, granted.TTL * _SECOND)

    async def _create(self, leader: _Leader, lease: int) -> Transacted:
        """Create the key of the leader if it does not exist; read it, and the base, in any case."""
        both = [read(self._leader), read(self._base)]
        value = msgspec.json.encode(leader)
        return await self._transact(
            transaction(
                [created_at(self._leader, 0)], [put(self._leader, value, lease), *both], both
            )
        )

    async def _revoke_doubtful(self) -> None:
        """End the leases of tries whose outcome is not known, or that were in vain."""
        for lease in tuple(self._doubtful):
            await self._gateway.revoke(lease)
            self._doubtful.discard(lease)

    async def renew(self, epoch: int) -> Lease | None:
        """See Arbiter."""
        held = self._held.get(epoch)
        if held is None:
            return None
        async with self._gateway.in_time():
            seconds = await self._gateway.keep_alive(held)
            if seconds:
                # Somebody may have removed the key by hand, or etcd may have lost its memory.
                found = await self._transact(transaction([self._is_led(held)], []))
                if found.succeeded:
                    return Lease(epoch, seconds * _SECOND)
        self._held.pop(epoch, None)
        return None

    def _is_led(self, lease: int) -> dict[str, object]:
        # Not by the revision that created the key: an etcd that lost its memory counts to it again.
        return ends_with(self._leader, lease)

    async def release(self, epoch: int) -> None:
        """See Arbiter."""
        held = self._held.pop(epoch, None)
        if held is not None:
            self._doubtful.add(held)
            # Not while a lease is asked for, which is in doubt as long.
            async with self._gateway.in_time(), self._turn:
                await self._revoke_doubtful()

    async def holder(self) -> Holder | None:
        """See Arbiter."""
        both = [read(self._leader), read(self._base)]
        done = await self._transact(transaction([], both))
        leader = done.value(self._leader)
        if leader is None:
            return None
        try:
            value = msgspec.json.decode(leader.value, type=_Leader)
        except msgspec.DecodeError:
            raise ArbiterFault(f"{_shown(leader)} of etcd is not of Daybook; remove it") from None
        epoch = leader.create_revision + _number(done.value(self._base))
        return Holder(value.node, value.address, epoch)

    async def in_sync(self) -> InSync:
        """See Arbiter."""
        found = await self._gateway.call("kv/range", {"key": self._in_sync}, Range)
        for each in found.kvs:
            try:
                nodes = msgspec.json.decode(each.value, type=tuple[str, ...])
            except msgspec.DecodeError:
                text = f"{_shown(each)} of etcd is not of Daybook: write the names of nodes that"
                raise ArbiterFault(f'{text} are in sync, like ["one", "two"]') from None
            return InSync(nodes, each.mod_revision)
        return InSync()

    async def set_in_sync(self, epoch: int, nodes: tuple[str, ...], version: int) -> InSync | None:
        """See Arbiter."""
        held = self._held.get(epoch)
        if held is None:
            return None
        done = await self._transact(
            transaction(
                [self._is_led(held), changed_at(self._in_sync, version)],
                [put(self._in_sync, msgspec.json.encode(nodes))],
            )
        )
        return InSync(nodes, done.header.revision) if done.succeeded else None

    async def close(self) -> None:
        """See Arbiter."""
        await self._gateway.close()

    async def _transact(self, request: dict[str, object]) -> Transacted:
        return await self._gateway.call("kv/txn", request, Transacted)


def _number(base: KeyValue | None) -> int:
    """Return the base of epochs. Raises ArbiterFault."""
    if base is None:
        return 0
    if not base.value.isdigit():
        raise ArbiterFault(f"{_shown(base)} of etcd is not of Daybook: write a number")
    return int(base.value)


def _shown(found: KeyValue) -> str:
    return f"the key {found.key.decode('utf-8', 'replace')}"
