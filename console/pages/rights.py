"""What a user may do at an address, or at one of its queues, and the rules that say so."""

import shlex
from typing import Any, Final

from starlette.responses import Response

from daybook.console.visits import Page, Visit


async def rights(visit: Visit) -> Response:
    """Show each permission of a user at a place, or ask who and where."""
    user, address = visit.query.get("user", ""), visit.query.get("address", "")
    queue = visit.query.get("queue", "")
    answer: dict[str, Any] | None = None
    if user and address:
        asked = {"do": "rights", "user": user, "address": address, "queue": queue or None}
        answer = await visit.look(asked)
    words = ["daybook", "user", "show", *visit.broker.options(), "--address", address]
    words += ["--queue", queue] if queue else []
    return visit.page(
        "rights.html", title="Rights", user=user, address=address, queue=queue, answer=answer,
        command=shlex.join([*words, "--", user]) if answer is not None else "",
    )  # fmt: skip


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (("/rights", rights, ["GET"]),)
