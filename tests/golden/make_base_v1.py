"""Writes what a directory holds whose first segments left while tables had format 1.

Run once, with a release whose tables have format 1:

    python -m tests.golden.make_base_v1

Refuses to write over files that exist: a golden base that changes with the code proves nothing.
"""

import random
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import zstandard

from daybook.engine.state.digest import digest
from tests.support.scenario import RETENTION, play
from tests.support.stored.retention_world import RetentionWorld
from tests.support.world import World, fold

FOLDER: Final = Path(__file__).parent / "base-v1"
STEPS: Final = 500


def write(folder: Path) -> dict[str, Any]:
    """Write journal, base and index of some scenario; answers what reading them must give."""
    chance = random.Random(22)
    steps = [
        (chance.randrange(30), *[chance.randrange(21) for _ in range(3)]) for _ in range(STEPS)
    ]
    world = World()
    with TemporaryDirectory() as temporary:
        data = Path(temporary) / "data"
        with closing(RetentionWorld(data, world)) as retention:
            world.connect()
            for number in range(6):
                world.send(
                    "orders",
                    b"waits %d " % number * 40,
                    routing_type="anycast",
                    duplicate_id=str(number),
                    expires=1_900_000_000_000 + number,
                )
            play(world, [(0, 0, 6, 13)], retention.write)
            retention.round(1)
            played = [(kind % 24, *rest) for kind, *rest in steps]
            play(world, [step for step in played if step[0] not in RETENTION], lambda: None)
            retention.round(14)
            # A message without a body in the journal has none anywhere: a start drops it.
            world.restart()
            world.attach(world.connect(), "orders", credit_messages=2)
            retention.write()
            index_digest = retention.index()
            assert index_digest == digest(fold(world.journal))
            for place in ("journal", "base", "index"):
                for file in sorted((data / place).glob("*.*")):
                    if file.name != "lock.mdb":
                        target = folder / place / f"{file.name}.zst"
                        target.parent.mkdir(parents=True, exist_ok=True)
                        with target.open("xb") as opened:
                            opened.write(zstandard.compress(file.read_bytes(), 19))
            contents = {
                f"{queue.id}/{entry.message.id}": (
                    entry.message.headers + b"|" + entry.message.body
                ).hex()
                for queue in fold(world.journal).queues.values()
                for entry in queue.entries.values()
            }
            return {
                "data_id": (data / "data-id").read_text().strip(),
                "removed_lsn": retention.removed_lsn,
                "carried": retention.carried,
                "lsn": len(world.journal),
                "digest": index_digest,
                "contents": contents,
            }


if __name__ == "__main__":
    expected = write(FOLDER)
    with (FOLDER / "expected.json").open("xb") as opened:
        opened.write(msgspec.json.format(msgspec.json.encode(expected), indent=1) + b"\n")
