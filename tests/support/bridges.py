"""Two brokers with a bridge between them, and their journals as data directories."""

from pathlib import Path
from typing import Final

from daybook.engine.facts.definitions import AutoLink
from tests.support.amqp.line import Line
from tests.support.amqp.peer import Peer, follow
from tests.support.histories import write_history
from tests.support.world import World

OUT: Final = AutoLink("to-east", "orders", "orders", is_out=True)
BILLS: Final = AutoLink("from-east", "bills", "bills", is_out=False, phase=1)


def accept(world: World, address: str) -> None:
    """Take one message as a client does, and accept it."""
    peer = Peer(world).open()
    peer.receiver(0, address, credit=1, settled=1)
    peer.deliveries()


def lose_outcomes(line: Line) -> None:
    """Carry what each has said, and lose the connection before the answers."""
    ends = ((line.here, line.dialled, line.accepted), (line.there, line.accepted, line.dialled))
    for world, connection, _ in ends:
        follow(world, connection)
    said = [b"".join(connection.out) for _, connection, _ in ends]
    for (world, _, other), data in zip(ends, said, strict=True):
        other.receive(data, world.now)
    for world, connection, _ in ends:
        follow(world, connection)
        connection.connection_lost(world.now)


def written(world: World, directory: Path) -> Path:
    """Write the journal of a broker, under the id by which the others know it."""
    return write_history(directory, world.journal, data_id=bytes.fromhex(world.broker.identity))
