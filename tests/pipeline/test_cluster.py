"""A job by spark-submit on a cluster that loses a worker in the middle.

What runs is the wheel, in an environment that has the dependencies and not the repository; both are
shipped to the workers.
"""

import os
import re
import signal
import subprocess
import sys
import sysconfig
import tarfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.meta import tree
from tests.pipeline.conftest import QUICK_JAVA
from tests.support.histories import some_history, write_history
from tests.support.suite.building import build_wheel

SPARK = Path(sysconfig.get_path("purelib")) / "pyspark"
LAUNCHER = tree.ROOT / "etc" / "spark" / "daybook_pipeline.py"
DEADLINE_SECONDS = 300.0
"""Far more than anything takes, so that what hangs is told instead of waited for."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources, as it is shipped."""
    target = tmp_path_factory.mktemp("wheel")
    built = build_wheel(tmp_path_factory.mktemp("source"), target)
    # A wheel is a zip, and only files that are called so are found by Spark's Python workers.
    return built.rename(target / "daybook.zip")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the dependencies alone: an editable install is not seen that way."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    interpreter = folder / "bin" / "python"
    found = subprocess.run(
        [interpreter, "-c", "import daybook.pipeline"], capture_output=True, check=False, cwd="/"
    )
    assert b"No module named 'daybook'" in found.stderr
    return interpreter


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    events = some_history(15, 900)
    assert len(events) > 2000
    return write_history(tmp_path_factory.mktemp("history") / "data", events)


@pytest.fixture(scope="module")
def latencies(data: Path) -> list[str]:
    """The answer of the embedded engine about the history."""
    daybook = Path(sys.executable).with_name("daybook")
    command = [daybook, "pipeline", "latency", "--data", data]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(answer(done.stdout)) > 10
    return answer(done.stdout)


def answer(output: str) -> list[str]:
    """The rows that a job printed; spark-submit mixes both of its outputs into one."""
    return [line for line in output.splitlines() if re.match("(routed|delivered) to ", line)]


def environment_of(python: Path | str = "") -> dict[str, str]:
    """The environment of Spark's processes: ours without the variables of Python."""
    kept = {name: text for name, text in os.environ.items() if "PYTHON" not in name}
    chosen = {name: str(python) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON") if python}
    spark = {"SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**kept, **QUICK_JAVA, **spark, **chosen}


def submission(
    wheel: Path, master: str, *arguments: str | Path, archives: str = ""
) -> list[str | Path]:
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
    }
    if archives:
        settings["spark.archives"] = archives
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    submit = SPARK / "bin" / "spark-submit"
    return [submit, "--master", master, "--py-files", wheel, *conf, LAUNCHER, *arguments]


def wait_for(what: str, found: Callable[[], Any]) -> Any:
    """Ask again and again until there is an answer."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (answer := found()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)
    return answer


class Cluster:
    """A master and workers as processes on the loopback interface; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ended = ExitStack()
        self.url = ""

    def start(self, workers: int) -> None:
        options = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self._run("master", "org.apache.spark.deploy.master.Master", *options)
        started = re.compile(r"service 'sparkMaster' on port (\d+)")
        found = wait_for("the master", lambda: started.search(self.log("master")))
        self.url = f"spark://127.0.0.1:{found[1]}"
        for number in range(workers):
            self._run(
                f"worker{number}", "org.apache.spark.deploy.worker.Worker",
                "--host", "127.0.0.1", "--cores", "1", "--memory", "600m", "--webui-port", "0",
                "--work-dir", str(self._folder / f"work{number}"), self.url,
            )  # fmt: skip
        for number in range(workers):
            registered = f"worker{number} to register"
            wait_for(
                registered,
                lambda name=f"worker{number}": "Successfully registered" in self.log(name),
            )

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text("utf-8", "replace")

    def executor_log(self, worker: int) -> str:
        """Return the log of a worker's executors."""
        logs = (self._folder / f"work{worker}").glob("app-*/*/stderr")
        return "".join(path.read_text("utf-8", "replace") for path in logs)

    def kill(self, worker: int) -> None:
        """Have a worker and its executors die as by a power failure."""
        os.killpg(self._groups[f"worker{worker}"], signal.SIGKILL)

    @property
    def _groups(self) -> dict[str, int]:
        return {path.stem: int(path.read_text()) for path in self._folder.glob("*.pid")}

    def _run(self, name: str, *arguments: str) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [SPARK / "bin" / "spark-class", *arguments],
                env=environment_of(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (self._folder / f"{name}.pid").write_text(str(process.pid))
        self._ended.callback(_end, process)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started and that is left of that."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        assert process.poll() is not None
    process.wait()


@pytest.fixture
def cluster(java: str, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as made:
        made.start(workers=2)
        yield made


@pytest.mark.slow
def test_a_worker_may_die_in_the_middle(
    cluster: Cluster, wheel: Path, python: Path, data: Path, latencies: list[str], tmp_path: Path
) -> None:
    packed = tmp_path / "environment.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(python.parent.parent, ".")
    # Workers unpack the archive where they run; the driver needs it there, too.
    (tmp_path / "environment").symlink_to(python.parent.parent)
    arguments = ("latency", "--data", data)
    archives = f"{packed}#environment"
    with (tmp_path / "job.log").open("wb") as log:
        job = subprocess.Popen(
            submission(wheel, cluster.url, *arguments, archives=archives),
            env=environment_of("./environment/bin/python"),
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=tmp_path,
        )
    with job:
        try:
            for worker in range(2):
                wait_for(
                    f"a task on worker {worker}",
                    lambda worker=worker: (
                        "Running task" in cluster.executor_log(worker) or job.poll() is not None
                    ),
                )
            assert job.poll() is None, (tmp_path / "job.log").read_text()
            finished = cluster.executor_log(1).count("Finished task")
            cluster.kill(0)
            output, _ = job.communicate(timeout=DEADLINE_SECONDS)
        finally:
            job.kill()
    assert job.returncode == 0, output.decode() + (tmp_path / "job.log").read_text()
    assert answer(output.decode()) == latencies
    # The other one went on without it, with the code that was shipped.
    assert cluster.executor_log(1).count("Finished task") > finished
    assert wheel.name in cluster.executor_log(1)
    assert list((tmp_path / "work1").glob("app-*/*/environment/bin/python"))
