"""Retention on a real broker: what leaves, what stays, what is said, and how to get it back."""

import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from daybook.journal.data_directory import INDEX
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import segment_names
from daybook.tools.daybook import cli as daybook
from daybook.tools.journal_cli import cli as journal
from tests.crash.retention import first_lsn
from tests.interop.using import status
from tests.interop.wire import Frame, Wire
from tests.support.process import BrokerProcess, wait_for

SETTINGS: Final = ("journal.segment-bytes=64KiB", "journal.retention-scan-period=100")
CONFIG: Final = """
[[address-setting]]
match = "#"
max-delivery-attempts = -1
max-size-messages = 0
"""
BIG: Final = 16 * 1024 * 1024 * 1024


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with small segments; retention is configured by the tests."""
    with BrokerProcess(tmp_path / "data", settings=SETTINGS, config=CONFIG) as process:
        yield process


def set_journal(broker: BrokerProcess, *lines: str) -> None:
    """Have the configuration say this of the journal; it counts from the next start or SIGHUP."""
    broker.configure("[journal]\n" + "\n".join(lines) + "\n" + CONFIG)


def send(broker: BrokerProcess, queue: str, first: int, end: int) -> None:
    """Send bodies that do not compress, and wait for the receipt of the last."""
    with Wire(broker.port) as producer:
        producer.connect()
        for number in range(first, end):
            receipt = {"receipt": "all"} if number == end - 1 else {}
            body = f"{number} ".encode() + random.Random(number).randbytes(2000).hex().encode()
            producer.send("SEND", body, destination=f"/queue/{queue}", persistent="true", **receipt)
        producer.expect("RECEIPT")


def drain(broker: BrokerProcess, queue: str, count: int) -> list[int]:
    """Take and acknowledge so many messages; return their numbers."""
    found = []
    with Wire(broker.port) as consumer:
        consumer.connect()
        consumer.send("SUBSCRIBE", destination=f"/queue/{queue}", id="1", ack="client-individual")
        for place in range(count):
            message = consumer.expect("MESSAGE")
            number, _, rest = message.body.decode().partition(" ")
            assert rest == random.Random(int(number)).randbytes(2000).hex()
            found.append(int(number))
            receipt = {"receipt": "all"} if place == count - 1 else {}
            consumer.send("ACK", id=message.headers["ack"], **receipt)
        consumer.expect("RECEIPT")
    return found


def leave(broker: BrokerProcess, more_than: int = 1) -> None:
    wait_for(lambda: first_lsn(broker.data) > more_than, "history to leave")


def run(cli: Any, *arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(
        cli, [str(each) for each in arguments], env={"DAYBOOK_DATA": None, "DAYBOOK_ARCHIVE": None}
    )
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def said(broker: BrokerProcess, text: str) -> int:
    return broker.log_text().count(text)


def test_what_is_queued_stays_and_can_be_asked_about(broker: BrokerProcess) -> None:
    archive = broker.data.with_name("archive")
    broker.start()
    send(broker, "kept", 0, 5)
    send(broker, "gone", 5, 150)
    assert drain(broker, "gone", 145) == list(range(5, 150))
    # A reload is enough.
    set_journal(broker, 'retention-max-bytes = "200KiB"', f'archive-directory = "{archive}"')
    broker.send_signal(signal.SIGHUP)
    leave(broker)
    wait_for(lambda: status(broker)["retention_carried_messages"] >= 5, "the five")
    wait_for(lambda: len(segment_names(RealDisk(broker.data / "journal"))) <= 4, "few segments")
    # The files go first, and the report of it comes a moment later.
    wait_for(lambda: status(broker)["retention_removed_segments"] > 0, "the report of it")
    seen = status(broker)
    assert seen["history_from_lsn"] > 1
    assert seen["archive"] == str(archive)
    assert seen["retention_trouble"] == ""
    browsed = run(daybook, "browse", "kept", "--data", broker.data)
    assert random.Random(0).randbytes(20).hex() in browsed
    assert broker.stop() == 0
    shutil.rmtree(broker.data / INDEX)
    assert "kept" in run(daybook, "queue", "list", "--data", broker.data)
    check_history(broker, archive)
    broker.start()
    assert drain(broker, "kept", 5) == [0, 1, 2, 3, 4]
    assert broker.stop() == 0
    assert "intact" in run(journal, "verify", broker.data, "--archive", archive)


def check_history(broker: BrokerProcess, archive: Path) -> None:
    """Return the answers about history, with and without the archive."""
    carried = run(journal, "inspect", broker.data, "--kind", "Carried", "--limit", 1)
    assert "written again from event" in carried
    message = carried.split(" message ")[1].split(",")[0]
    assert "address 'kept'" in carried
    removed = run(journal, "inspect", broker.data, "--kind", "SegmentsRemoved", "--limit", 1)
    assert "history up to event" in removed
    assert str(archive) in removed
    trail = run(journal, "trail", broker.data, message)
    assert f"is in the archive {archive}: add --with-archive" in trail
    assert "Carried" in trail
    assert f"now: message {message} ready in queue 'kept'" in trail
    whole = run(journal, "trail", broker.data, message, "--archive", archive)
    assert "not told" not in whole
    assert " Routed " in whole
    nobody = run(journal, "trail", broker.data, 1, code=1)
    assert "nothing is known of message 1" in nobody
    assert "intact" in run(journal, "verify", broker.data)
    assert "intact" in run(journal, "verify", broker.data, "--archive", archive)
    assert "intact" in run(journal, "archive", "verify", broker.data, "--archive", archive)


def test_what_is_mostly_queued_is_held_back(broker: BrokerProcess) -> None:
    set_journal(broker, 'retention-max-bytes = "100KiB"')
    broker.start()
    send(broker, "kept", 0, 120)
    advice = "raise retention-max-bytes"
    wait_for(lambda: advice in status(broker)["retention_held_back"], "being held back")
    before = first_lsn(broker.data)
    assert status(broker)["retention_carried_messages"] == 0
    assert drain(broker, "kept", 120)
    leave(broker, before)
    assert said(broker, "most of the leaving messages are queued") == 1
    assert status(broker)["retention_carried_messages"] < 120


def test_an_archive_that_is_away(broker: BrokerProcess) -> None:
    """History stays as long as it cannot be archived; that is said once, and ends by itself."""
    away = broker.data.with_name("file")
    away.write_text("in the way")
    set_journal(broker, "retention-max-age = 200", f'archive-directory = "{away}/archive"')
    broker.start()
    send(broker, "q", 0, 40)
    why = wait_for(lambda: status(broker)["retention_trouble"], "trouble")
    assert str(away) in why
    assert first_lsn(broker.data) == 1
    away.unlink()
    leave(broker)
    wait_for(lambda: not status(broker)["retention_trouble"], "the end of trouble")
    assert said(broker, "retention cannot continue") == 1
    assert "Traceback" not in broker.log_text()
    assert drain(broker, "q", 40) == list(range(40))


def test_passwords_of_archives_are_shown_nowhere(broker: BrokerProcess) -> None:
    set_journal(
        broker, "retention-max-age = 200", 'archive-directory = "ftp://joe:hu/sh@127.0.0.1:1/a"'
    )
    broker.start()
    send(broker, "q", 0, 40)
    wait_for(lambda: status(broker)["retention_trouble"], "trouble")
    set_journal(broker, "retention-max-age = 0")
    broker.send_signal(signal.SIGHUP)
    wait_for(lambda: said(broker, "configuration reloaded"), "the reload")
    assert "sh@" not in broker.log_text() + str(status(broker))
    broker.kill()


def test_without_a_sound_base_no_index_can_be_made_anew(broker: BrokerProcess) -> None:
    archive = broker.data.with_name("archive")
    set_journal(broker, "retention-max-age = 200", f'archive-directory = "{archive}"')
    broker.start()
    send(broker, "q", 0, 60)
    leave(broker)
    assert broker.stop() == 0
    shutil.rmtree(broker.data / INDEX)
    kept = broker.data.with_name("kept")
    shutil.copytree(broker.data / "base", kept)
    for file in (broker.data / "base").glob("*.mdb"):
        file.write_bytes(b"x" * file.stat().st_size)
    text = broker.refuse()
    assert "its SHA-256 is not that of the description" in text
    listed = run(daybook, "queue", "list", "--data", broker.data, code=1)
    assert "cannot be used" in listed
    shutil.rmtree(broker.data / "base")
    assert "so is 'base', which retention leaves" in broker.refuse()
    # All of the archive will do as well.
    run(journal, "archive", "fetch", broker.data.with_name("all"), "--archive", archive)
    for segment in broker.data.with_name("all").joinpath("journal").glob("*.seg"):
        shutil.copy(segment, broker.data / "journal")
    broker.start()
    assert drain(broker, "q", 60) == list(range(60))


def test_a_large_message_that_comes_into_memory_while_it_is_carried(tmp_path: Path) -> None:
    """The index brings it with its old chunks as long as it has not seen what was carried."""
    settings = (*SETTINGS, "acceptor.min-large-message-size=1KiB")
    body = random.Random(1).randbytes(5000)
    with BrokerProcess(tmp_path / "data", settings=settings, config=CONFIG) as broker:
        broker.start()
        send_large(broker, "large", body)
        send(broker, "gone", 0, 150)
        drain(broker, "gone", 150)
        sent_lsn = status(broker)["lsn"]
        wait_for(lambda: status(broker)["indexed_lsn"] >= sent_lsn, "the index")
        (indexer,) = broker.indexers()
        os.kill(indexer, signal.SIGSTOP)
        try:
            set_journal(broker, 'retention-max-bytes = "200KiB"')
            broker.send_signal(signal.SIGHUP)
            wait_for(lambda: "waiting" in status(broker).get("retention_doing", ""), "the carrying")
            with Wire(broker.port) as consumer:
                taken = next_large(consumer)
                assert taken.body == body
                os.kill(indexer, signal.SIGCONT)
                wait_for(lambda: status(broker)["retention_removed_segments"] > 0, "its segment")
                # Chunks that were read are forgotten; the message stays in memory all the time.
                send_large(broker, "other", random.Random(2).randbytes(5_000_000))
                with Wire(broker.port) as other:
                    next_large(other, "other")
                consumer.send("NACK", id=taken.headers["ack"])
                assert consumer.expect("MESSAGE").body == body
        finally:
            os.kill(indexer, signal.SIGCONT)
        with Wire(broker.port) as consumer:
            assert next_large(consumer).body == body
        assert status(broker)["retention_trouble"] == ""


def send_large(broker: BrokerProcess, queue: str, body: bytes) -> None:
    with Wire(broker.port) as producer:
        producer.connect()
        producer.send("SEND", body, destination=f"/queue/{queue}", persistent="true", receipt="1")
        producer.expect("RECEIPT")


def next_large(consumer: Wire, queue: str = "large") -> Frame:
    """Be given a message, and do not settle it."""
    consumer.connect()
    consumer.send("SUBSCRIBE", destination=f"/queue/{queue}", id="1", ack="client-individual")
    return consumer.expect("MESSAGE")


@pytest.mark.parametrize("place", ["data", "data/journal", "link/archive", "file://"])
def test_an_archive_in_the_data_directory_is_refused(broker: BrokerProcess, place: str) -> None:
    """At a start, and at a reload, which keeps what was."""
    folder = broker.data.parent
    (folder / "link").symlink_to(broker.data)
    url = f"file://{broker.data}/archive" if place == "file://" else f"{folder}/{place}"
    broker.start()
    send(broker, "q", 0, 40)
    names = segment_names(RealDisk(broker.data / "journal"))
    set_journal(broker, "retention-max-age = 200", f'archive-directory = "{url}"')
    broker.send_signal(signal.SIGHUP)
    wait_for(lambda: said(broker, "the configuration was not reloaded"), "the refusal")
    assert said(broker, "the data directory") == 1
    assert broker.stop() == 0
    assert "whose segments would be lost" in broker.refuse()
    assert segment_names(RealDisk(broker.data / "journal"))[: len(names)] == names
    assert drain_after(broker) == list(range(40))


def drain_after(broker: BrokerProcess) -> list[int]:
    """Return the messages that are left, after the configuration was corrected."""
    set_journal(broker)
    broker.start()
    return drain(broker, "q", 40)
