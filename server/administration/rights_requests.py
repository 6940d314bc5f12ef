"""Requests of the control socket about permissions. Must never know how they are transported."""

from typing import Any

import msgspec

from daybook.engine.settings.permissions import PERMISSIONS, Permissions


class RightsOf(msgspec.Struct, frozen=True, tag="rights", tag_field="do"):
    """Request what a user may do, at an address or at one of its queues."""

    user: str
    address: str
    queue: str | None = None


def rights(permissions: Permissions | None, request: RightsOf) -> dict[str, Any]:
    """Return what a user may do there by the rules in force, and where each answer comes from.

    Without rules (None) it may do everything.
    """
    in_force = permissions if permissions is not None else Permissions({})
    found = [
        in_force.explain(request.user, name, request.address, request.queue) for name in PERMISSIONS
    ]
    return {
        "user": request.user,
        "roles": sorted(in_force.roles_of(request.user)),
        "address": request.address,
        "queue": request.queue,
        "has_rules": bool(in_force.count),
        "permissions": [
            {
                "permission": each.permission,
                "allowed": each.allowed,
                "rules": list(each.matches),
                "by": each.by or None,
                "granted_to": list(
                    in_force.holders(each.permission, request.address, request.queue)
                ),
            }
            for each in found
        ],
    }
