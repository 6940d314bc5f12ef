"""Integrity: the reports of verifications, audits and drills, how far history is signed, anchored
and archived, and checks that are begun here.

A check is carried out by the functions of `journal verify` and `journal audit` (`jobs.checks`). Who
may begin or cancel one, the broker says each time. Must never know how a check works.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.responses import RedirectResponse, Response, StreamingResponse

from daybook.client.control import ControlError
from daybook.console.brokers import Identity, NotRunning
from daybook.console.console_config import ConsoleError
from daybook.console.jobs.checks import audit_asked, verify_asked
from daybook.console.jobs.long_jobs import AlreadyRunning, LongJob
from daybook.console.rendering import render
from daybook.console.visits import (
    BAD_REQUEST,
    FORBIDDEN,
    NEWEST,
    UNAVAILABLE,
    Page,
    Refused,
    Visit,
    checked_form,
    without_broker,
)
from daybook.history.reports.report import AUDIT, VERIFY
from daybook.history.verification.journal_verification import why_not_begin

CONFLICT: Final = 409
STREAMS_MAX: Final = 100
"""How many pages follow a check at a time; more must be loaded again by hand."""
SILENCE_SECONDS: Final = 20.0
SIGNING: Final = (
    "signing_key", "signed_lsn", "signing_trouble", "anchored_lsn", "anchor_trouble", "archive",
    "history_from_lsn", "durable_lsn", "retention_trouble", "retention_held_back",
)  # fmt: skip
"""What the status of a broker says about signatures, anchors and the archive."""
PARTS: Final = ("newest", "sound", "reports")
"""The parts of the page, and their templates, that the end of a check changes."""

_streams: set[int] = set()


@without_broker
async def integrity(visit: Visit) -> Response:
    """Show what is known, and the check that runs."""
    if visit.at:
        # Reports are of now, whatever moment other pages show.
        return RedirectResponse(visit.url("integrity"), 303)
    job = visit.console.long_jobs.of(visit.broker.name)
    is_checked = job is not None and job.is_running
    told = await visit.history("integrity")
    status, trouble = await _status(visit)
    if is_checked and job is not None and not job.is_running:
        # It ended meanwhile: a page with its result has its report, too.
        told = await visit.history("integrity")
    may = _seems_to_manage(visit)
    return visit.page(
        "integrity.html", title="Integrity", told=told, status=status, trouble=trouble,
        may=may, why_not="" if may else _why_not(visit.identity),
        job=visit.console.long_jobs.of(visit.broker.name),
        command=visit.journal("reports", "--data", str(visit.broker.directory)),
    )  # fmt: skip


async def _status(visit: Visit) -> tuple[dict[str, Any], str]:
    """Return what the broker says about signatures and the archive, or why it says nothing."""
    try:
        status = await visit.broker.look(visit.identity, {"do": "status"})
    except NotRunning:
        return _signing({}), "no broker runs, so nobody says where anchors and the archive are"
    except ControlError as error:
        return _signing({}), str(error)
    return _signing(status), ""


def _signing(status: dict[str, Any]) -> dict[str, Any]:
    return {key: status.get(key) for key in SIGNING}


def _seems_to_manage(visit: Visit) -> bool:
    """Whether to show the forms; a form that is sent is judged again."""
    return visit.identity.is_operator or visit.identity.manages


def _why_not(identity: Identity) -> str:
    """Return why a user who does not manage everything sees no forms, and can send none."""
    return (
        f"user '{identity.user}' may not begin or cancel a check; that needs the permission"
        " 'manage' for all addresses"
    )


@without_broker
async def report(visit: Visit) -> Response:
    """Show one report."""
    name = visit.query.get("name", "")
    told = await visit.history("report", name=name)
    return visit.page(
        "report.html", is_of_moment=False, title=f"Report {name}", told=told,
        command=visit.journal("reports", "--data", str(visit.broker.directory), "--report", name),
    )  # fmt: skip


async def run(visit: Visit) -> Response:
    """Begin a check."""
    fields = dict(await checked_form(visit))
    by = await _manager(visit)
    kind = fields.get("kind", "")
    if kind not in (VERIFY, AUDIT):
        raise Refused(BAD_REQUEST, f"kind must be {VERIFY} or {AUDIT}")
    directory = visit.broker.directory
    assert directory is not None
    if kind == VERIFY:
        arguments: dict[str, Any] = {
            "resumes": fields.get("scope") == "resume", "with_index": "index" in fields,
            "begin": _lsn(fields.get("from", "")) or 0,
            **_proofs(visit, fields),
        }  # fmt: skip
        asked = verify_asked(directory, arguments)
        if asked.begin and (why := asked.why_not_from()):
            raise Refused(BAD_REQUEST, f"{why}: choose one of them")
        await _check_begin(visit, asked.begin)
        command = asked.command()
    else:
        arguments = {"begin": _lsn(fields.get("from", "")), **_archive(visit, fields)}
        command = audit_asked(directory, arguments).command()
    try:
        job = LongJob(kind, command, by)
        visit.console.long_jobs.start(visit.broker.name, job, str(directory), arguments)
    except AlreadyRunning as error:
        raise Refused(CONFLICT, str(error)) from error
    return RedirectResponse(visit.url("integrity"), 303)


def _archive(visit: Visit, fields: dict[str, str]) -> dict[str, Any]:
    """Return the archive to begin with: the one that the console's configuration names."""
    known = visit.broker.proofs.archive
    return {"archive": known, "with_archive": True} if known and "archive" in fields else {}


def _proofs(visit: Visit, fields: dict[str, str]) -> dict[str, Any]:
    """Return what must prove history: files that the console's configuration names, never one
    that a browser names."""
    known = visit.broker.proofs
    return _archive(visit, fields) | {
        "public_keys": known.public_keys if "keys" in fields else (),
        "anchors": known.anchors if "anchors" in fields else (),
    }


def _lsn(text: str) -> int | None:
    """Return the event with which a check begins, None for the beginning. Raises Refused."""
    plain = text.strip().replace(",", "")
    if not plain:
        return None
    if not (plain.isascii() and plain.isdigit() and len(plain) < 19):
        raise Refused(BAD_REQUEST, f"from must be the number of an event, and is {text[:40]!r}")
    return int(plain)


async def _check_begin(visit: Visit, begin: int) -> None:
    """Refuse a verification from an event on that the journal does not have yet. Raises Refused."""
    if not begin:
        return
    last = (await visit.history("moment", lsn=NEWEST))["lsn"]
    if why := why_not_begin(begin, last):
        raise Refused(BAD_REQUEST, why)


async def cancel(visit: Visit) -> Response:
    """Cancel the check that runs."""
    await checked_form(visit)
    await visit.console.long_jobs.cancel(visit.broker.name, await _manager(visit))
    return RedirectResponse(visit.url("integrity"), 303)


async def _manager(visit: Visit) -> str:
    """Return who asks, if the broker says now that this user manages everything. Raises Refused,
    ControlError."""
    identity = visit.identity
    if visit.broker.directory is None:
        raise Refused(BAD_REQUEST, "the journal of this broker is on another machine")
    if not identity.is_operator:
        try:
            identity = await visit.broker.identify(identity.user, identity.peer)
        except NotRunning:
            raise Refused(
                UNAVAILABLE,
                f"no broker runs that could say whether user '{identity.user}' may do this; the"
                " operator may, by the link that `daybook console --link` prints",
            ) from None
        if not identity.manages:
            raise Refused(FORBIDDEN, _why_not(identity))
    return f"{identity.shown} from {identity.peer}"


@without_broker
async def live(visit: Visit) -> Response:
    """Send the check that runs again whenever it is further, and what is known when it is over
    (server-sent events). `shown` is when the check began whose end the page shows already."""
    await visit.renew()
    if not visit.sees_history or len(_streams) >= STREAMS_MAX:
        return Response(status_code=204)
    return StreamingResponse(_events(visit, visit.number("shown")), media_type="text/event-stream")


async def _events(visit: Visit, shown: int) -> AsyncIterator[bytes]:
    jobs = visit.console.long_jobs
    _streams.add(id(visit))
    try:
        while True:
            job = jobs.of(visit.broker.name)
            yield _event(visit, job)
            ended = job.begun_us if job is not None and not job.is_running else shown
            if ended != shown and (known := await _known(visit)):
                yield known
                shown = ended
            try:
                async with asyncio.timeout(SILENCE_SECONDS), jobs.changed:
                    await jobs.changed.wait()
            except TimeoutError:
                yield b": still here\n\n"
            if not await _still_sees(visit):
                yield b"event: over\ndata: \n\n"
                return
    finally:
        _streams.discard(id(visit))


async def _still_sees(visit: Visit) -> bool:
    if visit.console.session_of(visit.request, uses=False) is not visit.session:
        return False
    try:
        await visit.renew()
    except (ControlError, ConsoleError):
        # Somebody who may not see this any more hears why when the page is loaded again.
        return False
    return visit.sees_history


def _event(visit: Visit, job: LongJob | None) -> bytes:
    may = _seems_to_manage(visit)
    return _sent("job", visit=visit, job=job, may=may, csrf=visit.session.csrf)


async def _known(visit: Visit) -> bytes:
    """Return the parts of the page that a check changes when it is over; none of them if the
    history cannot be read now: the stream asks again."""
    try:
        told = await visit.history("integrity")
    except (ControlError, ConsoleError):
        return b""
    return b"".join(_sent(part, visit=visit, told=told) for part in PARTS)


def _sent(part: str, **values: Any) -> bytes:
    """Return the event with a part of the page."""
    text = render(f"{part}.html", **values)
    lines = "\n".join(f"data: {line}" for line in text.splitlines())
    return f"event: {part}\n{lines}\n\n".encode()


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/integrity", integrity, ["GET"]), ("/integrity/run", run, ["POST"]),
    ("/integrity/cancel", cancel, ["POST"]), ("/integrity/live", live, ["GET"]),
    ("/report", report, ["GET"]),
)  # fmt: skip
