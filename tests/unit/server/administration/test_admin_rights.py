"""The rights of administrators over the network; refusals do not tell what exists (ADR 77)."""

from typing import Any

import pytest

from daybook.engine.commands import ActOnMessages
from daybook.engine.core.queue_names import find_queue
from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.permissions import PERMISSIONS, Denial, Permissions
from daybook.server.administration.admin_requests import (
    Browse,
    QueueCreation,
    QueueDeletion,
    QueueDelivery,
    QueuePause,
    QueuePurge,
    QueueRelease,
    QueueResumption,
)
from daybook.server.administration.admin_rights import AdminRights
from tests.support.topology import create_queue
from tests.support.world import World

MINE = dict.fromkeys(PERMISSIONS, ("user:dan",))
RULES: dict[str, dict[str, tuple[str, ...]]] = {"mine.#": MINE, "secret.#": {}}


class Place:
    """A broker with queues of others, and an administrator with rights on `mine.#` alone."""

    def __init__(self) -> None:
        self.world = World()
        self.denials: list[Denial] = []
        self.world.ok(create_queue("secret.q", "secret.q"))
        self.world.ok(create_queue("secret.p", "secret.q"))
        self.world.ok(create_queue("mine.p", "secret.q"))
        self.world.ok(create_queue("mine.v", "secret.q", durable=False))
        self.world.ok(create_queue("mine.q", "mine.q"))
        permissions = Permissions(RULES)
        self.world.broker.permit(permissions)
        self.rights = AdminRights(self.world.state, permissions, "dan", "peer", self.denials.append)

    def answer(self, request: Any) -> Refusal | None:
        """Return why a request is refused: for want of a right, or of the queue."""
        refusal = self.rights.may(request)
        if refusal is not None:
            return refusal
        found = find_queue(self.world.state, request.queue)
        return found if isinstance(found, Refusal) else None


REQUESTS = (
    Browse, QueueDeletion, QueuePurge, QueuePause, QueueRelease, QueueResumption, QueueDelivery,
)  # fmt: skip


@pytest.mark.parametrize("request_type", REQUESTS)
@pytest.mark.parametrize(
    ("closed", "absent"),
    [
        ("secret.q", "secret.n"),
        ("secret.p", "secret.n"),
        ("mine.p", "mine.n"),
        ("mine.v", "mine.n"),
        ("mine.q::secret.p", "mine.q::secret.n"),
        ("mine.q::mine.p", "mine.q::mine.n"),
        ("secret.q::mine.p", "secret.q::mine.n"),
        ("secret.z::secret.p", "secret.z::secret.n"),
    ],
)
def test_a_closed_queue_is_like_none(request_type: type, closed: str, absent: str) -> None:
    place = Place()
    found = place.answer(request_type(closed))
    count = len(place.denials)
    missing = place.answer(request_type(absent))
    assert found is not None
    assert missing is not None
    assert found.text == missing.text.replace(absent[-6:], closed[-6:])
    assert found.code == missing.code
    assert 2 * count == len(place.denials)


@pytest.mark.parametrize(
    ("closed", "absent"),
    [("secret.q", "secret.n"), ("secret.p", "secret.n"), ("mine.p", "mine.n")],
)
@pytest.mark.parametrize("action", ["move", "copy"])
def test_nor_does_a_move_say_what_exists(action: str, closed: str, absent: str) -> None:
    place = Place()
    actor = place.rights.actor
    texts = [
        place.world.refused(ActOnMessages("mine.q", action, target=name, actor=actor)).text
        for name in (closed, absent)
    ]
    assert texts[0] == texts[1].replace(absent, closed)


def test_creating_a_queue_needs_a_right_to_its_name() -> None:
    place = Place()
    for name in ("secret.new", "elsewhere"):
        request = QueueCreation(QueueDefinition(name=name), address="mine.q")
        refusal = place.rights.may(request)
        assert refusal is not None
        assert refusal.code is Code.NOT_ALLOWED
        assert place.denials.pop() == Denial(0, "dan", "create-durable-queue", name, "", "peer")
    for name in ("mine.q", "mine.new"):
        request = QueueCreation(QueueDefinition(name=name), address="mine.q")
        assert place.rights.may(request) is None


def test_a_rule_for_the_queue_allots_its_name() -> None:
    place = Place()
    permissions = Permissions({**RULES, "mine.q::desk": MINE})
    rights = AdminRights(place.world.state, permissions, "dan", "peer", place.denials.append)
    request = QueueCreation(QueueDefinition(name="desk"), address="mine.q")
    assert rights.may(request) is None
    request = QueueCreation(QueueDefinition(name="till"), address="mine.q")
    assert rights.may(request) is not None
