"""One of several simulated brokers: its disk, its lives, and the times when it stands still."""

import random
from typing import Any, Final

from daybook.engine.core.core import Options
from daybook.engine.facts.definitions import ANYCAST
from daybook.protocols.amqp.options import AmqpOptions
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.server.hub.ports import HubOptions
from tests.simulation.counts import WayCounts
from tests.simulation.machine.clock import Clock
from tests.simulation.machine.disk import FaultyDisk
from tests.simulation.machine.incarnation import Incarnation
from tests.simulation.machine.network import Link
from tests.simulation.machine.writer import SteppedWriter
from tests.simulation.several.scenes import NAME, Scene
from tests.support.stored.recovering import recover
from tests.support.topology import create_queue

SETTINGS: Final[dict[str, dict[str, Any]]] = {"#": {"max-delivery-attempts": -1}}
SEGMENT_BYTES: Final = (8_192, 65_536)


class Node:
    """A broker. It does nothing before the time `stands_until`; without a `life` it is dead."""

    def __init__(self, number: int, scene: Scene, clock: Clock, chance: random.Random) -> None:
        self.number: Final = number
        self.name: Final = f"broker-{number}"
        self.data_id: Final = bytes([number + 1]) * 16
        self.life: Incarnation | None = None
        self.stands_until = 0
        self.links: list[Link] = []
        self._scene: Final = scene
        self._clock: Final = clock
        self._chance: Final = chance
        self._disk = FaultyDisk(chance.getrandbits(32))
        self._segment_bytes: Final = chance.choice(SEGMENT_BYTES)
        self._hub_options: Final = HubOptions(block_bytes=chance.choice((1_000, 10_000, 262_144)))
        self._amqp: Final = AmqpOptions(
            room=chance.choice((30_000, 1 << 20)),
            max_frame_size=chance.choice((512, 4_000, 131_072)),
            min_large_message_size=chance.choice((300, 102_400)),
            credit=chance.choice((1, 3, 10, 1_000)),
            idle_time_out_ms=chance.choice((0, 60_000, 4_000)),
        )

    @property
    def room(self) -> int:
        """How much output each of its connections has room for, in bytes."""
        return self._amqp.room

    @property
    def identity(self) -> str:
        """The id by which other brokers know it."""
        return self.data_id.hex()

    @property
    def is_awake(self) -> bool:
        """Whether it does not stand still."""
        return self._clock.now >= self.stands_until

    @property
    def is_serving(self) -> bool:
        """Whether clients may come."""
        life = self.life
        return life is not None and life.is_serving and not (life.hub.stopping or life.stopped)

    def start(self) -> None:
        """Recover what the disk has, and begin to serve. Raises PowerCut."""
        recovered = recover(self._disk, data_id=self.data_id, segment_bytes=self._segment_bytes)
        scene = self._scene
        has_table = self.number == 0
        self.life = life = Incarnation(
            recovered, self._clock, options=Options(lsns_reserved=64),
            hub_options=self._hub_options, stomp=StompOptions(), amqp=self._amqp, disk=self._disk,
            settings=SETTINGS, journal_non_persistent="decisions",
            table=scene.table if has_table else (),
            waypoints=scene.waypoints if has_table else (),
            make_writer=SteppedWriter, note_live=lambda _: None,
            name=self.name, identity=self.identity,
        )  # fmt: skip
        if self.number in scene.queues and NAME not in life.broker.state.queue_by_name:
            life.ask(create_queue(NAME, NAME, ANYCAST))
        life.writer.choose_ways(self._chance, WayCounts(), lambda: None)

    @property
    def knows_ends(self) -> bool:
        """Whether it has learned of each client and broker that is gone."""
        return not any(link.client_gone for link in self.links)

    def queued(self) -> int:
        """Return how many messages it keeps."""
        assert self.life is not None
        return sum(each.message_count for each in self.life.broker.state.queues.values())

    # ---- steps

    def work(self) -> None:
        """Do one small thing that is due. Raises PowerCut."""
        life = self.life
        if life is None or not self.is_awake:
            return
        due = []
        if life.turn_due:
            due.append(life.turn)
        if life.writer.has_work:
            due.append(life.writer.step)
        if life.writer.news:
            due.append(life.hear_news)
        if life.logins:
            due.append(lambda: life.logins.pop(0)("guest", ""))
        if due:
            self._chance.choice(due)()
        if life.hub.failure is not None:
            raise life.hub.failure
        if life.stopped:
            self._stopped(life)

    def tick(self) -> None:
        """Ten times a second. Raises PowerCut."""
        if self.life is not None and self.is_awake:
            self.life.hub.tick()
            for link in list(self.links):
                if link.is_to_end():
                    link.end()
                if link.broker_gone:
                    self.links.remove(link)

    def stop(self) -> None:
        """Begin a clean stop."""
        if self.life is not None and self.is_serving:
            self.life.stop()

    def _stopped(self, life: Incarnation) -> None:
        life.writer.mark(self._clock.now)
        while life.writer.has_work:
            life.writer.step()
        life.writer.close()
        self._bury()

    def die(self, *, power_cut: bool) -> None:
        """End at once; with the power goes what the disk had not written."""
        if power_cut:
            self._disk = self._disk.crash()
        else:
            self._disk.survive_kill()
        self._bury()

    def cut_soon(self) -> None:
        """Let the power be cut in one of the next calls of the disk."""
        self._disk.crash_after(self._chance.randint(1, 12))

    def calm(self) -> None:
        """No faults are to come."""
        self.stands_until = 0
        self._disk.survive_kill()

    def _bury(self) -> None:
        self.life = None
        for link in self.links:
            link.broker_died(self._chance)
        self.links.clear()
