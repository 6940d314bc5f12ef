"""The table of link routes: to which containers a link is passed on, by its address and direction.

Patterns and prefixes mean what they mean for distributions, and the best one decides
(`engine.settings.distributions`). Several routes of one pattern are containers that a link may be
passed on to. Must never know which containers are there.
"""

from collections.abc import Sequence
from typing import Final

from daybook.engine.facts.definitions import DistributionEntry, LinkRoute
from daybook.engine.settings.distributions import Distributions, normal_form
from daybook.engine.settings.known_names import KnownNames


class LinkRoutes:
    """All link routes in force. Immutable: a new configuration is a new object."""

    def __init__(self, routes: Sequence[LinkRoute] = ()) -> None:
        """Accept routes. Raises DistributionError for a prefix or pattern that is wrong, with its
        place among those of its direction."""
        self.routes: Final = tuple(routes)
        self._known: Final[dict[bool, KnownNames[bool]]] = {
            True: KnownNames(), False: KnownNames(),
        }  # fmt: skip
        self._tables: Final = {is_in: _Table(routes, is_in) for is_in in (True, False)}

    def find(self, name: str, *, is_in: bool) -> tuple[LinkRoute, ...]:
        """Return the routes for links to an address, which `is_in` if its peer sends."""
        return self._tables[is_in].find(name) if self.routes else ()

    def has(self, name: str, *, is_in: bool) -> bool:
        """Whether links to an address are passed on. It remembers the answers."""
        known = self._known[is_in].get(name)
        if known is None:
            known = bool(self.find(name, is_in=is_in))
            self._known[is_in].remember(name, known)
        return known


class _Table:
    """The routes of one direction."""

    def __init__(self, routes: Sequence[LinkRoute], is_in: bool) -> None:
        by_pattern: dict[tuple[str, ...], list[LinkRoute]] = {}
        entries: dict[tuple[str, ...], DistributionEntry] = {}
        for route in routes:
            if route.is_in is is_in:
                entry = DistributionEntry(prefix=route.prefix, pattern=route.pattern)
                form = normal_form(entry)
                entries.setdefault(form, entry)
                by_pattern.setdefault(form, []).append(route)
        self._entries: Final = Distributions([*entries.values()])
        self._routes: Final = {entry: tuple(by_pattern[form]) for form, entry in entries.items()}

    def find(self, name: str) -> tuple[LinkRoute, ...]:
        return self._routes.get(self._entries.find(name), ())
