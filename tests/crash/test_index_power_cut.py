"""The index at every moment at which the power may go: right, or seen to be wrong.

A process indexes a history below the black box. What it wrote is given again as a cut before and
behind each sync would have left it, with random parts of what was not synced, and judged as a start
does: an index that would be used is one that was committed, with all that it had then.
"""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.load.child import environment
from daybook.journal.data_directory import INDEX
from tests.crash.power import SYNC, SYNC_FOLDER, SYNCED_WRITE
from tests.crash.recording import Recording
from tests.support.histories import some_history, write_history

pytestmark = pytest.mark.crash

CUTS = int(os.environ.get("DAYBOOK_CUTS", "2"))
"""How often each moment is tried, each time with other parts of what was not synced."""
Verdict = dict[str, str | int]


class Judges:
    """Processes that judge indexes, one after the other: each may die of what it looks at."""

    def __init__(self, data: Path) -> None:
        self.deaths: list[int] = []
        self._data = data
        self._process: subprocess.Popen[str] | None = None

    def judge(self, index: Path) -> Verdict:
        """A start's view of an index; a process that dies of it is a fault, too."""
        if self._process is None:
            command = [sys.executable, "-m", "tests.crash.index_judge", str(self._data)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env=environment(),
            )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(index, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            self._process.communicate()
            self.deaths.append(self._process.returncode)
            self._process = None
            return {"wrong": f"who looked at it died: {self.deaths[-1]}"}
        found: Verdict = json.loads(line)
        return found

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()


@contextmanager
def judges_of(data: Path) -> Iterator[Judges]:
    judges = Judges(data)
    try:
        yield judges
    finally:
        judges.close()


def recorded(data: Path, library: Path, seed: int) -> tuple[Recording, dict[int, str]]:
    """A history indexed below the black box, and the digest of each commit by its LSN."""
    history = some_history(seed, 200)
    write_history(data, history, cuts=range(20, len(history), 20))
    (data / INDEX).mkdir()
    recording = Recording(library, data / "blackbox.log", data / INDEX)
    command = [sys.executable, "-m", "tests.crash.index_writer", str(data), "2"]
    lines = recording.run(command).splitlines()
    commits = {int(lsn): told for lsn, told in (line.split() for line in lines)}
    assert len(commits) > 10
    return recording, commits


def test_the_index_is_a_commit_at_every_moment(tmp_path: Path, library: Path, seed: int) -> None:
    data = tmp_path / "data"
    recording, commits = recorded(data, library, seed)
    chance = random.Random(seed)
    found: Counter[str] = Counter()
    durable = 0
    with judges_of(data) as judges:
        for moment in recording.moments(chance, cuts=CUTS):
            moment.platter.write()
            said = judges.judge(data / INDEX)
            where = f"seed {seed}, behind sync {moment.syncs}: {said}"
            assert "wrong" not in said, where
            if "refused" in said:
                found["refused"] += 1
                # From the first commit on there is always one to go back to.
                assert durable == 0, where
                continue
            lsn = int(said["lsn"])
            assert commits.get(lsn) == said["digest"], where
            assert lsn >= durable, where
            found["older" if lsn < max(commits) else "newest"] += 1
            if moment.is_bare:
                durable = lsn
    assert judges.deaths == []
    assert durable == max(commits)
    assert min(found["older"], found["newest"]) > 0, found
    assert min(recording.seen[kind] for kind in (SYNC, SYNCED_WRITE)) > len(commits) // 2
    print(
        f"{sum(found.values())} cuts: {dict(found)}, syncs {recording.seen[SYNC_FOLDER]} of folders"
    )
