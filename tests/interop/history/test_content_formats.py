"""A journal of a later version: messages in unknown formats are kept."""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from daybook.engine.commands import Send, Stop
from daybook.tools.daybook import cli as daybook
from daybook.tools.journal_cli import cli as journal
from tests.interop.history.test_retention import run
from tests.interop.wire import Wire
from tests.support.histories import write_history
from tests.support.process import BrokerProcess, wait_for
from tests.support.world import World
from tests.support.worlds.second_format import MAPS, encode, installed

pytestmark = pytest.mark.interop

BLOCK = encode({"n": 1}, destination="later")
UNKNOWN = "its headers are in content format 5, which this version does not know"


def journal_of_a_later_version(data: Path) -> int:
    """A data directory with three messages in a queue, the second one in an unknown format."""
    with installed():
        world = World()
        connection = world.connect()
        world.send("now", b"fine", connection)
        world.send("later", b"0", connection)
        world.ok(Send(connection, "later", BLOCK, b"1", format=MAPS))
        world.send("later", b"2", connection)
        unknown = sorted(world.queue("later").entries)[1]
        world.ok(Stop())
        write_history(data, world.journal)
    return unknown


@pytest.mark.parametrize("is_indexed", [False, True])
def test_what_cannot_be_read_waits_and_all_else_goes_on(tmp_path: Path, is_indexed: bool) -> None:
    data = tmp_path / "data"
    unknown = journal_of_a_later_version(data)
    with BrokerProcess(data) as broker:
        if is_indexed:
            # From here on the index has the message, and no fold of a start sees its event.
            broker.start()
            assert broker.stop() == 0
        broker.start()
        with Wire(broker.port) as consumer:
            consumer.connect()
            consumer.send("SUBSCRIBE", destination="/queue/now", id="1", ack="auto")
            assert consumer.expect("MESSAGE").body == b"fine"
            consumer.send("SUBSCRIBE", destination="/queue/later", id="2", ack="client")
            assert consumer.expect("MESSAGE").body == b"0"
            wait_for(lambda: f"message {unknown}: {UNKNOWN}" in broker.log_text(), "the log")
            assert "queue 'later' waits" in broker.log_text()
        failed = run(daybook, "browse", "later", "--data", broker.data, code=1)
        assert f"message {unknown}: {UNKNOWN}" in " ".join(failed.split())
        assert broker.stop() == 0
    lines = run(journal, "inspect", data, "--json", "--kind", "Routed").splitlines()
    [told] = [each for each in map(json.loads, lines) if each["message"] == unknown]
    assert (told["headers"], told["headers_format"]) == (None, 5)
    assert b64decode(told["headers_base64"]) == BLOCK
    text = run(journal, "inspect", data, "--kind", "Routed")
    assert text.count("headers in content format 5, unknown to this version") == 1
    assert run(journal, "verify", data)
