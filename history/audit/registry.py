"""Which rules are asked about which kind of event: each function registers itself.

Must never know the rules.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from daybook.engine.facts.events import Row
from daybook.history.audit.context import AuditContext
from daybook.history.audit.rules import Wrong

Check: TypeAlias = Callable[[AuditContext, Row], Wrong | None]
"""Returns why the rules do not allow the event that the context is at, None if they do."""
Follow: TypeAlias = Callable[[AuditContext, Row], None]
"""Does what a broker does beside `apply`."""

CHECKS: Final[dict[int, Check]] = {}
"""The rules of each kind; an event of another one needs no more than to fit the state."""
BEFORE: Final[dict[int, Follow]] = {}
"""Updates of the values that a broker derives from the state, before an event is applied ..."""
AFTER: Final[dict[int, Follow]] = {}
"""... and after it."""


def checks(kind: int) -> Callable[[Check], Check]:
    """Register the rules of a kind of event."""

    def register(check: Check) -> Check:
        assert kind not in CHECKS
        CHECKS[kind] = check
        return check

    return register


def before(kind: int) -> Callable[[Follow], Follow]:
    """Register what happens before an event of a kind is applied."""
    return lambda follow: BEFORE.setdefault(kind, follow)


def after(kind: int) -> Callable[[Follow], Follow]:
    """Register what happens after it."""
    return lambda follow: AFTER.setdefault(kind, follow)
