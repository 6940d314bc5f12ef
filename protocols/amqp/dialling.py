"""A connection that the broker opens: it speaks first, and logs in as a client (ADR 110).

Once both sides have said open, it is a connection like those that peers open. Must never know how
the login is proved.
"""

from typing import Any

from daybook.engine.facts.definitions import AutoLink
from daybook.engine.facts.reasons import LIMIT, PROTOCOL_ERROR
from daybook.engine.refusals import Refusal
from daybook.protocols.amqp.connection import (
    HEADER,
    LOGGED_IN,
    LOGGING_IN,
    OPENING,
    AmqpConnection,
)
from daybook.protocols.amqp.faults import words_of
from daybook.protocols.amqp.options import AmqpOptions
from daybook.protocols.amqp.wire.errors import (
    FRAMING_ERROR,
    ILLEGAL_STATE,
    RESOURCE_LIMIT_EXCEEDED,
    AmqpError,
)
from daybook.protocols.amqp.wire.frames import AMQP, SASL, Frame, Header, protocol_header
from daybook.protocols.amqp.wire.kinds import OK
from daybook.protocols.amqp.wire.performatives import (
    Close,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from daybook.protocols.port import BrokerPort, Caller, NotLoggedIn, Outbound


class DialledConnection(AmqpConnection):
    """The connection; its `error` has the reason of its end, also one that the peer gives."""

    def __init__(
        self, broker: BrokerPort, options: AmqpOptions, caller: Caller, outbound: Outbound
    ) -> None:
        super().__init__(broker, options, caller, outbound.container)
        self._outbound = outbound
        self._has_begun = False
        self._has_chosen = False
        self.connector = outbound.connector
        self.peer_host = outbound.host
        self.user = outbound.user
        self.lets_attach = bool(outbound.user)

    def tick(self, now: int) -> None:
        """Do what is due; at first say which protocol is spoken."""
        if not self._has_begun:
            self._has_begun = True
            self.out.append(protocol_header(SASL))
        super().tick(now)

    def _on_header(self, header: Header, now: int) -> None:
        if header.protocol == SASL and self._state is HEADER:
            self._state = LOGGING_IN
        elif header.protocol == AMQP and self._state is LOGGED_IN:
            self._state = OPENING
        else:
            text = "the peer does not speak AMQP 1.0 with SASL here"
            self._end_with(text, now)

    def _on_early(self, found: Frame, now: int) -> None:
        said = found.performative
        try:
            if self._state is LOGGING_IN:
                self._log_in(said, now)
            elif said is not None:
                self._on_first(said, now)
        except NotLoggedIn as failure:
            self._end_with(str(failure), now)

    def _log_in(self, said: Any, now: int) -> None:
        """Do the next step of the login. Raises NotLoggedIn."""
        login = self._outbound.login
        if isinstance(said, SaslMechanisms) and not self._has_chosen:
            self._has_chosen = True
            mechanism, response = login.choose(said.sasl_server_mechanisms)
            self.say(0, SaslInit(mechanism, response, self._outbound.host))
        elif isinstance(said, SaslChallenge) and self._has_chosen:
            self.say(0, SaslResponse(login.respond(said.challenge)))
        elif isinstance(said, SaslOutcome) and self._has_chosen:
            if said.code != OK:
                raise NotLoggedIn(login.refused())
            login.accepted(said.additional_data)
            self._state = LOGGED_IN
            self.out.append(protocol_header(AMQP))
            self._say_open()
        else:
            raise AmqpError(FRAMING_ERROR, "this frame of SASL is not expected")

    def _on_first(self, said: Any, now: int) -> None:
        """Take the first frame behind the login."""
        if isinstance(said, Open):
            self._check_open(said)
            self._open = said
            self.host_request = self._outbound.local_host
            self.admitted("", now)
        elif isinstance(said, Close):
            self._on_close(said, now)
        else:
            raise AmqpError(ILLEGAL_STATE, "the first frame must be open")

    def _wanted_links(self, said: Open) -> tuple[AutoLink, ...]:
        return self._outbound.links()

    def _on_close(self, said: Close, now: int) -> None:
        self.error = "the peer closed the connection"
        if said.error is not None:
            self.error += f": {words_of(said.error)}"
        super()._on_close(said, now)

    def _refuse_open(self, refusal: Refusal, now: int) -> None:
        self._fail(RESOURCE_LIMIT_EXCEEDED, refusal.text, LIMIT, now)

    def _refuse(self, reason: int, text: str) -> None:
        """Nobody asked for anything: there is no refusal to record."""

    def _say_outcome(self, code: int) -> None:
        """The outcome is the peer's to say."""

    def _end_with(self, text: str, now: int) -> None:
        """End before the open: there is no frame that could tell the peer why."""
        self.error = text
        self._close(PROTOCOL_ERROR, text, now)
        self._end(0)
