"""Memory that there is: the machine's, or less where a control group says so."""

from pathlib import Path

from daybook.server.process.machine_memory import FALLBACK_BYTES, available, resident

MIB = 1 << 20


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def machine(root: Path, cgroup: str) -> None:
    write(root, "proc/meminfo", "MemTotal:        4194304 kB\nMemFree:  1 kB\n")
    write(root, "proc/self/cgroup", cgroup)


def test_the_machine_alone(tmp_path: Path) -> None:
    machine(tmp_path, "0::/\n")
    assert available(tmp_path) == 4096 * MIB
    write(tmp_path, "sys/fs/cgroup/memory.max", "max\n")
    assert available(tmp_path) == 4096 * MIB


def test_a_group_of_version_2_and_those_above_it(tmp_path: Path) -> None:
    machine(tmp_path, "0::/a/b\n")
    write(tmp_path, "sys/fs/cgroup/a/b/memory.max", f"{2048 * MIB}\n")
    assert available(tmp_path) == 2048 * MIB
    write(tmp_path, "sys/fs/cgroup/a/memory.max", f"{512 * MIB}\n")
    assert available(tmp_path) == 512 * MIB
    # A limit above the memory there is limits nothing.
    write(tmp_path, "sys/fs/cgroup/a/memory.max", f"{8192 * MIB}\n")
    assert available(tmp_path) == 2048 * MIB


def test_a_container_that_sees_only_the_end_of_its_path(tmp_path: Path) -> None:
    machine(tmp_path, "0::/../docker/0123\n")
    write(tmp_path, "sys/fs/cgroup/memory.max", f"{1024 * MIB}\n")
    assert available(tmp_path) == 1024 * MIB


def test_a_group_of_version_1(tmp_path: Path) -> None:
    machine(tmp_path, "5:cpu,cpuacct:/x\n4:memory:/docker/0123\n")
    write(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert available(tmp_path) == 4096 * MIB
    name = "sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes"
    write(tmp_path, name, f"{256 * MIB}\n")
    assert available(tmp_path) == 256 * MIB


def test_a_machine_that_does_not_tell(tmp_path: Path) -> None:
    assert available(tmp_path) == FALLBACK_BYTES
    assert resident(tmp_path) == 0
    machine(tmp_path, "nonsense\n")
    write(tmp_path, "proc/meminfo", "MemTotal: much kB\n")
    assert available(tmp_path) == FALLBACK_BYTES


def test_this_machine() -> None:
    assert available() > 64 * MIB
    assert 8 * MIB < resident() < available() * 2
