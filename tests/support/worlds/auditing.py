"""Judging events in memory, and a world whose clients and administrators come in by the front door.

The broker's door lets in no command of a connection that is gone, and records each request of an
administrator; `World` itself does neither.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from daybook.engine import commands as c
from daybook.engine.broker import HANDLERS
from daybook.engine.core.core import Options
from daybook.engine.refusals import Code, Refusal
from daybook.engine.state.state import State
from daybook.history.audit.context import Folded
from daybook.history.audit.judge import Clock, Judge
from daybook.history.audit.rules import Breach
from tests.support.histories import played
from tests.support.models.filters import compile_filter
from tests.support.models.promises import Promises
from tests.support.models.rest import Rest
from tests.support.world import SECOND, Event, World
from tests.support.worlds.hosts import HOSTS

OF_ADMINISTRATORS = (
    c.ActOnMessages, c.PurgeQueue, c.ReleaseHeld, c.DeliverScheduled, c.ForgetRetained,
)  # fmt: skip
_OTHERWISE = {"release-held": "release-queue"}
LATER = 1 << 60
OPTIONS = Options(compile_filter=compile_filter, hosts=HOSTS)


def _asked(command: c.Command) -> str:
    """The name of a request, as administrators send it."""
    name = re.sub("(?<=[a-z])(?=[A-Z])", "-", type(command).__name__).lower()
    return _OTHERWISE.get(name, name)


class DoorWorld(World):
    """A world that notes where its turns end, and wraps what administrators ask."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.ends: list[int] = []
        super().__init__(*args, **options)

    def handle(self, command: c.Command) -> int | Refusal:
        sent = getattr(command, "send", command)
        if isinstance(sent, c.Send) and sent.connection not in self.state.connections:
            return Refusal(Code.NOT_FOUND, "no such connection")
        if (
            isinstance(command, c.SendToAll | c.DeleteSubscription)
            and command.connection not in self.state.connections
        ):
            return Refusal(Code.NOT_FOUND, "no such connection")
        if isinstance(command, OF_ADMINISTRATORS):
            command = c.Administer("joe", f'{{"do":"{_asked(command)}"}}', command)
        assert type(command) in HANDLERS
        return super().handle(command)

    def lose(self, lsn: int, skipped: int = 0) -> None:
        self.ends = [end for end in self.ends if end < lsn] + [lsn]
        super().lose(lsn, skipped)

    def turn(self) -> None:
        super().turn()
        if not self.ends or self.ends[-1] != len(self.journal):
            self.ends.append(len(self.journal))


@cache
def door_history(seed: int, messages: int) -> DoorWorld:
    """Return a world after as much as in `some_history`, which must not be changed."""
    world = DoorWorld()
    played(seed, messages, world)
    return world


class Auditor:
    """Judges the journal of a world as it grows: by the audit's rules and by the documentation's
    promises; at rest, also what is left when nothing is left to decide."""

    def __init__(self, asked: dict[bytes, tuple[int, int]]) -> None:
        self._rest = Rest()
        self._promises = Promises(asked)
        self._judge = Judge(State(), 0, OPTIONS, Clock(LATER, SECOND))
        self._taken = 0

    def take(self, world: DoorWorld) -> None:
        """Judge what is new."""
        journal, begin = world.journal, self._taken
        self._taken = len(journal)
        cuts = sorted({end for end in world.ends if begin < end < len(journal)} | {len(journal)})
        for start, end in zip([begin, *cuts], cuts, strict=False):
            found = list(self._judge.judge(list[Folded](journal[start:end])))
            assert not found, found[0].text
        for event in journal[begin:]:
            self._promises.take(event)
            self._rest.take(event)

    def at_rest(self, state: State) -> None:
        """Judge the state behind which nothing is left to decide."""
        self._rest.check(state)
        self._rest.check_nobody_waits(state)
        self._promises.check(state)


def judged(
    journal: Sequence[Event],
    ends: Iterable[int] = (),
    *,
    state: State | None = None,
    options: Options = OPTIONS,
    tolerance: int = SECOND,
    now: int = LATER,
    after: int = 0,
) -> list[Breach]:
    """Return the breaches in events, whose blocks end behind these numbers of them; `state` is that
    after event `after`."""
    state = state if state is not None else State()
    judge = Judge(state, after, options, Clock(now, tolerance))
    found: list[Breach] = []
    cuts = sorted({end for end in ends if 0 < end < len(journal)} | {len(journal)})
    for start, end in zip([0, *cuts], cuts, strict=False):
        found += judge.judge(list[Folded](journal[start:end]))
    return found
