"""How Artemis is found and set up, with a stand-in for its command `artemis`."""

import shlex
import sys
from pathlib import Path

import pytest

from bench.brokers.artemis import ArtemisTarget
from bench.brokers.running import TargetError
from bench.load.child import ROOT
from bench.load.measurement import Plan, measure
from bench.load.wire import AMQP, Endpoint

BROKER_XML = """<core>
<persistence-enabled>true</persistence-enabled>
<journal-type>ASYNCIO</journal-type>
<journal-datasync>true</journal-datasync>
<journal-buffer-timeout>TIMEOUT</journal-buffer-timeout>
<acceptor name="artemis">tcp://127.0.0.1:PORT?tcpSendBufferSize=1;protocols=CORE,STOMP</acceptor>
<addresses>
</addresses>
</core>
"""
EXPECTED = """<core>
<persistence-enabled>true</persistence-enabled><security-enabled>false</security-enabled>
<journal-type>ASYNCIO</journal-type>
<journal-datasync>true</journal-datasync>
<journal-buffer-timeout>8000</journal-buffer-timeout>
<acceptor name="artemis">tcp://127.0.0.1:PORT?tcpSendBufferSize=1048576;\
tcpReceiveBufferSize=1048576;useEpoll=true;protocols=STOMP;anycastPrefix=/queue/;\
multicastPrefix=/topic/;connectionTtl=600000</acceptor>
<addresses>
</addresses>
</core>
"""
# `artemis create ... DIRECTORY` makes an instance, whose `artemis run` is the floor that says what
# Artemis says. Each instance gets another buffer timeout: 8000, then 96000.
CREATE = """#!/bin/sh
set -eu
home=$(dirname "$0")/..
port= directory=
while [ $# -gt 0 ]; do
    case $1 in
        --default-port) port=$2; shift ;;
    esac
    directory=$1
    shift
done
mkdir -p "$directory/etc" "$directory/bin"
timeout=8000
if [ -e "$home/second" ]; then timeout=96000; fi
touch "$home/second"
sed -e "s/PORT/$port/" -e "s/TIMEOUT/$timeout/" "$home/broker.xml" >"$directory/etc/broker.xml"
cat >"$directory/bin/artemis" <<END
#!/bin/sh
echo "AMQ221012: Using AIO Journal"
PYTHONPATH=@ROOT@ exec @PYTHON@ -m bench.brokers.floor --port $port --data "$directory/data"
END
chmod +x "$directory/bin/artemis"
"""


def install(home: Path) -> None:
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "lib" / "artemis-server-2.44.0.jar").touch()
    (home / "broker.xml").write_text(BROKER_XML)
    command = home / "bin" / "artemis"
    script = CREATE.replace("@ROOT@", shlex.quote(str(ROOT)))
    command.write_text(script.replace("@PYTHON@", shlex.quote(sys.executable)))
    command.chmod(0o755)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for Artemis, installed where ARTEMIS_HOME says; and something called java."""
    home = tmp_path / "apache-artemis"
    install(home)
    monkeypatch.setenv("ARTEMIS_HOME", str(home))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return home


def run(target: ArtemisTarget, directory: Path) -> str:
    """Measure once; return the broker.xml, without the port."""
    directory.mkdir()
    running = target.start(directory)
    try:
        measure("pipe", running, "bench", Plan(messages=100))
    finally:
        running.stop()
    text = (directory / "instance" / "etc" / "broker.xml").read_text()
    return text.replace(str(running.endpoint.port), "PORT")


def test_every_broker_of_a_session_has_the_same_settings(home: Path, tmp_path: Path) -> None:
    target = ArtemisTarget()
    assert target.missing() == ""
    assert run(target, tmp_path / "first") == EXPECTED
    assert run(target, tmp_path / "second") == EXPECTED
    assert target.note == (
        "artemis 2.44.0: journal ASYNCIO with datasync, journal-buffer-timeout 8 us as artemis "
        "create measured it"
    )


def test_the_acceptor_of_the_other_target_speaks_amqp_alone(home: Path, tmp_path: Path) -> None:
    target = ArtemisTarget("amqp")
    assert target.name == "artemis-amqp"
    running = target.start(tmp_path)
    running.stop()
    text = (tmp_path / "instance" / "etc" / "broker.xml").read_text()
    assert "protocols=AMQP;amqpCredits=1000;amqpLowCredits=300;" in text
    assert "anycastPrefix=/queue/;multicastPrefix=/topic/;amqpIdleTimeout=0</acceptor>" in text
    assert running.endpoint.protocol == "amqp"
    assert target.note.startswith("artemis-amqp 2.44.0: journal ASYNCIO")


def test_the_command_says_where_it_is_installed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARTEMIS_HOME")
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "artemis").symlink_to(home / "bin" / "artemis")
    monkeypatch.setenv("PATH", str(commands))
    assert ArtemisTarget().missing() == ""
    (commands / "artemis").unlink()
    assert "run: sudo sh bench/peers.sh" in ArtemisTarget().missing()


def test_without_java_it_is_missing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "run: sudo sh bench/peers.sh" in ArtemisTarget().missing()


def test_a_configuration_of_another_release_is_refused(home: Path, tmp_path: Path) -> None:
    (home / "broker.xml").write_text(BROKER_XML.replace("journal-buffer-timeout", "buffer"))
    with pytest.raises(TargetError, match=r"journal-buffer-timeout.* matches 0 times"):
        run(ArtemisTarget(), tmp_path / "first")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#!/bin/sh\necho no space; exit 3\n", "artemis create failed; it printed:\nno space"),
        ("#!/nonexistent/sh\n", "artemis create: .*No such file"),
    ],
)
def test_a_failing_create_is_an_error(home: Path, tmp_path: Path, script: str, said: str) -> None:
    (home / "bin" / "artemis").write_text(script)
    with pytest.raises(TargetError, match=said):
        run(ArtemisTarget(), tmp_path / "first")


def test_a_window_in_bytes_is_computed_from_messages() -> None:
    in_messages = Endpoint(1, "guest", "guest", "/", "prefetch-count")
    in_bytes = Endpoint(1, "guest", "guest", "/", "consumer-window-size", 400)
    assert in_messages.prefetch(1000, 256) == "prefetch-count:1000"
    assert in_bytes.prefetch(1000, 256) == "consumer-window-size:656000"


def test_a_core_bridge_leads_to_a_second_broker_where_messages_are_received(
    home: Path, tmp_path: Path
) -> None:
    target = ArtemisTarget(AMQP, bridged=("bench", "bench.0"))
    assert target.name == "artemis-bridge"
    directory = tmp_path / "bridged"
    directory.mkdir()
    running = target.start(directory)
    try:
        there = running.endpoint.consume_port
        assert running.endpoint.receiving.port == there != running.endpoint.port
        assert running.accepts(there)
    finally:
        running.stop()
    first, second = (
        (directory / name / "etc" / "broker.xml").read_text() for name in ("instance", "there")
    )
    assert f'<connector name="there">tcp://127.0.0.1:{there}</connector>' in first
    for queue in ("bench", "bench.0"):
        assert f'<bridge name="{queue}"><queue-name>{queue}</queue-name>' in first
        assert f'<queue name="{queue}"/>' in first
    assert "bridge" not in second
    assert "protocols=CORE,AMQP" in first
    assert "protocols=CORE,AMQP" in second
