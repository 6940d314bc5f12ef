"""A process that works on history: it does one job after the other, and answers each by a pipe.

Must never know pages. Errors that people can understand are answered as text; any other error ends
the process, with its traceback in the log of the console.
"""

import resource
import signal
from multiprocessing.connection import Connection
from typing import Final

from daybook.console.jobs.history import JOBS
from daybook.errors import DaybookError

NO_MEMORY: Final = (
    "this needs more memory than a page may use; ask for less, or use the command line"
)


def serve(pipe: Connection, memory_bytes: int) -> None:
    """Do jobs until the pipe is closed."""
    # The console ends them; Ctrl-C in its terminal reaches all of its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            name, arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer = {"result": JOBS[name](**arguments)}
        except DaybookError as error:
            answer = {"error": str(error)}
        except OSError as error:
            answer = {"error": f"{error.filename or 'a file'}: {error.strerror or error}"}
        except MemoryError:
            answer = {"error": NO_MEMORY}
        pipe.send(answer)
