"""A process that works on history: it does one job after the other, and answers each by a pipe.

Must never know pages. Errors that people can understand are answered as text; any other error ends
the process, with its traceback in the log of the console.
"""

import os
import resource
import signal
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from daybook.console.jobs import queries
from daybook.console.jobs.history import JOBS as OF_HISTORY
from daybook.errors import DaybookError
from daybook.recovery import collector
from daybook.scratch_folders import remove_for_another

NO_MEMORY: Final = (
    "this needs more memory than a page may use; ask for less, or use the command line"
)
NESTED: Final = "what this reads is nested too deeply"
NO_THREAD: Final = "can't start new thread"
"""What Python says when there is no memory for the stack of a thread."""
QUERIES: Final[dict[str, Callable[..., Any]]] = {"answer": queries.answer, "export": queries.export}
"""The jobs that run what users wrote."""
JOBS: Final[dict[str, Callable[..., Any]]] = OF_HISTORY | QUERIES | {"tables": queries.tables}
"""All jobs, by their names."""


def serve(pipe: Connection, memory_bytes: int, scratch: str = "") -> None:
    """Do jobs until the pipe is closed; temporary files are in the folder `scratch`."""
    tempfile.tempdir = scratch or None
    # The own one of Arrow takes a gibibyte of the limit at once, used or not.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    # The console ends them; Ctrl-C in its terminal reaches all of its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The states of moments are large. The collector would look at all of a state several times.
    collector.begin_work()
    while True:
        try:
            name, arguments = pipe.recv()
        except EOFError:
            # A console that was killed removes nothing.
            if scratch:
                remove_for_another(Path(scratch))
            return
        try:
            answer = {"result": JOBS[name](**arguments)}
        except DaybookError as error:
            answer = {"error": str(error)}
        except OSError as error:
            answer = {"error": f"{error.filename or 'a file'}: {error.strerror or error}"}
        except RecursionError:
            answer = {"error": NESTED}
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and str(error) != NO_THREAD:
                raise
            answer = {"error": NO_MEMORY}
        pipe.send(answer)
        if answer.get("error") == NO_MEMORY:
            # What is left of this job must not be missing to the next one.
            collector.free_all()
