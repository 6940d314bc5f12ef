"""The queues and temporary addresses that sessions and links of open connections own (ADR 102).

Volatile: at a restart no connection is left, and all that they owned was given up or removed with
them. Must never know how owners end (`engine.consumers.owner_ends`).
"""

from typing import Final, NamedTuple, TypeAlias

from daybook.engine.commands import StaysWith

Owned: TypeAlias = int
"""The id of a queue, or that of an address with a minus."""


class Owner(NamedTuple):
    """A link of a connection, or with `link` 0 a session, or with both 0 the connection itself. The
    numbers are those of the protocol."""

    connection: int
    session: int = 0
    link: int = 0

    @classmethod
    def of(cls, connection: int, session: int, link: int) -> "Owner":
        """Return the owner that a command names: the link, if it names both."""
        return cls(connection, 0 if link else session, link)


class Owners:
    """The owners, and the things that each owns. A thing has one owner at most.

    `ended` are addresses that have lost their owner, and still have a queue that is being deleted.
    A queue that was made for a subscription to a topic has the name of that, by which the next one
    of the connection finds it when it was left.

    `stays_with` has the addresses that may stay when their owner has ended, `lingering` those of
    them that do. `targets` are the links that send to such an address, by their connection and
    number there.
    """

    __slots__ = (
        "_by_connection", "_left", "_name_of", "_owner_of", "_target_of", "ended", "lingering",
        "stays_with", "targets",
    )  # fmt: skip

    def __init__(self) -> None:
        self._owner_of: Final[dict[Owned, Owner]] = {}
        self._by_connection: Final[dict[int, dict[Owner, dict[Owned, None]]]] = {}
        # Queues that were left, by connection and name; and the names of these and of others.
        self._left: Final[dict[int, dict[str, Owned]]] = {}
        self._name_of: Final[dict[Owned, tuple[int, str]]] = {}
        self.ended: Final[set[int]] = set()
        self.stays_with: Final[dict[int, StaysWith]] = {}
        self.lingering: Final[dict[int, None]] = {}
        self.targets: Final[dict[int, dict[tuple[int, int], None]]] = {}
        self._target_of: Final[dict[int, dict[int, int]]] = {}

    def own(self, owner: Owner, owned: Owned) -> None:
        """Give something to an owner, and take it from the one that had it."""
        self.disown(owned)
        self._owner_of[owned] = owner
        owners = self._by_connection.setdefault(owner.connection, {})
        owners.setdefault(owner, {})[owned] = None

    def disown(self, owned: Owned) -> None:
        """Take something from its owner, if it has one."""
        owner = self._owner_of.pop(owned, None)
        if owner is None:
            return
        owners = self._by_connection[owner.connection]
        del owners[owner][owned]
        if not owners[owner]:
            del owners[owner]
        if not owners:
            del self._by_connection[owner.connection]
        name = self._name_of.get(owned)
        if name is not None and self.left_by(*name) == owned:
            left = self._left[name[0]]
            del left[name[1]]
            if not left:
                del self._left[name[0]]

    def name(self, queue: int, connection: int, name: str) -> None:
        """Note the name of the subscription of a connection that a queue is made for."""
        self._name_of[queue] = connection, name

    def name_of(self, queue: int) -> tuple[int, str] | None:
        """Return the connection and the name of the subscription that a queue was made for."""
        return self._name_of.get(queue)

    def leave(self, queue: int) -> None:
        """Note that a queue with a name and an owner was left; no other that was left has its
        name."""
        connection, name = self._name_of[queue]
        self._left.setdefault(connection, {})[name] = queue

    def forget(self, queue: int) -> None:
        """Forget a queue that is gone."""
        self.disown(queue)
        self._name_of.pop(queue, None)

    def forget_address(self, address: int) -> None:
        """Forget an address that is gone."""
        self.disown(-address)
        self.ended.discard(address)
        self.stays_with.pop(address, None)
        self.lingering.pop(address, None)
        for connection, link in self.targets.pop(address, {}):
            self._drop_target(connection, link)

    def send_to(self, address: int, connection: int, link: int) -> None:
        """Note that a link sends to an address that may stay when its owner has ended."""
        if address in self.stays_with:
            self.targets.setdefault(address, {})[connection, link] = None
            self._target_of.setdefault(connection, {})[link] = address

    def send_no_more(self, connection: int, link: int) -> int:
        """Forget a link that sent to such an address; return the address, 0 for none."""
        if not self._target_of:
            return 0
        address = self._target_of.get(connection, {}).get(link, 0)
        if address:
            self._drop_target(connection, link)
            del self.targets[address][connection, link]
            if not self.targets[address]:
                del self.targets[address]
        return address

    def forget_targets(self, connection: int) -> None:
        """Forget the links of a connection that has ended."""
        for link in list(self._target_of.get(connection, ())):
            self.send_no_more(connection, link)

    def _drop_target(self, connection: int, link: int) -> None:
        links = self._target_of[connection]
        del links[link]
        if not links:
            del self._target_of[connection]

    def left_by(self, connection: int, name: str) -> Owned:
        """Return the queue that a subscription has left, 0 for none."""
        return self._left.get(connection, {}).get(name, 0)

    def left_count(self, connection: int) -> int:
        """Return how many queues the subscriptions of a connection have left."""
        return len(self._left.get(connection, ()))

    def first_of(self, owner: Owner) -> Owned:
        """Return something that an owner has, or, for a connection, its sessions and links; 0 if
        there is nothing."""
        owners = self._by_connection.get(owner.connection, {})
        if owner == Owner(owner.connection):
            owner = next(iter(owners), owner)
        return next(iter(owners.get(owner, ())), 0)
