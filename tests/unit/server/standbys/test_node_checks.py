"""Faults that keep a node from working are reported before it starts, in one line each."""

import subprocess
from pathlib import Path

import pytest

from daybook.server.configuration.config import ConfigError, load
from daybook.server.standbys.node_checks import check_node
from tests.support.process import DAYBOOK

NODES = "".join(
    f'[[replication-node]]\nname = "{name}"\naddress = "{{scheme}}://127.0.0.1:{port}"\n'
    for name, port in (("a", 1), ("b", 2), ("c", 3))
)


def written(tmp_path: Path, text: str, scheme: str = "tcp") -> Path:
    path = tmp_path / "broker.toml"
    path.write_text(
        f'data-directory = "{tmp_path}/data"\n[replication]\ncluster = "c"\nnode = "a"\n{text}\n'
        + NODES.format(scheme=scheme)
    )
    return path


def problems(path: Path) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        check_node(load(path))
    return caught.value.problems


def test_a_node_that_can_work_changes_nothing_when_it_is_checked(tmp_path: Path) -> None:
    path = written(tmp_path, f'arbiter = "file"\npath = "{tmp_path}/lease"')
    check_node(load(path))
    assert [each.name for each in tmp_path.iterdir()] == ["broker.toml"]


def test_a_folder_with_other_files_is_no_data_directory(tmp_path: Path) -> None:
    path = written(tmp_path, f'arbiter = "file"\npath = "{tmp_path}/lease"')
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.tex").touch()
    (problem,) = problems(path)
    assert "is not a data directory of Daybook, and it is not empty ('thesis.tex')" in problem


def test_each_file_that_is_missing_is_named(tmp_path: Path) -> None:
    text = (
        'endpoints = ["http://127.0.0.1:1"]\nlogin = "daybook"\n'
        f'passcode-file = "{tmp_path}/etcd.pass"\n'
        f'certificate = "{tmp_path}/node.pem"\nauthority = "{tmp_path}/ca.pem"'
    )
    path = written(tmp_path, text, "tls")
    certificate, passcode = problems(path)
    assert certificate.startswith("replication: ")
    assert str(tmp_path / "node.pem") in certificate
    assert passcode == (
        f"replication: passcode-file: {tmp_path}/etcd.pass: No such file or directory"
    )
    (tmp_path / "etcd.pass").write_text("\n")
    assert problems(path)[1] == (
        f"replication: passcode-file: the first line of {tmp_path}/etcd.pass is empty"
    )


def test_the_command_that_checks_and_the_one_that_serves_say_so_without_a_traceback(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, f'arbiter = "file"\npath = "{tmp_path}/lease"')
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.tex").touch()
    for command, code in ((["config", "check", str(path)], 2), (["serve", "--config", path], 1)):
        done = subprocess.run(
            [DAYBOOK, *command], capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == code
        assert "not empty ('thesis.tex')" in done.stderr
        assert "Traceback" not in done.stderr
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["thesis.tex"]
