"""A broker without [replication] imports nothing of standbys, also while it serves."""

from pathlib import Path

import pytest

from tests.support import nursery
from tests.support.process import DAYBOOK, BrokerProcess

pytestmark = pytest.mark.interop

IMPORTS = "PYTHONPROFILEIMPORTTIME"


def test_a_broker_without_standbys_imports_nothing_of_them(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", environment={IMPORTS: "1"}) as broker:
        broker.start()
        url = f"stomp://127.0.0.1:{broker.port}"
        command = [DAYBOOK, "send", "orders", "hello", "--url", url]
        nursery.run(command, capture_output=True, check=True)
        assert broker.stop() == 0
        imported = broker.log_text()
    assert "daybook.server.service" in imported
    assert "daybook.replication" not in imported
    assert "aiohttp" not in imported
