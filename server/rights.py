"""Puts the permissions of the configuration in force for the users of a broker.

Data flow: rules (configuration) and roles (users file) become one `Permissions` at the start and at
each reload. Connections with consumers that their user may not have any more are closed, a slice at
a time. Must never know how a permission is checked.
"""

import asyncio
from collections.abc import Mapping
from itertools import islice
from typing import Final

from daybook.engine.broker import Broker
from daybook.engine.core.permission_checks import refused_consumer, refused_receiver, rules_place
from daybook.engine.names.syntax import Syntax
from daybook.engine.settings.permissions import Denial, Permissions, Rules
from daybook.server.administration.connections import closing
from daybook.server.hub.hub import Hub
from daybook.server.process.in_turns import in_turns
from daybook.server.process.logs import logger
from daybook.server.users.users import Users

SLICE: Final = 500
"""How many consumers are looked at before others have their turn."""

OPEN: Final = (
    "no permissions are configured: every user may do everything (docs/security.md, "
    "[[security-setting]])"
)

log = logger("rights")


class Rights:
    """The permissions of a broker's users."""

    def __init__(self, hub: Hub, users: Users) -> None:
        self._hub: Final = hub
        self._users: Final = users
        self.permissions = Permissions({})
        hub.refusals.denials.holders = self._holders

    def _holders(self, denial: Denial) -> tuple[str, ...]:
        """Return the roles and users that have the permission which somebody lacks."""
        place = rules_place(self._hub.broker.state, self.permissions, denial.address)
        return self.permissions.holders(denial.permission, place, denial.queue or None)

    def begin(self, rules: Rules, syntax: Syntax, of_hosts: Mapping[str, Rules]) -> None:
        """Put the rules of the start in force; say once if there are none."""
        self.renew(rules, syntax, of_hosts)
        if not self.permissions.count:
            log.warning(OPEN)

    def renew(self, rules: Rules, syntax: Syntax, of_hosts: Mapping[str, Rules]) -> None:
        """Put rules in force, with the roles that users have now; `of_hosts` are those for one
        virtual host each."""
        self.permissions = Permissions(rules, self._users.roles(), syntax, of_hosts)
        self._hub.broker.permit(self.permissions)

    async def close_forbidden(self) -> None:
        """Close connections with consumers that their user may not have any more."""
        hub, permissions = self._hub, self.permissions
        closed = 0
        left = [*hub.broker.state.consumers, *hub.broker.direct.receivers]
        while left and permissions is self.permissions:
            found = _forbidden(hub.broker, permissions, left[:SLICE])
            doomed = [(each, why, "ask for the permission") for each, why in found.items()]
            closed += await in_turns(closing(hub.close_connection, doomed))
            del left[:SLICE]
            await asyncio.sleep(0)
        if permissions is self.permissions:
            # Their returned messages reach only permitted consumers.
            hub.broker.let_wildcards_follow()
        if closed:
            log.info("closed connections without the permission to consume", connections=closed)


def _forbidden(broker: Broker, permissions: Permissions, ids: list[int]) -> Mapping[int, str]:
    """Return the connections of consumers that are not allowed any more, and why."""
    found: dict[int, str] = {}
    for each in islice(ids, SLICE):
        link = broker.direct.receivers.get(each)
        consumer = broker.state.consumers.get(each)
        why = None
        if link is not None:
            why = refused_receiver(broker.state, permissions, link)
        elif consumer is not None and not consumer.is_found:
            why = refused_consumer(broker.state, permissions, consumer)
        if why is not None:
            holder = link or consumer
            assert holder is not None
            found[holder.connection_id] = why.text
    return found
