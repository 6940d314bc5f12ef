"""The sessions of browsers: who logged in where, for how long.

A session is 256 random bits in a cookie; what it means is in memory alone. It ends when it was not
used for half an hour, 12 hours after its begin, by a logout, or because its user has too many.
Forms bring its CSRF token. Links for the operator are good for one login (ADR 112).

A confirmation is good once, and its outcome is kept with the session for a while, so that a page
that is loaded again carries nothing out a second time.

Invariants: sessions are bounded, in all and for each user; ids and tokens are compared in constant
time or by a hash; nothing here is ever logged.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from daybook.console.brokers import Identity

SESSIONS_MAX: Final = 1_000
OF_A_USER_MAX: Final = 20
IDLE_SECONDS: Final = 30 * 60.0
WHOLE_SECONDS: Final = 12 * 3600.0
LINK_SECONDS: Final = 600.0
SECRET_BYTES: Final = 32
CONFIRMATIONS_MAX: Final = 20
"""How many confirmations of a session are kept, with what came of them; older ones are not good
any more."""


class Confirmation:
    """A question whether to carry something out at a broker. Whoever `takes` it carries that out,
    and calls `end` with the outcome; everybody else waits for it."""

    __slots__ = ("_ended", "_is_taken", "broker", "outcome")

    def __init__(self, broker: str) -> None:
        self.broker: Final = broker
        self.outcome: Any = None
        self._ended: Final = asyncio.Event()
        self._is_taken = False

    def takes(self) -> bool:
        """Return whether it was not used yet; then it is."""
        is_first, self._is_taken = not self._is_taken, True
        return is_first

    def end(self, outcome: Any) -> None:
        """Keep the outcome; None if it is not known."""
        self.outcome = outcome
        self._ended.set()

    async def wait(self) -> Any:
        """Return the outcome when it is there."""
        await self._ended.wait()
        return self.outcome


class Session:
    """What a browser is: its identity at each broker, by name."""

    __slots__ = ("_confirmations", "begun", "csrf", "identities", "used")

    def __init__(self, now: float) -> None:
        self.begun: Final = now
        self.used = now
        self.csrf: Final = secrets.token_urlsafe(SECRET_BYTES)
        self.identities: Final[dict[str, Identity]] = {}
        self._confirmations: Final[OrderedDict[str, Confirmation]] = OrderedDict()

    def new_confirmation(self, broker: str) -> str:
        """Return the token of a question that can be confirmed once."""
        token = secrets.token_urlsafe(SECRET_BYTES)
        self._confirmations[token] = Confirmation(broker)
        if len(self._confirmations) > CONFIRMATIONS_MAX:
            self._confirmations.popitem(last=False)
        return token

    def confirmation(self, token: str, broker: str) -> Confirmation | None:
        """Return the confirmation with a token, None if it is of another broker or not kept."""
        found = self._confirmations.get(token)
        return found if found is not None and found.broker == broker else None

    def is_over(self, now: float) -> bool:
        """Whether its time is over."""
        return now - self.used > IDLE_SECONDS or now - self.begun > WHOLE_SECONDS

    def has_token(self, token: str) -> bool:
        """Whether a form brings the token of this session."""
        return hmac.compare_digest(token.encode(), self.csrf.encode())


class Sessions:
    """All sessions, the one that was not used for longest first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._by_hash: Final[OrderedDict[bytes, Session]] = OrderedDict()
        self._links: Final[dict[bytes, float]] = {}

    def __len__(self) -> int:
        return len(self._by_hash)

    def find(self, cookie: str, *, uses: bool = True) -> Session | None:
        """Return the session of a cookie, None if there is none or it is over; a page that renews
        itself does not use it."""
        key = _hash(cookie)
        session = self._by_hash.get(key)
        now = self._clock()
        if session is None:
            return None
        if session.is_over(now):
            del self._by_hash[key]
            return None
        if uses:
            session.used = now
            self._by_hash.move_to_end(key)
        return session

    def begin(
        self, broker: str, identity: Identity, before: Session | None = None
    ) -> tuple[str, Session]:
        """Begin a session of somebody who logged in, and return the cookie. What the browser was at
        other brokers it stays; its earlier cookie is not valid any more."""
        session = Session(self._clock())
        if before is not None:
            session.identities.update(before.identities)
            self.end(before)
        session.identities[broker] = identity
        self._make_room(broker, identity)
        cookie = secrets.token_urlsafe(SECRET_BYTES)
        self._by_hash[_hash(cookie)] = session
        return cookie, session

    def end(self, session: Session) -> None:
        """End a session."""
        for key in [key for key, each in self._by_hash.items() if each is session]:
            del self._by_hash[key]

    def new_link(self) -> str:
        """Return the secret of a link that logs the operator in, once, for some minutes."""
        secret = secrets.token_urlsafe(SECRET_BYTES)
        self._links[_hash(secret)] = self._clock() + LINK_SECONDS
        return secret

    def take_link(self, secret: str) -> bool:
        """Return whether a link is good; then it is no more."""
        until = self._links.pop(_hash(secret), 0.0)
        return self._clock() < until

    def _make_room(self, broker: str, identity: Identity) -> None:
        now = self._clock()
        for key in [key for key, each in self._by_hash.items() if each.is_over(now)]:
            del self._by_hash[key]
        own = [
            key
            for key, each in self._by_hash.items()
            if (found := each.identities.get(broker)) is not None and found.user == identity.user
        ]
        for key in own[: max(0, len(own) - OF_A_USER_MAX + 1)]:
            del self._by_hash[key]
        while len(self._by_hash) >= SESSIONS_MAX:
            self._by_hash.popitem(last=False)


def _hash(secret: str) -> bytes:
    """Return the key of a secret: looking it up tells nothing about others."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
