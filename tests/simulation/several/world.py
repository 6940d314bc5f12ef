"""The simulation of several brokers, from one integer: `python -m tests.simulation.several.world`.

Every step does one small thing: a broker works, bytes get one step further, a client acts, somebody
connects, time passes, something breaks. In the end all heals: then each broker must drain, and as
many messages as a link has credit must pass on every way.
"""

import random
import sys
import traceback
from collections import Counter, deque
from collections.abc import Callable
from itertools import accumulate
from typing import Final

from daybook.protocols.port import ACTIVE, Outbound
from daybook.server.hub.peer import write_high
from tests.simulation.judges.violation import Violation
from tests.simulation.machine.clock import Clock
from tests.simulation.machine.disk import PowerCut
from tests.simulation.machine.network import Link
from tests.simulation.several.cable import LATE_US, Cable
from tests.simulation.several.clients import Client, Consumer, Producer
from tests.simulation.several.judge import Judge
from tests.simulation.several.node import Node
from tests.simulation.several.scenes import SCENES, Connector
from tests.support.amqp.line import Anonymous

STEPS: Final = 4_000
TICK_US: Final = 100_000
REDIAL_US: Final = 500_000
ROUNDS_MAX: Final = 8_000
PROBES: Final = 40
STANDS_US: Final = (100_000, 3_000_000, 15_000_000)


class World:
    """One run. `run` raises Violation, or whatever a fault raises; `recent` says what came before,
    and `deeds` counts what happened."""

    def __init__(self, seed: int) -> None:
        self.seed: Final = seed
        self.scene: Final = SCENES[seed % len(SCENES)]
        self.deeds: Final[Counter[str]] = Counter()
        self.recent: Final[deque[str]] = deque(maxlen=40)
        self.steps = 0
        self.judge: Final = Judge(self.scene)
        self._chance = chance = random.Random(seed)
        self._clock: Final = Clock()
        self._nodes: Final = [
            Node(number, self.scene, self._clock, chance) for number in range(self.scene.brokers)
        ]
        self._cables: Final[dict[Connector, list[Cable]]] = {
            each: [] for each in self.scene.connectors
        }
        self._clients: Final[list[tuple[int, Client]]] = []
        self._redial_at: Final[dict[Connector, int]] = dict.fromkeys(self.scene.connectors, 0)
        self._serials = 0
        self._next_tick = 0
        self._is_calm = False
        actions: dict[Callable[[], None], float] = {
            self.work: 50, self.carry: 40, self.serve: 30, self.act: 15, self.connect: 3,
            self.pass_time: 5, self.start: 1,
        }  # fmt: skip
        faults: dict[Callable[[], None], float] = {
            self.vanish: 0.2, self.cut: 0.3, self.kill: 0.15, self.cut_power_soon: 0.1,
            self.stop: 0.03, self.stand_still: 0.1,
        }  # fmt: skip
        # Each run has habits of its own, and some break nothing.
        harm = chance.choice((0.0, 0.3, 1.0, 1.0, 2.0))
        actions |= {each: harm * share * chance.uniform(0, 2) for each, share in faults.items()}
        self._actions: Final = tuple(actions)
        self._weights: Final = tuple(accumulate(actions.values()))

    def run(self, steps: int = STEPS) -> None:
        """Take so many steps, then let all heal and drain, and judge."""
        for _ in range(steps):
            self._step()
        self._heal()
        self._until(self._is_drained, "the brokers do not drain")
        for entry in self.scene.entries:
            self._probe(entry)
        self.judge.check_end()

    def _step(self) -> None:
        self.steps += 1
        self._chance.choices(self._actions, cum_weights=self._weights)[0]()

    def _round(self) -> None:
        """Let all of them do something, and nothing break."""
        self.steps += 1
        for node in self._nodes:
            for _ in range(6):
                self._guarded(node, node.work)
        for cable in self._each_cable():
            for end in cable.ends:
                cable.carry(end, len(end.to_client))
                self._arrive(end)
        for _, client in list(self._clients):
            self._hand_over(client)
            self._arrive(client.link)
            client.act()
        self.start()
        for connector in self.scene.connectors:
            self._dial(connector)
        self._come()
        self.pass_time()

    def _note(self, text: str) -> None:
        self.recent.append(f"{self.steps} {text}")
        self.deeds[text.rpartition(": ")[2]] += 1

    def _guarded(self, node: Node, action: Callable[[], object]) -> None:
        """Let a broker do something, in which its power may be cut."""
        try:
            action()
        except PowerCut:
            self._note(f"{node.name}: the power is cut in a call of the disk")
            node.die(power_cut=True)

    # ---- brokers

    def start(self) -> None:
        """Start a broker that is dead."""
        for node in self._nodes:
            if node.life is None:
                self._guarded(node, node.start)
                self._note(f"{node.name}: it starts")
                return

    def work(self) -> None:
        """A broker does a small thing."""
        node = self._chance.choice(self._nodes)
        self._guarded(node, node.work)

    def pass_time(self) -> None:
        """The clock moves."""
        self._clock.advance(self._chance.choice((1_000, 30_000, 30_000, 300_000)))
        if self._clock.now < self._next_tick:
            return
        self._next_tick = self._clock.now + TICK_US
        for node in self._nodes:
            self._guarded(node, node.tick)
        for cables in self._cables.values():
            cables[:] = [each for each in cables if not each.is_over]

    # ---- network

    def carry(self) -> None:
        """Bytes between two brokers get one step further."""
        cables = self._each_cable()
        if not cables:
            return
        cable = self._chance.choice(cables)
        end = self._chance.choice(cable.ends)
        if self._chance.random() < 0.5:
            cable.carry(end, self._piece(len(end.to_client)))
        else:
            self._arrive(end)

    def _each_cable(self) -> list[Cable]:
        return [each for known in self._cables.values() for each in known]

    def _arrive(self, link: Link) -> None:
        """Bytes reach the broker at an end."""
        node = next((each for each in self._nodes if link in each.links), None)
        if node is not None and node.is_awake and link.can_reach_broker():
            count = self._piece(len(link.to_broker))
            self._guarded(node, lambda: link.carry_to_broker(count))

    def _piece(self, available: int) -> int:
        if self._chance.random() < 0.7:
            return available
        return self._chance.randint(1, max(1, min(available, 400)))

    def connect(self) -> None:
        """A connector dials, or a client comes."""
        if self._chance.random() < 0.5:
            self._dial(self._chance.choice(self.scene.connectors))
        else:
            self._come()

    def _dial(self, connector: Connector) -> None:
        """Open the connection of a connector, if the one that it had is gone for its broker."""
        ends = (connector.near, connector.far)
        dialling, accepting = (
            self._nodes[each] for each in (ends[::-1] if connector.dials else ends)
        )
        cables = self._cables[connector]
        is_there = any(not each.near.broker_gone for each in cables)
        if is_there or not (dialling.is_serving and accepting.is_serving):
            return
        if self._clock.now < self._redial_at[connector]:
            return
        self._redial_at[connector] = self._clock.now + REDIAL_US
        cable = Cable(self._link(dialling), self._link(accepting), self._clock)
        cables.append(cable)
        dialling.links.append(cable.near)
        accepting.links.append(cable.far)
        links = () if connector.dials else connector.links
        # The peer may attach links of its own only by the right of a user.
        user = "guest" if connector.dials else ""
        outbound = Outbound(
            "out", dialling.name, "sim", Anonymous("guest"), user, links=lambda: links
        )
        assert dialling.life is not None
        assert accepting.life is not None
        accepting.life.accept(cable.far, connector.links if connector.dials else ())
        dialling.life.dial(cable.near, outbound)
        self._note(f"{dialling.name} to {accepting.name}: a connector connects")

    def _link(self, node: Node) -> Link:
        self._serials += 1
        return Link(self._serials, write_high(node.room), lambda link, data: None)

    # ---- clients

    def _come(self) -> None:
        """A client connects where there is room for one; only receivers when all is calm."""
        scene, chance = self.scene, self._chance
        places: list[tuple[int, type[Client]]] = [(each, Consumer) for each in scene.exits]
        if not self._is_calm:
            places += [(each, Producer) for each in scene.entries]
        number, kind = chance.choice(places)
        most = 1 if self._is_calm else 2
        there = [each for at, each in self._clients if at == number and type(each) is kind]
        if self._nodes[number].is_serving and len(there) < most:
            self._add(number, kind)

    def _add(self, number: int, kind: type[Client], **values: int) -> Client:
        node = self._nodes[number]
        link = self._link(node)
        assert node.life is not None
        client = kind(link, self.judge, node.identity, self._chance, **values)
        if isinstance(client, Consumer):
            client.is_kind = self._is_calm
        node.links.append(link)
        self._clients.append((number, client))
        node.life.accept(link)
        return client

    def serve(self) -> None:
        """Bytes between a client and its broker get one step further."""
        if not self._clients:
            return
        _, client = self._chance.choice(self._clients)
        if self._chance.random() < 0.5:
            self._arrive(client.link)
        else:
            self._hand_over(client)

    def _hand_over(self, client: Client) -> None:
        """Bytes reach a client, or the news that its connection is over."""
        link = client.link
        if link.to_client:
            client.receive(link.carry_to_client(self._piece(len(link.to_client))))
        elif link.broker_gone:
            self._forget(client)

    def _forget(self, client: Client) -> None:
        client.link.client_gone = True
        client.lost()
        self._clients[:] = [each for each in self._clients if each[1] is not client]

    def act(self) -> None:
        """A client does something; seldom it takes leave."""
        if self._clients:
            _, client = self._chance.choice(self._clients)
            client.act()
            if not self._is_calm and self._chance.random() < 0.01:
                client.leave()

    # ---- faults

    def vanish(self) -> None:
        """A client goes without a word."""
        if self._clients:
            _, client = self._chance.choice(self._clients)
            self._note("clients: one vanishes")
            client.link.to_broker.clear()
            client.link.lost_at = self._clock.now + self._chance.choice(LATE_US)
            self._forget(client)

    def cut(self) -> None:
        """A connection between brokers breaks."""
        cables = [each for each in self._each_cable() if each.is_up]
        if cables:
            cable = self._chance.choice(cables)
            cable.cut(self._chance)
            self._note(f"link {cable.near.serial}: a cable is cut")

    def kill(self) -> None:
        """A broker dies, with its machine or without."""
        node = self._chance.choice(self._nodes)
        if node.life is not None:
            power_cut = self._chance.random() < 0.6
            self._note(f"{node.name}: {'the power is cut' if power_cut else 'it is killed'}")
            node.die(power_cut=power_cut)

    def cut_power_soon(self) -> None:
        """The power of a broker is cut while it writes."""
        self._chance.choice(self._nodes).cut_soon()

    def stop(self) -> None:
        """A broker is stopped."""
        node = self._chance.choice(self._nodes)
        self._note(f"{node.name}: it is stopped")
        node.stop()

    def stand_still(self) -> None:
        """A broker stands still for some time."""
        node = self._chance.choice(self._nodes)
        node.stands_until = self._clock.now + self._chance.choice(STANDS_US)
        self._note(f"{node.name}: it stands still")

    # ---- the end

    def _heal(self) -> None:
        self._note("all: everything heals")
        self._is_calm = True
        for node in self._nodes:
            node.calm()
        for _, client in self._clients:
            if isinstance(client, Consumer):
                client.is_kind = True
            else:
                client.leave()

    def _until(self, condition: Callable[[], bool], complaint: str) -> None:
        for _ in range(ROUNDS_MAX):
            self._round()
            if condition():
                return
        raise Violation("liveness", complaint)

    def _is_drained(self) -> bool:
        if any(isinstance(client, Producer) or client.waits for _, client in self._clients):
            return False
        return all(node.is_serving and not node.queued() for node in self._nodes)

    def _is_joined(self) -> bool:
        """Whether each broker is there, and each auto-link active.

        A broker that has not learned yet that a receiver vanished may send direct messages to it.
        """
        if not all(node.is_serving and node.knows_ends for node in self._nodes):
            return False
        for connector, cables in self._cables.items():
            if len(cables) != 1 or not cables[0].is_up:
                return False
            end = cables[0].far if connector.dials else cables[0].near
            assert end.peer is not None
            rows = end.peer.session.auto_links
            if len(rows) < len(connector.links) or any(row.state != ACTIVE for row in rows):
                return False
        return True

    def _probe(self, entry: int) -> None:
        """Send as many messages as would use up credit that is not given again."""
        first = len(self.judge.sent)
        self._until(self._is_joined, "not all links between brokers are active")
        probe = self._add(entry, Producer, at_most=PROBES)
        self._until(lambda: not probe.waits, f"not all probes of {entry} are sent")
        probe.leave()
        self._until(self._is_drained, f"the probes of {entry} do not arrive")
        probes = [each for tag, each in self.judge.sent.items() if tag > first]
        if any(each.heard != "accepted" for each in probes):
            raise Violation("several", f"nothing breaks, and probes are not accepted: {probes}")


def main(arguments: list[str]) -> int:
    """Play seeds: the first one, and how many."""
    first, runs = (int(each) for each in (*arguments, "0", "11")[:2])
    for seed in range(first, first + runs):
        if not is_kept(seed):
            return 1
    return 0


def is_kept(seed: int) -> bool:
    """Whether all promises are kept in a run; says what came of it."""
    world = World(seed)
    try:
        world.run()
    except Exception:
        traceback.print_exc()
        print("\n".join(world.recent))
        print(f"FAILED: seed {seed}, {world.scene.name}, after {world.steps} steps")
        return False
    sent = Counter(each.heard for each in world.judge.sent.values())
    print(f"seed {seed}, {world.scene.name}: {dict(sent)}, {dict(world.deeds)}")
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
