"""Run the installed commands without the start of an interpreter for each of them.

Loading the broker costs half a second of a processor, and the tests start it a thousand times. A
nursery is one process that has imported the commands and does nothing else. It forks for each
command: the child is a process with a session, files, a folder and signals of its own, and runs the
entry point that the installed script runs. A broker forks its first indexer, too, and ends without
taking apart its objects; who looks at an index is forked as well. This does not prove the start of
an interpreter, the script itself and the imports; modules of tests about those do without a nursery
(`OWN_INTERPRETER` in the `conftest.py` of a folder).

The nursery is the parent of what it forks, so it says how a child ended. When the process of the
tests ends, it reads the end of its socket, kills what still runs, and ends too.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Final, NoReturn

DESCRIPTORS: Final = 3
MESSAGE_BYTES: Final = 1 << 17
MODULES: Final = {"daybook": "daybook", "daybook.tools.journal_cli": "journal"}
"""The installed scripts of modules that `python -m` runs."""
WITH_CODE: Final = [sys.executable, "-P", "-c"]
"""How a command begins that runs code of a test."""
KNOWN: Final = {"capture_output", "check", "text", "input", "cwd", "timeout"}
WITH_THREADS: Final = ("deltalake", "duckdb", "matplotlib", "pyarrow", "pyspark")
"""Packages that take long to import, or start threads, which a fork does not take along."""
APPLIED_LATER: Final = {"PYTHONPATH", "PYTHONWARNINGS"}
"""Variables that a forked process can still follow: the first one is where the nursery is from."""
CHANGES_ALWAYS: Final = "PYTEST_CURRENT_TEST"
"""A variable that is another in each test."""


class Nursling:
    """A forked process, with what is used of `subprocess.Popen`; `ask` says how it ended, if it
    has."""

    def __init__(self, pid: int, ask: Callable[[], int | None]) -> None:
        self._ask: Final = ask
        self.pid: Final = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return how it ended as Popen does: the exit code, or the signal as a negative number."""
        if self.returncode is None:
            self.returncode = self._ask()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises TimeoutExpired."""
        if self.poll() is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)
                if not poll.poll(None if timeout is None else timeout * 1000):
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            finally:
                os.close(descriptor)
            self.poll()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it is known to have ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)


class Nursery:
    """The process that forks, as the tests see it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._environment = _environment()
        self._door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self.pid: Final = self._process.pid
        atexit.register(self.close)

    def fits(self) -> bool:
        """Return whether the environment is the one that the nursery was started with."""
        return self._environment == _environment()

    def close(self) -> None:
        """End the process."""
        atexit.unregister(self.close)
        self._door.close()
        self._process.wait()

    def start(
        self,
        command: Sequence[str],
        *,
        stdin: IO[bytes] | None = None,
        stdout: IO[bytes],
        stderr: IO[bytes],
        cwd: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Nursling:
        """Run a command in a session of its own; `environment` is what it has besides."""
        folder = Path(cwd or Path.cwd())
        assert folder.is_dir(), f"{folder} is no folder"
        request = {
            "command": list(command),
            "folder": str(folder),
            "environment": dict(environment or {}),
        }
        with Path(os.devnull).open("rb") as nothing:
            files = [file.fileno() for file in (stdin or nothing, stdout, stderr)]
            pid = self.ask(request, files)
        assert pid is not None
        return Nursling(pid, lambda: self.ask({"pid": pid}))

    def ask(self, request: dict[str, Any], files: Sequence[int] = ()) -> int | None:
        """Send a request and return the answer to it."""
        with self._lock:
            socket.send_fds(self._door, [json.dumps(request).encode()], list(files))
            answer = self._door.recv(MESSAGE_BYTES)
        assert answer, "the nursery ended"
        found: int | None = json.loads(answer)
        return found


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != CHANGES_ALWAYS}


_nurseries: Final[dict[int, Nursery]] = {}


def nursery() -> Nursery | None:
    """Return the nursery of this process; None if the environment is another by now."""
    pid = os.getpid()
    if pid not in _nurseries:
        _nurseries[pid] = Nursery()
    found = _nurseries[pid]
    return found if found.fits() else None


def _as_forked(command: Sequence[str]) -> list[str] | None:
    """Return the command by its script, also for `python -m`, or with the code that it is given;
    None if it is none of ours."""
    words = [str(word) for word in command]
    if words[:3] == WITH_CODE:
        return words
    if words[:2] == [sys.executable, "-m"] and words[2] in MODULES:
        words[:3] = [str(Path(sys.executable).with_name(MODULES[words[2]]))]
    path = Path(words[0])
    ours = path.parent == Path(sys.executable).parent and path.name in MODULES.values()
    return words if ours else None


def run(command: Sequence[str], **how: Any) -> "subprocess.CompletedProcess[Any]":
    """Run `daybook`, `journal` or a child of theirs as `subprocess.run` does, and anything else by
    that."""
    words = _as_forked(command)
    place = nursery() if words is not None and how.keys() <= KNOWN else None
    if place is None or words is None or not how.get("capture_output"):
        return subprocess.run(command, check=how.pop("check", False), **how)
    said = how.get("input") or b""
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(said.encode() if isinstance(said, str) else said)
        stdin.seek(0)
        child = place.start(words, stdin=stdin, stdout=stdout, stderr=stderr, cwd=how.get("cwd"))
        try:
            code = child.wait(how.get("timeout"))
        finally:
            child.kill()
        heard = [_whole(file, is_text=how.get("text", False)) for file in (stdout, stderr)]
    done = subprocess.CompletedProcess[Any](words, code, *heard)
    if how.get("check"):
        done.check_returncode()
    return done


def popen(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, **how: Any
) -> "subprocess.Popen[bytes] | Nursling":
    """Start a command in a session of its own as `subprocess.Popen` does; fork it if it is ours and
    nothing was asked for that a loader sees when it starts."""
    assert how.pop("start_new_session"), "a nursling has a session of its own"
    words = _as_forked(command)
    added = dict(set((env or {}).items()) - set(os.environ.items()))
    place = nursery() if words is not None and added.keys() <= APPLIED_LATER else None
    if place is None or words is None:
        return subprocess.Popen(command, env=env, start_new_session=True, **how)
    assert how.pop("stdin") == subprocess.DEVNULL
    return place.start(words, environment=added, **how)


def _whole(file: IO[bytes], *, is_text: bool) -> str | bytes:
    file.seek(0)
    return file.read().decode() if is_text else file.read()


# ---- the process itself


def _ended(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _become(request: dict[str, Any], files: Sequence[int]) -> None:
    """Make a forked process what a started one would be; its folder exists."""
    os.setsid()
    for number, descriptor in enumerate(files):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["folder"])
    os.environ |= request["environment"]
    if action := request["environment"].get("PYTHONWARNINGS"):
        # Those that it starts get these options from it.
        sys.warnoptions.append(action)
        warnings.simplefilter(action)
    sys.argv[:] = request["command"]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _serve(door: socket.socket) -> None:
    """Answer requests; returns only in a forked process, when it is ready to run its command."""
    running: set[int] = set()
    while True:
        said, files, _, _ = socket.recv_fds(door, MESSAGE_BYTES, DESCRIPTORS)
        if not said:
            for child in running:
                os.kill(child, signal.SIGKILL)
            os._exit(0)
        request = json.loads(said)
        if "pid" in request:
            code = _ended(request["pid"])
            if code is not None:
                running.discard(request["pid"])
            door.send(json.dumps(code).encode())
            continue
        pid = os.fork()
        if pid:
            running.add(pid)
            for descriptor in files:
                os.close(descriptor)
            continue
        # The child answers when it has its session: a signal to that now meets it.
        _become(request, files)
        door.send(json.dumps(os.getpid()).encode())
        door.close()
        return


LOOKS: Final = ("daybook.paging.checks.usability", "daybook.paging.snapshots.index_copy")
"""Modules that let another process look at an index."""


def replace_looks(run: Callable[..., "subprocess.CompletedProcess[Any]"]) -> None:
    """Let those of them that are imported run these processes so."""
    for name in LOOKS:
        if name in sys.modules:
            sys.modules[name].subprocess = SimpleNamespace(run=run)  # type: ignore[attr-defined]


FORKED_NAME: Final = "forked-indexer"
"""The name of a forked indexer for the kernel: its command line is that of the broker."""


def fork_first(command: Sequence[str], *, pass_fds: Sequence[int], **how: Any) -> Nursling:
    """Fork the first child process of a broker, as `paging.indexer.process` starts it. Later ones
    are started: by then the broker has the index open, which a fork would take along."""
    assert how.keys() == {"stdin", "stdout", "start_new_session"}, how
    sys.modules["daybook.paging.indexer.process"].subprocess = subprocess  # type: ignore[attr-defined]
    main, words = _of_child(command)
    pid = os.fork()
    if pid == 0:
        Path("/proc/self/comm").write_text(FORKED_NAME, encoding="ascii")
        _run_child(main, words, pass_fds)
    return Nursling(pid, lambda: _ended(pid))


def run_forked(command: Sequence[str], **how: Any) -> "subprocess.CompletedProcess[str]":
    """Fork a process that looks at an index for a forked command, unless threads run there, too."""
    assert how == {"capture_output": True, "text": True, "check": False}, how
    if threading.active_count() > 1:
        return subprocess.run(command, **how)
    main, words = _of_child(command)
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        pid = os.fork()
        if pid == 0:
            os.dup2(stderr.fileno(), 2)
            _run_child(main, words, (), stdout.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        heard = [str(_whole(file, is_text=True)) for file in (stdout, stderr)]
    return subprocess.CompletedProcess(list(command), code, *heard)


def _of_child(command: Sequence[str]) -> tuple[Callable[[list[str]], int], list[str]]:
    """The main function of a child of the product, and the words for it."""
    module, *words = command[5:]
    return importlib.import_module(module).main, words


def _run_child(
    run: Callable[[list[str]], int], words: list[str], kept: Sequence[int], stdout: int = -1
) -> NoReturn:
    """Run the main function of a child in a forked process, with what a started one would have."""
    try:
        os.setsid()
        if stdout >= 0:
            os.dup2(stdout, 1)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for descriptor in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
            if descriptor > 2 and descriptor not in kept:
                with suppress(OSError):
                    os.close(descriptor)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        if stdout < 0:
            os.dup2(nothing, 1)
        code = _code_of(lambda: sys.exit(run(words)))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _load(path: Iterable[str]) -> None:
    """Import every module that needs none of `WITH_THREADS`."""
    sys.modules |= dict.fromkeys(WITH_THREADS)  # type: ignore[arg-type]
    for found in pkgutil.walk_packages(path, "daybook."):
        if found.name.rpartition(".")[2] != "__main__":
            with suppress(ImportError):
                importlib.import_module(found.name)
    for name in WITH_THREADS:
        del sys.modules[name]


def main() -> None:
    """Import the commands, then fork for each one that is asked for, and run it."""
    gc.disable()
    # An installed script has its own folder there.
    sys.path[0] = str(Path(sys.executable).parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import daybook  # noqa: PLC0415 (only in the nursery)

    _load(daybook.__path__)
    sys.modules["daybook.paging.indexer.process"].subprocess = SimpleNamespace(  # type: ignore[attr-defined]
        Popen=fork_first, DEVNULL=subprocess.DEVNULL, TimeoutExpired=subprocess.TimeoutExpired
    )
    replace_looks(run_forked)
    # Neither at the end nor in between does a collection look at, and so copy, what all share.
    gc.collect()
    gc.freeze()
    gc.enable()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    _end(_code_of(_program()))


def _program() -> Callable[[], None]:
    """Return the program of a command: an installed script, or the code given to an interpreter."""
    if sys.argv[:3] == WITH_CODE:
        code = sys.argv[3]
        sys.argv[:4] = ["-c"]
        return partial(exec, code, {"__name__": "__main__"})
    entry = importlib.import_module("daybook.tools.entry")
    found: Callable[[], None] = getattr(entry, Path(sys.argv[0]).name)
    return found


def _code_of(command: Callable[[], None]) -> int:
    """Run a command and return its exit code, as the interpreter would have it."""
    try:
        command()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        sys.stderr.write(f"{ended.code}\n")
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _end(code: int) -> NoReturn:
    """End as the interpreter does, without taking apart every object, which takes longer than most
    commands."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
