"""Making requirements.lock: the newest versions within the bounds of pyproject.toml.

uv resolves once for every supported Python on Linux and for both architectures; where one
version does not fit all, the lock has several with markers. Comments name no index and no path of
this machine, so the lock is the same wherever it is made.
"""

import subprocess
import sys

from release import lockfile

HEAD = """\
# Every dependency of every extra and group, with the hashes of its files. Written by `make lock`.
# `python -m release.lockfile SET...` prints the part that some extras and groups need.
"""


def main() -> None:
    """Resolve, and write the lock; further arguments go to uv."""
    groups = [f"--group={name}" for name in lockfile.project()["dependency-groups"]]
    resolve = [
        "uv", "pip", "compile", "pyproject.toml", "--universal", "--all-extras", *groups,
        "--generate-hashes", "--no-header", "--no-emit-index-url", "--no-emit-find-links",
        "--upgrade", "--quiet",
    ]  # fmt: skip
    command = [sys.executable, "-m", *resolve, *sys.argv[1:]]
    done = subprocess.run(
        command, cwd=lockfile.ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(
            "uv did not resolve pyproject.toml (above); requirements.lock is as it was"
        )
    lockfile.parse(done.stdout)
    lockfile.LOCK.write_text(HEAD + done.stdout, "utf-8")


if __name__ == "__main__":
    main()
