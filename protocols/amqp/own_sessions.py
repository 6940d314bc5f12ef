"""Sessions that the broker begins on a connection: of its auto-links, and of links that it passes
on to the peer.

Their numbers are chosen so that neither side uses one twice. Must never know what goes over them.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final

from daybook.engine.facts.definitions import AutoLink, LinkRoute
from daybook.engine.queues.entry import Taker
from daybook.protocols.amqp.auto_links import AutoLinks
from daybook.protocols.amqp.output import Output
from daybook.protocols.amqp.routed import FAR_WINDOW, FarEnds
from daybook.protocols.amqp.sessions import INCOMING_WINDOW, AmqpSession, Purpose
from daybook.protocols.amqp.wire.errors import NOT_ALLOWED, AmqpError
from daybook.protocols.amqp.wire.performatives import Begin
from daybook.protocols.port import AutoLinkRow


class OwnSessions:
    """All of them. `sessions` are all of the connection, by the channels of the peer; `wake` asks
    for a call of `tick` at a time. `leaving` are sessions that are to end."""

    def __init__(
        self, output: Output, sessions: dict[int, AmqpSession], wake: Callable[[int], None]
    ) -> None:
        self._output: Final = output
        self._sessions: Final = sessions
        self._wake: Final = wake
        self._auto_links: AutoLinks | None = None
        self._far_ends: Final = FarEnds(output, self._channel)
        self.leaving: Final = self._far_ends.leaving
        # The highest number that both sides allow.
        self.channel_max = 0

    @property
    def rows(self) -> Sequence[AutoLinkRow]:
        """The auto-links, for administrators."""
        links = self._auto_links
        return [each.row() for each in links.standings] if links is not None else ()

    @property
    def deadline(self) -> int:
        """When auto-links have something to do next; 0 for never."""
        return self._auto_links.deadline if self._auto_links is not None else 0

    def attach(self, links: Sequence[AutoLink], now: int) -> None:
        """Attach auto-links, now that the connection is open."""
        own = self._auto_links = AutoLinks(
            self._output, links, self._wake, self._channel, self.leaving.append, now
        )
        own.tick(now)

    def attach_one(self, link: AutoLink, now: int) -> None:
        """Attach one more auto-link."""
        if self._auto_links is None:
            self.attach((), now)
        assert self._auto_links is not None
        self._auto_links.add(link, now)

    def renew(self, links: Sequence[AutoLink], now: int) -> None:
        """Attach auto-links that are new, and end those that are gone."""
        if self._auto_links is not None:
            self._auto_links.renew(links, now)
        elif links:
            self.attach(links, now)
            self._wake(self.deadline)

    def route(self, end: Taker, route: LinkRoute, wanted: Any) -> None:
        """Attach a link that is passed on to the peer."""
        self._far_ends.add(end, route, wanted)

    def tick(self, now: int) -> None:
        """Attach auto-links that are due."""
        if self._auto_links is not None:
            self._auto_links.tick(now)

    def clock_stepped(self, step: int) -> None:
        """Times move along with the clock."""
        if self._auto_links is not None:
            self._auto_links.clock_stepped(step)

    # ---- numbers

    def begun(self, number: int, begin: Begin) -> tuple[AmqpSession, Purpose]:
        """Return the session that the peer has begun too, and its purpose. Raises AmqpError if the
        broker has not begun it."""
        ours = begin.remote_channel
        assert ours is not None
        far = self._far_ends.waiting.pop(ours, None)
        purpose: Purpose | None = far
        if purpose is None and self._auto_links is not None:
            purpose = self._auto_links.answered(ours)
        if purpose is None:
            raise AmqpError(NOT_ALLOWED, f"the broker began no session on channel {ours}")
        window = FAR_WINDOW if far is not None else INCOMING_WINDOW
        session = AmqpSession(self._output, ours, number, begin, window)
        session.purpose = purpose
        return session, purpose

    def free_channel(self, wanted: int) -> int:
        """Return the number of the broker's side of a session that the peer begins: the same as
        that of the peer, if possible. Raises AmqpError if there is none."""
        used = self._used()
        if wanted not in used:
            return wanted
        first = next(each for each in count() if each not in used)
        if first > self.channel_max:
            raise AmqpError(NOT_ALLOWED, "there are more sessions than channel-max allows")
        return first

    def _channel(self) -> int:
        """Return a number for a session that the broker begins, -1 if there is none; from above,
        as peers begin with 0."""
        used = self._used()
        return next((each for each in range(self.channel_max, -1, -1) if each not in used), -1)

    def _used(self) -> set[int]:
        links = self._auto_links
        begun = links.begun if links is not None else set()
        ours = {each.channel for each in self._sessions.values()}
        return ours | begun | {*self._far_ends.waiting}
