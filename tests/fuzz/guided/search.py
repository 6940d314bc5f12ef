"""Look for inputs that break a law, guided by coverage, and keep those that reach new branches.

`python -m tests.fuzz.guided.search frames --seconds 600` begins with the corpus of the target. When
nothing was found, the corpus becomes what is needed to reach all that was reached. A case that
breaks a law is made smaller, printed, and left in a file that `--case FILE` plays again.
"""

import argparse
import importlib
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Final

from tests.fuzz.guided import corpus
from tests.fuzz.guided.measure import fewest
from tests.fuzz.guided.plants import PLANTS

TARGETS: Final = ("frames", "sessions", "amqp", "links")
PLANTED: Final = "DAYBOOK_FUZZ_PLANT"
"""In the environment of the worker: the mistake to plant."""
LEN_MAX: Final = 30_000
CASE_SECONDS: Final = 20
"""A case that takes longer is a finding."""
_PROGRESS: Final = re.compile(r"#(\d+)\s.*?cov: (\d+) ft: (\d+) corp: (\d+)")


def smaller(target: ModuleType, case: bytes, seconds: float = 60.0) -> bytes:
    """A smaller case with the same problem, as far as it is found in this time."""
    wanted = target.check(case)[-40:]
    until = time.monotonic() + seconds
    step = max(1, len(case) // 2)
    while step and time.monotonic() < until:
        at = 0
        while at < len(case) and time.monotonic() < until:
            shorter = target.without(case, at, step)
            if len(shorter) < len(case) and target.check(shorter)[-40:] == wanted:
                case = shorter
            else:
                at += step
        step //= 2
    return case


def run(name: str, folder: Path, plant: str, *options: str) -> int:
    """Run libFuzzer; print its progress, a line for each doubling of the cases at least."""
    command = [sys.executable, "-m", "tests.fuzz.guided.worker", name, *options]
    environment = os.environ | {"PYTHONWARNINGS": "ignore", PLANTED: plant}
    began = time.monotonic()
    shown = 0.0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            found = _PROGRESS.match(line)
            now = time.monotonic()
            if found is not None and now - shown >= 30:
                shown = now
                count, branches, features, kept = found.groups()
                print(
                    f"{name}: {now - began:4.0f} s, {count} cases, {branches} branches,"
                    f" {features} features, {kept} kept",
                    flush=True,
                )
            elif "WARNING" in line or "SUMMARY" in line or line.startswith("Done"):
                print(f"{name}: {line.rstrip()}", flush=True)
            (folder / "log").open("a").write(line)
        return process.wait()


def search(name: str, seconds: int, seed: int, plant: str = "") -> int:
    """Search for so long; return 1 if something was found. With a mistake to plant it begins
    without what earlier searches found, and keeps nothing."""
    target = importlib.import_module(f"tests.fuzz.guided.{name}")
    with tempfile.TemporaryDirectory(prefix="daybook-fuzz-") as work:
        folder = Path(work)
        old, new = folder / "old", folder / "new"
        old.mkdir()
        new.mkdir()
        for number, case in enumerate(corpus.cases(target, kept=not plant)):
            (old / f"{number:05}").write_bytes(case)
        print(f"{name}: seed {seed}, {len(list(old.iterdir()))} cases to begin with", flush=True)
        began = time.monotonic()
        code = run(
            name, folder, plant, str(new), str(old), f"-max_total_time={seconds}", f"-seed={seed}",
            f"-max_len={LEN_MAX}", f"-timeout={CASE_SECONDS}", f"-report_slow_units={CASE_SECONDS}",
            f"-artifact_prefix={work}/found-", "-rss_limit_mb=4096", "-print_final_stats=1",
        )  # fmt: skip
        for file in sorted(folder.glob("found-*")):
            if plant:
                return found_planted(target, plant, file.read_bytes(), time.monotonic() - began)
            return report(target, file.read_bytes())
        if code:
            print((folder / "log").read_text("utf-8", "replace")[-4000:])
            return 1
        if plant:
            print(f"{name}: {plant} ({PLANTS[plant].what}) was NOT found")
            return 0
        found = [file.read_bytes() for each in (old, new) for file in each.iterdir()]
        kept, taken = fewest(found, target.check)
        size = corpus.keep(target, kept)
        print(f"{name}: nothing found; {len(kept)} of {len(found)} cases are kept, {size} bytes,")
        print(f"{name}: which take {taken} branches")
    return 0


def found_planted(target: ModuleType, plant: str, case: bytes, seconds: float) -> int:
    """Keep the case that found a planted mistake, made smaller."""
    PLANTS[plant].plant(setattr)
    print(f"{plant} ({PLANTS[plant].what}) was found after {seconds:.0f} s:")
    case = smaller(target, case)
    print(target.shown(case))
    corpus.keep_planted(plant, case)
    return 1


def report(target: ModuleType, case: bytes) -> int:
    """Print the mistake that a case shows, and save a smaller case."""
    case = smaller(target, case)
    file = Path(tempfile.gettempdir()) / f"daybook-{target.NAME}.case"
    file.write_bytes(case)
    print(target.shown(case))
    print(target.check(case))
    print(f"python -m tests.fuzz.guided.search {target.NAME} --case {file}")
    return 1


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("target", choices=TARGETS, help="what is fed")
    parser.add_argument("--seconds", type=int, default=600, help="how long to search")
    parser.add_argument("--seed", type=int, help="repeat a search, as far as it is repeatable")
    parser.add_argument("--plant", choices=PLANTS, default="", help="plant this mistake")
    parser.add_argument("--case", type=Path, help="play this case only")
    arguments = parser.parse_args()
    target = importlib.import_module(f"tests.fuzz.guided.{arguments.target}")
    if arguments.case is not None:
        case = arguments.case.read_bytes()
        return report(target, case) if target.check(case) else 0
    seed = arguments.seed or random.SystemRandom().randrange(1, 1 << 31)
    return search(arguments.target, arguments.seconds, seed, arguments.plant)


if __name__ == "__main__":
    sys.exit(main())
