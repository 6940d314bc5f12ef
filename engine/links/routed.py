"""Links that are passed on to other containers: two ends, each on a connection of its own.

All of this is volatile, as connections are. Must never know what passes along a link.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from daybook.engine.queues.consumer import Connection
from daybook.engine.queues.entry import Taker
from daybook.engine.settings.link_routes import LinkRoutes


class RoutedEnd(Taker):
    """An end of a link: `receiver` gets what the other end passes on. It `is_held` while the other
    one has no room for more."""

    __slots__ = ("connection", "is_held", "link")

    def __init__(self, link: "RoutedLink", connection: Connection, receiver: Any) -> None:
        super().__init__(link.id, connection.id, connection.user)
        self.link: Final = link
        self.connection: Final = connection
        self.receiver = receiver
        self.is_held = False

    @property
    def other(self) -> "RoutedEnd":
        """The other end."""
        link = self.link
        return link.far if self is link.near else link.near


class RoutedLink:
    """A link that a peer attached, at its `near` end, and that another container got, at its `far`
    end."""

    __slots__ = ("address", "far", "id", "near")

    near: RoutedEnd
    far: RoutedEnd

    def __init__(self, link_id: int, address: str) -> None:
        self.id: Final = link_id
        self.address: Final = address

    @property
    def ends(self) -> tuple[RoutedEnd, RoutedEnd]:
        """Both ends."""
        return self.near, self.far


class Host(NamedTuple):
    """A connection whose peer takes links: the receiver of new ones, and the connector that opened
    it, "" for a container that has connected."""

    receiver: Any
    connector: str = ""


class RoutedLinks:
    """All links that are passed on, by their id, and the connections of containers that take some
    (`hosts`)."""

    __slots__ = ("hosts", "links", "of_connection", "table", "turn")

    def __init__(self) -> None:
        self.table = LinkRoutes()
        self.hosts: Final[dict[int, Host]] = {}
        self.links: Final[dict[int, RoutedLink]] = {}
        self.of_connection: Final[dict[int, dict[int, RoutedLink]]] = {}
        self.turn = 0

    def add(self, link: RoutedLink) -> None:
        """Add a link."""
        self.links[link.id] = link
        for end in link.ends:
            self.of_connection.setdefault(end.connection_id, {})[link.id] = link

    def remove(self, link: RoutedLink) -> None:
        """Remove a link."""
        del self.links[link.id]
        for end in link.ends:
            links = self.of_connection[end.connection_id]
            del links[link.id]
            if not links:
                del self.of_connection[end.connection_id]

    def end_of(self, link_id: int, connection: int) -> RoutedEnd | None:
        """Return the end of a link that is on a connection."""
        link = self.links.get(link_id)
        if link is None:
            return None
        near, far = link.near, link.far
        if near.connection_id == connection:
            return near
        return far if far.connection_id == connection else None

    def held_by(self, connection: int) -> Iterator[RoutedEnd]:
        """Iterate over the ends that wait until a connection has room."""
        for link in list(self.of_connection.get(connection, {}).values()):
            for end in link.ends:
                if end.is_held and end.other.connection_id == connection:
                    yield end
