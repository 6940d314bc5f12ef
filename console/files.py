"""The files of the console that everybody may have: scripts, styles, and the icon.

They never change while a console runs, so they are read once, and a browser that has one gets it
again only if another release has another one. Bounded by what is installed.
"""

import hashlib
import mimetypes
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from daybook.console.rendering import FOLDER

SECONDS: Final = 3600
NOT_CHANGED: Final = 304


class File:
    """One file: its content, its type, and a tag of its content."""

    def __init__(self, path: Path) -> None:
        self.content: Final = path.read_bytes()
        self.kind: Final = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        self.tag: Final = f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    def answer(self, request: Request) -> Response:
        """Return the file, or that it is still the same."""
        headers = {"cache-control": f"public, max-age={SECONDS}", "etag": self.tag}
        known = request.headers.get("if-none-match", "").split(",")
        if self.tag in (each.strip().removeprefix("W/") for each in known):
            return Response(status_code=NOT_CHANGED, headers=headers)
        return Response(self.content, media_type=self.kind, headers=headers)


FILES: Final = {
    str(path.relative_to(FOLDER / "static")): File(path)
    for path in (FOLDER / "static").rglob("*")
    if path.is_file()
}
"""All of them, by their names in URLs."""
