"""Running `journal replay`: chooses messages of history, counts them, and sends them (ADR 68).

Each message has a duplicate id made of its id, its data id and the destination, and the state file
says up to where all are confirmed. So an interrupted replay continues where it was, and what was
sent and not yet noted is recognised by the broker. Fault model: this process, the connection and
the broker may end at any moment; bodies may be missing from history.
"""

import fcntl
import os
import sys
import time
from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from daybook.client.endpoint import Endpoint
from daybook.client.stomp import Content, StompClient, StompError
from daybook.engine.facts import events
from daybook.engine.facts.events import FLAGS, PRIORITY
from daybook.history.event_finder import EventFinder
from daybook.history.fate_words import REPLAY_OF
from daybook.history.fates import Chosen, Request, choose
from daybook.history.moments import last_lsn, lsn_at
from daybook.history.originals import LargeBodies, content_of
from daybook.history.scan import Event
from daybook.history.search import Clause, Search
from daybook.journal.blocks.format import FIRST_LSN
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import data_id_of, first_lsn_of, open_segment
from daybook.pipeline.publishing import DUPLICATE_ID, Message, PublishError, check_remembers
from daybook.tools.history.past_states import found as event_of
from daybook.tools.terminal.exit_codes import EXIT_WRONG
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.opening import history
from daybook.tools.terminal.printing import progress, show_json, show_table

WINDOW: Final = 500
"""How many sends may wait for their receipts; far fewer than ids that an address remembers."""
SAVED_EVERY: Final = 500
DUPLICATE: Final = "duplicate"
STATE_VERSION: Final = 1


class State(msgspec.Struct):
    """The progress of a replay: all up to `done` are confirmed; counts are those of all runs.

    `to_lsn` is the end of its span, fixed by the first run, and again by the first one after all of
    the span was sent (`is_complete`); what the span before took, which ended with the event
    `before`, is left out then. `refused` counts, by reason, messages that the broker accepted and
    no queue took.
    """

    request: Request
    destination: str
    broker: str
    data_id: str
    name: str = ""
    done: int = 0
    sent: int = 0
    duplicates: int = 0
    incomplete: int = 0
    refused: dict[str, int] = {}
    before: int = 0
    is_complete: bool = False
    version: int = STATE_VERSION


class _Unsaved(Failure):
    """The state file cannot be written."""


def run(ctx: click.Context, path: Path, destination: str, flags: dict[str, Any]) -> None:
    """Count the chosen messages, and send them if asked to. Raises Failure and JournalError."""
    disk, _, _ = history(ctx, path, flags)
    endpoint: Endpoint = flags["endpoint"]
    begun = State(
        _request(path, disk, flags),
        destination,
        str(endpoint),
        data_id_of(disk).hex(),
        flags["name"],
    )
    file = flags["state_file"] or _default_file(begun)
    with _locked(file, begun, writes=flags["sends"]) as state:
        _fix_span(state, disk, flags)
        chosen = _choose_new(path, disk, state)
        begun = msgspec.structs.replace(state, refused=dict(state.refused))
        unsaved: _Unsaved | None = None
        if flags["sends"] and _left(chosen, state):
            try:
                _send(disk, chosen.messages, state, file, endpoint, flags)
            except _Unsaved as error:
                unsaved = error
    _report(chosen, begun, _since(begun, state), state, file, flags)
    if unsaved is not None:
        raise unsaved
    if state.refused != begun.refused or state.incomplete > begun.incomplete:
        sys.exit(EXIT_WRONG)


def _fix_span(state: State, disk: Disk, flags: dict[str, Any]) -> None:
    """Set the end of the span: now, in the first run and in the first one after all was sent."""
    to_lsn = state.request.to_lsn
    end = max(last_lsn(disk), first_lsn_of(disk))
    if to_lsn and not (state.is_complete and flags["end"] is None and end > to_lsn):
        return
    state.request = msgspec.structs.replace(state.request, to_lsn=end)
    state.before, state.done, state.is_complete = to_lsn, 0, False


def _choose_new(path: Path, disk: Disk, state: State) -> Chosen:
    """Choose the messages of the span without those that the span before took."""
    request, before = state.request, state.before
    if not before:
        return _choose(path, disk, request)
    if not request.only:
        from_lsn = max(request.from_lsn, before + 1)
        return _choose(path, disk, msgspec.structs.replace(request, from_lsn=from_lsn))
    # A message from before may have met its fate since.
    earlier = msgspec.structs.replace(request, to_lsn=before)
    taken = _choose(path, disk, earlier, until=before).messages
    return _choose(path, disk, request, excluded=taken)


def _left(chosen: Chosen, state: State) -> int:
    return len(chosen.messages) - bisect_left(chosen.messages, state.done + 1)


def _since(begun: State, state: State) -> State:
    """Return a state with the counts of this run alone."""
    refused = Counter(state.refused)
    refused.subtract(begun.refused)
    return msgspec.structs.replace(
        state,
        sent=state.sent - begun.sent, duplicates=state.duplicates - begun.duplicates,
        incomplete=state.incomplete - begun.incomplete, refused=dict(+refused),
    )  # fmt: skip


def _request(path: Path, disk: Disk, flags: dict[str, Any]) -> Request:
    begin: Moment | None = flags["begin"]
    from_lsn = _from_lsn(path, disk, begin) if begin is not None else 1
    to_lsn = event_of(path, disk, flags["end"]).lsn if flags["end"] is not None else 0
    if to_lsn and from_lsn > to_lsn:
        raise click.UsageError(
            f"--from is after --to: the span would begin with event {from_lsn}, and end with "
            f"event {to_lsn}"
        )
    return Request(
        from_lsn=from_lsn, to_lsn=to_lsn, addresses=flags["addresses"], queues=flags["queues"],
        filter=flags["filter"], only=tuple(sorted(flags["only"])), messages=flags["messages"],
        copies=flags["copies"] or bool(flags["messages"]),
    )  # fmt: skip


def _from_lsn(path: Path, disk: Disk, begin: Moment) -> int:
    """Return the first event from a moment on. Raises Failure and JournalError."""
    if begin.time is None:
        return event_of(path, disk, begin).lsn
    if first_lsn_of(disk) == FIRST_LSN and not lsn_at(disk, begin.time):
        # Nothing was before it, so nothing is missing.
        return FIRST_LSN
    return event_of(path, disk, begin).lsn + 1


def _choose(
    path: Path,
    disk: Disk,
    request: Request,
    *,
    until: int | None = None,
    excluded: "array[int] | None" = None,
) -> Chosen:
    def note(text: str) -> None:
        # The second search says it.
        if until is None:
            click.echo(text, err=True)

    begin = min(request.from_lsn, request.to_lsn)
    try:
        with progress("choosing", max(request.to_lsn - begin, 1)) as told:
            return choose(
                path, disk, request, note=note, until=until, excluded=excluded,
                progress=lambda lsn: told(max(lsn - begin, 0)),
            )  # fmt: skip
    except ValueError as error:
        raise click.UsageError(f"--filter: {error}") from error


# ---- the state file


def _default_file(begun: State) -> Path:
    told = msgspec.json.encode(begun)
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return home / "daybook" / "replays" / f"{sha256(told).hexdigest()[:16]}.json"


@contextmanager
def _locked(file: Path, begun: State, *, writes: bool) -> Iterator[State]:
    """Yield the state in the file, which no other process uses meanwhile; a new one if none.

    Raises Failure.
    """
    state = _loaded(file, begun)
    if not writes:
        yield state
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(
                f"another process runs this replay: {file} is in use; wait until it is done"
            ) from None
        yield _loaded(file, begun)
    finally:
        os.close(lock)


def _loaded(file: Path, begun: State) -> State:
    try:
        found = msgspec.json.decode(file.read_bytes(), type=State)
    except FileNotFoundError:
        return begun
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Failure(
            f"{file} is not the state of a replay: {error}; name another file, or delete it: what "
            "the addresses remember is not sent twice"
        ) from error
    to_lsn = begun.request.to_lsn or found.request.to_lsn
    asked = msgspec.structs.replace(begun.request, to_lsn=to_lsn)
    same = (begun.destination, begun.broker, begun.data_id, begun.name) == (
        found.destination, found.broker, found.data_id, found.name,
    )  # fmt: skip
    if found.version != STATE_VERSION or not same or asked != found.request:
        raise Failure(
            f"{file} is the state of another replay (to {found.destination} at {found.broker}); "
            "name another file with --state, or repeat that command to resume it"
        )
    return found


def _save(file: Path, state: State) -> None:
    made = file.with_name(file.name + ".new")
    try:
        with made.open("wb") as written:
            written.write(msgspec.json.format(msgspec.json.encode(state), indent=2) + b"\n")
            written.flush()
            os.fsync(written.fileno())
        made.replace(file)
    except OSError as error:
        with suppress(OSError):
            made.unlink(missing_ok=True)
        raise _Unsaved(
            f"{file}: {error.strerror}: the progress of the replay cannot be noted. Make room, or "
            "write access, and repeat the command: messages that are not noted are sent again, "
            "and dropped by "
            "an address that remembers its id"
        ) from error


# ---- sending


def _send(
    disk: Disk,
    messages: "array[int]",
    state: State,
    file: Path,
    endpoint: Endpoint,
    flags: dict[str, Any],
) -> None:
    """Send what is not confirmed yet. Raises Failure, after the progress was saved."""
    begin = bisect_left(messages, state.done + 1)
    try:
        check_remembers(endpoint, state.destination)
        with (
            StompClient(endpoint) as client,
            closing(LargeBodies(disk)) as bodies,
            progress("replaying", len(messages)) as told,
        ):
            sender = _Sender(client, state, lambda: _save(file, state), flags["rate"])
            try:
                source = _Source(disk, bodies, state, keep_expiry=flags["keep_expiry"])
                for number, (lsn, message) in enumerate(source.read(messages[begin:]), begin + 1):
                    sender.send(lsn, message)
                    told(number)
                sender.finish()
                state.is_complete = True
            finally:
                _save(file, state)
            client.disconnect()
    except (PublishError, StompError) as error:
        raise Failure(
            f"{error}. {state.sent:,} messages are sent and confirmed ({file}): repeat the command "
            "to resume"
        ) from error


class _Sender:
    """Sends with receipts, some at a time, and notes what is confirmed."""

    def __init__(
        self, client: StompClient, state: State, save: Callable[[], None], rate: float | None
    ) -> None:
        self._client: Final = client
        self._state: Final = state
        self._save: Final = save
        self._rate: Final = rate
        self._waiting: Final[deque[tuple[int, str]]] = deque()
        self._free_at = 0.0
        self._unsaved = 0

    def send(self, lsn: int, message: Message | None) -> None:
        """Send a message; None stands for one whose body is incomplete."""
        if message is None:
            self.finish()
            self._state.incomplete += 1
            self._state.done = lsn
            return
        self._pace()
        state = self._state
        origin = dict(message.headers)[REPLAY_OF]
        name = f"{state.name}:" if state.name else ""
        lines = [
            *message.lines(),
            (DUPLICATE_ID, f"daybook-replay:{name}{origin}>{state.destination}"),
            ("receipt-outcome", "true"),
        ]
        body = message.body
        if isinstance(body, bytes):
            whole = body
            body = Content(len(whole), lambda: iter([whole]))
        self._waiting.append((lsn, self._client.send_with_receipt(lines, body)))
        if len(self._waiting) >= WINDOW:
            self._confirm()

    def finish(self) -> None:
        """Wait for everything that was sent."""
        while self._waiting:
            self._confirm()

    def _confirm(self) -> None:
        lsn, receipt = self._waiting[0]
        self._client.wait_for(receipt)
        self._waiting.popleft()
        state = self._state
        dropped = self._client.outcomes.pop(receipt, {}).get("dropped", "")
        if dropped == DUPLICATE:
            state.duplicates += 1
        elif dropped:
            state.refused[dropped] = state.refused.get(dropped, 0) + 1
        else:
            state.sent += 1
        state.done = lsn
        self._unsaved += 1
        if self._unsaved >= SAVED_EVERY:
            self._save()
            self._unsaved = 0

    def _pace(self) -> None:
        if self._rate:
            now = time.monotonic()
            if self._free_at > now:
                # Messages confirmed meanwhile are noted, so that an interrupt loses little.
                self.finish()
                time.sleep(max(self._free_at - time.monotonic(), 0))
            self._free_at = max(self._free_at, now) + 1 / self._rate


class _Source:
    """Reads messages of history as they are sent again."""

    def __init__(self, disk: Disk, bodies: LargeBodies, state: State, *, keep_expiry: bool) -> None:
        self._disk: Final = disk
        self._bodies: Final = bodies
        self._state: Final = state
        self._keep_expiry: Final = keep_expiry
        self._ids: Final[dict[str, str]] = {}

    def read(self, messages: "array[int]") -> Iterator[tuple[int, Message | None]]:
        """Yield messages in order, None for one whose body is incomplete. Raises JournalError."""
        if not messages:
            return
        search = Search(
            Clause(lsns=messages), from_lsn=messages[0], to_lsn=messages[-1], bodies=True
        )
        for block in EventFinder(self._disk).blocks(search):
            for event in search.events_in(block):
                yield event.lsn, self._message(event, self._id_of(block.segment))

    def _id_of(self, segment: str) -> str:
        """Return the id of the data directory that a segment comes from: forks have two."""
        if segment not in self._ids:
            opened = open_segment(self._disk, segment)
            opened.close()
            self._ids[segment] = opened.header.data_id.hex()
        return self._ids[segment]

    def _message(self, event: Event, data_id: str) -> Message | None:
        row = event.row
        body: bytes | Content
        pairs, body = content_of(event.lsn, row[FLAGS], event.headers, event.body or b"")
        detail = events.routed_detail(event.detail)
        if row[FLAGS] & events.LARGE:
            if not self._bodies.is_whole(event.detail):
                # Before anything is sent: half a message cannot be taken back.
                return None
            body = Content(detail.body_bytes, partial(self._bodies.pieces, event.detail))
        kept = tuple(pair for pair in pairs if pair[0] != REPLAY_OF)
        return Message(
            self._state.destination, body, (*kept, (REPLAY_OF, f"{event.lsn}@{data_id}")),
            row[PRIORITY], bool(row[FLAGS] & events.PERSISTENT),
            detail.expires if self._keep_expiry else 0,
        )  # fmt: skip


# ---- reporting


def _report(
    chosen: Chosen, begun: State, run: State, state: State, file: Path, flags: dict[str, Any]
) -> None:
    """Print what was chosen, and what this run sent; `begun` has the counts of the runs before."""
    left, earlier = _left(chosen, state), begun.sent + begun.duplicates
    told: dict[str, Any] = {
        "destination": state.destination, "broker": state.broker, "data_id": state.data_id,
        "from_lsn": state.request.from_lsn, "to_lsn": state.request.to_lsn,
        "messages": len(chosen.messages), "bytes": chosen.bytes, "large": chosen.large,
        "addresses": dict(chosen.addresses), "left_out_copies": chosen.copies,
        "unjournaled": chosen.unjournaled, "redacted": chosen.redacted, "left": left,
        "sent": run.sent,
        "sent_before": earlier, "duplicates": run.duplicates, "incomplete": run.incomplete,
        "refused": run.refused, "taken_up_to": state.before,
        "state_file": str(file),
    }  # fmt: skip
    if flags["as_json"]:
        show_json(told)
        return
    if chosen.addresses:
        rows = sorted(Counter(chosen.addresses).items(), key=lambda row: -row[1])
        show_table(("address", "messages"), rows, "messages that were sent to")
    click.echo(
        f"{len(chosen.messages):,} messages with {chosen.bytes:,} bytes of bodies, of events "
        f"{state.request.from_lsn:,} to {state.request.to_lsn:,}"
    )
    if state.before:
        click.echo(f"what was chosen up to event {state.before:,} is left out: it was sent before")
    if chosen.copies:
        click.echo(f"{chosen.copies:,} copies and replays are left out; --copies takes them, too")
    if chosen.unjournaled:
        click.echo(f"{chosen.unjournaled:,} cannot be sent: their content was never journaled")
    if chosen.redacted:
        click.echo(f"{chosen.redacted:,} cannot be sent: their content was left out of this export")
    if not flags["sends"]:
        done = f"; {earlier:,} were sent before, and {left:,} are left" if earlier else ""
        click.echo(f"nothing was sent{done}; --send sends to {state.destination} at {state.broker}")
        return
    before = f"; {earlier:,} were sent before" if earlier else ""
    click.echo(f"sent {run.sent:,} to {state.destination} at {state.broker}{before}")
    if run.duplicates:
        click.echo(f"{run.duplicates:,} were there already, from an earlier attempt")
    for reason, count in run.refused.items():
        click.echo(f"{count:,} were dropped by the broker: {reason}")
    if run.incomplete:
        click.echo(f"{run.incomplete:,} were not sent: parts of their bodies left the journal")
