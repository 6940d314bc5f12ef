"""The page on security lists every header that decides something, and who may set it."""

import re

from daybook.engine.facts.definitions import LAST_VALUE_KEY
from daybook.engine.facts.own_headers import OWN_HEADERS
from daybook.engine.queues.groups import SEQUENCES
from daybook.protocols.stomp.sending import NOT_STORED, READ
from tests.meta import tree

PAGE = tree.ROOT / "docs" / "security.md"
OF_A_DELIVERY = {
    "message-id", "subscription", "ack", "redelivered", "delivery-count", "retained",
}  # fmt: skip


def listed(page: str) -> dict[str, str]:
    """The component that sets each header, according to the table."""
    part = page.split("<!-- what decides", 1)[1].split("<!-- end of what decides", 1)[0]
    rows = [line.split("|") for line in part.splitlines() if line.startswith("| `")]
    found = [(name, row[2].strip()) for row in rows for name in re.findall(r"`([^`]+)`", row[1])]
    assert len(found) == len(dict(found)), "a header is listed twice"
    return dict(found)


def test_every_header_that_decides_is_listed_with_who_sets_it() -> None:
    who = listed(PAGE.read_text("utf-8"))
    by_broker = {name for name, setter in who.items() if setter == "the broker"}
    by_sender = {name for name, setter in who.items() if setter == "the sender"}
    assert by_broker == {*OWN_HEADERS, *OF_A_DELIVERY}
    assert by_sender == {*READ, "_AMQ_DUPL_ID", LAST_VALUE_KEY, *SEQUENCES} - OF_A_DELIVERY
    assert by_broker | by_sender == who.keys()
    # The broker's headers of a delivery are not a part of a message either.
    assert OF_A_DELIVERY <= NOT_STORED


def test_a_header_that_is_left_out_is_found() -> None:
    page = PAGE.read_text("utf-8").replace("`_AMQ_ACTUAL_EXPIRY`", "`nothing`", 1)
    assert "_AMQ_ACTUAL_EXPIRY" not in listed(page)
