"""The rights of administrators over the network; refusals do not tell what exists (ADR 77)."""

from typing import Any

import pytest

from daybook.engine.commands import ActOnMessages
from daybook.engine.core.queue_names import find_queue
from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.permissions import PERMISSIONS, Denial, Permissions
from daybook.server.administration import views
from daybook.server.administration.admin_requests import (
    AddressDeletion,
    Addresses,
    AddressOf,
    Browse,
    Connections,
    Offers,
    QueueCreation,
    QueueDeletion,
    QueueDelivery,
    QueuePause,
    QueuePurge,
    QueueRelease,
    QueueResumption,
    Queues,
)
from daybook.server.administration.admin_rights import AdminRights
from daybook.server.administration.request_rows import ViewSource
from daybook.server.administration.views import LIST_PAGE_MAX
from daybook.server.process.ordered_lists import KeptOrders
from daybook.server.process.slices import at_once
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


def test_the_rule_that_takes_a_right_away_is_named() -> None:
    place = Place()
    all_of_it = "user 'dan' may not browse address '#'; "
    for rules, why in (
        ({"#": MINE, "DLQ": {}}, "the rule '#' gives the permission browse, but the stricter rule"
         " 'DLQ' does not"),
        # Without a right to all addresses, names of others are not learned.
        ({"mine.#": MINE, "DLQ": {}}, "the permission browse is missing there"),
        ({"#": {}, "mine.#": MINE}, "the permission browse is missing there"),
    ):  # fmt: skip
        permissions = Permissions(rules)
        rights = AdminRights(place.world.state, permissions, "dan", "peer", place.denials.append)
        refusal = rights.may(Connections())
        assert refusal is not None
        assert refusal.text == all_of_it + why
    assert [each.address for each in place.denials] == ["#"] * 3


READER = dict.fromkeys(("browse",), ("user:dan",))


@pytest.mark.parametrize("hosts", [(), ("eu",), ("default",)])
@pytest.mark.parametrize(
    "rules",
    [
        None, RULES, {"#": READER, "secret.#": {}}, {"#": {}, "secret.q::mine.p": MINE},
        {"#": READER, "eu::#": {}}, {"secret.*": READER, "eu::mine.#": READER},
        {"#": READER, "secret.q::mine.p": {}, "eu::mine.q::mine.q": {}},
    ],
)  # fmt: skip
def test_lists_have_what_may_be_browsed(rules: dict[str, Any] | None, hosts: tuple[str]) -> None:
    place = Place()
    state = place.world.state
    place.world.ok(create_queue("eu::mine.q", "eu::mine.q"))
    place.world.ok(create_queue("all", "mine.*", routing_type="multicast"))
    permissions = Permissions(rules) if rules is not None else None
    rights = AdminRights(state, permissions, "dan", "peer", place.denials.append, hosts)
    source = ViewSource(state, permissions, rights=rights)
    queues = at_once(Queues().look(source))
    may = {name for name in state.queue_by_name if rights.allows(Browse(name))}
    assert {row["queue"] for row in queues["queues"]} == may
    assert queues["total"] == len(may)
    addresses = at_once(Addresses(sort="messages").look(source))
    may = {name for name in state.address_by_name if rights.allows(AddressOf(name))}
    assert {row["address"] for row in addresses["addresses"]} == may
    assert rights.may(Queues()) is None
    assert not place.denials


def of_an_address(request: Any, place: Place, rules: dict[str, Any]) -> dict[str, Any]:
    """Return the row of an address that dan sees."""
    permissions = Permissions(rules)
    rights = AdminRights(place.world.state, permissions, "dan", "p", place.denials.append)
    source = ViewSource(place.world.state, permissions, rights=rights)
    answer = at_once(request.look(source))
    row: dict[str, Any] = next(row for row in answer["addresses"] if row["address"] == "secret.q")
    return row


CLOSED = {"secret.q::secret.p": {"browse": ("boss",), "manage": ("boss",)}}


@pytest.mark.parametrize("request_", [Addresses(), AddressOf("secret.q")], ids=["list", "one"])
def test_a_closed_queue_is_not_in_the_row_of_its_address(request_: Any) -> None:
    place = Place()
    for queue in ("secret.p", "secret.q"):
        place.world.send("secret.q", b"x", queue=queue)
    every = of_an_address(request_, place, {"#": READER})
    assert (every["queue_count"], every["messages"]) == (4, 2)
    row = of_an_address(request_, place, {"#": READER} | CLOSED)
    assert row["queues"] == ["secret.q", "mine.p", "mine.v"]
    assert (row["queue_count"], row["messages"]) == (3, 1)
    assert 0 < row["bytes"] < every["bytes"]
    bindings = [each["queue"] for each in row.get("bindings", [])]
    assert bindings == (row["queues"] if isinstance(request_, AddressOf) else [])
    place.world.ok(create_queue("w", "secret.*", routing_type="multicast"))
    if isinstance(request_, AddressOf):
        found = of_an_address(request_, place, {"#": READER})
        assert found["wildcard_queue_count"] == 1
        closed = {"secret.*::w": {"browse": ("boss",)}}
        found = of_an_address(request_, place, {"#": READER} | closed)
        assert (found["wildcard_queue_count"], found["wildcard_bindings"]) == (0, [])


@pytest.mark.parametrize("force", [False, True])
def test_an_address_is_not_deleted_with_a_closed_queue(*, force: bool) -> None:
    place = Place()
    mine = {"manage": ("user:dan",), "delete-address": ("user:dan",)}
    for rules, is_refused in (
        ({"#": mine}, False),
        ({"#": mine} | CLOSED, True),
        ({"#": mine, "secret.q::secret.p": mine}, False),
        ({"#": mine, "secret.q::gone": {}}, False),
        ({"#": mine, "mine.q::secret.p": {}}, False),
    ):
        rights = AdminRights(
            place.world.state, Permissions(rules), "dan", "p", place.denials.append
        )
        refusal = rights.may(AddressDeletion("secret.q", force=force))
        assert (refusal is not None) is is_refused, rules
        if refusal is not None:
            assert "may not administer address 'secret.q'" in refusal.text
            assert "secret.p" not in refusal.text


def test_a_list_of_nothing_is_refused() -> None:
    place = Place()
    rules = {"#": {"send": ("user:dan",), "browse": ("boss",)}}
    rights = AdminRights(place.world.state, Permissions(rules), "dan", "p", place.denials.append)
    for request in (Queues(), Addresses()):
        refusal = rights.may(request)
        assert refusal is not None
        assert "may browse nothing" in refusal.text
    assert len(place.denials) == 2
    source = ViewSource(place.world.state, Permissions(rules), rights=rights)
    assert Offers().look(source)["sees_some"] is False
    assert not at_once(Queues().look(source))["queues"], "and has none if it is asked for"


def test_an_order_is_kept_for_the_same_rights() -> None:
    place, kept = Place(), KeptOrders()
    for number in range(LIST_PAGE_MAX + 1):
        place.world.ok(create_queue(f"mine.{number}", f"mine.{number}"))
    place.world.ok(create_queue("hidden", "hidden"))

    def page(rules: Permissions, cursor: int = 0) -> dict[str, Any]:
        rights = AdminRights(place.world.state, rules, "dan", "peer", place.denials.append)
        source = ViewSource(place.world.state, rules, rights=rights, kept_orders=kept)
        offset = LIST_PAGE_MAX if cursor else 0
        found: dict[str, Any] = at_once(Queues(cursor=cursor, offset=offset).look(source))
        return found

    of_some, of_one = Permissions(RULES), Permissions({"hidden": MINE})
    first = page(of_some)
    assert first["total"] == LIST_PAGE_MAX + 2
    assert not page(of_one, first["cursor"])["queues"]
    assert page(of_one)["total"] == 1
    assert len(page(of_some, first["cursor"])["queues"]) == 2


def commands_of(place: Place, rules: dict[str, Any] | None, **at: str) -> set[str]:
    """Return the commands that dan is offered at a place."""
    permissions = Permissions(rules) if rules is not None else None
    rights = AdminRights(place.world.state, permissions, "dan", "peer", place.denials.append)
    answer = Offers(**at).look(ViewSource(place.world.state, permissions, rights=rights))
    return {row["command"] for row in answer["commands"]}


def test_commands_are_offered_where_they_are_allowed() -> None:
    place = Place()
    every = commands_of(place, None)
    assert {"queue purge", "address delete", "settings set", "connection close"} <= every
    reader = {"#": {"browse": ("user:dan",)}}
    assert commands_of(place, reader) == set()
    assert commands_of(place, reader, queue="mine.q") == set()
    mine = commands_of(place, RULES, queue="mine.q", address="mine.q")
    assert {"queue purge", "queue move", "address pause", "queue create"} <= mine
    assert not {"settings set", "divert create", "connection close"} & mine
    assert commands_of(place, RULES, queue="secret.q", address="secret.q") == set()
    somewhere = commands_of(place, RULES)
    assert "queue create" in somewhere
    assert "settings set" not in somewhere
    assert commands_of(place, {"#": {}, "a.#": {"create-address": ("user:dan",)}}) == {
        "address create"
    }
    assert not place.denials, "nobody asked for any of them"
    answer = Offers().look(ViewSource(place.world.state))
    assert {row["command"] for row in answer["commands"]} == every, "the operator"


@pytest.mark.parametrize(
    ("user", "permission", "address", "sentence"),
    [
        ("dan", "send", "mine.q", "yes: dan has send at mine.q, by the rule mine.#, as user:dan"),
        ("eve", "send", "mine.q",
         "no: eve lacks send at mine.q; the rule mine.# decides, and grants it to user:dan"),
        ("dan", "send", "secret.q",
         "no: dan lacks send at secret.q; the rule secret.# decides, and grants it to nobody"),
        ("dan", "send", "x", "no: no rule covers x, so nobody has send there"),
    ],
)  # fmt: skip
def test_a_right_is_answered_with_its_rule(
    user: str, permission: str, address: str, sentence: str
) -> None:
    answer = views.rights(Permissions(RULES), user, address, None, permission)
    (right,) = answer["permissions"]
    assert views.right_in_words(answer, right) == sentence
    elsewhere = answer | {"may_use_host": False}
    assert "may not use the virtual host default" in views.right_in_words(elsewhere, right)


def test_without_rules_everybody_may() -> None:
    answer = views.rights(None, "dan", "a", "q", "browse")
    (right,) = answer["permissions"]
    said = "yes: dan has browse at queue q of a, as there are no rules"
    assert views.right_in_words(answer, right) == said


def test_what_is_lacking_everywhere_names_the_rule_in_the_way() -> None:
    rules = {"#": {"browse": ("admin",)}, "secret.#": {"browse": ("boss",)}}
    answer = views.rights(Permissions(rules, {"adm": ("admin",)}), "adm", "#", None, "browse")
    assert views.right_in_words(answer, answer["permissions"][0]) == (
        "no: adm lacks browse at #; the rule secret.# decides, and grants it to boss"
    )
