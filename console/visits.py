"""A visit: one request of a browser, with the session, the broker and the moment that it is about.

A page asks through it: `look` gives what is, from the broker, or what was, from the history, by the
same requests. Without a running broker the newest state that the journal has is shown. Must never
know a single page.
"""

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from daybook.client.control import ControlError
from daybook.console.brokers import Answer, Broker, Identity, NotRunning
from daybook.console.console import Console
from daybook.console.console_config import AskerError, ConsoleError
from daybook.console.menu import (
    CLUSTER,
    EVERYBODY,
    LISTS,
    MANAGES,
    READS,
    SEES,
    groups_of,
    withheld,
)
from daybook.console.rendering import render
from daybook.console.sessions import Session
from daybook.times import parse_time

THEME: Final = "theme"
RENEWS: Final = "x-renews"
"""The header of a page that renews itself."""
FORM_BYTES_MAX: Final = 64 * 1024
FIELDS_MAX: Final = 200
FORM_SECONDS: Final = 10.0
DIGITS_MAX: Final = 19
OF_SESSION: Final = frozenset({"csrf", "once", "confirmed", "back", "at"})
"""Fields and parts of a URL that are not what somebody filled in: tokens of a session, and what a
button or a link says."""
TARGET_CHARS_MAX: Final = 4_000
"""The longest URL to which a login leads with the fields of a form; a longer form is empty then."""
NEWEST: Final = (1 << 62) - 1
"""The moment behind all events."""

BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
TOO_LARGE: Final = 413
UNAVAILABLE: Final = 503

UNSENT: Final = "the console did not send the request"
"""Says that a form changed nothing."""

STATUSES: Final = {"not-allowed": FORBIDDEN, "not-found": NOT_FOUND}
"""The status of HTTP for a refusal of the broker; others are mistakes of the asker."""

Page: TypeAlias = Callable[["Visit"], Awaitable[Response]]

_WITHOUT_BROKER: Final[set[Page]] = set()


def without_broker(page: Page) -> Page:
    """Let a page be shown while the broker does not answer: it is about the history, or about what
    the console knows itself."""
    _WITHOUT_BROKER.add(page)
    return page


def is_silent(error: ControlError) -> bool:
    """Whether the broker said nothing: it does not run, or does not answer."""
    return not error.code


def status_of(error: ControlError) -> int:
    """Return the status of HTTP for an error of asking the broker."""
    return UNAVAILABLE if is_silent(error) else STATUSES.get(error.code, BAD_REQUEST)


def failure(error: ConsoleError | ControlError) -> tuple[int, str]:
    """Return the status of HTTP and the words for an error."""
    if isinstance(error, NotRunning):
        return UNAVAILABLE, f"{error}; start it with `daybook serve`"
    if isinstance(error, ControlError):
        return status_of(error), str(error)
    if isinstance(error, Refused):
        return error.status, str(error)
    return BAD_REQUEST if isinstance(error, AskerError) else UNAVAILABLE, str(error)


def mistake(error: ConsoleError | ControlError) -> str:
    """Return the words for what the asker typed wrong, to be shown beside the form. Raises any
    other error again."""
    status, text = failure(error)
    if status != BAD_REQUEST:
        raise error
    return text


class Refused(ConsoleError):
    """A request of a browser is refused; `status` is that of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status: Final = status


class Visit:
    """One request of a browser that is logged in at a broker."""

    def __init__(
        self, console: Console, request: Request, session: Session, broker: Broker
    ) -> None:
        self.console: Final = console
        self.request: Final = request
        self.session: Final = session
        self.broker: Final = broker
        self.identity: Identity = session.identities[broker.name]
        self.query: Final = request.query_params
        self.at: Final = _number(self.query.get("at", "0"), "at")
        self.is_running = True
        self.now: Final = time.time_ns() // 1000
        self.commands: frozenset[str] | None = None
        self.seen: tuple[str, ...] = ()
        self.sees_some = False
        self.shown_lsn = 0

    @property
    def is_live(self) -> bool:
        """Whether a running broker is shown, as it is now, as far as this visit has found out."""
        return self.is_running and not self.at

    @property
    def sees_history(self) -> bool:
        """Whether the history of this broker is there, and may be seen."""
        has_right = self.identity.is_operator or self.identity.sees
        return self.broker.directory is not None and has_right

    def rights(self) -> set[str]:
        """Return what the user may see, for links. Of a user of a broker on another machine
        that is not known here: lists are offered, and the broker decides."""
        identity = self.identity
        sees_all = bool(self.broker.url) or identity.is_operator
        rights = {
            EVERYBODY: True, SEES: sees_all or identity.sees,
            LISTS: sees_all or identity.sees or self.sees_some,
            MANAGES: sees_all or identity.manages, READS: self.sees_history,
            CLUSTER: self.broker.is_node and (identity.is_operator or identity.sees),
        }  # fmt: skip
        return {right for right, has_it in rights.items() if has_it}

    def number(self, name: str, default: int = 0) -> int:
        """Return a number of the query. Raises Refused."""
        return _number(self.query.get(name) or str(default), name)

    def may(self, command: str) -> bool:
        """Whether the broker would let the user use a command here, as far as it said so."""
        return self.commands is None or command in self.commands

    @property
    def is_silent(self) -> bool:
        """Whether the broker runs, and did not answer when the console asked it last."""
        samples = self.console.samples.get(self.broker.name)
        return samples is not None and samples.is_silent

    async def begin(self, page: Page) -> None:
        """Learn what the user may do, for a page. Raises ControlError if the broker does not
        answer, and the page needs that."""
        try:
            if page in _WITHOUT_BROKER and self.is_silent and not self.identity.is_operator:
                self.commands = frozenset()
            else:
                await self.learn()
        except ControlError:
            if page not in _WITHOUT_BROKER:
                raise
            self.commands = frozenset()

    async def learn(self, **place: str) -> bool:
        """Ask the broker which commands the user may use at a queue and address, or at any place,
        and return whether it said so; the operator may use all. A broker that does not run offers
        nothing: pages say so. Raises ControlError if one runs and does not answer."""
        if self.identity.is_operator or self.at:
            return True
        try:
            told = await self.broker.look(self.identity, {"do": "commands"} | place)
        except ControlError as error:
            if is_silent(error) and not isinstance(error, NotRunning):
                # Whatever the page would ask next would wait as long, too.
                raise
            self.commands = frozenset()
            return False
        self.commands = frozenset(each["command"] for each in told["commands"])
        # A broker on another machine may be older, and say nothing of them.
        self.seen = self.seen or tuple(told.get("seen", ()))
        self.sees_some = self.sees_some or told.get("sees_some", False)
        return True

    async def look(self, request: Answer) -> Answer:
        """Return the answer to a request that reads: now, or at the moment of this visit. Raises
        ControlError and ConsoleError."""
        if self.at:
            return await self._look_back(await self.bound(), request)
        try:
            return await self.broker.look(self.identity, request)
        except NotRunning:
            self.is_running = False
            if not self.sees_history:
                raise
        newest = await self.history("moment", lsn=NEWEST)
        self.shown_lsn = newest["lsn"]
        return await self._look_back(self.shown_lsn, request)

    async def bound(self) -> int:
        """Return the moment of this visit, for the page to say, too; the journal may end before.
        Raises ConsoleError."""
        self.shown_lsn = min(self.at, (await self.history("moment", lsn=NEWEST))["lsn"])
        return self.shown_lsn

    async def _look_back(self, lsn: int, request: Answer) -> Answer:
        holds = f"{self.broker.name}@{lsn}"
        answer: Answer = await self.history("look", holds=holds, lsn=lsn, request=request)
        return answer

    async def history(self, job: str, *, holds: str = "", **arguments: Any) -> Any:
        """Return the answer of a job on the history. Raises ConsoleError, which Refused is."""
        await self.renew()
        self.need_history()
        arguments |= {"directory": str(self.broker.directory)}
        who = f"{self.broker.name}/{self.identity.user}"
        return await self.console.pool.do(job, arguments, holds=holds, who=who)

    def need_history(self) -> None:
        """Raise Refused if there is no history of this broker here, or if the user may not see
        it."""
        if self.broker.directory is None:
            raise Refused(
                NOT_FOUND,
                f"the history of {self.broker.name} is on another machine; run `daybook console`"
                " there",
            )
        if not self.sees_history:
            raise Refused(
                FORBIDDEN,
                f"user '{self.identity.user}' may not see the history; that needs the permission"
                " 'browse' for all addresses, which this user does not have",
            )

    async def renew(self) -> None:
        """Learn what the user may see now; a broker that does not run, or does not answer, says
        nothing newer. Raises ControlError."""
        identity = self.identity
        if identity.is_operator or identity.token or self.is_silent:
            return
        try:
            renewed = await self.broker.identify_lately(identity)
        except ControlError as error:
            if not is_silent(error):
                raise
            return
        self.session.identities[self.broker.name] = renewed
        self.identity = renewed

    def journal(self, *words: str) -> str:
        """Return a command about the history."""
        return shlex.join(["journal", *words])

    def inspect(self, *words: str) -> str:
        """Return the command that shows a part of the journal."""
        return self.journal("inspect", "--data", str(self.broker.directory), *words)

    def url(self, path: str = "") -> str:
        """Return the URL of a page of this broker."""
        return f"/b/{quote(self.broker.name)}{'/' if path else ''}{path}"

    def page(
        self,
        template: str,
        *,
        title: str,
        code: int = 200,
        is_of_moment: bool = True,
        **values: Any,
    ) -> Response:
        """Return a page of this broker; one about all of history is not `is_of_moment`."""
        others = [(key, value) for key, value in self.query.multi_items() if key != "at"]
        here_now = self.request.url.path + (f"?{urlencode(others)}" if others else "")
        text = render(
            template, title=title, visit=self, broker=self.broker, identity=self.identity,
            at=self.at if is_of_moment else 0, here_now=here_now, csrf=self.session.csrf,
            theme=self.request.cookies.get(THEME, ""),
            brokers=self.console.brokers, here=self.request.url.path,
            pages=groups_of(self.rights(), is_live=self.is_live), withheld=withheld(self.rights()),
            whole=self.request.url.path + _tail(self.request), **values,
        )  # fmt: skip
        return HTMLResponse(text, code)


def _tail(request: Request) -> str:
    return f"?{request.url.query}" if request.url.query else ""


def _number(text: str, name: str) -> int:
    plain = text.replace(",", "")
    is_number = plain.isascii() and plain.isdigit() and len(plain) <= DIGITS_MAX
    if not is_number or int(plain) > NEWEST:
        raise Refused(BAD_REQUEST, f"{name} must be a whole number, and is {text[:40]!r}")
    return int(plain)


def time_in(text: str) -> int:
    """Return a time that people wrote in microseconds since 1970; without a zone it is UTC. Raises
    Refused."""
    try:
        found = parse_time(text, datetime.now(UTC))
    except ValueError as error:
        raise Refused(BAD_REQUEST, str(error)) from None
    if found < 0:
        raise Refused(BAD_REQUEST, f"'{text[:40]}' is before all events")
    return found


async def form_of(request: Request) -> list[tuple[str, str]]:
    """Return the fields of a form, in order. Raises Refused."""
    body = bytearray()
    try:
        async with asyncio.timeout(FORM_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > FORM_BYTES_MAX:
                    raise Refused(TOO_LARGE, f"a form has at most {FORM_BYTES_MAX:,} bytes")
    except TimeoutError:
        raise Refused(BAD_REQUEST, "the form did not arrive in time; send it again") from None
    except ClientDisconnect:
        raise Refused(BAD_REQUEST, "the form did not arrive; send it again") from None
    try:
        return parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict"
        )
    except UnicodeError as error:
        text = "this is not a form: its text must be UTF-8, with percent signs"
        raise Refused(BAD_REQUEST, text) from error
    except ValueError as error:
        raise Refused(BAD_REQUEST, f"a form has at most {FIELDS_MAX} fields") from error


def check_origin(request: Request) -> None:
    """Refuse a form that another site sends. Raises Refused."""
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    host = request.headers.get("host", "")
    # A proxy in front may speak TLS where the console does not.
    own = (None, f"{request.url.scheme}://{host}", f"https://{host}")
    if site not in ("same-origin", "none") or origin not in own:
        raise Refused(FORBIDDEN, "this form came from another site; open the page here instead")


async def checked_form(visit: Visit) -> list[tuple[str, str]]:
    """Return the fields of a form of this session. Raises Refused."""
    check_origin(visit.request)
    fields = await form_of(visit.request)
    tokens = [value for name, value in fields if name == "csrf"]
    if len(tokens) != 1 or not visit.session.has_token(tokens[0]):
        raise Refused(FORBIDDEN, "this form is not of your session; load the page again")
    return [(name, value) for name, value in fields if name != "csrf"]


async def target_of(request: Request, *, is_shown: bool) -> str:
    """Return where a login leads: to the page that was asked for, or to the form that was sent,
    with its fields and without those of the session that is over. Nothing is carried out: the form
    is shown, to be sent again. A path that only takes forms, not `is_shown`, has them on the page
    above it."""
    path = request.url.path
    if request.method == "GET":
        return path + _tail(request)
    if not is_shown:
        return path.rpartition("/")[0]
    try:
        check_origin(request)
        fields = await form_of(request)
    except Refused:
        return path
    kept = [(name, value) for name, value in fields if name not in OF_SESSION]
    target = f"{path}?{urlencode(kept)}"
    return target if kept and len(target) <= TARGET_CHARS_MAX else path


def endpoint(
    console: Console, page: Page, *, is_shown: bool = True
) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a page of a broker, which leads to the login without a session there.
    `is_shown` if its path can be opened, too, and does not only take forms."""

    async def serve(request: Request) -> Response:
        broker = console.brokers.get(request.path_params["broker"])
        # A page that renews itself does not keep its session alive.
        session = console.session_of(request, uses=RENEWS not in request.headers)
        if session is None or broker is None or broker.name not in session.identities:
            # The same whether there is such a broker or not.
            target = quote(await target_of(request, is_shown=is_shown), safe="")
            named = quote(request.path_params["broker"], safe="")
            return RedirectResponse(f"/login?broker={named}&next={target}", 303)
        return await answered(console, request, lambda: _begun(console, request, session, broker))

    async def _begun(
        console: Console, request: Request, session: Session, broker: Broker
    ) -> Response:
        visit = Visit(console, request, session, broker)
        has_begun = False
        try:
            await visit.begin(page)
            has_begun = True
            return await page(visit)
        except (ConsoleError, ControlError) as error:
            status, text = failure(error)
            if request.method == "POST" and not has_begun:
                text += f"; {UNSENT}"
            # Only a broker that does not answer changes by itself: not the rights of a user, nor a
            # name that was typed. A form is not sent again.
            renews = status == UNAVAILABLE and request.method == "GET" and not visit.at
            return visit.page(
                "refused.html", title="Not possible", code=status, text=text, renews=renews
            )

    return serve


async def answered(
    console: Console, request: Request, work: Callable[[], Awaitable[Response]]
) -> Response:
    """Return the response of a page, or a page about the error."""
    try:
        return await work()
    except (ConsoleError, ControlError) as error:
        status, text = failure(error)
    values = {"theme": request.cookies.get(THEME, ""), "brokers": console.brokers}
    return HTMLResponse(
        render("error.html", title="Not possible", text=text, status=status, **values), status
    )
