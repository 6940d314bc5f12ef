"""Which pages there are, and examples of each: taken from the routes, the menu, and the table of
administration, so that a page that is added there is looked at, or missed by a test.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote_plus

from daybook.console import menu, pages
from daybook.console.pages.lists import OWN_PAGES
from daybook.server.administration.ways import every_way

PARTS: Final = frozenset(
    {
        "/hour",
        "/live",
        "/integrity/live",
        "/queue/growth",
        "/story.svg",
        "/dead-letters/whole",
        "/message/body",
    }
)
"""Routes of parts, which pages load, and of files."""
BY_FORMS: Final = frozenset({"/do/{group}/{name}/confirm", "/do/{group}/{name}/done", "/cluster"})
"""Pages that are reached by forms, or that another broker has: `tours`."""
NEEDED: Final = {
    "groups": "queue=grouped", "consumers-of": "queue=grouped", "count": "queue=letters",
    "shards": "address=sharded",
}  # fmt: skip
"""The queries of lists that need one."""
KNOWN: Final = {
    "queue update": "queue=letters", "address update": "address=letters", "queue move": "queue=DLQ",
}  # fmt: skip
"""The queries of forms that are opened with one."""
LINES: Final = quote_plus(
    "SELECT date_trunc('second', time) AS at, count(*) AS n, NULL AS x FROM events GROUP BY ALL"
)
BARS: Final = quote_plus("SELECT kind, count(*) AS n FROM events GROUP BY ALL")
EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "": ("", "?at={crash}"),
    "/queue": (
        "?queue=letters", "?queue={long}", "?queue=resting", "?queue=letters&at={crash}",
        "?queue=missing",
    ),
    "/address": ("?address=letters", "?address=orders.eu&at={crash}"),
    "/messages": (
        "?queue=letters", "?queue=DLQ", "?queue=letters&filter=content+%3D+%27json%27",
        "?queue=letters&filter=wrong+%3D", "?queue=letters&at={crash}",
        "?queue=resting&filter=a%3D1",
    ),
    "/message": (
        *(f"?queue=letters&message={{{each}}}"
          for each in ("text", "json", "xml", "hex", "large", "hostile")),
        "?queue=DLQ&message={dead}", "?queue=letters&message={large}&piece=2",
    ),
    "/dead-letters": ("", "?queue=DLQ&by=error", "?queue=DLQ&by=hour", "?queue=letters"),
    "/rights": ("", "?user=ada&address=letters", "?user=nil&address=letters&permission=browse"),
    "/story": ("", "?message={dead}", "?header=customer%3D7", "?header=customer%3D8"),
    "/events": ("", "?queue=letters&kind=Routed", "?kind=Dropped", "?at={crash}"),
    "/past": ("", "?at={crash}"),
    "/go": ("?time=nonsense",),
    "/compare": ("?before=4&after={crash}", "?before=4&after=4"),
    "/integrity": ("",),
    "/report": ("?name={report}",),
    "/sql": ("", f"?q={BARS}", f"?q={LINES}", "?q=SELECT+nothing+FROM+events"),
    "/docs": ("",), "/docs/{page}": ("operations", "cli"),
}  # fmt: skip
"""Examples of each page of a broker, by its route: each follows the path."""
STATUSES: Final = {
    "/queue?queue=missing": 404, "/messages?queue=letters&filter=wrong+%3D": 400,
    "/go?time=nonsense": 400, "/sql?q=SELECT+nothing+FROM+events": 400,
}  # fmt: skip
"""Those that say why there is no answer."""
OTHERS: Final = {
    "/": 200, "/nothing": 404, "/b/shop/nothing": 404, "/b/shop/list/nothing": 404,
    "/b/down": 200, "/b/down/list/queues": 200, "/b/down/list/links": 400, "/b/node-a/cluster": 200,
    "/b/down/past": 200,
}  # fmt: skip
"""Pages that are not of the running broker."""


def routes() -> set[str]:
    """Return the routes of all pages of a broker that are not only sent to."""
    modules = [
        importlib.import_module(f"{pages.__name__}.{each.name}")
        for each in pkgutil.iter_modules(pages.__path__)
    ]
    return {
        path
        for module in modules
        for path, _, methods in getattr(module, "PAGES", ())
        if "GET" in methods
    }


def lists() -> Iterator[str]:
    """Yield the path of each list."""
    tags = {each.tag for each in every_way() if each.way.table is not None} - OWN_PAGES
    for tag in sorted(tags):
        yield f"/list/{tag}" + (f"?{NEEDED[tag]}" if tag in NEEDED else "")
    yield "/list/queues?at={crash}&sort=ready&descending=true"


def forms() -> Iterator[str]:
    """Yield the path of each form."""
    for each in every_way():
        command = each.way.command
        if each.way.done:
            path = "/do/" + command.replace(" ", "/")
            yield path + (f"?{KNOWN[command]}" if command in KNOWN else "")


def menu_paths() -> set[str]:
    """Return the paths of the pages in the menu."""
    return {f"/{item.path}" if item.path else "" for _, items in menu.GROUPS for item in items}


def paths() -> Iterator[str]:
    """Yield the path of each example, within a broker."""
    for route, examples in EXAMPLES.items():
        begin = route.partition("{")[0]
        yield from (begin + each for each in examples)
