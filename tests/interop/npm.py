"""Clients from npm: where their packages are, and one of them in a process of its own.

`packages` installs them once a session. Where Node.js or the registry is missing the tests are
skipped, and say so; with `DAYBOOK_NODE=required`, as in continuous integration, they fail.
"""

import base64
import json
import os
import queue
import shutil
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

HERE: Final = Path(__file__).with_name("node")
INSTALL_SECONDS: Final = 120.0
REQUIRED: Final = "DAYBOOK_NODE"
LEAVE_SECONDS: Final = 30.0


def missing(reason: str) -> NoReturn:
    """Skip a test that needs clients from npm, or fail where they are required."""
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(f"{reason}, and {REQUIRED}=required asks for it")
    pytest.skip(f"{reason}; the clients from npm are not tried")


def install(folder: Path) -> Path:
    """Install the packages into a folder, with the programs beside them; or skip."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        missing("Node.js is not installed (node, npm)")
    shutil.copytree(HERE, folder, dirs_exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, check=False, timeout=INSTALL_SECONDS, text=True
    )
    if done.returncode:
        missing(
            f"npm cannot install the packages of {HERE.name}/package.json: {done.stderr[-300:]}"
        )
    return folder


class NodeClient:
    """A client of a library from npm; `frames` are what the broker said."""

    def __init__(self, folder: Path, library: str, **options: Any) -> None:
        command = ["node", "driver.mjs", library, json.dumps(options)]
        self._process: Final = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._heard: Final[queue.SimpleQueue[dict[str, Any]]] = queue.SimpleQueue()
        self._reader: Final = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._heard.put(json.loads(line))

    def act(self, what: str, body: bytes = b"", handle: int = 0, **headers: str) -> None:
        """Let the library do something; underscores in names of headers become hyphens."""
        assert self._process.stdin is not None
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        text = base64.b64encode(body).decode()
        words = {"act": what, "headers": named, "body": text, "handle": handle}
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def frame(self, seconds: float) -> dict[str, Any] | None:
        """The next frame, with its body as bytes; None if there is none in time."""
        try:
            found = self._heard.get(timeout=seconds)
        except queue.Empty:
            return None
        return found | {"body": base64.b64decode(found["body"])}

    def close(self) -> None:
        """End the process."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.wait(LEAVE_SECONDS)
        self._reader.join(LEAVE_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
