"""Which acceptors a node serves while it follows."""

from pathlib import Path

from daybook.server.configuration.config import load
from daybook.server.standbys.node_probe import watched

CONFIG = """
[[acceptor]]
name = "one"
listen = "127.0.0.1:5672"
protocols = ["stomp", "amqp"]

[[acceptor]]
name = "two"
listen = "127.0.0.1:8161"
protocol = "http"
"""


def test_those_of_messages_wait_for_the_broker(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text(CONFIG)
    assert [each.name for each in watched(load(tmp_path / "broker.toml").acceptors)] == ["two"]
