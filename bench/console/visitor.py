"""A browser without scripts, as a load: it logs in at a console by the operator's link, and times
pages. Must never know what a page says.
"""

import html
import http.client
import re
import time
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from bench.load.frames import LoadError

ANSWER_S: Final = 120.0
REDIRECTS_MAX: Final = 5
_OK: Final = 200
_BROKEN: Final = (404, 500)
"""There is no such page; a mistake of the console."""
_WRONG: Final = re.compile(
    r'<p class="wrong"[^>]*>(.*?)</p>|<div class="wrong".*?<pre>(.*?)</pre>', re.S
)
"""The words of a page that is refused, and of a query without an answer."""
_SEE_OTHER: Final = 303


class Shown(NamedTuple):
    """A page: seconds until its first byte, and to its last one, its bytes, and the status of
    HTTP."""

    first_s: float
    whole_s: float
    size: int
    text: str
    status: int = _OK


class Visitor:
    """One browser."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._host: Final = place.hostname or ""
        self._port: Final = place.port or 0
        self._cookie = ""

    def get(self, path: str) -> Shown:
        """Show a page, wherever it leads. Raises LoadError if it is an error."""
        shown = self.ask(path)
        if why := refusal(path, shown):
            raise LoadError(f"visitor: {path} is answered with {shown.status}: {why}")
        return shown

    def ask(self, path: str) -> Shown:
        """Ask for a page, wherever it leads; it may be an error. Raises LoadError without an
        answer."""
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
            whole = time.perf_counter() - begun
            return Shown(first, whole, len(text), text, answer.status)
        raise LoadError(f"visitor: {path} leads from page to page")


def refusal(path: str, shown: Shown) -> str:
    """Return why a page is refused, in the words of the console, "" if it is not. Raises LoadError
    if the console has no words for that."""
    if shown.status == _OK:
        return ""
    found = _WRONG.search(shown.text)
    if found is None or shown.status in _BROKEN:
        text = shown.text[-2000:]
        raise LoadError(f"visitor: {path} is answered with {shown.status}: {text}")
    return html.unescape(found[1] or found[2]).strip()
