"""The whole benchmark, small, against the floor: a real process, real sockets, a real disk."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from bench import run
from bench.brokers import peers
from bench.brokers.running import Running
from bench.brokers.targets import MODES_OF, QUEUE, ROUTING, SHARDED, FloorTarget, target
from bench.load import measurement
from bench.load.child import environment
from bench.load.frames import LoadError
from bench.load.measurement import MODES, Measurement, Plan
from bench.machine.interrupts import Interrupted, Interrupts
from bench.run import Record
from tests.support import nursery

ROOT = Path(run.__file__).resolve().parent.parent


def started_below(directory: Path) -> list[str]:
    """Return the command lines of processes that were given a path in `directory`."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = file.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if str(directory) in line:
                found.append(line)
    return found


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(run.main, arguments)
    return result.exit_code, result.output


def test_the_floor_passes_every_verification_in_every_mode(tmp_path: Path) -> None:
    file = tmp_path / "samples.json"
    sizes = ("--messages", "4000", "--round-trips", "20", "--warm-up", "100", "--queues", "2")
    code, output = invoke(
        *("--targets", "floor", "--runs", "1", "--data", str(tmp_path)),
        *("--json", str(file), *sizes),
    )
    assert code == 0, output
    record = msgspec.json.decode(file.read_bytes(), type=Record)
    assert [one.mode for one in record.samples] == list(MODES)
    assert [one.messages for one in record.samples] == [4000, 4000, 4000, 4000, 20, 4000]
    assert all(one.rate == pytest.approx(one.messages / one.elapsed_s) for one in record.samples)
    trips = record.samples[MODES.index("roundtrip")]
    assert trips.p99_us >= trips.p50_us > 0
    assert all(0 <= one.others <= 1 for one in record.samples)
    assert record.failures == []
    assert list(tmp_path.iterdir()) == [file]


def test_busy_and_idle_are_interleaved_and_neighbours_are_accounted_for(tmp_path: Path) -> None:
    file = tmp_path / "samples.json"
    code, output = invoke(
        *("--targets", "floor", "--modes", "send,pipe", "--runs", "1", "--busy", "0,2,0"),
        *("--busy-nice", "1", "--messages", "20000", "--warm-up", "0"),
        *("--data", str(tmp_path), "--json", str(file)),
    )
    assert code == 0, output
    record = msgspec.json.decode(file.read_bytes(), type=Record)
    order = [(one.mode, one.busy) for one in record.samples]
    assert order == [("send", 0), ("send", 2), ("pipe", 0), ("pipe", 2)]
    assert record.busy_nice == 1
    # How much they got depends on what else the machine does, but they cannot have had nothing.
    assert all((one.neighbours > 0.05) == (one.busy == 2) for one in record.samples)
    assert all(one.neighbours + one.others <= 1.05 for one in record.samples)
    assert "**Without neighbours**" in output
    assert "**Beside 2 busy neighbours, niceness 1**" in output
    assert multiprocessing.active_children() == []


def test_a_failed_measurement_leaves_no_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        assert len(multiprocessing.active_children()) == 1
        raise LoadError("the broker is wrong")

    monkeypatch.setattr(run, "measure", fail)
    code, output = invoke(
        *("--targets", "floor", "--modes", "send", "--runs", "1", "--busy", "1"),
        *("--data", str(tmp_path)),
    )
    assert code == 1
    assert "FAILED: send, floor, 1 busy, run 1: the broker is wrong" in output
    assert multiprocessing.active_children() == []
    assert list(tmp_path.iterdir()) == []


class Settling:
    """A broker that starts a process for a while."""

    def __init__(self, busy_looks: int) -> None:
        self.left = busy_looks
        self.looks = 0
        self.used = 0.0

    def cpu_s(self) -> float:
        self.looks += 1
        self.used += 0.2 if self.left > 0 else 0.01
        self.left -= 1
        return self.used


@pytest.mark.parametrize(("busy", "looks"), [(0, 2), (5, 6), (10_000, 21)])
def test_the_clock_waits_for_a_quiet_broker(
    busy: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = [0.0]

    def sleep(seconds: float) -> None:
        moment[0] += seconds

    monkeypatch.setattr("bench.run.time.sleep", sleep)
    monkeypatch.setattr("bench.run.time.monotonic", lambda: moment[0])
    broker: Any = Settling(busy)
    run._wait_until_quiet(broker)
    assert broker.looks == looks


def test_what_runs_on_java_is_warmed_up_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[int] = []

    def measure(mode: str, running: Running, queue: str, plan: Plan, *beside: Any) -> Measurement:
        warmed.append(plan.messages)
        return measurement.measure(mode, running, queue, plan, *beside)

    monkeypatch.setattr(run, "measure", measure)
    monkeypatch.setattr(run, "target", lambda name, *_: FloorTarget(name))
    code, output = invoke(
        *("--targets", "floor,artemis", "--modes", "send", "--runs", "1", "--messages", "1000"),
        *("--warm-up", "300", "--java-warm-up", "12000", "--peer-messages", "2000"),
        *("--data", str(tmp_path)),
    )
    assert code == 0, output
    assert warmed == [300, 1000, 10_000, 2000, 2000]


@pytest.mark.usefixtures("own_interpreter")
def test_another_version_is_measured_beside_this_one(tmp_path: Path) -> None:
    file = tmp_path / "samples.json"
    code, output = invoke(
        *("--targets", "daybook", "--also", f"other={sys.executable}", "--modes", "roundtrip"),
        *("--runs", "1", "--round-trips", "10", "--data", str(tmp_path), "--json", str(file)),
    )
    assert code == 0, output
    record = msgspec.json.decode(file.read_bytes(), type=Record)
    assert [one.target for one in record.samples] == ["daybook", "other"]


@pytest.mark.parametrize("name", ROUTING)
def test_every_way_of_one_daybook_is_measured(name: str, tmp_path: Path) -> None:
    file = tmp_path / "samples.json"
    code, output = invoke(
        *("--targets", name, "--modes", "pipe,roundtrip,fan-out", "--runs", "1"),
        *("--messages", "1000", "--round-trips", "10", "--warm-up", "100"),
        *("--data", str(tmp_path), "--json", str(file)),
    )
    assert code == 0, output
    record = msgspec.json.decode(file.read_bytes(), type=Record)
    modes = MODES_OF.get(name, MODES)
    assert [one.mode for one in record.samples] == [
        mode for mode in ("pipe", "roundtrip", "fan-out") if mode in modes
    ]
    assert started_below(tmp_path) == []


def test_two_brokers_share_what_is_sent_to_a_sharded_queue(tmp_path: Path) -> None:
    running = target(SHARDED, (), None).start(tmp_path)
    try:
        plan = Plan(messages=2000)
        measurement.measure("pipe", running, QUEUE, plan)
    finally:
        running.stop()
    for data in ("data", "there"):
        journal = Path(sys.executable).with_name("journal")
        asked = [str(journal), "inspect", "--data", str(tmp_path / data), "--kind", "Routed"]
        told = nursery.run(asked, capture_output=True, text=True, check=True)
        assert told.stdout.count("Routed") > 200, data


@pytest.mark.parametrize("value", ["other", "=python3", "other=", "daybook=python3"])
def test_a_version_needs_a_name_of_its_own(value: str) -> None:
    code, output = invoke("--also", value)
    assert code == 2
    assert "is no NAME=PYTHON with a name of its own" in " ".join(output.split())


def test_a_version_that_is_not_installed_is_named(tmp_path: Path) -> None:
    code, output = invoke("--targets", "daybook", "--python", str(tmp_path / "python"))
    assert code == 2
    assert "there is no interpreter" in " ".join(output.split())


def test_an_interrupted_benchmark_reports_what_it_has_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.run", "--targets", "floor", "--modes", "send"]
    command += ["--runs", "100", "--messages", "1000", "--warm-up", "0", "--data", str(tmp_path)]
    command += ["--busy", "1"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("run 1: send")
        process.terminate()
        output, _ = process.communicate()
    assert process.returncode == 1
    assert "| send | floor  |" in output
    assert "FAILED: interrupted by SIGTERM before all was measured" in output
    assert list(tmp_path.iterdir()) == []
    assert started_below(tmp_path) == []


def _interrupt_twice(interrupts: Interrupts, reached: list[str]) -> None:
    with interrupts.shielded():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        reached.append("the end of the block")
    reached.append("what follows the block")


def test_a_signal_waits_until_a_broker_has_started_or_stopped() -> None:
    before = signal.getsignal(signal.SIGTERM)
    interrupts = Interrupts()
    reached: list[str] = []
    try:
        with pytest.raises(Interrupted, match="interrupted by SIG"):
            _interrupt_twice(interrupts, reached)
    finally:
        interrupts.release()
    assert reached == ["the end of the block"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_broker_that_does_not_start_is_a_failure_with_its_last_words(tmp_path: Path) -> None:
    python = tmp_path / "python"
    for file in (python, tmp_path / "daybook"):
        file.write_text("#!/bin/sh\necho 'no such module'\nexit 3\n")
        file.chmod(0o755)
    code, output = invoke(
        *("--targets", "floor,daybook", "--modes", "send", "--runs", "1", "--messages", "1000"),
        *("--warm-up", "0", "--data", str(tmp_path), "--python", str(python)),
    )
    assert code == 1
    assert "daybook exited with 3 before it was ready; it printed:\nno such module" in output
    assert "| send | floor  |" in output


def test_what_is_not_installed_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "_RABBITMQ", tmp_path / "none")
    code, output = invoke(
        *("--targets", "rabbitmq,floor", "--modes", "send", "--runs", "1"),
        *("--messages", "1000", "--warm-up", "0", "--data", str(tmp_path)),
    )
    assert code == 0
    assert "rabbitmq was not measured: not installed; run: sudo sh bench/peers.sh" in output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--modes", "pipe,fast"), "'fast' is not one of send, pipe, pipe-4, drain, roundtrip"),
        (("--targets", "kafka"), "'kafka' is not one of floor, floor-follower"),
        (("--targets", ","), "give at least one of floor"),
        (("--busy", "0,two"), "'two' is not a number from 0 to 64"),
        (("--busy", "-1"), "'-1' is not a number from 0 to 64"),
        (("--busy", "65"), "'65' is not a number from 0 to 64"),
        (("--busy", ","), "give at least one number from 0 to 64"),
        (("--busy-nice", "20"), "20 is not in the range 0<=x<=19"),
        (("--targets", "daybook", "--python", "/none/python"), "no interpreter /none/python"),
    ],
)
def test_bad_use_is_exit_code_2(arguments: tuple[str, ...], said: str) -> None:
    code, output = invoke(*arguments)
    assert code == 2
    assert said in output
