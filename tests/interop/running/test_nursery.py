"""Commands of a nursery are processes as those that are started are, and end as those do."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from daybook.paging.tables.child_processes import child_command
from tests.support import nursery
from tests.support.nursery import WITH_CODE, Nursery, Nursling
from tests.support.process import DAYBOOK, JOURNAL, BrokerProcess, wait_for

pytestmark = pytest.mark.interop


@pytest.fixture
def own() -> Iterator[Nursery]:
    """A nursery for one test."""
    made = Nursery()
    yield made
    made.close()


@pytest.mark.parametrize(
    "command",
    [
        [DAYBOOK, "--version"],
        [DAYBOOK, "status", "--data", "none"],
        [DAYBOOK, "no-such-command"],
        [JOURNAL, "--help"],
        [sys.executable, "-m", "daybook", "--version"],
        [sys.executable, "-m", "daybook.tools.journal_cli", "stat", "none"],
        child_command("daybook.paging.checks.index_check", "none"),
        child_command("daybook.paging.fold.upgrade", "none"),
    ],
    ids=lambda words: " ".join(Path(word).name for word in words[-4:]),
)
def test_a_command_says_what_a_started_one_says(command: list[str], tmp_path: Path) -> None:
    expected = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path)
    found = nursery.run(command, capture_output=True, check=False, cwd=tmp_path)
    assert found.returncode == expected.returncode
    assert found.stderr == expected.stderr
    assert found.stdout.replace(b"python -m daybook", b"daybook") == expected.stdout.replace(
        b"python -m daybook", b"daybook"
    )


def test_input_and_a_wrong_exit_code(tmp_path: Path) -> None:
    add = [DAYBOOK, "user", "add", "ada", "--passcode-stdin", "--users-file", "users.toml"]
    how = {"capture_output": True, "text": True, "cwd": tmp_path}
    nursery.run(add, input="secret\n", check=True, **how)
    assert "ada" in (tmp_path / "users.toml").read_text()
    with pytest.raises(subprocess.CalledProcessError) as caught:
        nursery.run(add, input="secret\n", check=True, **how)
    assert "ada" in caught.value.stderr


def descriptors(pid: int) -> dict[int, str]:
    found = {}
    for each in Path(f"/proc/{pid}/fd").iterdir():
        # A broker at work opens and closes files meanwhile.
        with contextlib.suppress(FileNotFoundError):
            found[int(each.name)] = str(each.readlink())
    return found


def test_a_broker_is_a_process_of_its_own(tmp_path: Path) -> None:
    def facts(*, is_forked: bool) -> tuple[object, ...]:
        BrokerProcess.is_forked = is_forked
        with BrokerProcess(tmp_path / str(is_forked)) as broker:
            pid = broker.start().process.pid
            assert os.getsid(pid) == os.getpgid(pid) == pid
            proc = Path("/proc") / str(pid)
            kept = ("SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "CapEff")
            status = proc.joinpath("status").read_text().splitlines()
            lines = [line for line in status if line.startswith(kept)]
            files = descriptors(pid)
            standard = [files[number].replace(str(is_forked), "") for number in range(3)]
            limits = proc.joinpath("limits").read_text()
            folder = str(proc.joinpath("cwd").readlink())
            assert broker.stop() == 0
            return lines, standard, folder, limits

    assert facts(is_forked=True) == facts(is_forked=False)


def test_a_command_has_nothing_of_the_nursery(tmp_path: Path, own: Nursery) -> None:
    (door,) = (each for each in descriptors(own.pid).values() if each.startswith("socket:"))
    with (tmp_path / "out").open("wb") as out:
        command = [DAYBOOK, "serve", "--data", str(tmp_path / "d"), "--listen"]
        child = own.start([*command, "stomp://127.0.0.1:0"], stdout=out, stderr=out)
    wait_for(lambda: (tmp_path / "out").read_text().count("ready"), "the broker")
    assert door not in descriptors(child.pid).values()
    assert str(tmp_path / "out") == descriptors(child.pid)[2]


def test_it_ends_by_a_signal_as_others_do(tmp_path: Path, own: Nursery) -> None:
    with (tmp_path / "out").open("wb") as out:
        child = own.start([DAYBOOK, "serve", "--data", str(tmp_path / "d")], stdout=out, stderr=out)
        assert child.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.01)
        child.send_signal(signal.SIGKILL)
        assert child.wait(60) == -signal.SIGKILL == child.poll()
        child.send_signal(signal.SIGKILL)


def test_nothing_outlives_the_nursery(tmp_path: Path, own: Nursery) -> None:
    with (tmp_path / "out").open("wb") as out:
        command = [DAYBOOK, "serve", "--data", str(tmp_path / "d"), "--listen"]
        child = own.start([*command, "stomp://127.0.0.1:0"], stdout=out, stderr=out)
    wait_for(lambda: (tmp_path / "out").read_text().count("ready"), "the broker")
    own.close()
    wait_for(lambda: not Path(f"/proc/{child.pid}").exists(), "the end of the broker")


SAYS: Final = "import os, sys, warnings as w; print(os.environ['X'], sys.warnoptions, w.filters[0])"


def test_a_command_has_the_variables_that_it_is_given(tmp_path: Path) -> None:
    def said(start: Callable[..., Any], kind: type, variable: str) -> str:
        env = os.environ | {"PYTHONWARNINGS": "default", variable: "given"}
        code = SAYS.replace("X", variable)
        with (tmp_path / "out").open("w+b") as out:
            begun = start(
                [*WITH_CODE, code], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env,
                start_new_session=True,
            )  # fmt: skip
            assert isinstance(begun, kind)
            assert begun.wait(60) == 0
        return (tmp_path / "out").read_text()

    expected = said(subprocess.Popen, subprocess.Popen, "PYTHONPATH")
    assert expected.startswith("given ['default']")
    assert said(nursery.popen, Nursling, "PYTHONPATH") == expected
    # What another variable changes is not known.
    assert said(nursery.popen, subprocess.Popen, "DAYBOOK_DATA") == expected


def test_another_environment_is_for_an_interpreter_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert nursery.nursery() is not None
    monkeypatch.setenv("DAYBOOK_DATA", "elsewhere")
    assert nursery.nursery() is None
    done = nursery.run([DAYBOOK, "status"], capture_output=True, check=False, text=True)
    assert "elsewhere" in done.stderr
