"""`journal.device-block-size` on a real broker: nothing shows but the padding."""

from pathlib import Path

import pytest

from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop


def test_blocks_are_padded_and_read_again(tmp_path: Path) -> None:
    """Over a kill, and over a start that does without padding."""
    bodies = [b"%d" % number for number in range(20)]
    with BrokerProcess(tmp_path / "data") as broker:
        for size, part in (("4096", bodies[:10]), ("0", bodies[10:])):
            broker.settings = [f"journal.device-block-size={size}"]
            broker.start()
            with Wire(broker.port) as wire:
                wire.connect()
                for body in part:
                    wire.send("SEND", body, destination="/queue/padded", receipt="sent")
                    wire.expect("RECEIPT")
            if size == "4096":
                blocks = list(read_blocks(RealDisk(broker.directory / JOURNAL), LAYOUT))
                ends = {(block.offset + block.header.block_bytes) % 4096 for block in blocks}
                assert len(blocks) > 10
                assert ends == {0}
            broker.kill()
        broker.start()
        with Wire(broker.port) as wire:
            wire.connect()
            wire.send("SUBSCRIBE", id="s", destination="/queue/padded", ack="auto")
            assert [frame.body for frame in wire.frames(len(bodies))] == bodies
        assert broker.stop() == 0
