"""The image that the image of a release is built on: it must be named by its digest.

    python -m release.base 3.11-slim-bookworm@sha256:DIGEST

A tag can name another image tomorrow; a digest is the hash of one. This module does not know the
right digest: the releaser takes it from the registry, and the notes of the release name it. Must
use the standard library alone.
"""

import re
import sys

from release import lockfile

PINNED = re.compile(r"[\w.-]+@sha256:[0-9a-f]{64}")


def main() -> None:
    """Refuse an image without a digest; with --version print the version of the project."""
    (name,) = sys.argv[1:]
    if name == "--version":
        print(lockfile.project()["project"]["version"])
    elif not PINNED.fullmatch(name):
        raise SystemExit(
            f"BASE={name} has no digest; name it as TAG@sha256:DIGEST, with the digest that"
            " `docker buildx imagetools inspect python:TAG` prints"
        )


if __name__ == "__main__":
    main()
