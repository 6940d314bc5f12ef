"""Promise P1 and P5 on the real process: SIGKILL at random moments, under load of real clients.

What the kernel has survives a SIGKILL, so this proves the order of saying and writing and the
recovery; `test_power_cut` takes away what was not synced.
"""

from pathlib import Path

import pytest

from tests.crash.campaign import Campaign
from tests.crash.clients import CLIENTS, Connect

# stompest leaves sockets open that could not connect.
pytestmark = [pytest.mark.crash, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]


@pytest.mark.parametrize("connect", CLIENTS, ids=lambda client: client.name)
def test_nothing_receipted_is_lost(tmp_path: Path, kills: int, seed: int, connect: Connect) -> None:
    campaign = Campaign(tmp_path / "data", connect, seed)
    with campaign.broker:
        for _ in range(kills):
            campaign.round()
        campaign.finish()
