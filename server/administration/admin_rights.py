"""What an administrator may do over the network: which permission each request needs, and where.

`manage` on an address allows everything there. Creating and deleting addresses and queues, and
browsing, are also allowed by the permission of that name. A request that is not about one address
needs `manage` on all of them. Where messages are moved to is checked by the engine, which alone
knows the targets (`engine.administration.move_targets`). Must never know how requests are
transported.
"""

from collections.abc import Callable
from typing import Any, Final

from daybook.engine.core.permission_checks import actor_may, refusal
from daybook.engine.core.queue_names import meant
from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.refusals import Refusal, no_queue
from daybook.engine.settings.permissions import (
    BROWSE,
    CREATE_ADDRESS,
    CREATE_DURABLE_QUEUE,
    CREATE_NON_DURABLE_QUEUE,
    DELETE_ADDRESS,
    DELETE_DURABLE_QUEUE,
    DELETE_NON_DURABLE_QUEUE,
    MANAGE,
    Actor,
    Denial,
    Permissions,
)
from daybook.engine.state.state import State
from daybook.server.administration.control import (
    AddressCreation,
    AddressDeletion,
    Browse,
    QueueCreation,
    QueueDeletion,
)
from daybook.server.administration.rights_requests import RightsOf


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

    def may(self, request: Any) -> Refusal | None:
        """Return why a request is refused, None if it is not."""
        permissions = self._permissions
        if permissions is None and not self.actor.hosts:
            return None
        permissions = permissions if permissions is not None else Permissions({})
        address, queue = self._place(request, permissions)
        needed = self._needed(request)
        is_manager = self._has(permissions, MANAGE, address, queue)
        if not (is_manager or all(self._has(permissions, e, address, queue) for e in needed)):
            return self._refuse(request, permissions, needed, (address, queue))
        if isinstance(request, QueueCreation) and queue is not None:
            return self._may_name(permissions, needed[0], address, queue)
        return None

    def _refuse(
        self,
        request: Any,
        permissions: Permissions,
        needed: list[str],
        place: tuple[str, str | None],
    ) -> Refusal:
        """Return the refusal of a request, in words that do not say whether a queue exists, or
        where."""
        address, queue = place
        shown, permission = address, needed[0]
        if queue is not None and not isinstance(request, QueueCreation):
            shown = meant(self._state, request.queue)[0] or queue
            permission = DELETE_DURABLE_QUEUE if isinstance(request, QueueDeletion) else permission
            has = [self._has(permissions, each, shown, queue) for each in (MANAGE, *needed)]
            if shown != address and (has[0] or all(has[1:])):
                # As for a queue that does not exist; so it is not recorded, either.
                return no_queue(queue)
        self._deny(Denial(0, self.actor.user, needed[0], address, queue or "", self.actor.peer))
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

    def _needed(self, request: Any) -> list[str]:
        """Return the permissions that allow a request, without `manage`."""
        if isinstance(request, Browse):
            return [BROWSE]
        if isinstance(request, QueueCreation):
            durable = request.definition.durable
            created = [CREATE_DURABLE_QUEUE if durable else CREATE_NON_DURABLE_QUEUE]
            address = request.address or request.definition.name
            if address not in self._state.address_by_name:
                created.append(CREATE_ADDRESS)
            return created
        if isinstance(request, QueueDeletion):
            definition = self._definition(request.queue)
            durable = definition is None or definition.durable
            return [DELETE_DURABLE_QUEUE if durable else DELETE_NON_DURABLE_QUEUE]
        if isinstance(request, AddressCreation):
            return [CREATE_ADDRESS]
        if isinstance(request, AddressDeletion) and not request.force:
            return [DELETE_ADDRESS]
        return [MANAGE]

    def _place(self, request: Any, permissions: Permissions) -> tuple[str, str | None]:
        """Return the address, and queue, that a request is about; all addresses if it is none."""
        everywhere = permissions.syntax.any_words, None
        if isinstance(request, RightsOf):
            return everywhere
        if isinstance(request, QueueCreation):
            name = request.definition.name
            return request.address or name, name
        queue = getattr(request, "queue", None)
        if isinstance(queue, str):
            return self._place_of(queue)
        address = getattr(request, "address", None)
        return (address, None) if isinstance(address, str) else everywhere

    def _place_of(self, name: str) -> tuple[str, str | None]:
        """Return where a queue is; one that does not exist is taken to be on its own address."""
        address, queue = meant(self._state, name)
        found = self._state.queue_by_name.get(queue)
        return (found.address.name if found is not None else address or queue), queue

    def _has(
        self, permissions: Permissions, permission: str, address: str, queue: str | None
    ) -> bool:
        return actor_may(self._state, permissions, self.actor, permission, address, queue)

    def _definition(self, name: str) -> QueueDefinition | None:
        found = self._state.queue_by_name.get(meant(self._state, name)[1])
        return found.definition if found is not None else None
