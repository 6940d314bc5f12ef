"""Promises P1 to P5 on brokers whose history leaves, with SIGKILL for all that takes part in it."""

from pathlib import Path

import pytest
from fsspec.core import url_to_fs  # type: ignore[import-untyped]
from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem

from tests.crash.clients import StompPy
from tests.crash.retention import RetentionCampaign, first_lsn

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
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        # A bucket of its own: what other tests put into a server of this process is still there.
        url_to_fs("s3://kept")[0].mkdir("kept")
        campaign = RetentionCampaign(tmp_path / "data", StompPy, seed, "s3://kept/daybook")
        with campaign.broker:
            for _ in range(max(1, kills // 6)):
                campaign.round()
            campaign.let_history_leave()
            campaign.finish()
        assert first_lsn(tmp_path / "data") > 1
    finally:
        # The memory of a server goes by the URL, and not by the environment.
        S3FileSystem.clear_instance_cache()
        server.stop()
