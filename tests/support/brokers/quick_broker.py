"""A drill's broker without a process: it opens the directory, and stops cleanly, in this one.

So a mistake can be planted by a patch, and a start takes no seconds.
"""

from pathlib import Path

from daybook.engine.broker import Broker
from daybook.engine.commands import Stop
from daybook.engine.core.core import Options
from daybook.journal.errors import JournalError
from daybook.journal.journal import Journal
from daybook.paging.indexer.indexers import ThreadIndexers
from daybook.recovery import directory
from daybook.recovery.starting import start_after
from daybook.tools.drills.scratch.broker import BrokerTrouble
from daybook.tools.drills.scratch.server import Serving

NOW = 4_000_000_000_000_000


class QuickBroker:
    """The methods of `DrillBroker` for drills without clients."""

    def __init__(self, serving: Serving, log: Path) -> None:
        self.serving = serving
        self.log = log
        self.log.write_text("")
        self._opened: directory.DataDirectory | None = None
        self._broker: Broker | None = None

    def start(self) -> float:
        path = Path(self.serving.data)
        try:
            self._opened = directory.open_directory(path, indexers=ThreadIndexers(0))
        except (JournalError, directory.RecoveryError) as error:
            self._say(f"the broker cannot start: {error}")
            raise BrokerTrouble(f"the broker cannot start: {error}") from error
        except Exception as error:
            self._say(f"Traceback: {error!r}")
            raise BrokerTrouble(f"the broker did not start: {error!r}") from error
        recovered = self._opened.recovered
        self._broker = Broker(recovered.state, recovered.events + 1, Options())
        self._broker.handle(start_after(recovered, recovered.journal._disk, "quick"), NOW)
        self._write(recovered.journal)
        return 0.01

    def _say(self, text: str) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(text)

    def _write(self, journal: Journal) -> None:
        assert self._broker is not None
        batch = self._broker.take()
        assert batch is not None
        journal.append(batch)

    def stop(self) -> int:
        assert self._opened is not None
        assert self._broker is not None
        self._broker.handle(Stop(), NOW)
        journal = self._opened.recovered.journal
        self._write(journal)
        journal.mark(NOW)
        self.kill()
        return 0

    def kill(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def last_words(self) -> str:
        return self.log.read_text("utf-8")

    def reason(self) -> str:
        return self.log.read_text("utf-8").partition("the broker cannot start: ")[2]

    def traceback(self) -> str:
        return ""
