"""Running `journal replay`: chooses messages of history, counts them, and sends them (ADR 68).

Each message has a duplicate id made of its id, its data id and the destination, and the state file
says up to where all are confirmed. So an interrupted replay continues where it was, and what was
sent and not yet noted is recognised by the broker. Fault model: this process, the connection and
the broker may end at any moment; bodies may be missing from history.
"""

import os
import sys
import time
from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from contextlib import closing, nullcontext
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from daybook.client.bodies import Content
from daybook.client.endpoint import ClientError, Endpoint
from daybook.engine.facts import events
from daybook.engine.facts.events import FLAGS, PRIORITY
from daybook.history.moments import lsn_at
from daybook.history.replays.fate_words import REPLAY_OF
from daybook.history.replays.fates import Chosen, Request, choose
from daybook.history.replays.originals import LargeBodies, content_of, originals
from daybook.history.replays.progress_file import NotSaved, ProgressFile
from daybook.history.replays.spans import VERSION, Progress
from daybook.history.scan import Event
from daybook.journal.blocks.format import FIRST_LSN
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import data_id_of, first_lsn_of
from daybook.pipeline.publishing import DUPLICATE_ID, Message, PublishError, check_remembers
from daybook.texts import counted
from daybook.tools.history.past_states import found as event_of
from daybook.tools.history.replay_channels import ReplayChannel, connected
from daybook.tools.terminal.exit_codes import EXIT_WRONG
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.opening import history
from daybook.tools.terminal.printing import progress as progress_bar
from daybook.tools.terminal.printing import show_json, show_table

WINDOW: Final = 500
"""How many sends may wait for their receipts; far fewer than ids that an address remembers."""
SAVED_EVERY: Final = 500
DUPLICATE: Final = "duplicate"


def run(ctx: click.Context, path: Path, destination: str, flags: dict[str, Any]) -> None:
    """Count the chosen messages, and send them if asked to. Raises Failure and JournalError."""
    disk, _, _ = history(ctx, path, flags)
    endpoint: Endpoint = flags["endpoint"]
    begun = Progress(
        _request(path, disk, flags), destination, str(endpoint), data_id_of(disk).hex(),
        flags["name"],
    )  # fmt: skip
    file = ProgressFile(
        flags["state_file"] or _default_file(begun), Progress, VERSION,
        "delete it: messages that the addresses remember are not sent twice",
    )  # fmt: skip
    _loaded(file, begun)
    with file.locked() if flags["sends"] else nullcontext():
        progress = _loaded(file, begun)
        progress.fix_span(disk, may_extend=flags["end"] is None)
        chosen = progress.choose(partial(_choose, path, disk))
        begun = progress.copy()
        unsaved: NotSaved | None = None
        if flags["sends"] and progress.left(chosen):
            try:
                _send(disk, chosen.messages, progress, file, endpoint, flags)
            except NotSaved as error:
                unsaved = error
    _report(chosen, begun, progress, file.path, flags)
    if unsaved is not None:
        raise unsaved
    if progress.refused != begun.refused or progress.incomplete > begun.incomplete:
        sys.exit(EXIT_WRONG)


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
    until: int | None,
    excluded: "array[int] | None",
) -> Chosen:
    def note(text: str) -> None:
        # The second search says it.
        if until is None:
            click.echo(text, err=True)

    begin = min(request.from_lsn, request.to_lsn)
    try:
        with progress_bar("choosing", max(request.to_lsn - begin, 1)) as told:
            return choose(
                path, disk, request, note=note, until=until, excluded=excluded,
                progress=lambda lsn: told(max(lsn - begin, 0)),
            )  # fmt: skip
    except ValueError as error:
        raise click.UsageError(f"--filter: {error}") from error


def _default_file(begun: Progress) -> Path:
    told = msgspec.json.encode(begun)
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return home / "daybook" / "replays" / f"{sha256(told).hexdigest()[:16]}.json"


def _loaded(file: ProgressFile[Progress], begun: Progress) -> Progress:
    """Return the progress in the file, or that of a replay that begins. Raises Failure."""
    found = file.load()
    if found is not None and not found.is_of(begun):
        raise Failure(
            f"{file.path} is the state of another replay (to {found.destination} at "
            f"{found.broker}); name another file with --state, or repeat that command to resume it"
        )
    return found or begun


# ---- sending


def _send(
    disk: Disk,
    messages: "array[int]",
    state: Progress,
    file: ProgressFile[Progress],
    endpoint: Endpoint,
    flags: dict[str, Any],
) -> None:
    """Send what is not confirmed yet. Raises Failure, after the progress was saved."""
    begin = bisect_left(messages, state.done + 1)
    try:
        check_remembers(endpoint, state.destination)
        with (
            connected(endpoint) as client,
            closing(LargeBodies(disk)) as bodies,
            progress_bar("replaying", len(messages)) as told,
        ):
            sender = _Sender(client, state, lambda: file.save(state), flags["rate"])
            try:
                found = originals(disk, messages[begin:])
                for number, (event, data_id) in enumerate(found, begin + 1):
                    message = _message(
                        event, data_id, bodies, state.destination,
                        keep_expiry=flags["keep_expiry"],
                    )  # fmt: skip
                    sender.send(event.lsn, message)
                    told(number)
                sender.finish()
                state.is_complete = True
            finally:
                file.save(state)
            client.disconnect()
    except (PublishError, ClientError) as error:
        raise Failure(
            f"{error}. Sent and confirmed: {counted(state.sent, 'message')} ({file.path}); repeat"
            " the command to resume"
        ) from error


class _Sender:
    """Sends with receipts, some at a time, and notes what is confirmed."""

    def __init__(
        self, client: ReplayChannel, state: Progress, save: Callable[[], None], rate: float | None
    ) -> None:
        self._client: Final = client
        self._state: Final = state
        self._save: Final = save
        self._rate: Final = rate
        self._waiting: Final[deque[tuple[int, int]]] = deque()
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
        ]
        body = message.body
        if isinstance(body, bytes):
            whole = body
            body = Content(len(whole), lambda: iter([whole]))
        self._waiting.append((lsn, self._client.send(lines, body)))
        if len(self._waiting) >= WINDOW:
            self._confirm()

    def finish(self) -> None:
        """Wait for everything that was sent."""
        while self._waiting:
            self._confirm()

    def _confirm(self) -> None:
        lsn, number = self._waiting[0]
        dropped = self._client.dropped(number)
        self._waiting.popleft()
        state = self._state
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


def _message(
    event: Event, data_id: str, bodies: LargeBodies, destination: str, *, keep_expiry: bool
) -> Message | None:
    """Return a message as it is sent again; None if parts of its body left history."""
    row = event.row
    body: bytes | Content
    pairs, body = content_of(event.lsn, row[FLAGS], event.headers, event.body or b"")
    detail = events.routed_detail(event.detail)
    if row[FLAGS] & events.LARGE:
        if not bodies.is_whole(event.detail):
            # Before anything is sent: half a message cannot be taken back.
            return None
        body = Content(detail.body_bytes, partial(bodies.pieces, event.detail))
    kept = tuple(pair for pair in pairs if pair[0] != REPLAY_OF)
    return Message(
        destination, body, (*kept, (REPLAY_OF, f"{event.lsn}@{data_id}")), row[PRIORITY],
        bool(row[FLAGS] & events.PERSISTENT), detail.expires if keep_expiry else 0,
    )  # fmt: skip


# ---- reporting


def _report(
    chosen: Chosen, begun: Progress, state: Progress, file: Path, flags: dict[str, Any]
) -> None:
    """Print what was chosen, and what this run sent; `begun` has the counts of the runs before."""
    left, earlier, run = state.left(chosen), begun.sent + begun.duplicates, state.since(begun)
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
        f"{counted(len(chosen.messages), 'message')} with {counted(chosen.bytes, 'byte')} of "
        f"bodies, of events "
        f"{state.request.from_lsn:,} to {state.request.to_lsn:,}"
    )
    if state.before:
        click.echo(f"what was chosen up to event {state.before:,} is left out: it was sent before")
    if chosen.copies:
        click.echo(f"left out: {chosen.copies:,} of copies and replays; --copies takes them, too")
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
