"""A process that owns a writer, as a broker does: to be killed, signalled, or left to end.

Arguments: a directory, and how often to write (0: until killed). It locks the directory, says the
pid of its writer, and then each LSN that became durable. At its end it says what it had said
nothing of: that it was not said twice is what is tested.
"""

import atexit
import select
import sys
from pathlib import Path

from daybook.journal.disk import RealDisk
from daybook.journal.lock import DirectoryLock
from daybook.journal.writing.process_writer import ProcessWriter
from tests.suites.journal_rows import create, make_batch, some_contents


def main(directory: Path, times: int) -> None:
    """Write until it is enough."""
    atexit.register(print, "at exit")
    disk = RealDisk(directory / "journal")
    disk.create()
    lock = DirectoryLock(directory)
    # Not flushed: the writer inherits it.
    sys.stdout.write("begin\n")
    writer = ProcessWriter(create(disk))
    print("writer", writer.pid, flush=True)
    writer.on_durable = lambda lsn: print("durable", lsn, flush=True)
    poll = select.poll()
    poll.register(writer, select.POLLIN)
    lsn = 1
    while not times or lsn <= 4 * times:
        writer.submit(make_batch(lsn, some_contents(lsn, 4)))
        while not writer.idle:
            poll.poll()
            writer.receive()
        lsn += 4
    writer.close()
    lock.release()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
