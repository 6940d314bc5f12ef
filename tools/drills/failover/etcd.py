"""An etcd of one member for a drill: its data is scratch, and only this machine reaches it.

The operator's etcd is never asked. Must never know the nodes.
"""

import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from daybook.tools.drills.failover.cluster import free_port
from daybook.tools.drills.scratch.server import HOST
from daybook.tools.terminal.failures import Failure

PROGRAM: Final = "etcd"
ENDS_WITH_THE_DRILL: Final = """
import os, sys
from daybook.journal.writing.lifeline import end_with
if end_with(int(sys.argv[1])):
    os.execvp(sys.argv[2], sys.argv[2:])
"""
"""A program that becomes its arguments; the kernel ends it when the drill ends."""
READY_SECONDS: Final = 60.0
END_SECONDS: Final = 10.0


@contextmanager
def scratch_etcd(folder: Path) -> Iterator[str]:
    """Run etcd below a folder, and yield its endpoint. Raises Failure."""
    if shutil.which(PROGRAM) is None:
        raise Failure("etcd is not installed here: install it, or leave out --arbiter etcd")
    with ExitStack() as holding:
        client, peer = free_port(holding), free_port(holding)
    endpoint, advertised = f"http://{HOST}:{client}", f"http://{HOST}:{peer}"
    command = [
        sys.executable, "-P", "-c", ENDS_WITH_THE_DRILL, str(os.getpid()),
        PROGRAM, "--name", "drill", "--data-dir", str(folder / PROGRAM),
        "--listen-client-urls", endpoint, "--advertise-client-urls", endpoint,
        "--listen-peer-urls", advertised, "--initial-advertise-peer-urls", advertised,
        "--initial-cluster", f"drill={advertised}",
    ]  # fmt: skip
    with (folder / "etcd.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            # Settings of the operator's etcd do not reach this one.
            env={name: value for name, value in os.environ.items() if "ETCD" not in name},
        )  # fmt: skip
    try:
        _await_health(process, endpoint, folder / "etcd.log")
        yield endpoint
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        process.kill()
        process.wait()


def _await_health(process: "subprocess.Popen[bytes]", endpoint: str, log: Path) -> None:
    by = time.monotonic() + READY_SECONDS
    while True:
        with (
            suppress(OSError),
            urllib.request.urlopen(f"{endpoint}/health", timeout=1.0) as answer,  # noqa: S310
        ):
            if answer.status == 200:
                return
        if process.poll() is not None or time.monotonic() > by:
            words = " ".join(log.read_text("utf-8", "replace")[-500:].split())
            raise Failure(f"the etcd of the drill does not start: {words}")
        time.sleep(0.05)
