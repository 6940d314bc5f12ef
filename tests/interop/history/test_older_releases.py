"""Data directories of older releases: each opens, serves, verifies, and is allowed by the audit.

They are golden: `tests.golden.make_release` wrote them with the brokers of these commits.
"""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import open_segment, segment_names
from daybook.tools.journal_cli import cli as journal
from tests.interop.using import connected, queues, sent
from tests.support.process import BrokerProcess
from tests.support.stored.releases import RELEASES, expected, unpacked

FIRST_DAY = ("5be76f7", "ddb7ab0")
"""Without kinds of queues, so their journals need nothing of later levels."""


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def run(*arguments: object) -> Result:
    return CliRunner().invoke(
        journal, [str(each) for each in arguments], env={"DAYBOOK_DATA": None}
    )


def levels(data: Path) -> list[int]:
    disk = RealDisk(data / JOURNAL)
    found = []
    for name in segment_names(disk):
        segment = open_segment(disk, name)
        found.append(segment.header.level)
        segment.close()
    return found


def is_refused_by_builds_before_levels(data: Path) -> bool:
    """The check of all their readers: a segment's format version is above 1."""
    newest = (data / JOURNAL / segment_names(RealDisk(data / JOURNAL))[-1]).read_bytes()
    return int.from_bytes(newest[8:10], "little") > 1


def counts(broker: BrokerProcess) -> dict[str, int]:
    return {name: row["messages"] for name, row in queues(broker).items()}


def test_it_is_intact_and_allowed_as_it_is(release: str, tmp_path: Path) -> None:
    data = unpacked(release, tmp_path / "data")
    for command in ("verify", "audit"):
        done = run(command, data)
        assert done.exit_code == 0, done.output


def test_todays_broker_serves_it(release: str, tmp_path: Path) -> None:
    data = unpacked(release, tmp_path / "data")
    before = max(levels(data))
    with BrokerProcess(data, processes=1) as broker:
        broker.start()
        queues = expected(release)["queues"]
        found = counts(broker)
        assert {name: found.get(name, 0) for name in queues} == queues
        with connected(broker) as wire:
            wire.send("SUBSCRIBE", id="1", destination="/queue/paid", ack="client-individual")
            frames = [wire.expect("MESSAGE") for _ in range(2)]
            assert [each.body for each in frames] == [b"paid 0", b"paid 1"]
            for each in frames:
                wire.send("ACK", id=each.headers["ack"])
            wire.send("SUBSCRIBE", id="2", destination="/queue/DLQ", ack="client-individual")
            dead = wire.expect("MESSAGE")
            assert dead.body == b"fails"
            assert dead.headers["kind"] == "poison"
            assert dead.headers["_AMQ_ORIG_ADDRESS"] == "failing"
            sent(wire, "/queue/orders", b"of today")
        assert broker.stop() == 0, broker.log_text()
    for command in (("verify", data, "--index"), ("audit", data)):
        done = run(*command)
        assert done.exit_code == 0, done.output
    assert max(levels(data)) >= before
    assert is_refused_by_builds_before_levels(data) == (release not in FIRST_DAY)
