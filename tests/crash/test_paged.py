"""Promises P1 to P5 on brokers that page, with SIGKILL for broker, indexer, and both at once."""

from pathlib import Path

import pytest

from tests.crash.clients import StompPy
from tests.crash.paged import PagedCampaign

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("processes", [3, 1])
def test_nothing_receipted_is_lost_when_all_is_paged(
    tmp_path: Path, kills: int, seed: int, processes: int
) -> None:
    campaign = PagedCampaign(tmp_path / "data", StompPy, seed, processes=processes)
    with campaign.broker:
        for _ in range(max(1, kills // 2)):
            campaign.round()
        campaign.finish()
    assert campaign.struck["broker"] + campaign.struck["both"] > 0
