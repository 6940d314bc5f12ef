"""Links that the broker attaches by itself, each on a session of its own (ADR 110).

A session that ends, or a link that is refused or detached, leaves the others alone, and is begun
again after some time. Data flow: begin, and the peer's begin; attach, and the peer's attach; the
command by which the engine knows the link; from then on it is a link like those that peers attach.
Must never know why a link is wanted.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from daybook.engine.commands import Attach as AttachConsumer
from daybook.engine.commands import AttachSender, Command
from daybook.engine.facts.definitions import AutoLink
from daybook.engine.facts.settlements import BY_GRANT
from daybook.engine.names.names import plain
from daybook.engine.refusals import Refusal
from daybook.protocols.amqp.addressing import Place
from daybook.protocols.amqp.faults import SessionFault, error_of, words_of
from daybook.protocols.amqp.incoming import Incoming
from daybook.protocols.amqp.outcomes import OUTCOMES
from daybook.protocols.amqp.outgoing import Outgoing
from daybook.protocols.amqp.output import Output
from daybook.protocols.amqp.sessions import AmqpSession, beginning
from daybook.protocols.amqp.tracing import TRACED, mark_of
from daybook.protocols.amqp.wire.errors import NOT_ALLOWED
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER, UNSETTLED
from daybook.protocols.amqp.wire.performatives import Attach, Detach, Error
from daybook.protocols.amqp.wire.termini import Modified, Source, Target
from daybook.protocols.port import ACTIVE, ATTACHING, FAILED, INACTIVE, AutoLinkRow

OWN_HANDLE: Final = 0
"""The handle of the broker: there is one link on the session."""
FIRST_RETRY_US: Final = 2_000_000
RETRY_US: Final = 5_000_000
"""How long after a failure a link is attached again, and after each one that follows (6.6)."""
ASK_US: Final = 5_000_000
"""How often a peer is asked how many messages wait there."""
LOOK_US: Final = 500_000
"""How often links that will end are looked at."""
LEAVING_US: Final = 10_000_000
"""How long a link that was removed waits for the outcomes of what is on its way."""
_ENDED: Final = "the peer ended it and did not say why"


class Standing:
    """An auto-link on a connection: its session, once that has begun, and its link, while it is
    attached. At the time `due` the next attempt begins, 0 for none. One that was removed or changed
    ends when nothing is on its way, or at the time `leave_by`, 0 for none; `following` takes its
    place."""

    __slots__ = (
        "_links", "_refused", "_total", "attempts", "auto_link", "channel", "due", "following",
        "leave_by", "link", "session", "state", "why",
    )  # fmt: skip

    def __init__(self, links: "AutoLinks", auto_link: AutoLink, due: int, total: int = 0) -> None:
        self._links: Final = links
        self.auto_link = auto_link
        self.following: AutoLink | None = None
        self.leave_by = 0
        self.state = INACTIVE
        self.why = ""
        self.due = due
        self.attempts = 0
        # The number of the session that was begun, until the peer answers.
        self.channel = -1
        self.session: AmqpSession | None = None
        self.link: Incoming | Outgoing | None = None
        # The peer's handle of a link that it refuses.
        self._refused = -1
        self._total = total

    def row(self) -> AutoLinkRow:
        """Return it for administrators."""
        link = self.link
        if link is None:
            return AutoLinkRow(self.auto_link, self.state, self.why, self._total)
        row = link.row()
        available = link.available if isinstance(link, Incoming) else None
        total = self._total + row.total
        return AutoLinkRow(self.auto_link, self.state, "", total, row.in_flight, available)

    def ask(self) -> None:
        """Ask the peer how many messages wait there."""
        link = self.link
        if isinstance(link, Incoming) and not link.is_leaving:
            credit = link.credit
            link.session.say_flow(
                handle=link.handle, delivery_count=credit.delivery_count,
                link_credit=credit.link_credit, echo=True,
            )  # fmt: skip

    def leave(self, now: int) -> None:
        """End when nothing is on its way any more."""
        self.leave_by = now + LEAVING_US
        if self.link is not None:
            self.link.stop(now)

    def is_as_good(self, wanted: AutoLink) -> bool:
        """Whether a changed link can stay as it is: costs matter to direct addresses alone."""
        link = self.link
        is_cost = replace(wanted, cost=self.auto_link.cost) == self.auto_link
        if not is_cost or self.leave_by or link is None:
            return False
        broker = self._links.output.broker
        return not isinstance(link, Outgoing) or not broker.is_direct(link.consumer)

    @property
    def is_ending(self) -> bool:
        """Whether it is looked at more often."""
        return self.auto_link.limit > 0 or self.leave_by > 0

    def is_done(self, now: int) -> bool:
        """Whether one that will end has nothing more to do."""
        link = self.link
        if self.leave_by:
            # A session that the peer has yet to begin has to be there when it does.
            is_still = link.is_still if link is not None else self.state != ATTACHING
            return self.channel < 0 and (is_still or now >= self.leave_by)
        if not self.auto_link.limit or not isinstance(link, Outgoing) or link.unsettled:
            return False
        is_empty = not link.session.output.broker.available(link.consumer)
        return is_empty or link.row().total >= link.limit

    def begun(self, session: AmqpSession) -> None:
        """Attach the link to its session, which the peer has begun too."""
        self.channel = -1
        self.session = session
        self.attach(session)

    def attach(self, session: AmqpSession) -> None:
        """Ask the peer for the link."""
        auto_link = self.auto_link
        here = plain(auto_link.address)
        if auto_link.is_out:
            said = Attach(
                auto_link.name, OWN_HANDLE, SENDER, snd_settle_mode=UNSETTLED,
                source=Source(here), target=Target(auto_link.external), initial_delivery_count=0,
                offered_capabilities=(TRACED,),
            )  # fmt: skip
        else:
            said = Attach(
                auto_link.name, OWN_HANDLE, RECEIVER,
                source=Source(
                    auto_link.external, outcomes=OUTCOMES,
                    default_outcome=Modified(delivery_failed=True),
                ),
                target=Target(here),
                max_message_size=session.output.options.max_message_size,
                desired_capabilities=(TRACED,),
            )  # fmt: skip
        session.output.say(session.channel, said)

    def answered(self, said: Attach, now: int) -> None:
        """Take the answer of the peer. Raises SessionFault."""
        session, auto_link = self.session, self.auto_link
        is_ours = said.name == auto_link.name and said.role == (
            RECEIVER if auto_link.is_out else SENDER
        )
        if session is None or self.state != ATTACHING or self._refused >= 0 or not is_ours:
            raise SessionFault(NOT_ALLOWED, "the broker began this session for a link of its own")
        if (said.target if auto_link.is_out else said.source) is None:
            # The peer refuses it: a detach with the reason follows (2.6.3).
            self._refused = said.handle
            return
        link, command = self._made(session, said)
        link.peer_handle = said.handle
        link.auto_link = auto_link

        def attached(answer: int | Refusal, now: int) -> None:
            if session.is_ended:
                return
            if isinstance(answer, Refusal):
                self._failed(answer.text)
                session.leaving.add(said.handle)
                problem = error_of(answer)
                session.output.say(session.channel, Detach(OWN_HANDLE, True, problem))
                return
            self._begin(session, link, answer)

        session.output.ask(command, attached, now)

    def _made(self, session: AmqpSession, said: Attach) -> tuple[Incoming | Outgoing, Command]:
        """Return the link, and the command that tells the engine of it."""
        output, auto_link = session.output, self.auto_link
        name, number, address = auto_link.name, output.number_link(), auto_link.address
        if auto_link.is_out:
            link = Outgoing(session, OWN_HANDLE, name, number, address, is_settled=False)
            link.mark = mark_of(address, phase=auto_link.phase, is_fallback=auto_link.is_fallback)
            link.limit = auto_link.limit
            return link, AttachConsumer(
                output.connection, address, subscription=name, queue=auto_link.queue or None,
                credit_policy=BY_GRANT,
                credit_messages=0, credit_bytes=0, receiver=link, session=session.number,
                auto_link=auto_link, traced=True,
            )  # fmt: skip
        first = said.initial_delivery_count or 0
        sending = Incoming(session, OWN_HANDLE, name, number, Place(address, None, None), first)
        sending.is_traced = TRACED in said.offered_capabilities
        sending.phase = auto_link.phase
        return sending, AttachSender(
            output.connection, address, link=number, name=name, receiver=sending,
            auto_link=auto_link,
        )  # fmt: skip

    def _begin(self, session: AmqpSession, link: Incoming | Outgoing, answer: int) -> None:
        self.link = link
        self.state, self.why, self.attempts = ACTIVE, "", 0
        if isinstance(link, Outgoing):
            link.consumer = answer
            session.attach(link)
        else:
            link.attached(answer)
            session.attach(link)
            link.refill()
        if self.leave_by:
            self.leave(self._links.output.now)

    def detached(self, said: Detach) -> bool:
        """Take a detach of the peer; return whether there was no link to detach."""
        session = self.session
        if session is None or said.handle != self._refused:
            return False
        self._refused = -1
        self._failed(words_of(said.error) or "the peer refused it and did not say why")
        session.output.say(session.channel, Detach(OWN_HANDLE, True))
        return True

    def ended(self, problem: Error | None) -> None:
        """Note that the link is gone."""
        if self.link is not None:
            self._total += self.link.row().total
            self.link = None
            self._failed(words_of(problem) or _ENDED)

    def session_ended(self, problem: Error | None) -> None:
        """Note that the session is gone, and with it the link."""
        self.session = None
        self._refused = -1
        if self.state == ATTACHING:
            self._failed(words_of(problem) or _ENDED)

    def _failed(self, why: str) -> None:
        self.state, self.why = FAILED, why
        self.due = self._links.output.now + (RETRY_US if self.attempts else FIRST_RETRY_US)
        self.attempts += 1
        self._links.wake(self.due)

    @property
    def is_clear(self) -> bool:
        """Whether nothing of an earlier attempt is left that the peer has to answer."""
        session = self.session
        return session is None or not (session.is_ended or session.leaving)


class AutoLinks:
    """All auto-links of a connection. `wake` asks for a call of `tick` at a time, `channel` for a
    number of a session that neither side uses, -1 if there is none; `leave` ends a session in the
    end of this call."""

    def __init__(
        self,
        output: Output,
        links: Sequence[AutoLink],
        wake: Callable[[int], None],
        channel: Callable[[], int],
        leave: Callable[[AmqpSession], None],
        now: int,
    ) -> None:
        self.output: Final = output
        self._leave: Final = leave
        self.wake: Final = wake
        self._channel: Final = channel
        self.standings: Final = [Standing(self, each, now) for each in links]
        self._ask_at = now + ASK_US

    @property
    def deadline(self) -> int:
        """When there is something to do next."""
        return min((self._ask_at, *(each.due for each in self.standings if each.due)))

    @property
    def begun(self) -> set[int]:
        """The numbers of sessions that the peer has not begun yet."""
        return {each.channel for each in self.standings if each.channel >= 0}

    def tick(self, now: int) -> None:
        """Attach what is due."""
        for each in self.standings:
            if each.due and each.due <= now:
                each.due = 0
                self._try(each, now)
        if self._ask_at <= now:
            self._ask_at = now + (LOOK_US if self._has_ending else ASK_US)
            for each in list(self.standings):
                each.ask()
                if each.is_done(now):
                    self._end(each, now)

    @property
    def _has_ending(self) -> bool:
        return any(each.is_ending for each in self.standings)

    def add(self, link: AutoLink, now: int) -> None:
        """Attach one more link."""
        self.standings.append(Standing(self, link, now))
        self._look_soon(now)

    def renew(self, links: Sequence[AutoLink], now: int) -> None:
        """Attach the links that are new, end those that are gone, and put changed ones in the place
        of the former. Those that an administrator asked for stay."""
        wanted = {each.name: each for each in links}
        for each in list(self.standings):
            if not each.auto_link.limit:
                self._change(each, wanted.pop(each.auto_link.name, None), now)
        self.standings.extend(Standing(self, each, now) for each in wanted.values())
        self._look_soon(now)

    def _change(self, standing: Standing, wanted: AutoLink | None, now: int) -> None:
        if standing.leave_by:
            standing.following = wanted
        elif wanted is not None and standing.is_as_good(wanted):
            standing.auto_link = wanted
        elif wanted != standing.auto_link:
            standing.following = wanted
            standing.leave(now)
            if standing.is_done(now):
                self._end(standing, now)

    def _look_soon(self, now: int) -> None:
        if self._has_ending:
            self._ask_at = min(self._ask_at, now + LOOK_US)
        self.tick(now)
        self.wake(self.deadline)

    def _end(self, standing: Standing, now: int) -> None:
        """End a link that is done, and its session; begin the one that follows."""
        self.standings.remove(standing)
        if standing.following is not None:
            total = standing.row().total
            self.standings.append(Standing(self, standing.following, now, total))
            self.wake(now)
        session, standing.session, standing.link = standing.session, None, None
        if session is not None:
            self._leave(session)

    def _try(self, standing: Standing, now: int) -> None:
        if not standing.is_clear:
            standing.due = now + RETRY_US
            return
        session = standing.session
        if session is not None:
            standing.state = ATTACHING
            standing.attach(session)
            return
        channel = self._channel()
        if channel < 0:
            standing.state, standing.due = FAILED, now + RETRY_US
            standing.why = "the peer allows no more sessions"
            return
        standing.state, standing.channel = ATTACHING, channel
        self.output.say(channel, beginning(self.output))

    def answered(self, channel: int) -> Standing | None:
        """Return the one that began a session."""
        return next((each for each in self.standings if each.channel == channel), None)

    def clock_stepped(self, step: int) -> None:
        """Times move along with the clock."""
        self._ask_at += step
        for each in self.standings:
            if each.due:
                each.due += step
