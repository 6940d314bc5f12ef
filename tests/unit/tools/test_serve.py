"""`daybook serve`: where it finds its data directory."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from daybook.protocols.registry import OFFERS
from daybook.server import service
from daybook.server.configuration.config import Config
from daybook.tools.daybook import cli


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Data directories that a broker was started on."""
    found: list[str] = []

    def run(config: Config, *_: Any, **__: Any) -> int:
        found.append(config.broker.data_directory)
        return 0

    monkeypatch.setattr(service, "run", run)
    return found


def test_the_environment_says_where_the_data_is(served: list[str], tmp_path: Path) -> None:
    there, elsewhere = str(tmp_path / "there"), str(tmp_path / "elsewhere")
    config = tmp_path / "broker.toml"
    config.write_text(f'[broker]\ndata-directory = "{elsewhere}"\n')
    for flags, environment in (
        (["--data", there], {"DAYBOOK_DATA": elsewhere}),
        ([], {"DAYBOOK_DATA": there}),
        (["--config", str(config)], {"DAYBOOK_DATA": there}),
        (["--config", str(config), "--data", there], {}),
    ):
        result = CliRunner().invoke(
            cli, ["serve", *flags], env={"DAYBOOK_DATA": None} | environment
        )
        assert result.exit_code == 0, result.output
    assert served == [there] * 4


def test_the_help_names_every_protocol() -> None:
    shown = CliRunner().invoke(cli, ["serve", "--help"]).output
    assert "PROTOCOL://HOST:PORT" in shown
    for scheme in OFFERS:
        assert f"{scheme} for " in " ".join(shown.split())
