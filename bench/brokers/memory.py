"""The memory of the processes of a broker, as the kernel counts it."""

import re
from collections.abc import Mapping
from pathlib import Path

from bench.brokers.running import Running


class Memory:
    """Peaks of a broker's processes from `begin` on."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self.begin()

    def begin(self) -> None:
        """Forget the peaks so far."""
        for folder in self._running.processes():
            _write(folder / "clear_refs", "5")

    def peaks(self) -> dict[str, int]:
        """MiB at most, by process."""
        found: dict[str, int] = {}
        for folder in self._running.processes():
            match = re.search(r"VmHWM:\s+(\d+)", _read(folder / "status"))
            if match is not None:
                found[process_name(folder, found)] = int(match[1]) // 1024
        return found

    def now(self) -> dict[str, int]:
        """MiB now, by process, pages that are shared counted in parts ("Pss")."""
        found: dict[str, int] = {}
        for folder in self._running.processes():
            match = re.search(r"^Pss:\s+(\d+)", _read(folder / "smaps_rollup"), re.MULTILINE)
            if match is not None:
                found[process_name(folder, found)] = int(match[1]) // 1024
        return found

    def together(self, what: str) -> int:
        """MiB of all processes now, by a line of smaps_rollup: "Pss" or "Pss_Anon"."""
        rollups = [_read(folder / "smaps_rollup") for folder in self._running.processes()]
        matches = [re.search(rf"^{what}:\s+(\d+)", rollup, re.MULTILINE) for rollup in rollups]
        return sum(int(match[1]) for match in matches if match is not None) // 1024


def process_name(folder: Path, before: Mapping[str, object]) -> str:
    """The kind of a process; the broker comes first, because it started the others."""
    is_indexer = "daybook.paging.indexer.indexer" in _read(folder / "cmdline")
    return "indexer" if is_indexer else ("writer" if "broker" in before else "broker")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:  # The process ended meanwhile.
        return ""


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError:
        return
