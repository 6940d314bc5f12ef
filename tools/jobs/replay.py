"""`daybook pipeline replay`: sends messages of history to a broker again, each exactly once.

Exit code 1 if a message could not be reassembled; 130 after Ctrl-C; the same command resumes.
"""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import click
import duckdb
import msgspec

from daybook.client.endpoint import Endpoint
from daybook.engine.names.names import HOST
from daybook.history.replays.progress_file import ProgressFile
from daybook.pipeline.engines import Engine
from daybook.pipeline.jobs.replay import Report, Survey, replay, survey
from daybook.pipeline.jobs.replay_state import (
    Request,
    State,
    check_id,
    check_same,
    condition_of,
    state_file,
)
from daybook.pipeline.publishing import ROWS_MAX, Publisher, PublishError, check_remembers
from daybook.pipeline.schema import ALL_COLUMNS, arrow_schema
from daybook.texts import moment
from daybook.tools.jobs.job import Job, engine_of, job_of
from daybook.tools.jobs.output import working
from daybook.tools.terminal.exit_codes import EXIT_INTERRUPTED, EXIT_WRONG
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.opening import refuse_redacted
from daybook.tools.terminal.printing import progress, show_json, show_table

HEADINGS: Final = (
    "address", "messages", "bytes", "not journaled", "first LSN", "last LSN", "from", "to",
)  # fmt: skip
PREFIXES: Final = ("/queue/", "/topic/", "/dsub/")
OPTIONAL: Final = ("not journaled", "from", "to", "first LSN")
"""Columns that a narrow terminal may omit."""


def run(endpoint: Endpoint, dry_run: bool, as_json: bool, **flags: Any) -> None:
    """Run the job."""
    job = job_of(flags)
    if flags["data"] is not None:
        refuse_redacted(flags["data"], "the messages would be sent empty")
    if job.selection.queues and not flags["into"]:
        raise click.UsageError(
            "--queue says which messages, not where they go: name it with --into, like "
            "--into ADDRESS::QUEUE for that queue alone"
        )
    _check_into(flags["into"])
    _check_where(flags["where"])
    given = _request(job, endpoint, flags)
    file, name = _state_file(flags)
    if dry_run:
        state = _state(file, name, given)
        with engine_of(job) as engine:
            found = _survey(engine, job, state)
        _show_survey(state, found, as_json)
        return
    with file.locked():
        state = _state(file, name, given)
        with engine_of(job) as engine:
            _run(engine, job, state, file, endpoint, flags, as_json)


def _check_into(into: str) -> None:
    """Refuse a name that would create a queue by mistake."""
    prefix = next((each for each in PREFIXES if into.startswith(each)), "")
    name = into.removeprefix(prefix)
    parts = name.split("::")
    strange = len(parts) > 2 or not all(parts) or (not prefix and len(parts) == 1 and "/" in name)
    if into and strange:
        raise click.UsageError(
            f"--into '{into}' is not a destination: write /queue/NAME, /topic/NAME, "
            f"ADDRESS::QUEUE, "
            "or a NAME without slashes"
        )


def _check_where(where: str) -> None:
    """Query an empty table first: a wrong condition is reported before history is read."""
    condition = condition_of(where)
    with duckdb.connect() as connection:
        connection.register("events", arrow_schema(ALL_COLUMNS).empty_table())
        try:
            connection.execute(f"EXPLAIN SELECT * FROM events WHERE {condition.sql}")
        except duckdb.Error as error:
            raise click.UsageError(f"--where '{where}': {_first_line(error)}") from error


def _first_line(error: duckdb.Error) -> str:
    return str(error).partition("\n")[0]


def _request(job: Job, endpoint: Endpoint, flags: dict[str, Any]) -> Request:
    selection = job.selection
    host = endpoint.virtual_host
    place = f"{endpoint.host}:{endpoint.port}"
    return Request(
        selection, place if host == HOST else f"{place}?virtual-host={host}",
        flags["where"], flags["into"], bool(selection.addresses or selection.queues),
        flags["keep_expiry"], flags["rows"] or 0, virtual_host=host,
    )  # fmt: skip


def _state_file(flags: dict[str, Any]) -> tuple[ProgressFile[State], str]:
    """Return the state file, and the name of the replay."""
    path: Path | None = flags["state_path"]
    name: str = flags["name"] or ""
    if not name and path is not None:
        found = state_file(path).load()
        name = found.id if found is not None else ""
    name = name or f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid4().hex[:8]}"
    check_id(name)
    if path is None:
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        path = Path(home) / "daybook" / "replay" / f"{name}.json"
    return state_file(path), name


def _state(file: ProgressFile[State], name: str, given: Request) -> State:
    """The state to resume from, or a new one."""
    state = file.load()
    if state is None:
        return State(name, given)
    if state.id != name:
        raise click.UsageError(
            f"{file.path} is of replay {state.id}, not of {name}; name another file or that replay"
        )
    check_same(state, given, file.path)
    return state


def _run(
    engine: Engine,
    job: Job,
    state: State,
    file: ProgressFile[State],
    endpoint: Endpoint,
    flags: dict[str, Any],
    as_json: bool,
) -> None:
    """Publish, and report the result."""
    _fill(state, flags["rate"])
    try:
        found = _survey(engine, job, state)
        report = _published(engine, job, state, found, file, endpoint, flags)
    except PublishError as error:
        raise Failure(f"{error}\n{_how_to_resume(state, file)}") from error
    except KeyboardInterrupt:
        click.echo(f"stopped; {_how_to_resume(state, file)}", err=True)
        sys.exit(EXIT_INTERRUPTED)
    _show_report(state, found, report, as_json)
    if report.incomplete:
        sys.exit(EXIT_WRONG)


def _published(
    engine: Engine,
    job: Job,
    state: State,
    found: Survey,
    file: ProgressFile[State],
    endpoint: Endpoint,
    flags: dict[str, Any],
) -> Report:
    """Publish what was found. Raises PublishError."""
    if not found.messages:
        return Report()
    click.echo(_announced(state, found), err=True)
    _check(endpoint, state, found)
    with (
        Publisher(
            endpoint, rate=flags["rate"] or 0.0, timeout=flags["timeout"], told=_say
        ) as publisher,
        progress("replaying", found.messages) as told,
    ):
        publisher.connect()
        return replay(engine, job.history, state, found, publisher, file, told)


def _survey(engine: Engine, job: Job, state: State) -> Survey:
    """Count the messages to send. The condition may fail on the content of a message."""
    try:
        with working("counting"):
            return survey(engine, job.history, state)
    except duckdb.Error as error:
        where = f" (--where '{state.request.where}')" if state.request.where else ""
        raise Failure(f"history cannot be asked: {_first_line(error)}{where}") from error


def _fill(state: State, rate: float | None) -> None:
    """Choose the size of transactions, once for all runs."""
    if not state.request.rows:
        rows = ROWS_MAX if rate is None else min(ROWS_MAX, max(1, int(rate)))
        state.request = msgspec.structs.replace(state.request, rows=rows)


def _check(endpoint: Endpoint, state: State, found: Survey) -> None:
    """Ask the broker whether it will detect duplicates. Raises PublishError."""
    into = state.request.into
    for destination in [into] if into else [each.address for each in found.addresses]:
        check_remembers(endpoint, destination)


def _say(text: str) -> None:
    click.echo(text, err=True)


def _how_to_resume(state: State, file: ProgressFile[State]) -> str:
    if not state.end_lsn:
        return "nothing was published"
    return (
        f"{state.published:,} messages are published, up to LSN {state.done_lsn}; the same command "
        f"with --id {state.id} resumes it ({file.path})"
    )


def _announced(state: State, found: Survey) -> str:
    where = state.request.into or "the addresses that they had"
    first = min(each.first_lsn for each in found.addresses)
    verb = "continues with" if state.end_lsn else "has"
    return (
        f"replay {state.id} {verb} {_messages(found.messages)} of LSN {first} to "
        f"{found.last_lsn}, into {where} at {state.request.broker}"
    )


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def _left_out(found: Survey) -> list[str]:
    """Return what is selected and not sent, as sentences."""
    said = []
    if found.omitted:
        said.append(
            f"{_messages(found.omitted)} cannot be sent: non-persistent bodies are not journaled"
        )
    if found.copies:
        said.append(
            f"{_messages(found.copies)} left out that the broker made (dead letters, expired): "
            "--address selects them by where they are"
        )
    return said


def _show_survey(state: State, found: Survey, as_json: bool) -> None:
    if as_json:
        show_json(
            {"id": state.id, "messages": found.messages, "omitted": found.omitted,
             "copies": found.copies, "addresses": found.addresses}
        )  # fmt: skip
        return
    if found.addresses:
        show_table(
            HEADINGS,
            [
                (each.address, each.messages, each.bytes, each.omitted, each.first_lsn,
                 each.last_lsn, moment(each.first_time), moment(each.last_time))
                for each in found.addresses
            ],
            optional=OPTIONAL,
        )  # fmt: skip
    for line in _left_out(found):
        click.echo(line, err=True)
    click.echo(f"{_messages(found.messages)} would be sent", err=True)


def _show_report(state: State, found: Survey, report: Report, as_json: bool) -> None:
    if as_json:
        show_json(
            {"id": state.id, "messages": found.messages, "published": report.published,
             "already": report.already, "incomplete": report.incomplete, "omitted": found.omitted,
             "copies": found.copies, "bytes": report.bytes, "done_lsn": state.done_lsn,
             "seconds": round(report.seconds, 3), "addresses": found.addresses}
        )  # fmt: skip
        return
    for line in _left_out(found):
        click.echo(line, err=True)
    if report.incomplete:
        click.echo(
            f"{_messages(report.incomplete)} could not be put together: chunks of their bodies "
            "have left history; name the archive that has them with --archive",
            err=True,
        )
    if not found.messages:
        click.echo("there is nothing to replay" if not state.end_lsn else "there is nothing new")
        return
    already = f", {report.already:,} were there already" if report.already else ""
    click.echo(
        f"published {_messages(report.published)}{already}, {report.bytes:,} bytes in "
        f"{report.seconds:.1f} s; replay {state.id} is done up to LSN {state.done_lsn}"
    )
