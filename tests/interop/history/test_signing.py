"""A broker whose history is signed, with a real notary: it never waits for that."""

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from daybook.history.verification.signature_proof import Proof, anchors_in
from daybook.history.verification.verification import Verdict, verify_data
from daybook.journal.data_directory import JOURNAL, NOTARY
from daybook.journal.disk import RealDisk
from daybook.recovery.signing.signing_keys import load_public, make_pair
from daybook.recovery.signing.statements import key_id
from tests.interop.delivery.test_flow import status
from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.process import BrokerProcess, wait_for


@pytest.fixture
def signed(tmp_path: Path) -> BrokerProcess:
    key = tmp_path / "keys" / "key.pem"
    key.parent.mkdir()
    make_pair(key)
    broker = BrokerProcess(tmp_path / "data")
    broker.configure(
        f'[journal]\nsigning-key = "{key}"\nanchors = ["file:{tmp_path}/anchors", "log"]\n'
        'checkpoint-period = "100ms"\n'
    )
    return broker


def send(broker: BrokerProcess, body: bytes) -> None:
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send("SEND", body, destination="/queue/a", receipt=1)
        wire.expect("RECEIPT")


def sends_until(broker: BrokerProcess, name: str, wanted: Any) -> None:
    """Send until a figure of the status is what is wanted of it."""

    def look() -> bool:
        send(broker, b"x")
        return bool(wanted(status(broker)[name]))

    wait_for(look, name, every=0.2)


def proven(broker: BrokerProcess, *keys: Path) -> Verdict:
    anchors = anchors_in([broker.directory.parent / "anchors"])
    proof = Proof([load_public(key) for key in keys], anchors, broker.directory / NOTARY)
    return verify_data(RealDisk(broker.directory / JOURNAL), lambda done: None, proof=proof)


def test_history_is_signed_through_everything_that_happens_to_keys_and_notary(
    signed: BrokerProcess, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    with signed as broker:
        broker.start()
        sends_until(broker, "anchored_lsn", lambda lsn: lsn > 0)
        first = status(broker)["signing_key"]
        (notary,) = notaries(broker)
        os.kill(notary, signal.SIGKILL)
        before = status(broker)["signed_lsn"]
        sends_until(broker, "signed_lsn", lambda lsn: lsn > before)
        assert status(broker)["signing_trouble"] == ""
        # A key that cannot be used: the broker continues with the old one.
        shutil.move(keys / "key.pem", keys / "away.pem")
        broker.send_signal(signal.SIGHUP)
        wait_for(lambda: "stays in use" in status(broker)["signing_trouble"], "trouble")
        before = status(broker)["signed_lsn"]
        sends_until(broker, "signed_lsn", lambda lsn: lsn > before)
        # Another key: the old one signs the change.
        (keys / "key.pem.pub").rename(keys / "first.pub")
        make_pair(keys / "key.pem")
        broker.send_signal(signal.SIGHUP)
        sends_until(broker, "signing_key", lambda key: key not in ("", first))
        before = status(broker)["signed_lsn"]
        sends_until(broker, "signed_lsn", lambda lsn: lsn > before)
        assert status(broker)["signing_trouble"] == ""
        assert broker.stop() == 0
        for key in (keys / "first.pub", keys / "key.pem.pub"):
            verdict = proven(broker, key)
            assert verdict.ok, verdict
            assert verdict.proven is not None
            # The clean end, too.
            assert verdict.proven.signed_lsn == verdict.report.last_lsn
            assert verdict.proven.anchored_lsn == verdict.report.last_lsn
        # The next start journals what was signed at the end.
        broker.start()
        sends_until(broker, "signed_lsn", lambda lsn: lsn > verdict.report.last_lsn)
        broker.kill()
        verdict = proven(broker, keys / "key.pem.pub")
        assert verdict.ok, verdict
        assert key_id(load_public(keys / "key.pem.pub")) in verdict.proven.keys  # type: ignore[union-attr]
        assert "Traceback" not in broker.log_text()


def notaries(broker: BrokerProcess) -> list[int]:
    """The processes of the broker that sign."""
    found = []
    for child in broker.children() if broker.is_running else []:
        command = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"daybook.server.history.notary" in command:
            found.append(child)
    return found


def test_a_notary_that_hangs_hurts_nobody(signed: BrokerProcess) -> None:
    with signed as broker:
        broker.start()
        sends_until(broker, "signed_lsn", lambda lsn: lsn > 0)
        (notary,) = notaries(broker)
        os.kill(notary, signal.SIGSTOP)
        for _ in range(20):
            send(broker, b"while it hangs")
        assert broker.stop() == 0
        assert "was not signed and anchored in time" in broker.log_text()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('signing-key = "{data}/key.pem"', "every backup"),
        ('signing-key = "{data}/../none.pem"', "cannot be read"),
        ('anchors = ["log"]', "need signing-key"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(tmp_path: Path, line: str, why: str) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.configure("[journal]\n" + line.format(data=tmp_path / "data"))
    assert why in broker.refuse()


def test_a_broker_imports_no_cryptography() -> None:
    code = (
        "import sys, daybook.tools.daybook, daybook.server.service, daybook.tools.journal_cli, "
        "daybook.tools.history.verify; "
        "print([m for m in sys.modules if m.startswith('cryptography')])"
    )
    found = nursery.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert found.stdout.strip() == b"[]"
