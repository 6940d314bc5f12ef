"""Two brokers in memory, and the connection that one opened to the other."""

from collections.abc import Sequence
from typing import Any, Final

from daybook.engine.commands import Send
from daybook.engine.facts.definitions import AutoLink
from daybook.engine.refusals import Refusal
from daybook.protocols.amqp.connection import AmqpConnection
from daybook.protocols.amqp.dialling import DialledConnection
from daybook.protocols.amqp.options import AmqpOptions
from daybook.protocols.amqp.wire.frames import Frame, FrameReader
from daybook.protocols.port import AutoLinkRow, Caller, NotLoggedIn, Outbound
from tests.support.amqp.peer import follow
from tests.support.world import World

THERE: Final = "f" * 32
"""The id of the broker there."""


class Anonymous:
    """A login as nobody; or with a passcode, one as guest, which is asked for a second word."""

    def __init__(self, passcode: str = "") -> None:
        self.passcode: Final = passcode
        self.proof: bytes | None = None

    def choose(self, offered: Sequence[str]) -> tuple[str, bytes]:
        """Choose by whether there is a passcode."""
        wanted = "PLAIN" if self.passcode else "ANONYMOUS"
        if wanted not in offered:
            raise NotLoggedIn(f"{wanted} is not offered")
        return wanted, f"\0guest\0{self.passcode}".encode() if self.passcode else b""

    def respond(self, challenge: bytes) -> bytes:
        """Answer with the challenge backwards."""
        return challenge[::-1]

    def accepted(self, proof: bytes | None) -> None:
        """Keep the proof."""
        self.proof = proof

    def refused(self) -> str:
        """Say that it failed."""
        return "the passcode is wrong"


class Line:
    """`here` is the broker that opens the connection (`dialled`), `there` the other one, whose side
    is `accepted`."""

    def __init__(
        self,
        *links: AutoLink,
        user: str = "",
        login: Anonymous | None = None,
        mechanisms: tuple[str, ...] = ("PLAIN", "ANONYMOUS"),
        container_links: tuple[AutoLink, ...] = (),
        here: World | None = None,
        there: World | None = None,
        **options: Any,
    ) -> None:
        """`links` are attached by the broker here, `container_links` by the one there."""
        self.here: Final = here or World()
        self.there: Final = there or World()
        self.there.broker.identity = THERE
        self.links = links
        outbound = Outbound(
            "east", "here", "east.example", login or Anonymous(), user, links=lambda: self.links
        )
        self.dialled: Final = DialledConnection(
            self.here.broker, AmqpOptions(), Caller("east:5672"), outbound
        )
        caller = Caller("here:40000", lambda _: mechanisms)
        caller.auto_links = lambda container: container_links if container == "here" else ()
        self.accepted: Final = AmqpConnection(
            self.there.broker, AmqpOptions(**options), caller, "there"
        )
        self._reader: Final = FrameReader(1 << 20, 1 << 20)
        self.heard: Final[list[Any]] = []
        self.accepted.tick(self.there.now)
        self.dialled.tick(self.here.now)

    def settle(self) -> "Line":
        """Carry bytes until nobody has something to say."""
        for _ in range(1000):
            follow(self.here, self.dialled)
            follow(self.there, self.accepted)
            if not (self.dialled.out or self.accepted.out or self._answer()):
                return self
            self._carry(self.dialled, self.accepted, self.there)
            self._carry(self.accepted, self.dialled, self.here)
        raise AssertionError("the brokers do not come to an end")

    def _carry(self, sender: AmqpConnection, taker: AmqpConnection, world: World) -> None:
        said, sender.out = b"".join(sender.out), []
        if said:
            if taker is self.accepted:
                self._reader.receive(said)
                while (found := self._reader.next()) is not None:
                    self.heard.append(found.performative if isinstance(found, Frame) else found)
            taker.receive(said, world.now)

    def heard_of(self, kind: type) -> list[Any]:
        """Return what the broker there has heard of a kind."""
        return [each for each in self.heard if isinstance(each, kind)]

    def _answer(self) -> bool:
        """Answer what the accepted connection asks of its server."""
        accepted = self.accepted
        step = accepted.login_request
        if step is not None:
            is_right = step.mechanism == "ANONYMOUS" or step.response == b"\0guest\0guest"
            accepted.authenticated("guest" if is_right else None, "wrong", self.there.now)
        elif accepted.host_request is not None:
            accepted.admitted("", self.there.now)
        else:
            return False
        return True

    def send(self, world: World, address: str, body: bytes) -> None:
        """Send a message to a broker."""
        answer = world.broker.handle(Send(0, address, b"", body), world.now)
        assert not isinstance(answer, Refusal), answer.text

    def later(self, seconds: float) -> "Line":
        """Let time pass for both."""
        for world, connection in ((self.here, self.dialled), (self.there, self.accepted)):
            world.now += int(seconds * 1_000_000)
            if connection.next_deadline and connection.next_deadline <= world.now:
                connection.tick(world.now)
        return self.settle()

    def rows(self) -> dict[str, AutoLinkRow]:
        """Return the auto-links here by their names."""
        return {each.link.name: each for each in self.dialled.auto_links}
