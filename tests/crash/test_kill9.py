"""Promise P1 and P5 on the real process: SIGKILL at random moments, under load of real clients.

What the kernel has survives a SIGKILL, so this proves the order of saying and writing and the
recovery; `test_power_cut` takes away what was not synced.
"""

import os
import signal
from pathlib import Path

import pytest

from daybook.tools.drills.clients.amqp_client import AmqpDrillClient
from daybook.tools.drills.clients.client import Connect
from tests.crash.campaign import Campaign
from tests.crash.clients import CLIENTS, StompPy

# stompest leaves sockets open that could not connect.
pytestmark = [pytest.mark.crash, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]


class WriterKills(Campaign):
    """Crashes of the process that writes the journal; the broker has to end by itself."""

    def strike(self) -> None:
        for pid in self.broker.writers():
            os.kill(pid, signal.SIGKILL)
        assert self.broker.wait() == 1, self.broker.log_text()


@pytest.mark.parametrize("connect", CLIENTS, ids=lambda client: client.name)
def test_nothing_receipted_is_lost(tmp_path: Path, kills: int, seed: int, connect: Connect) -> None:
    campaign = Campaign(tmp_path / "data", connect, seed)
    with campaign.broker:
        for _ in range(kills):
            campaign.round()
        campaign.finish()


class AmqpKills(Campaign):
    """Clients that speak AMQP 1.0."""

    listen = ("amqp://127.0.0.1:0",)


def test_nothing_accepted_over_amqp_is_lost(tmp_path: Path, kills: int, seed: int) -> None:
    campaign = AmqpKills(tmp_path / "data", AmqpDrillClient, seed)
    with campaign.broker:
        for _ in range(kills):
            campaign.round()
        campaign.finish()
    assert "Traceback" not in campaign.broker.log_text()


def test_nothing_receipted_is_lost_in_one_process(tmp_path: Path, kills: int, seed: int) -> None:
    campaign = Campaign(tmp_path / "data", StompPy, seed, processes=1)
    with campaign.broker:
        for _ in range(max(1, kills // 2)):
            campaign.round()
        campaign.finish()
    assert "Traceback" not in campaign.broker.log_text()


def test_nothing_receipted_is_lost_with_the_writer(tmp_path: Path, kills: int, seed: int) -> None:
    campaign = WriterKills(tmp_path / "data", StompPy, seed)
    campaign.starts_to_kill = 0.0
    with campaign.broker:
        for _ in range(max(1, kills // 2)):
            campaign.round()
        campaign.finish()
    assert "Traceback" not in campaign.broker.log_text()
