"""The cluster of a broker: which node leads, how far the others are, and a clean hand-over.

It shows what `daybook cluster status` does, from the same answer. A node answers only the user of
its process, which is that of the console, too; so this page looks at the rights itself: who sees
all lists sees it, and who manages all addresses may hand the lead over. A hand-over ends the
broker, and a console that the broker started with it: the page answers first.
"""

from typing import Any, Final

from starlette.background import BackgroundTask
from starlette.responses import Response

from daybook.client.control import ControlError
from daybook.console.brokers import Answer, Broker
from daybook.console.menu import CLUSTER, MANAGES
from daybook.console.visits import (
    BAD_REQUEST,
    FORBIDDEN,
    NOT_FOUND,
    Page,
    Refused,
    Visit,
    checked_form,
)
from daybook.server.monitoring.cluster_health import LEADING, cluster_troubles

SHOWN: Final = (
    "cluster", "node", "role", "leader", "epoch", "acks", "lsn", "confirmed_lsn", "why",
)  # fmt: skip
CONFLICT: Final = 409
ONCE: Final = "once"
"""The field with the token of a question, which is good for one confirmation."""
HANDED_OVER: Final = "the lead was handed over to '{leader}', in epoch {epoch}, after {seconds} s"


async def cluster(visit: Visit) -> Response:
    """Show the node of this data directory, and the others as it sees them."""
    found = await _asked(visit)
    return visit.page(
        "cluster.html", title="Cluster", is_of_moment=False, found=found, shown=SHOWN,
        problems=cluster_troubles(found), rows=_rows(found), leads=found["role"] == LEADING,
        may=MANAGES in visit.rights(), handed_over=visit.broker.handed_over,
        command=f"daybook cluster status --data {visit.broker.directory}",
    )  # fmt: skip


async def _asked(visit: Visit) -> Answer:
    await visit.renew()
    if not visit.broker.is_node:
        raise Refused(
            NOT_FOUND,
            f"{visit.broker.name} is not a node of a cluster on this machine; its configuration has"
            " no [replication], or the console of its machine shows it",
        )
    if CLUSTER not in visit.rights():
        raise Refused(
            FORBIDDEN,
            f"user '{visit.identity.user}' may not see the cluster; that needs the permission"
            " 'browse' for all addresses, which this user does not have",
        )
    return await visit.broker.ask_node({"do": "cluster"})


def _rows(found: Answer) -> list[dict[str, Any]]:
    """Return a row for each node, this one first."""
    own = {
        "node": found["node"], "role": found["role"], "in_sync": None,
        "acknowledged_lsn": found["lsn"], "behind": found["lag_events"],
        "behind_bytes": found["lag_bytes"], "behind_seconds": found["lag_seconds"],
        "trouble": found["arbiter_trouble"], "address": "",
    }  # fmt: skip
    rows = [own]
    for each in found["nodes"]:
        role = "leading" if each["node"] == found["leader"] else ""
        if found["role"] == LEADING:
            role = "following" if each["joined"] else "missing"
        rows.append(each | {"role": role})
    return rows


async def hand_over(visit: Visit) -> Response:
    """Ask whether the lead is to go to another node, and let it, once that is confirmed."""
    given = dict(await checked_form(visit))
    found = await _asked(visit)
    if MANAGES not in visit.rights():
        raise Refused(
            FORBIDDEN,
            f"user '{visit.identity.user}' may not hand the lead over; that needs the permission"
            " 'manage' for all addresses, which this user does not have",
        )
    to = given.get("to", "")
    able = [each["node"] for each in found["nodes"] if each["joined"]]
    if found["role"] != LEADING:
        leader = f"'{found['leader']}' does" if found["leader"] else "no node does"
        raise Refused(
            BAD_REQUEST, f"'{found['node']}' does not lead; {leader}: use the console there"
        )
    if to not in able:
        names = ", ".join(able) or "none"
        raise Refused(BAD_REQUEST, f"'{to}' does not follow now; the nodes that do are: {names}")
    if given.get("confirmed") != "yes":
        return visit.page(
            "cluster_lead.html", title=f"Let '{to}' lead", to=to, found=found,
            once=visit.session.new_confirmation(visit.broker.name),
        )  # fmt: skip
    confirmation = visit.session.confirmation(given.get(ONCE, ""), visit.broker.name)
    if confirmation is None or not confirmation.takes():
        raise Refused(
            CONFLICT,
            "this question was confirmed before, or asked too long ago: the page Cluster says which"
            " node leads",
        )
    task = BackgroundTask(carry_out, visit.broker, to, visit.identity.shown)
    response = visit.page("cluster_lead.html", title=f"'{to}' leads next", to="", found=found)
    response.background = task
    return response


async def carry_out(broker: Broker, to: str, by: str) -> None:
    """Hand the lead over, and keep the outcome for the page."""
    try:
        told = await broker.ask_node({"do": "lead", "to": to, "by": by})
    except ControlError as error:
        broker.handed_over = str(error)
        return
    broker.handed_over = HANDED_OVER.format(**told)


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/cluster", cluster, ["GET"]), ("/cluster/lead", hand_over, ["POST"]),
)  # fmt: skip
