"""A worker that dies takes one test with it: all others run, each once, and the run ends."""

from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.suite.scheduling import Files


class Worker:
    """A worker of xdist: runs a test once it knows the next one, or that there is none."""

    def __init__(self, name: str) -> None:
        self.gateway = self
        self.id = name
        self.shutting_down = False
        self.queue: deque[int] = deque()

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down
        self.queue.extend(indices)

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def can_run(self) -> bool:
        return len(self.queue) > 1 or (self.shutting_down and len(self.queue) == 1)


class Run:
    """A run of tests some of which end their worker."""

    def __init__(self, tests: list[str], deadly: set[str], workers: int) -> None:
        config: Any = pytest.Config.fromdictargs({"tx": ["popen"] * workers}, [])
        self.tests, self.deadly = tests, deadly
        self.scheduler = Files(config)
        self.scheduler.numnodes = workers
        self.count = 0
        self.ran: list[str] = []
        self.died: list[str | None] = []
        for _ in range(workers):
            self.scheduler.add_node(self.new_worker())
        for worker in self.scheduler.nodes:
            self.scheduler.add_node_collection(worker, tests)
        self.scheduler.schedule()

    def new_worker(self) -> Any:
        self.count += 1
        return Worker(f"gw{self.count}")

    def step(self) -> bool:
        """Let each worker run a test; return whether any did."""
        ran = False
        for worker in list(self.scheduler.nodes):
            if self.scheduler.tests_finished:
                for each in self.scheduler.nodes:
                    each.shutdown()
            if not worker.can_run:
                continue
            ran = True
            index = worker.queue.popleft()
            if self.tests[index] in self.deadly:
                self.replace(worker)
                continue
            self.ran.append(self.tests[index])
            self.scheduler.mark_test_complete(worker, index)
        return ran

    def replace(self, worker: Any) -> None:
        self.died.append(self.scheduler.remove_node(worker))
        new = self.new_worker()
        self.scheduler.add_node(new)
        self.scheduler.add_node_collection(new, self.tests)
        self.scheduler.schedule()


FILES = st.lists(st.integers(1, 5), min_size=1, max_size=8)


@given(FILES, st.sets(st.integers(0, 39), max_size=3), st.integers(1, 3))
def test_whatever_kills_a_worker_all_others_run_once(
    files: list[int], deadly: set[int], workers: int
) -> None:
    tests = [
        f"tests/unit/test_{file}.py::test_{number}"
        for file, count in enumerate(files)
        for number in range(count)
    ]
    fatal = {tests[place] for place in deadly if place < len(tests)}
    run = Run(tests, fatal, workers)
    while run.step():
        pass
    assert sorted(run.ran) == sorted(set(tests) - fatal)
    assert sorted(map(str, run.died)) == sorted(fatal)
    assert all(run.scheduler.running(worker) is None for worker in run.scheduler.nodes)


def test_what_shares_something_costly_goes_to_one_worker() -> None:
    tests = [
        f"tests/{file}.py::test_it"
        for file in (
            "meta/code/test_tidy", "meta/code/test_layers", "meta/docs/test_pages",
            "pipeline/test_sink", "pipeline/test_duck", "pipeline/test_cluster",
        )
    ]  # fmt: skip
    scheduler = Run(tests, set(), 1).scheduler
    scopes = [scheduler._split_scope(test) for test in tests]
    assert scopes[0] == scopes[1]
    assert scopes[3] == scopes[4]
    assert len(set(scopes)) == 4
