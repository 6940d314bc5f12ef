"""Copies of a data directory, for the scratch brokers of a drill.

The original is only read, and pinned meanwhile. Must never know the work of a drill.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from daybook.journal.data_directory import BASE, DATA_ID, DERIVED, JOURNAL
from daybook.journal.pins import Pin
from daybook.recovery.readonly import opened
from daybook.tools.drills.reports.report import Report
from daybook.tools.drills.scratch.startable import is_in_use, refuse_unstartable
from daybook.tools.drills.scratch.workplace import need_space


def copy_data(source: Path, targets: Sequence[Path], report: Report, spare_times: int) -> None:
    """Copy the files that a start reads to each target, which needs so many times their size.

    Raises Failure, JournalError and OSError.
    """
    with Pin(source):
        refuse_unstartable(source, opened(source))
        is_running = is_in_use(source)
        folders = [JOURNAL, BASE]
        folders += () if is_running else DERIVED
        if is_running:
            report.could_not.append("index, snapshots and catalogs: a broker runs on the directory")
        paths = [path for name in folders for path in (source / name).rglob("*") if path.is_file()]
        paths += [path for path in (source / DATA_ID,) if path.is_file()]
        size = sum(path.stat().st_blocks * 512 for path in paths)
        for target in targets:
            target.mkdir(parents=True, exist_ok=True)
        need_space(targets[0], spare_times * len(targets) * size)
        for path in paths:
            for target in targets:
                place = target / path.relative_to(source)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
        report.figures["bytes copied"] = f"{size:,}"
