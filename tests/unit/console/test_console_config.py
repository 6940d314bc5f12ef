"""The configuration of a console: by options, and by a file for several brokers."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from daybook.console.console_config import ConsoleError, Proofs, from_file, of_directory
from daybook.tools.console import console

SITE = "https://docs.example.org/daybook"


def test_the_site_of_the_documentation(tmp_path: Path) -> None:
    assert of_directory(tmp_path, None).docs == ""
    assert of_directory(tmp_path, None, docs=SITE).docs == SITE
    file = tmp_path / "console.toml"
    broker = f'[[broker]]\nname = "a"\ndata = "{tmp_path}"\n'
    file.write_text(f'docs = "{SITE}"\n{broker}')
    assert from_file(file, None).docs == SITE


def test_a_broker_is_called_like_its_folder_or_as_it_says(tmp_path: Path) -> None:
    data = tmp_path / "east coast"
    data.mkdir()
    for named, called in (
        ("", "east-coast"),
        ("orders", "orders"),
        ("a/b ä", "a-b"),
        ("ä", "broker"),
    ):
        [place] = of_directory(data, None, broker=named).places
        assert place.name == called


@pytest.mark.parametrize("docs", ["javascript:alert(1)", "docs.example", "https://", "https://[a"])
def test_what_is_no_site_is_refused(tmp_path: Path, docs: str) -> None:
    with pytest.raises(ConsoleError, match="is not where the documentation is"):
        of_directory(tmp_path, None, docs=docs)


def test_what_proves_the_history_of_one_directory(tmp_path: Path) -> None:
    key, missing = tmp_path / "key.pub", tmp_path / "missing"
    key.touch()
    proofs = Proofs("s3://bucket/a", (key,), (missing,))
    [place] = of_directory(tmp_path, None, proofs=proofs).places
    assert place.proofs == proofs, "the broker makes the file of anchors with the first one"
    with pytest.raises(ConsoleError, match="--public-key names files, and there is no file"):
        of_directory(tmp_path, None, proofs=Proofs(public_keys=(missing,)))


@pytest.mark.parametrize("option", ["--broker", "--archive", "--public-key", "--anchor"])
def test_proofs_are_in_the_file_for_several_brokers(tmp_path: Path, option: str) -> None:
    file = tmp_path / "console.toml"
    file.touch()
    said = CliRunner().invoke(console, ["--config", str(file), option, str(file)])
    assert said.exit_code == 2
    assert "each [[broker]] has its own" in said.output
