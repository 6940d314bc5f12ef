"""A browser without scripts, as a load: it logs in at a console by the operator's link, and times
pages. Must never know what a page says.
"""

import http.client
import time
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from bench.load.frames import LoadError

ANSWER_S: Final = 120.0
REDIRECTS_MAX: Final = 5
_OK: Final = 200
_SEE_OTHER: Final = 303


class Shown(NamedTuple):
    """A page: seconds until its first byte, and to its last one, and its bytes."""

    first_s: float
    whole_s: float
    size: int
    text: str


class Visitor:
    """One browser."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._host: Final = place.hostname or ""
        self._port: Final = place.port or 0
        self._cookie = ""

    def get(self, path: str) -> Shown:
        """Show a page, wherever it leads. Raises LoadError if it is an error."""
        begun = time.perf_counter()
        for _ in range(REDIRECTS_MAX):
            connection = http.client.HTTPConnection(self._host, self._port, timeout=ANSWER_S)
            try:
                connection.request("GET", path, headers={"Cookie": self._cookie})
                answer = connection.getresponse()
                first = time.perf_counter() - begun
                text = answer.read().decode("utf-8", "replace")
            except (OSError, http.client.HTTPException) as error:
                raise LoadError(f"visitor: {path}: {error}") from error
            finally:
                connection.close()
            for cookie in answer.headers.get_all("set-cookie") or []:
                self._cookie = cookie.partition(";")[0]
            if answer.status == _SEE_OTHER:
                where = urlsplit(answer.headers["location"])
                path = f"{where.path}?{where.query}" if where.query else where.path
                continue
            if answer.status != _OK:
                raise LoadError(f"visitor: {path} is answered with {answer.status}: {text[-2000:]}")
            return Shown(first, time.perf_counter() - begun, len(text), text)
        raise LoadError(f"visitor: {path} leads from page to page")
