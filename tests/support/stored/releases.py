"""Data directories that the brokers of older releases wrote (`tests.golden.make_release`)."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any, Final

import zstandard

FOLDER: Final = Path(__file__).parents[2] / "golden" / "releases"
RELEASES: Final = tuple(sorted(file.stem for file in FOLDER.glob("*.json")))


def unpacked(name: str, folder: Path) -> Path:
    """Unpack the data directory of a release into a folder that it creates; return that."""
    packed = zstandard.decompress((FOLDER / f"{name}.tar.zst").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def expected(name: str) -> dict[str, Any]:
    """Return the recorded facts about the data directory."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found
