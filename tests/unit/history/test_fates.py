"""Choosing messages of history: which ones count as replays."""

from pathlib import Path

from daybook.engine import commands as c
from daybook.engine.messages.headers import build
from daybook.history.replays.fate_words import REPLAY_OF
from daybook.history.replays.fates import Request, choose
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from tests.support.histories import write_history
from tests.support.topology import create_queue
from tests.support.world import World


def test_only_the_header_itself_makes_a_message_a_replay(tmp_path: Path) -> None:
    world = World()
    world.ok(create_queue("orders", "orders"))
    connection = world.ok(c.OpenConnection("stomp", "10.0.0.1:61613", "user"))
    for headers in ([(REPLAY_OF, "7@ab")], [("note", f"about {REPLAY_OF}")], []):
        world.ok(c.Send(connection, "orders", build(headers), b"body"))
    world.turn()
    data = write_history(tmp_path / "data", world.journal)
    request = Request(to_lsn=len(world.journal))
    found = choose(data, RealDisk(data / JOURNAL), request, note=lambda _: None)
    assert (len(found.messages), found.copies) == (2, 1)
