"""The application: its routes, what holds for all of them, and what lives as long as it does.

Data flow: a request passes the guard, which refuses names of others and adds the headers that keep
a page from being misused; a route finds its page; `visits` finds the session. Must never know
what a page asks for.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from daybook.console.console import Console
from daybook.console.files import FILES
from daybook.console.hosts import Hosts
from daybook.console.pages import (
    cluster,
    deaths,
    entering,
    forms,
    growth,
    integrity,
    lists,
    manual,
    messages,
    overview,
    past,
    queries,
    rights,
    stories,
)
from daybook.console.rendering import render
from daybook.console.visits import (
    NOT_FOUND,
    THEME,
    Page,
    answered,
    check_origin,
    endpoint,
    form_of,
)
from daybook.server.administration.ways import command_line, way_of

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
MISDIRECTED: Final = 421
THEMES: Final = ("", "light", "dark")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def application(console: Console) -> "Guard":
    """Return the application of a console."""
    app = Starlette(
        routes=routes(console), lifespan=lambda _: console.living(),
        exception_handlers={404: _none, 405: _none, 500: _broken},
    )  # fmt: skip
    return Guard(app, console.hosts)


def routes(console: Console) -> list[Route]:
    """Return the routes of all pages."""

    async def home(request: Request) -> Response:
        return await _home(console, request)

    async def theme(request: Request) -> Response:
        return await answered(console, request, lambda: _choose_theme(console, request))

    return [
        Route("/", home),
        Route("/theme", theme, methods=["POST"]),
        Route("/static/{path:path}", static),
        *entering.routes(console),
        *(
            Route(
                f"/b/{{broker}}{path}",
                endpoint(console, page, is_shown=path in _opened(module.PAGES)),
                methods=methods,
            )
            for module in (
                overview,
                lists,
                messages,
                deaths,
                forms,
                rights,
                growth,
                cluster,
                stories,
                past,
                integrity,
                queries,
                manual,
            )
            for path, page, methods in module.PAGES
        ),
    ]


def _opened(pages: Iterable[tuple[str, Page, list[str]]]) -> set[str]:
    """Return the paths that can be opened; the others only take forms."""
    return {path for path, _, methods in pages if "GET" in methods}


async def _home(console: Console, request: Request) -> Response:
    session = console.session_of(request)
    if session is None or not session.identities:
        return RedirectResponse("/login", 303)
    if len(console.brokers) == 1:
        return RedirectResponse(f"/b/{next(iter(console.brokers))}", 303)
    text = render(
        "home.html", title="Brokers", brokers=console.brokers, samples=console.samples,
        identities=session.identities, theme=request.cookies.get(THEME, ""), csrf=session.csrf,
        asking=_commands(console),
    )  # fmt: skip
    return HTMLResponse(text)


def _commands(console: Console) -> list[str]:
    """Return the command for each broker that says whether it runs, and well."""
    found = way_of("health")
    assert found is not None
    asked = {"do": found.tag}
    return [command_line(found.way, asked, *each.options()) for each in console.brokers.values()]


async def _choose_theme(console: Console, request: Request) -> Response:
    """Choose light or dark; a choice needs no session, and changes nothing else."""
    check_origin(request)
    fields = dict(await form_of(request))
    theme = fields.get("theme", "")
    response = RedirectResponse(entering.local(fields.get("next", "/")), 303)
    response.set_cookie(
        THEME, theme if theme in THEMES else "", max_age=365 * 86400, samesite="strict",
        secure=console.config.is_secure, httponly=True,
    )  # fmt: skip
    return response


async def static(request: Request) -> Response:
    """Return a file of the console."""
    found = FILES.get(request.path_params["path"])
    return await _none(request, None) if found is None else found.answer(request)


async def _none(request: Request, error: Any) -> Response:
    text = render(
        "error.html", title="Not found", status=NOT_FOUND, theme=request.cookies.get(THEME, ""),
        text="there is no page here; begin with the overview", brokers={},
    )  # fmt: skip
    return HTMLResponse(text, NOT_FOUND)


async def _broken(request: Request, error: Exception) -> Response:
    """Answer a request that a mistake of the console ended; its log has the traceback."""
    text = render(
        "error.html", title="A mistake of the console", theme=request.cookies.get(THEME, ""),
        text="this page cannot be shown; the log of the console says why, and nothing was changed",
        status=500, brokers={},
    )  # fmt: skip
    return HTMLResponse(text, 500)


def _misdirected(request: Request) -> Response:
    """Answer a request for another name, which may be a trick of another site."""
    name = request.headers.get("host", "")[:100]
    text = render(
        "error.html", title="Unknown name", status=MISDIRECTED, theme="", brokers={},
        text=f"this console is not called '{name}'; if it should be, add the name to `names` in its"
        " configuration, or start it with --name",
    )  # fmt: skip
    return HTMLResponse(text, MISDIRECTED)


class Guard:
    """Refuses requests for names that are not of this console, and adds headers to each response:
    pages are never stored, nor put into frames of others."""

    def __init__(self, app: Starlette, hosts: Hosts) -> None:
        self._app: Final = app
        self._hosts: Final = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], *HEADERS]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message["headers"] = headers
            await send(message)

        request = Request(scope)
        if self._hosts.knows(request.headers.get("host", "")):
            await self._app(scope, receive, guarded)
        else:
            await _misdirected(request)(scope, receive, guarded)
