"""The pages that are asked for: each that the console has, in worlds that are large for it.

Which pages there are, the routes of the console say, with its lists, forms and manual.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlencode

import msgspec

from bench.console import worlds
from daybook.console.app import routes
from daybook.console.console import Console
from daybook.console.console_config import ConsoleConfig
from daybook.console.pages.forms import every_form
from daybook.console.pages.lists import every_list, place_of
from daybook.console.pages.manual import documents
from daybook.history.moments import last_lsn
from daybook.journal.data_directory import JOURNAL, SNAPSHOTS
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import data_id_of
from daybook.paging.snapshots.snapshots import known_snapshots
from daybook.server.administration.request_rows import Reading
from daybook.server.administration.views import ADDRESS_ORDERS, QUEUE_ORDERS
from daybook.server.administration.ways import Found

GATE_PAGE_S: Final = 0.3
GATE_STORY_S: Final = 1.0
GATE_MOMENT_S: Final = 3.0
NEAR: Final = 3000
NONE: Final = {"header": "order=4711"}
MANY: Final = {"header": "_AMQ_ORIG_QUEUE=queue.4"}
"""A header of dead letters."""
BROKER: Final = "/b/{broker}"
"""How the routes of the console begin that are about a broker."""
UNASKED: Final = {
    "/static/{path:path}": "a file in memory, which has nothing of a broker",
    "/enter/{secret}": "the operator's link: the browser logged in by it",
    f"{BROKER}/live": "events for an overview that is open; it never ends",
    f"{BROKER}/integrity/live": "events for a page that is open; it ends with the check",
    f"{BROKER}/do/{{group}}/{{name}}/confirm": "one of them is, at a queue of many messages",
    f"{BROKER}/do/{{group}}/{{name}}/done": "what a form did, which the console remembers",
    f"{BROKER}/cluster": "only a node of a cluster has it; its node is asked, and knows no queues",
    f"{BROKER}/list/shards": "only a sharded queue has it, with other brokers; it shows one queue",
}
"""Routes for GET, and pages of them, that are not asked for, and why."""
WHOLE: Final = "/dead-letters/whole"
QUEUE: Final = "orders.00.client-000000"
"""A queue, and its address, among many; it has more messages than the others."""
COUNTS_BY_KIND: Final = "SELECT kind, count(*) AS events FROM events GROUP BY kind ORDER BY 2 DESC"


class Ask(msgspec.Struct, frozen=True):
    """A page that is asked for: its name, its path, and the seconds that it may take. `is_rested`
    if it comes after a pause, because pages before it got the same from the broker."""

    name: str
    path: str
    gate_s: float = GATE_PAGE_S
    is_rested: bool = False


class Site(Protocol):
    """A console that shows one broker."""

    def path(self, page: str, query: Mapping[str, str | int] = {}) -> str:
        """Return the path of a page of the broker."""

    def find(self, path: str, mark: str) -> str:
        """Return the number behind a mark in a page."""

    def last(self) -> int:
        """Return the last event of the journal."""


def path_of(start: str, query: Mapping[str, str | int]) -> str:
    """Return a path with a query."""
    return f"{start}{'?' if query else ''}{urlencode(query)}"


def every_page() -> set[str]:
    """Return the paths of all pages to be asked for, of those of a broker with `BROKER` as their
    beginning."""
    asked = routes_for_get() - UNASKED.keys()
    return {path for each in asked for path in _filled(each)} - UNASKED.keys()


def routes_for_get() -> set[str]:
    """Return the paths of the routes of the console that a browser can ask for by a link."""
    every = routes(Console(ConsoleConfig(())))
    return {each.path for each in every if "GET" in (each.methods or ())}


def _filled(path: str) -> Iterator[str]:
    """Yield the paths of a route, one for each value of its parameters."""
    values = {
        "{tag}": [each.tag for each in every_list()],
        "{group}/{name}": [each.way.command.replace(" ", "/") for each in every_form()],
        "{page}": list(documents()),
    }
    parameter = next((each for each in values if each in path), "")
    for value in values.get(parameter, [""]):
        yield path.replace(parameter, value) if parameter else path


def queue_asks(site: Site, queues: int) -> list[Ask]:
    """Return all pages of a broker with many queues."""
    queue, address = {"queue": QUEUE}, {"address": QUEUE}
    message = queue | {"message": _message(site)}
    return [
        Ask("start", "/"),
        Ask("login", "/login"),
        Ask("overview", site.path("")),
        Ask("the last hour, for charts", site.path("/hour")),
        *(each for what in LONG_LISTS for each in _long_list_asks(site, what, queues)),
        Ask("one queue", site.path("/queue", queue)),
        Ask("one queue, for its chart", site.path("/queue/growth", queue)),
        Ask("one address", site.path("/address", address)),
        Ask("messages", site.path("/messages", queue)),
        Ask("one message", site.path("/message", message)),
        Ask("its body", site.path("/message/body", message)),
        Ask("the manual", site.path("/docs")),
        Ask("dead letters", site.path("/dead-letters")),
        Ask("dead letters of a queue", site.path("/dead-letters", queue)),
        Ask("dead letters of a whole queue", site.path(WHOLE, queue | {"by": "error"})),
        Ask("rights", site.path("/rights")),
        Ask("rights of a user", site.path("/rights", address | {"user": "guest"})),
        *_rested(_list_ask(site, each) for each in _lists() if each.tag not in LONG_LISTS),
        *_history_of_queues(site),
        *_rested(_form_ask(site, each) for each in every_form()),
        *(Ask(f"manual, {each}", site.path(f"/docs/{each}")) for each in sorted(documents())),
    ]


LONG_LISTS: Final = {"queues": tuple(QUEUE_ORDERS), "addresses": tuple(ADDRESS_ORDERS)}
"""The lists that are as long as there are queues, and how they are sorted."""


def _long_list_asks(site: Site, what: str, queues: int) -> list[Ask]:
    """Return pages of a long list."""
    path, orders = f"/list/{what}", LONG_LISTS[what]
    asks = [
        Ask(what, site.path(path)),
        Ask(f"{what}, in the middle", site.path(path, {"offset": queues // 2})),
        Ask(f"{what}, the last ones", site.path(path, {"offset": queues - 100})),
        Ask(f"{what}, searched", site.path(path, {"search": "client-0000"})),
        Ask(f"{what}, one found", site.path(path, {"search": f"client-{queues - 1:06d}"})),
    ]
    for order in orders:
        sort = {"sort": order, "descending": "true"}
        asks.append(Ask(f"{what} by {order}", site.path(path, sort)))
    for where, offset in (("middle", queues // 2), ("end", queues - 100)):
        place: dict[str, str | int] = {"sort": orders[0], "descending": "true", "offset": offset}
        asks.append(Ask(f"{what} sorted, at the {where}", site.path(path, place)))
    return asks


def _rested(asks: Iterator[Ask]) -> list[Ask]:
    """Return pages that come after a pause."""
    first, *others = asks
    return [msgspec.structs.replace(first, is_rested=True), *others]


def _message(site: Site) -> str:
    """Return the id of a message in the queue."""
    return site.find(site.path("/messages", {"queue": QUEUE}), "message=")


def _lists() -> Iterator[Found]:
    """Yield the lists that are asked for."""
    return (each for each in every_list() if f"{BROKER}/list/{each.tag}" not in UNASKED)


def _list_ask(site: Site, found: Found, at: int = 0) -> Ask:
    """Return a list, of one queue or address if it is about one."""
    place = place_of(found.row)
    query: dict[str, str | int] = {place: QUEUE} if place else {}
    name = f"list {found.tag}"
    if at:
        return Ask(f"{name} at a moment", site.path(f"/list/{found.tag}", query | {"at": at}),
                   GATE_MOMENT_S)  # fmt: skip
    return Ask(name, site.path(f"/list/{found.tag}", query))


def _needs_broker(found: Found) -> bool:
    return issubclass(found.row, Reading) and found.row.needs_broker


def _form_ask(site: Site, found: Found) -> Ask:
    """Return a form, of one queue or address if it is about one."""
    place = place_of(found.row)
    path = f"/do/{found.way.command.replace(' ', '/')}"
    return Ask(f"form {found.way.command}", site.path(path, {place: QUEUE} if place else {}))


def _history_of_queues(site: Site) -> list[Ask]:
    """Return the pages of the history of many queues, and those of its moments."""
    message, last = _message(site), site.last()
    queue: dict[str, str | int] = {"queue": QUEUE}
    at: dict[str, str | int] = {"at": last}
    report = f"{site.find(site.path('/integrity'), 'report?name=')}-verify"
    lists = [each for each in _lists() if not _needs_broker(each)]
    return [
        Ask("time machine", site.path("/past")),
        Ask("time machine, led to a moment", site.path("/go", {"moment": last}), GATE_MOMENT_S),
        Ask("story, not asked yet", site.path("/story")),
        Ask("story", site.path("/story", {"message": message})),
        Ask("picture of a story", site.path("/story.svg", {"message": message})),
        Ask("stories by a header", site.path("/story", {"header": "number=100"}), GATE_STORY_S),
        Ask("events, the newest", site.path("/events")),
        Ask("events of a queue", site.path("/events", queue)),
        Ask("integrity", site.path("/integrity")),
        Ask("report", site.path("/report", {"name": report})),
        Ask("SQL, not asked yet", site.path("/sql")),
        Ask("SQL, an answer", site.path("/sql", {"q": COUNTS_BY_KIND}), GATE_STORY_S),
        Ask("overview at a moment", site.path("", at), GATE_MOMENT_S),
        Ask("one queue at a moment", site.path("/queue", queue | at), GATE_MOMENT_S),
        Ask("messages at a moment", site.path("/messages", queue | at), GATE_MOMENT_S),
        *(
            Ask(f"queues at {share} %", site.path("/list/queues", {"at": last * share // 100}),
                GATE_MOMENT_S)
            for share in (25, 50, 75)
        ),
        *(_list_ask(site, each, last) for each in lists),
        Ask("two moments", site.path("/compare", {"before": last // 2, "after": last}),
            2 * GATE_MOMENT_S),
    ]  # fmt: skip


def message_asks(site: Site, messages: int) -> list[Ask]:
    """Return the pages of a queue with many messages, and of many dead letters."""
    queue = {"queue": worlds.LARGE}
    moved = queue | {"target": worlds.LARGE, "filter": "rare = 'yes'"}
    last = messages - 50
    first_id = site.find(site.path("/messages", queue), "message=")
    asks = [
        Ask("one queue", site.path("/queue", queue)),
        Ask("messages", site.path("/messages", queue)),
        Ask("messages, in the middle", site.path("/messages", queue | {"offset": messages // 2})),
        Ask("question before a move", site.path("/do/queue/move/confirm", moved)),
        Ask("messages, the last ones", site.path("/messages", queue | {"offset": last})),
        Ask("messages, half fit", site.path("/messages", queue | {"filter": "region = 'eu'"})),
        Ask("messages, few fit", site.path("/messages", queue | {"filter": "rare = 'yes'"})),
        Ask("one message", site.path("/message", queue | {"message": first_id})),
    ]
    dead = {"queue": worlds.DEAD}
    for field in ("reason", "error"):
        path = site.path("/dead-letters", dead | {"by": field})
        asks.append(Ask(f"dead letters by {field}", path))
    return asks


def farthest(data: Path) -> int:
    """Return the event that lies the most events behind the snapshot before it."""
    disk = RealDisk(data / JOURNAL)
    known = sorted(each.lsn for each in known_snapshots(data / SNAPSHOTS, data_id_of(disk)))
    spans = pairwise([0, *known, last_lsn(disk) + 1])
    return max(spans, key=lambda span: span[1] - span[0])[1] - 1


def history_asks(site: Site, data: Path) -> list[Ask]:
    """Return the pages of a long history."""
    last = last_lsn(RealDisk(data / JOURNAL))
    asks = [
        Ask("time machine", site.path("/past"), GATE_MOMENT_S),
        Ask("events, the newest", site.path("/events"), GATE_STORY_S),
    ]
    for share in (1, 250, 500, 750, 950):
        lsn = last * share // 1000
        # The id of a message is that of its Routed, and each block has some.
        near: dict[str, str | int] = {"from": max(lsn - NEAR, 1), "kind": "Routed"}
        found = site.find(site.path("/events", near), "message=")
        asks += [
            Ask(f"story at {share / 10} %", site.path("/story", {"message": found}), GATE_STORY_S),
            Ask(f"picture at {share / 10} %", site.path("/story.svg", {"message": found}),
                GATE_STORY_S),
            Ask(f"events at {share / 10} %", site.path("/events", {"from": lsn}), GATE_STORY_S),
            Ask(f"queues at {share / 10} %", site.path("/list/queues", {"at": lsn}),
                GATE_MOMENT_S),
        ]  # fmt: skip
    asks += [
        Ask("events of a message", site.path("/events", {"message": found}), GATE_STORY_S),
        Ask("events of a queue", site.path("/events", {"queue": "queue.199"}), GATE_STORY_S),
        Ask("marks of long ago", site.path("/events", {"kind": "BrokerStarted"}), GATE_MOMENT_S),
        Ask("stories by a header of none", site.path("/story", NONE), GATE_STORY_S),
        Ask("stories by a header of many", site.path("/story", MANY), GATE_STORY_S),
        Ask("queues at the farthest moment", site.path("/list/queues", {"at": farthest(data)}),
            GATE_MOMENT_S),
        Ask("queues now, without a broker", site.path("/list/queues"), GATE_MOMENT_S),
        Ask("two moments", site.path("/compare", {"before": last // 3, "after": last // 2}),
            2 * GATE_MOMENT_S),
    ]  # fmt: skip
    return asks
