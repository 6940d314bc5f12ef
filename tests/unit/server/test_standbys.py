"""The door to standbys: the arbiter that the configuration names, and nothing of it without one."""

import subprocess
import sys
from pathlib import Path

import pytest

from daybook.replication.arbiters.etcd import EtcdArbiter
from daybook.replication.arbiters.lease_file import FileArbiter
from daybook.server.configuration.config import ConfigError, load
from daybook.server.configuration.replication_config import ReplicationConfig
from daybook.server.standbys.arbiters import arbiter_of

NODES = "".join(
    f'[[replication-node]]\nname = "{name}"\naddress = "tcp://127.0.0.1:{port}"\n'
    for name, port in (("a", 1), ("b", 2), ("c", 3))
)


def config_with(tmp_path: Path, text: str) -> ReplicationConfig:
    path = tmp_path / "broker.toml"
    path.write_text(f'[replication]\ncluster = "c"\nnode = "a"\n{text}\n{NODES}')
    found = load(path).replication
    assert found is not None
    return found


def test_the_arbiter_is_the_one_of_the_configuration(tmp_path: Path) -> None:
    etcd = config_with(tmp_path, 'endpoints = ["http://127.0.0.1:1"]')
    assert isinstance(arbiter_of(etcd), EtcdArbiter)
    file = config_with(tmp_path, f'arbiter = "file"\npath = "{tmp_path}/lease"')
    assert isinstance(arbiter_of(file), FileArbiter)


def test_a_missing_package_is_told_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    etcd = config_with(tmp_path, 'endpoints = ["http://127.0.0.1:1"]')
    for name in [
        each for each in sys.modules if each.startswith("daybook.replication.arbiters.et")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(
        ConfigError, match=r'replication.arbiter is "etcd", which needs aiohttp; .* pip install .*'
    ):
        arbiter_of(etcd)
    file = config_with(tmp_path, f'arbiter = "file"\npath = "{tmp_path}/lease"')
    assert isinstance(arbiter_of(file), FileArbiter)


def test_the_server_imports_nothing_of_standbys() -> None:
    code = (
        "import sys, daybook.tools.daybook, daybook.server.service, daybook.tools.journal_cli;"
        " print([m for m in sys.modules if m.startswith(('daybook.replication', 'aiohttp'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
