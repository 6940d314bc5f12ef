"""A pin is seen from outside, moves up only, and goes with its holder; a lease with its time."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from daybook.journal.data_directory import LOCK
from daybook.journal.pins import (
    LEASE_US_MAX,
    NO_PIN,
    PINS,
    Lease,
    Pin,
    holding_off_pins,
    lowest_pinned_lsn,
)

HOLDER = """
import sys
from daybook.journal.pins import Pin
pin = Pin(sys.argv[1], int(sys.argv[2]))
print(pin.is_set, flush=True)
sys.stdin.read()
"""

RENEWER = """
import sys
from daybook.journal.pins import Lease
print(Lease(sys.argv[1], sys.argv[2]).renew(int(sys.argv[3])))
"""

NOW = 1_700_000_000_000_000
SECOND = 1_000_000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that a broker has served."""
    (tmp_path / LOCK).touch()
    return tmp_path


def pin_files(data: Path) -> list[str]:
    return sorted(path.name for path in (data / PINS).iterdir())


def test_the_lowest_pin_counts(data: Path) -> None:
    assert lowest_pinned_lsn(data) == NO_PIN
    with Pin(data, 70) as first:
        assert first.is_set
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


def test_while_a_pin_is_made_everything_is_pinned(data: Path) -> None:
    with Pin(data, 5), holding_off_pins(data):
        # Two that look at once do not see each other's; the second one must be careful.
        assert lowest_pinned_lsn(data) == 1


def test_a_released_pin_does_nothing_more(data: Path) -> None:
    pin = Pin(data, 5)
    pin.release()
    pin.release()
    pin.advance(7)
    assert not pin.is_set
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
    (data / PINS).mkdir()
    (data / PINS / f"{5:020d}-{os.getpid()}-0.pin").touch()
    with Pin(data, 5) as pin:
        assert pin.is_set
        assert lowest_pinned_lsn(data) == 5
        assert pin_files(data) == [f"{5:020d}-{os.getpid()}-1.pin"]


def test_files_of_other_names_are_left_alone(data: Path) -> None:
    (data / PINS).mkdir()
    for name in ("notes", "5-1-0.pin", f"{5:020d}-1-0.txt"):
        (data / PINS / name).touch()
    assert lowest_pinned_lsn(data) == NO_PIN
    assert len(pin_files(data)) == 3


def test_nothing_is_written_where_no_broker_ever_was(tmp_path: Path) -> None:
    with Pin(tmp_path) as pin:
        assert not pin.is_set
    assert list(tmp_path.iterdir()) == []


def test_who_may_not_write_reads_without_a_pin(data: Path) -> None:
    # A file where the folder should be refuses everybody, the administrator too.
    (data / PINS).write_bytes(b"")
    with Pin(data) as pin:
        assert not pin.is_set
        pin.advance(5)
    with pytest.raises(OSError, match=PINS):
        lowest_pinned_lsn(data)


def test_a_lease_holds_until_it_ends(data: Path) -> None:
    lease = Lease(data, "job1")
    assert lease.take(40, NOW + SECOND)
    assert lease.until == NOW + SECOND
    assert lowest_pinned_lsn(data, NOW) == 40
    assert lowest_pinned_lsn(data, NOW + SECOND - 1) == 40
    with Pin(data, 7), Pin(data, 70):
        assert lowest_pinned_lsn(data, NOW) == 7
    # A process that does not know the time leaves it.
    assert lowest_pinned_lsn(data) == 40
    assert lowest_pinned_lsn(data, NOW + SECOND) == NO_PIN
    assert pin_files(data) == []
    assert lease.until == 0
    assert not lease.renew(NOW + 5 * SECOND)
    assert lowest_pinned_lsn(data, NOW) == NO_PIN


def test_another_process_renews_a_lease_by_its_name(data: Path) -> None:
    assert Lease(data, "job1").take(40, NOW + SECOND)
    assert Lease(data, "job2").take(60, NOW + SECOND)
    for name, until in (("job1", 9), ("job1", 5), ("nobody", 9)):
        command = [sys.executable, "-c", RENEWER, str(data), name, str(NOW + until * SECOND)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path.cwd())
        assert done.stdout == f"{name != 'nobody'}\n"
    # It was never made shorter.
    assert Lease(data, "job1").until == NOW + 9 * SECOND
    assert lowest_pinned_lsn(data, NOW + 8 * SECOND) == 40
    assert f"{40:020}-{NOW + 9 * SECOND:020}-job1.lease" in pin_files(data)
    assert len(pin_files(data)) == 1  # the other one ended


def test_a_lease_taken_again_is_moved(data: Path) -> None:
    lease = Lease(data, "stream")
    assert lease.take(10, NOW + SECOND)
    assert lease.take(50, NOW + 3 * SECOND)
    assert lease.take(50, NOW + 3 * SECOND)
    assert len(pin_files(data)) == 1
    assert lowest_pinned_lsn(data, NOW) == 50


def test_a_released_lease_holds_nothing(data: Path) -> None:
    lease = Lease(data, "job1")
    lease.release()
    assert lease.take(10, NOW + SECOND)
    assert Lease(data, "job").take(20, NOW + SECOND)
    lease.release()
    lease.release()
    assert lowest_pinned_lsn(data, NOW) == 20
    assert not lease.renew(NOW + 2 * SECOND)


def test_a_lease_that_ended_can_be_renewed_until_somebody_looked(data: Path) -> None:
    lease = Lease(data, "job1")
    assert lease.take(10, NOW)
    assert lease.renew(NOW + 9 * SECOND)
    assert lowest_pinned_lsn(data, NOW + SECOND) == 10


def test_no_lease_is_for_ever(data: Path) -> None:
    assert Lease(data, "day").take(10, NOW + LEASE_US_MAX)
    assert lowest_pinned_lsn(data, NOW) == 10
    assert Lease(data, "year").take(5, NOW + 365 * LEASE_US_MAX)
    assert lowest_pinned_lsn(data, NOW) == 10
    assert len(pin_files(data)) == 1


def test_many_may_renew_a_lease_at_once(data: Path) -> None:
    assert Lease(data, "job1").take(10, NOW)
    with ThreadPoolExecutor(8) as pool:
        ends = [NOW + number * SECOND for number in range(200)]
        assert all(pool.map(lambda until: Lease(data, "job1").renew(until), ends))
    assert Lease(data, "job1").until == NOW + 199 * SECOND
    assert len(pin_files(data)) == 1


@pytest.mark.parametrize("name", ["", "a-b", "../a", "a b", "ü"])
def test_names_that_files_cannot_have_are_refused(data: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a lease"):
        Lease(data, name)


def test_no_lease_where_nothing_is_removed_or_may_be_written(data: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    assert not Lease(tmp_path / "elsewhere", "job1").take(10, NOW)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (data / PINS).write_bytes(b"")
    lease = Lease(data, "job1")
    assert not lease.take(10, NOW)
    assert not lease.renew(NOW)
    lease.release()
    assert lease.until == 0


def test_a_link_in_place_of_the_folder_leads_nowhere(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o711)
    (data / PINS).symlink_to(other)
    with Pin(data, 7) as pin:
        assert not pin.is_set
    assert not Lease(data, "mine").take(7, NOW)
    with pytest.raises(OSError, match=PINS):
        lowest_pinned_lsn(data)
    assert list(other.iterdir()) == []
    assert other.stat().st_mode & 0o777 == 0o711


def test_links_in_the_folder_are_no_pins(data: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.touch(mode=0o644)
    with Pin(data, 9):
        (data / PINS / f"{7:020d}-1-0.pin").symlink_to(victim)
        assert lowest_pinned_lsn(data) == 9
    assert victim.exists()
    os.mkfifo(data / PINS / f"{8:020d}-1-0.pin")
    assert lowest_pinned_lsn(data) == NO_PIN


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_makes_belongs_to_the_owner_of_the_data(data: Path) -> None:
    os.chown(data, 12345, 12346)
    with Pin(data, 7) as pin:
        for path in (data / PINS, pin.path):
            assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)
        assert (data / PINS).stat().st_mode & 0o777 == 0o700
        assert pin.path.stat().st_mode & 0o777 == 0o600
    Lease(data, "mine").take(7, NOW)
    (lease,) = (data / PINS).iterdir()
    assert lease.stat().st_uid == 12345


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_modes_do_not_depend_on_the_umask(data: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with Pin(data, 7) as pin:
            assert pin.is_set
            assert (data / PINS).stat().st_mode & 0o777 == 0o700
            assert pin.path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)
