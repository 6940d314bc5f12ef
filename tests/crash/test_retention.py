"""Promises P1 to P5 on brokers whose history leaves, with SIGKILL for all that takes part in it."""

from pathlib import Path

import pytest

from tests.crash.clients import StompPy
from tests.crash.retention import RetentionCampaign, first_lsn

pytestmark = pytest.mark.crash


def test_nothing_queued_leaves_with_history(tmp_path: Path, kills: int, seed: int) -> None:
    archive = tmp_path / "archive"
    campaign = RetentionCampaign(tmp_path / "data", StompPy, seed, str(archive))
    with campaign.broker:
        for _ in range(max(1, kills * 3 // 10)):
            campaign.round()
        campaign.let_history_leave()
        campaign.finish()
    assert first_lsn(tmp_path / "data") > 1
