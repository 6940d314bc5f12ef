"""Logging in and out: by a login of the broker, by a token of a broker elsewhere, or by the link
that `daybook console` printed for the operator.

Must never know what a right is: the broker says whether a login is right, and slows down those who
guess, by the address of the browser; for a broker elsewhere `brokers` does that.
"""

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from daybook.client.control import ControlError
from daybook.console.brokers import Identity, NotRunning
from daybook.console.console import Console, cookie_of
from daybook.console.rendering import render
from daybook.console.sessions import WHOLE_SECONDS, Session
from daybook.console.visits import (
    FORBIDDEN,
    THEME,
    Refused,
    answered,
    check_origin,
    form_of,
)

LINK_OVER = (
    "this link was used, or its ten minutes are over; start the console again, or log in with a"
    " user of the broker"
)


def routes(console: Console) -> list[Route]:
    """Return the routes of this page."""

    async def show(request: Request) -> Response:
        return _login_page(console, request, local(request.query_params.get("next", "/")))

    async def log_in(request: Request) -> Response:
        return await answered(console, request, lambda: _log_in(console, request))

    async def log_out(request: Request) -> Response:
        return await answered(console, request, lambda: _log_out(console, request))

    async def enter(request: Request) -> Response:
        return await answered(console, request, lambda: _enter(console, request))

    return [
        Route("/login", show),
        Route("/login", log_in, methods=["POST"]),
        Route("/logout", log_out, methods=["POST"]),
        Route("/enter/{secret}", enter),
    ]


def local(path: str) -> str:
    """Return a path of this console, whatever a link asks for."""
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_local and "\\" not in path else "/"


def peer_of(request: Request) -> str:
    """Return where a browser is, as ADDRESS:PORT."""
    client = request.client
    if client is None:
        return "unknown:0"
    host = f"[{client.host}]" if ":" in client.host else client.host
    return f"{host}:{client.port}"


def _login_page(
    console: Console, request: Request, target: str, *, why: str = "", login: str = ""
) -> Response:
    named = request.query_params.get("broker", "")
    text = render(
        "login.html", title="Log in", brokers=console.brokers, named=named, target=target,
        why=why, login=login, theme=request.cookies.get(THEME, ""),
    )  # fmt: skip
    return HTMLResponse(text, FORBIDDEN if why else 200)


async def _log_in(console: Console, request: Request) -> Response:
    check_origin(request)
    fields = dict(await form_of(request))
    broker = console.brokers.get(fields.get("broker", ""))
    target = local(fields.get("next", "/"))
    login, passcode = fields.get("login", ""), fields.get("passcode", "")
    if broker is None:
        return _login_page(console, request, target, why="choose a broker", login=login)
    if not login or not passcode:
        return _login_page(
            console, request, target, why="a login and a passcode are needed", login=login
        )
    try:
        identity = await broker.log_in(login, passcode, peer_of(request))
        if not broker.url:
            identity = await broker.identify(identity.user, identity.peer)
    except NotRunning as error:
        why = f"{error}, so nobody can log in; the link that `daybook console` prints works"
        return _login_page(console, request, target, why=why, login=login)
    except ControlError as error:
        return _login_page(console, request, target, why=str(error), login=login)
    if target == "/":
        target = f"/b/{broker.name}"
    return _entered(console, request, broker.name, identity, target)


async def _enter(console: Console, request: Request) -> Response:
    if not console.sessions.take_link(request.path_params["secret"]):
        raise Refused(FORBIDDEN, LINK_OVER)
    operator = Identity("", peer_of(request), sees=True, manages=True)
    local_ones = [name for name, each in console.brokers.items() if each.directory is not None]
    response = _entered(console, request, local_ones[0], operator, "/")
    session = response.session
    session.identities.update(dict.fromkeys(local_ones, operator))
    return response


class _Entered(RedirectResponse):
    """The response that begins a session."""

    def __init__(self, url: str, session: Session) -> None:
        super().__init__(url, 303)
        self.session = session


def _entered(
    console: Console, request: Request, broker: str, identity: Identity, target: str
) -> _Entered:
    before = console.session_of(request)
    cookie, session = console.sessions.begin(broker, identity, before)
    response = _Entered(target, session)
    response.set_cookie(
        cookie_of(request), cookie, max_age=int(WHOLE_SECONDS), httponly=True, samesite="strict",
        secure=console.config.is_secure,
    )  # fmt: skip
    return response


async def _log_out(console: Console, request: Request) -> Response:
    check_origin(request)
    fields = dict(await form_of(request))
    session = console.session_of(request)
    if session is not None and session.has_token(fields.get("csrf", "")):
        console.sessions.end(session)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(cookie_of(request))
    return response
