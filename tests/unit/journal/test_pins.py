"""A pin is seen from outside, moves up only, and goes with its holder."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from journal.lock import LOCK_NAME
from journal.pins import NO_PIN, PINS_NAME, Pin, holding_off_pins, lowest_pinned_lsn

HOLDER = """
import sys
from journal.pins import Pin
pin = Pin(sys.argv[1], int(sys.argv[2]))
print(pin.held, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that a broker has served."""
    (tmp_path / LOCK_NAME).touch()
    return tmp_path


def pin_files(data: Path) -> list[str]:
    return sorted(path.name for path in (data / PINS_NAME).iterdir())


def test_the_lowest_pin_counts(data: Path) -> None:
    assert lowest_pinned_lsn(data) == NO_PIN
    with Pin(data, 70) as first:
        assert first.held
        assert lowest_pinned_lsn(data) == 70
        with Pin(data, 7), Pin(data, 70):
            assert len(pin_files(data)) == 3
            assert lowest_pinned_lsn(data) == 7
        assert lowest_pinned_lsn(data) == 70
    assert lowest_pinned_lsn(data) == NO_PIN
    assert pin_files(data) == []


def test_a_pin_moves_up_and_never_down(data: Path) -> None:
    with Pin(data, 5) as pin:
        pin.advance(9)
        assert (pin.lsn, lowest_pinned_lsn(data)) == (9, 9)
        pin.advance(6)
        assert (pin.lsn, lowest_pinned_lsn(data)) == (9, 9)
        with holding_off_pins(data) as lowest:
            # Somebody looks: the pin stays, and the reader does not wait.
            pin.advance(12)
            assert (pin.lsn, lowest) == (9, 9)
        pin.advance(12)
        assert lowest_pinned_lsn(data) == 12


def test_while_a_pin_is_made_everything_is_held(data: Path) -> None:
    with Pin(data, 5), holding_off_pins(data):
        # Two that look at once do not see each other's; the second one must be careful.
        assert lowest_pinned_lsn(data) == 1


def test_a_released_pin_does_nothing_more(data: Path) -> None:
    pin = Pin(data, 5)
    pin.release()
    pin.release()
    pin.advance(7)
    assert not pin.held
    assert lowest_pinned_lsn(data) == NO_PIN


def test_a_killed_holder_holds_nothing(data: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(data), "42"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert lowest_pinned_lsn(data) == 42
        assert len(pin_files(data)) == 1
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert len(pin_files(data)) == 1
        assert lowest_pinned_lsn(data) == NO_PIN
    assert pin_files(data) == []


def test_what_a_killed_process_of_the_same_pid_left_is_no_obstacle(data: Path) -> None:
    (data / PINS_NAME).mkdir()
    (data / PINS_NAME / f"{5:020d}-{os.getpid()}-0.pin").touch()
    with Pin(data, 5) as pin:
        assert pin.held
        assert lowest_pinned_lsn(data) == 5
        assert pin_files(data) == [f"{5:020d}-{os.getpid()}-1.pin"]


def test_files_of_other_names_are_left_alone(data: Path) -> None:
    (data / PINS_NAME).mkdir()
    for name in ("notes", "5-1-0.pin", f"{5:020d}-1-0.txt"):
        (data / PINS_NAME / name).touch()
    assert lowest_pinned_lsn(data) == NO_PIN
    assert len(pin_files(data)) == 3


def test_nothing_is_written_where_no_broker_ever_was(tmp_path: Path) -> None:
    with Pin(tmp_path) as pin:
        assert not pin.held
    assert list(tmp_path.iterdir()) == []


def test_who_may_not_write_reads_without_a_pin(data: Path) -> None:
    # A file where the folder should be refuses everybody, the administrator too.
    (data / PINS_NAME).write_bytes(b"")
    with Pin(data) as pin:
        assert not pin.held
        pin.advance(5)
    with pytest.raises(OSError, match=PINS_NAME):
        lowest_pinned_lsn(data)
