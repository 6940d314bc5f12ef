"""What a user may do at an address, or at one of its queues, and the rules that say so.

May alice browse orders.eu? The answer is a sentence, with the rule that decides.
"""

from typing import Any, Final

from starlette.responses import Response

from daybook.console.menu import MANAGES
from daybook.console.pages.lists import command_of
from daybook.console.pages.manual import documents
from daybook.console.visits import BAD_REQUEST, FORBIDDEN, Page, Refused, Visit
from daybook.engine.settings.permissions import PERMISSIONS
from daybook.server.administration.broker_requests import users_file
from daybook.server.administration.views import right_in_words


async def rights(visit: Visit) -> Response:
    """Answer whether a user has a permission at a place, show all, or ask who and where."""
    user, address = visit.query.get("user", ""), visit.query.get("address", "")
    queue, permission = visit.query.get("queue", ""), visit.query.get("permission", "")
    await visit.renew()
    if MANAGES not in visit.rights():
        raise Refused(
            FORBIDDEN,
            f"user '{visit.identity.user}' may not see the rights of users; that needs the"
            " permission 'manage' for all addresses",
        )
    if permission and permission not in PERMISSIONS:
        raise Refused(BAD_REQUEST, f"permission must be one of {', '.join(PERMISSIONS)}")
    asked = {
        "do": "rights", "user": user, "address": address, "queue": queue or None,
        "permission": permission,
    }  # fmt: skip
    answer: dict[str, Any] | None = await visit.look(asked) if user and address else None
    words: tuple[str, ...] = ()
    sentence = ""
    if answer is not None:
        words = () if visit.broker.url or "users_file" not in answer else users_file(answer)
        if permission:
            sentence = right_in_words(answer, answer["permissions"][0])
    return visit.page(
        "rights.html", title="Rights", user=user, address=address, queue=queue, answer=answer,
        permission=permission, permissions=PERMISSIONS, sentence=sentence,
        documents=documents(),
        command=command_of(visit, "user show", *words, **asked) if answer is not None else "",
    )  # fmt: skip


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (("/rights", rights, ["GET"]),)
