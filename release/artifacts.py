"""Builds the published files: wheels, sources, manuals, the bill of materials, and their sums.

    python -m release.artifacts [--rehearse] FOLDER

Everything is built from the files that git tracks, with the versions of requirements.lock. A
release needs a clean checkout and a section of CHANGELOG.md. `--rehearse` needs neither; its output
must not be published. The compiled wheels are made for each interpreter that is found here.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from release import changelog, components, lockfile, manuals

VERSIONS: Final = ("3.11", "3.12", "3.13")
"""The versions of Python for which there are compiled wheels."""
SUMS: Final = "SHA256SUMS"


class Failed(Exception):
    """A file could not be built; the text names it."""


def run(*command: str | Path, cwd: Path = lockfile.ROOT, compiled: bool = False) -> str:
    """Run a command and return its output; raise Failed with its errors."""
    environment = os.environ | {"DAYBOOK_COMPILE": "1" if compiled else "0"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def interpreters(versions: Iterable[str] = VERSIONS) -> dict[str, Path]:
    """Return the interpreters that are found, on the path or among those of pyenv, by version."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = {}
    for version in versions:
        named = shutil.which(f"python{version}")
        others = sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
        for each in ([Path(named)] if named else []) + others:
            if runs(each, version):
                found[version] = each
                break
    return found


def runs(python: Path, version: str) -> bool:
    """Tell whether this is an interpreter of that version which can make environments."""
    asked = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def ready(version: str) -> str:
    """Return the date of the release; raise Failed if something speaks against it."""
    day = changelog.check(changelog.PAGE.read_text("utf-8"), version)
    if changed := run("git", "status", "--porcelain"):
        raise Failed(f"the checkout has changes that are not committed:\n{changed}")
    tag = f"v{version}"
    if run("git", "tag", "--list", tag) and run("git", "rev-list", "-1", tag) != run(
        "git", "rev-parse", "HEAD"
    ):
        raise Failed(f"the tag {tag} is another commit: set the next version in pyproject.toml")
    return day


def sources(target: Path) -> None:
    """Copy the files that git tracks, with their links, and add manuals and completions."""
    names = run("git", "ls-files", "-z").split("\0")
    for name in filter(None, names):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if (lockfile.ROOT / name).exists():  # a rehearsal may have removed it
            shutil.copy2(lockfile.ROOT / name, path, follow_symlinks=False)
    manuals.write(target / "share")


def environment(folder: Path, python: Path) -> Path:
    """Make an environment with the compiler's requirements; return its interpreter."""
    run(python, "-m", "venv", folder)
    made = folder / "bin" / "python"
    command = ("-m", "release.installation", "broker", "compile")
    done = subprocess.run(
        [made, *command], cwd=lockfile.ROOT, check=False,
        env=os.environ | {"DAYBOOK_LOCK": "required"},
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"the locked dependencies cannot be installed for {python}")
    return made


def wheel(python: Path, source: Path, target: Path, *, compiled: bool) -> Path:
    """Build a wheel, install it, and see that it starts; return its file."""
    before = set(target.glob("*.whl"))
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(target))
    run(python, "-m", "pip", "wheel", *options, source, compiled=compiled)
    (made,) = set(target.glob("*.whl")) - before
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", made)
    said = run(python.with_name("daybook"), "--version", cwd=target)
    version = lockfile.project()["project"]["version"]
    if said != f"daybook, version {version}":
        raise Failed(f"{made.name} says that it is {said}")
    return made


def source_archive(python: Path, source: Path, target: Path) -> Path:
    """Build the archive of the sources; return its file."""
    build = "import setuptools.build_meta as b, sys; b.build_sdist(sys.argv[1])"
    run(python, "-c", build, target, cwd=source)
    (made,) = target.glob("*.tar.gz")
    return made


def sums(folder: Path) -> str:
    """Return the lines of `sha256sum` for the files of a folder."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files
    )


def build(target: Path, version: str, found: dict[str, Path]) -> None:
    """Build everything into an empty folder."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        (checkout := work / "checkout").mkdir()
        sources(checkout)
        own = environment(work / "own", Path(sys.executable))
        archive = source_archive(own, checkout, target)
        # Wheels are built from the archive, so a missing file fails the build here.
        with tarfile.open(archive) as opened:
            opened.extractall(work / "unpacked", filter="data")
        (unpacked,) = (work / "unpacked").iterdir()
        print(wheel(own, unpacked, target, compiled=False).name, flush=True)
        for each, python in found.items():
            made = environment(work / each, python)
            print(wheel(made, unpacked, target, compiled=True).name, flush=True)
            shutil.rmtree(work / each)
            shutil.rmtree(unpacked / "build", ignore_errors=True)
        shutil.make_archive(
            str(target / f"daybook-{version}-manuals"), "gztar", checkout / "share",
        )  # fmt: skip
    components.write(target)
    part = lockfile.selected(lockfile.requirements_of(["broker", "all"]))
    (target / f"daybook-{version}-requirements.txt").write_text(part, "utf-8")
    (target / SUMS).write_text(sums(target), "utf-8")


def main(arguments: Sequence[str]) -> None:
    """Build a release, or rehearse one, into the named folder."""
    rehearse = "--rehearse" in arguments
    (folder,) = [each for each in arguments if each != "--rehearse"]
    version = lockfile.project()["project"]["version"]
    try:
        day = "" if rehearse else ready(version)
        if day:
            at = datetime.fromisoformat(day).replace(tzinfo=UTC)
            os.environ["SOURCE_DATE_EPOCH"] = str(int(at.timestamp()))
        found = interpreters()
        target = Path(folder).resolve()
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        build(target, version, found)
    except (Failed, changelog.Refused) as error:
        raise SystemExit(f"no release: {error}") from None
    print((target / SUMS).read_text("utf-8"), end="")
    for each in VERSIONS:
        if each not in found:
            print(f"MISSING: no compiled wheel for Python {each}, which is not on this machine")
    if rehearse:
        print("This was a rehearsal: publish nothing of it.")
    else:
        print(f"Publish {folder}, and tag: git tag -a v{version} -m 'Daybook {version}'")


if __name__ == "__main__":
    main(sys.argv[1:])
