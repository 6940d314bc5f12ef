"""A virtual host gets exactly what it would get if it were alone, whatever another one does."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, DivertDefinition
from daybook.engine.facts.settlements import ACCEPTED, FAILED
from daybook.engine.names.names import plain, qualified
from daybook.engine.refusals import Refusal
from tests.support.world import World
from tests.support.worlds.hosts import HOSTS

NAMES = ("default", "eu")
PLACES = ("orders", "news", "a.b")
PATTERNS = ("#", "a.*")
SETTINGS = {
    "#": {
        "max-delivery-attempts": 2, "dead-letter-address": "dead", "expiry-address": "late",
        "auto-create-dead-letter-resources": True,
    },
    "news": {"retroactive-message-count": 2},
    "eu::a.#": {"max-delivery-attempts": 1},
}  # fmt: skip
_small = st.integers(0, 5)
Op = tuple[int, int, int, int]
ops = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 7), _small, _small), max_size=40)
EXPIRY = 6
RESTART = 7
"""Operations on all hosts, whichever one they name."""


class Side:
    """The events of one host: each answer, and each delivery by the label of its subscription."""

    def __init__(self, world: World, host: str) -> None:
        self.world = world
        self.host = host
        self.told: list[Any] = []
        self.connection = world.connect(host=host)
        self.labels: dict[int, int] = {}
        self.open: list[tuple[int, int]] = []
        self.seen = 0

    def full(self, name: str) -> str:
        return qualified(self.host, name)

    def do(self, number: int, kind: int, x: int, y: int) -> None:
        """Carry out an operation, and note what became of it."""
        place = self.full(PLACES[x % 3])
        makers = {
            0: lambda: c.Send(
                self.connection, place, b"", b"%d" % number,
                routing_type=MULTICAST if y % 2 else ANYCAST,
                duplicate_id=str(y) if x % 2 else "",
                expires=self.world.now // 1000 + 5 if y == 4 else 0,
            ),
            1: lambda: c.Attach(self.connection, place, routing_type=ANYCAST),
            2: lambda: c.Attach(
                self.connection, place, durable_name=str(y % 2), routing_type=MULTICAST
            ),
            3: lambda: c.Attach(self.connection, self.full(PATTERNS[y % 2])),
            4: lambda: self._settle(x, y),
            5: lambda: c.CreateDivert(
                DivertDefinition(
                    name=self.full("d"), address=place, forwarding_addresses=(self.full("dead"),)
                )
            ),
        }  # fmt: skip
        command = makers[kind]()
        if command is None:
            return
        answer = self.world.handle(command)
        self.world.turn()
        if isinstance(answer, Refusal):
            self.told.append(answer.text.replace(self.full(""), ""))
        elif isinstance(command, c.Attach):
            self.labels[answer] = number
        self.told.append((number, isinstance(answer, Refusal)))

    def _settle(self, x: int, y: int) -> c.Command | None:
        if not self.open:
            return None
        consumer, message = self.open.pop(x % len(self.open))
        return c.Settle(consumer, message, False, None, FAILED if y % 2 else ACCEPTED)

    def look(self) -> None:
        """Note the deliveries of this host since the last look."""
        for each in self.world.deliveries[self.seen :]:
            if each.consumer in self.labels:
                self.told.append((self.labels[each.consumer], each.body, each.attempt))
                self.open.append((each.consumer, each.message))
        self.seen = len(self.world.deliveries)

    def begin_again(self) -> None:
        self.connection = self.world.connect(host=self.host)
        self.labels.clear()
        self.open.clear()
        self.told.append("restart")

    def result(self) -> list[Any]:
        queues = [
            (plain(queue.name), plain(queue.address.name), queue.message_count, queue.added)
            for queue in self.world.state.queues.values()
            if queue.address.host == self.host and ".sub-" not in queue.name
        ]
        return [*self.told, sorted(queues)]


def played(scenario: list[Op], chosen: tuple[int, ...]) -> list[list[Any]]:
    """Play the operations of some hosts; return what each of these got."""
    world = World(hosts=HOSTS)
    world.ok(c.ChangeSettings(SETTINGS, "full"))
    sides = {index: Side(world, NAMES[index]) for index in chosen}
    for number, (index, kind, x, y) in enumerate(scenario):
        world.now += 1_000_000
        if kind == RESTART:
            world.restart()
            for side in sides.values():
                side.begin_again()
        elif kind == EXPIRY:
            world.handle(c.ExpireDue())
            world.turn()
        elif index in sides:
            sides[index].do(number, kind, x, y)
        for side in sides.values():
            side.look()
    world.check()
    return [side.result() for side in sides.values()]


@given(scenario=ops)
def test_a_host_gets_what_it_would_get_alone(scenario: list[Op]) -> None:
    together = played(scenario, (0, 1))
    assert together == played(scenario, (0,)) + played(scenario, (1,))
