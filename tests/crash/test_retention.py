"""Promises P1 to P5 on brokers whose history leaves, with SIGKILL for all that takes part in it."""

from pathlib import Path

import pytest

from tests.crash.clients import StompPy
from tests.crash.retention import RetentionCampaign, first_lsn
from tests.support.stored.object_store import object_store

pytestmark = pytest.mark.crash


def test_nothing_queued_leaves_with_history(tmp_path: Path, kills: int, seed: int) -> None:
    archive = tmp_path / "archive"
    campaign = RetentionCampaign(tmp_path / "data", StompPy, seed, str(archive))
    with campaign.broker:
        for _ in range(max(1, kills // 3)):
            campaign.round()
        campaign.let_history_leave()
        campaign.finish()
    assert first_lsn(tmp_path / "data") > 1


def test_nothing_queued_leaves_for_an_object_store(
    tmp_path: Path, kills: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with object_store("kept") as url:
        for name, value in {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        campaign = RetentionCampaign(tmp_path / "data", StompPy, seed, "s3://kept/daybook")
        with campaign.broker:
            for _ in range(max(1, kills // 6)):
                campaign.round()
            campaign.let_history_leave()
            campaign.finish()
        assert first_lsn(tmp_path / "data") > 1
