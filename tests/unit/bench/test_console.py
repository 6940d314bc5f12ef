"""Each page of the console is measured, over worlds that are made for it."""

import msgspec
from click.testing import CliRunner

from bench.console import worlds
from bench.console.__main__ import Report, main
from daybook.server.administration.views import ADDRESS_ORDERS, QUEUE_ORDERS

SMALL = (
    "--queues",
    "300",
    "--messages",
    "1200",
    "--deaths",
    "1000",
    "--events",
    "20000",
    "--trips",
    "5",
)


def test_all_pages_of_all_worlds_are_measured() -> None:
    # Whether they are quick enough depends on who else is on the machine.
    result = CliRunner().invoke(main, [*SMALL, "--rounds", "1", "--json"])
    assert result.stdout, result.output
    found = msgspec.json.decode(result.stdout, type=Report)
    pages = {(each.world, each.page): each for each in found.figures}
    for orders, what in ((QUEUE_ORDERS, "queues"), (ADDRESS_ORDERS, "addresses")):
        assert {("queues", f"{what} by {order}") for order in orders} <= pages.keys()
    for page in ("messages, the last ones", "messages, few fit", "dead letters by error"):
        assert pages["messages", page].size > 1000
    for page in ("time machine", "story at 50.0 %", "queues at 95.0 %", "two moments"):
        assert pages["history", page].first_s > 0
    assert {each.world for each in found.beside} == {"queues", "messages"}


def test_frames_are_all_sent_whatever_their_number() -> None:
    assert len(list(worlds.queue_frames(200))) > 200
    rare = [each for each in worlds.large_frames(2 * worlds.RARE) if b"\nrare:yes\n" in each]
    assert len(rare) == 2
