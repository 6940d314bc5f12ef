"""The rights of administrators over the network: the permission that each request needs, and where.

Each request says so itself (`server.administration.request_rows`). `manage` on an address allows
everything there. A list that has only what the user may see (`Filtered`) is for everybody who may
see something. Creating and deleting addresses and queues, and browsing, are also allowed by the
permission of that name. A request that is not about one address needs `manage` on all of them.
The engine checks the targets of moves, because only it knows them
(`engine.administration.move_targets`). Must never know how requests are transported.
"""

from collections.abc import Callable
from itertools import chain
from typing import Final

from daybook.engine.core.permission_checks import actor_may, actor_may_any, refusal
from daybook.engine.core.queue_names import meant
from daybook.engine.refusals import Code, Refusal, no_queue
from daybook.engine.settings.permissions import BROWSE, MANAGE, Actor, Denial, Permissions
from daybook.engine.state.state import State
from daybook.server.administration.admin_requests import AddressDeletion, QueueCreation
from daybook.server.administration.request_rows import Filtered, OnQueue, Request

SEEING: Final = (BROWSE, MANAGE)
"""The permissions that let a user see an address or queue: one of them is enough."""


def _ignore(denial: Denial) -> None:
    """Record no refusal."""


class AdminRights:
    """The rights of one administrator, by the rules in force now."""

    def __init__(
        self,
        state: State,
        permissions: Permissions | None,
        user: str,
        peer: str,
        deny: Callable[[Denial], None],
        hosts: tuple[str, ...] = (),
    ) -> None:
        """`deny` is called with each refusal; `hosts` are the virtual hosts that the user may use,
        none for all."""
        self.actor: Final = Actor(user, peer, hosts)
        self._state: Final = state
        self._permissions: Final = permissions
        self._deny: Final = deny

    def allows(self, request: Request) -> bool:
        """Return whether a request is allowed; nobody asked for it, so nothing is recorded."""
        quiet = AdminRights(
            self._state, self._permissions, self.actor.user, self.actor.peer, _ignore,
            self.actor.hosts,
        )  # fmt: skip
        return quiet.may(request) is None

    def allows_somewhere(self, request: Request) -> bool:
        """Return whether requests of this kind are allowed at any place; one that is about no place
        is allowed or not."""
        permissions = self._permissions
        if permissions is None or request.place(self._state) is None:
            return self.allows(request)
        user = self.actor.user
        needed = request.needed(self._state)
        return permissions.grants_somewhere(user, MANAGE) or all(
            permissions.grants_somewhere(user, each) for each in needed
        )

    def outline(self) -> dict[str, str | bool]:
        """Return the user, and whether it may read everything (`sees`) and change everything
        (`manages`)."""
        manages = self._has_everywhere(MANAGE)
        return {"user": self.actor.user, "sees": self._sees_everything(), "manages": manages}

    def sees(self, address: str, queue: str | None) -> bool:
        """Return whether the user may browse or administer an address, or one of its queues; for a
        look at very many."""
        permissions = self._permissions or Permissions({})
        return actor_may_any(self._state, permissions, self.actor, SEEING, address, queue)

    def sight(self) -> object:
        """Return something that is equal while the user may see the same, None if that is all."""
        permissions = self._permissions or Permissions({})
        closes = permissions.closes_queues(self.actor.user, SEEING)
        if self._sees_everything() and not closes:
            return None
        return self.actor.user, self.actor.hosts, self._permissions

    def seen(self) -> list[str]:
        """Return the first matches over the addresses that the user may browse or administer; more
        specific rules may take that away. Nothing without rules."""
        permissions = self._permissions or Permissions({})
        found = (permissions.matches_of(self.actor.user, each) for each in SEEING)
        return list(dict.fromkeys(chain.from_iterable(found)))

    def _sees_everything(self) -> bool:
        return any(map(self._has_everywhere, SEEING))

    def _has_everywhere(self, permission: str) -> bool:
        if self._permissions is None and not self.actor.hosts:
            return True
        permissions = self._permissions or Permissions({})
        return self._has(permissions, permission, permissions.syntax.any_words, None)

    def may(self, request: Request) -> Refusal | None:
        """Return why a request is refused, None if it is not."""
        permissions = self._permissions
        if permissions is None and not self.actor.hosts:
            return None
        permissions = permissions if permissions is not None else Permissions({})
        if isinstance(request, Filtered) and any(
            permissions.grants_somewhere(self.actor.user, each) for each in SEEING
        ):
            return None
        address, queue = request.place(self._state) or (permissions.syntax.any_words, None)
        needed = request.needed(self._state)
        is_manager = self._has(permissions, MANAGE, address, queue)
        if not (is_manager or all(self._has(permissions, e, address, queue) for e in needed)):
            return self._refuse(request, permissions, needed, (address, queue))
        if isinstance(request, QueueCreation) and queue is not None:
            return self._may_name(permissions, needed[0], address, queue)
        if isinstance(request, AddressDeletion) and self._closes_one(permissions, address):
            return self._refuse(request, permissions, [MANAGE], (address, None))
        return None

    def _closes_one(self, permissions: Permissions, address: str) -> bool:
        """Whether a rule of its own closes a queue of an address to the user: who deletes the
        address deletes it, too, or learns its name."""
        found = self._state.address_by_name.get(address)
        if found is None or not permissions.closes_queues(self.actor.user, (MANAGE,)):
            return False
        return any(
            permissions.allots(address, queue.name)
            and not self._has(permissions, MANAGE, address, queue.name)
            for queue in found.queues()
        )

    def _refuse(
        self,
        request: Request,
        permissions: Permissions,
        needed: list[str],
        place: tuple[str, str | None],
    ) -> Refusal:
        """Return the refusal of a request, in words that do not say whether a queue exists, or
        where."""
        address, queue = place
        if isinstance(request, Filtered):
            self._deny(Denial(0, self.actor.user, needed[0], address, "", self.actor.peer))
            return Refusal(
                Code.NOT_ALLOWED,
                f"user '{self.actor.user}' may browse nothing, and so has no such list; the"
                " permission browse is missing everywhere",
            )
        shown, permission = address, needed[0]
        if queue is not None and isinstance(request, OnQueue):
            shown = meant(self._state, request.queue)[0] or queue
            permission = request.named or permission
            has = [self._has(permissions, each, shown, queue) for each in (MANAGE, *needed)]
            if shown != address and (has[0] or all(has[1:])):
                # As for a queue that does not exist; so it is not recorded, either.
                return no_queue(queue)
        self._deny(Denial(0, self.actor.user, needed[0], address, queue or "", self.actor.peer))
        everything = permissions.syntax.any_words
        if shown == everything and queue is None and not self.actor.hosts:
            stricter = permissions.exception(self.actor.user, permission)
            return refusal(self.actor.user, permission, shown, stricter=stricter)
        return refusal(self.actor.user, permission, shown, queue)

    def _may_name(
        self, permissions: Permissions, needed: str, address: str, queue: str
    ) -> Refusal | None:
        """Return why a queue may not have a name, None if it may: others may have a right to it."""
        if queue == address or permissions.allots(address, queue):
            return None
        if any(self._has(permissions, each, queue, queue) for each in (MANAGE, needed)):
            return None
        self._deny(Denial(0, self.actor.user, needed, queue, "", self.actor.peer))
        return refusal(self.actor.user, needed, queue)

    def _has(
        self, permissions: Permissions, permission: str, address: str, queue: str | None
    ) -> bool:
        return actor_may(self._state, permissions, self.actor, permission, address, queue)
