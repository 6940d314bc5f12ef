"""One measurement: which workers run, when their clock starts, and whether to believe them.

Fault model: a worker that dies, a broker that stalls and a run that takes too long all end the
measurement with a LoadError that names the missing answer; no worker outlives it.
"""

import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, Protocol

import msgspec

from bench.load.frames import LoadError
from bench.load.wire import Endpoint
from bench.load.workers import (
    Outcome,
    Tally,
    Task,
    check_empty,
    check_exactly_once,
    consume,
    consume_topic,
    produce,
    round_trip,
    run_worker,
)

MODES: Final = ("send", "pipe", "pipe-4", "drain", "roundtrip", "fan-out")
QUEUE_MODES: Final = MODES[:-1]
"""Those that need no topic."""
DIRECT_MODES: Final = ("pipe", "pipe-4", "roundtrip")
"""Those that need no queue, and no topic: of a broker whose addresses are all direct ones."""
BRIDGE_MODES: Final = ("pipe",)
"""A bridge takes messages to another broker: a receipt says only that they are in the first."""
SUBSCRIBERS: Final = 100
"""Of fan-out."""

# Workers inherit the tally's descriptor and lock, and the parent has no threads to lose.
_FORK: Final = multiprocessing.get_context("fork")

Work = Callable[[Task, Callable[[], None]], Outcome]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a measurement."""

    messages: int = 100_000
    round_trips: int = 2_000
    body_bytes: int = 256
    window: int = 1_000
    prefetch: int = 1_000
    queues: int = 1  # of pipe-4: over how many queues its four pairs are spread
    seed: int = 1
    stall_s: float = 30.0
    limit_s: float = 600.0


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one measurement. Processor times are microseconds for each message.

    `neighbours` is the share of all cores' time that the busy neighbours used, and `others` the
    unaccounted share, which disturbed the measurement.
    """

    mode: str
    messages: int
    elapsed_s: float
    rate: float
    broker_cpu_us: float
    producer_cpu_us: float
    consumer_cpu_us: float
    neighbours: float
    others: float
    p50_us: float = 0.0
    p99_us: float = 0.0


class Broker(Protocol):
    """The facts about a broker that a measurement needs."""

    endpoint: Endpoint

    def cpu_s(self) -> float:
        """Return the processor seconds that the broker has used so far."""


class _Job(msgspec.Struct, frozen=True):
    work: Work
    task: Task


class _Ran(msgspec.Struct, frozen=True):
    outcomes: list[Outcome]
    broker_cpu_s: float
    neighbours_cpu_s: float
    machine_cpu_s: float
    window_s: float  # over which the three processor times were taken


def measure(
    mode: str,
    broker: Broker,
    queue: str,
    plan: Plan,
    neighbours_cpu_s: Callable[[], float] = float,
) -> Measurement:
    """Run one mode against `broker`, on the empty queue named `queue`.

    `neighbours_cpu_s` returns the processor seconds of the deliberate neighbours. Raises
    LoadError if anything that the broker said or delivered was wrong.
    """
    load = _Load(mode, broker, queue, plan, neighbours_cpu_s)
    if mode == "send":
        return load.send()
    if mode == "pipe":
        return load.pipe(pairs=1, queues=1)
    if mode == "pipe-4":
        return load.pipe(pairs=4, queues=plan.queues)
    if mode == "drain":
        return load.drain()
    if mode == "roundtrip":
        return load.round_trip()
    if mode == "fan-out":
        return load.fan_out()
    raise LoadError(f"there is no mode {mode!r}; the modes are {', '.join(MODES)}")


class _Load:
    """The workers of one measurement."""

    def __init__(
        self,
        mode: str,
        broker: Broker,
        queue: str,
        plan: Plan,
        neighbours_cpu_s: Callable[[], float],
    ) -> None:
        self._mode = mode
        self._neighbours_cpu_s = neighbours_cpu_s
        self._broker = broker
        self._name = queue
        self._destination = f"/queue/{queue}"
        self._plan = plan

    def send(self) -> Measurement:
        """Measure one producer alone."""
        ran = self._run([self._producer(self._destination, 0, self._plan.messages)])
        return self._result(ran, [], ran.outcomes, self._plan.messages)

    def pipe(self, *, pairs: int, queues: int) -> Measurement:
        """Measure `pairs` producers and as many consumers at the same time."""
        share = self._plan.messages // pairs
        destinations = [f"{self._destination}.{number}" for number in range(queues)]
        tallies = [_new_tally(share * pairs // queues) for _ in destinations]
        jobs = []
        for number in range(pairs):
            at = number % queues
            jobs.append(self._consumer(destinations[at], number, tallies[at]))
        for number in range(pairs):
            jobs.append(self._producer(destinations[number % queues], number, share))
        ran = self._run(jobs)
        for tally in tallies:
            tally.close()
        consumers, producers = ran.outcomes[:pairs], ran.outcomes[pairs:]
        check_exactly_once(consumers, dict.fromkeys(range(pairs), share))
        for destination in destinations:
            check_empty(self._broker.endpoint, destination, self._plan.stall_s)
        return self._result(ran, consumers, producers, share * pairs)

    def drain(self) -> Measurement:
        """Load a backlog, then measure one consumer alone."""
        messages = self._plan.messages
        self._run([self._producer(self._destination, 0, messages)])
        with closing(_new_tally(messages)) as tally:
            ran = self._run([self._consumer(self._destination, 0, tally)])
        check_exactly_once(ran.outcomes, {0: messages})
        check_empty(self._broker.endpoint, self._destination, self._plan.stall_s)
        return self._result(ran, ran.outcomes, [], messages)

    def fan_out(self) -> Measurement:
        """Measure one producer and the subscribers of a topic; what counts are deliveries."""
        count = max(1, self._plan.messages // SUBSCRIBERS)
        destination = f"/topic/{self._name}"
        task = msgspec.structs.replace(self._task(destination, "subscriber"), count=count)
        subscribers = _Job(partial(consume_topic, subscribers=SUBSCRIBERS), task)
        ran = self._run([subscribers, self._producer(destination, 0, count)])
        return self._result(ran, ran.outcomes[:1], ran.outcomes[1:], count * SUBSCRIBERS)

    def round_trip(self) -> Measurement:
        """Measure the time from one SEND to its RECEIPT, one at a time: where nothing is stored, to
        a consumer and back."""
        count = self._plan.round_trips
        task = self._task(self._destination, "round trip")
        jobs = [_Job(round_trip, msgspec.structs.replace(task, count=count))]
        with closing(_new_tally(count)) as tally:
            if not self._broker.endpoint.stores:
                jobs.append(self._consumer(self._destination, 0, tally))
            ran = self._run(jobs)
        found = self._result(ran, ran.outcomes[1:], ran.outcomes[:1], count)
        ordered = sorted(ran.outcomes[0].latencies_us)
        return msgspec.structs.replace(
            found, p50_us=ordered[len(ordered) // 2], p99_us=ordered[len(ordered) * 99 // 100]
        )

    def _task(self, destination: str, label: str) -> Task:
        return Task(
            endpoint=self._broker.endpoint,
            destination=destination,
            label=label,
            seed=self._plan.seed,
            body_bytes=self._plan.body_bytes,
            stall_s=self._plan.stall_s,
            window=self._plan.window,
            prefetch=self._plan.prefetch,
        )

    def _producer(self, destination: str, number: int, count: int) -> _Job:
        task = self._task(destination, f"producer {number}")
        return _Job(produce, msgspec.structs.replace(task, producer=number, count=count))

    def _consumer(self, destination: str, number: int, tally: Tally) -> _Job:
        task = self._task(destination, f"consumer {number}")
        return _Job(partial(consume, tally=tally), task)

    def _result(
        self, ran: _Ran, consumers: list[Outcome], producers: list[Outcome], messages: int
    ) -> Measurement:
        started = min(one.started for one in ran.outcomes)
        elapsed = max(one.ended for one in ran.outcomes) - started
        ours = ran.broker_cpu_s + sum(one.cpu_s for one in ran.outcomes) + ran.neighbours_cpu_s
        capacity_s = ran.window_s * (os.cpu_count() or 1)
        return Measurement(
            mode=self._mode,
            messages=messages,
            elapsed_s=elapsed,
            rate=messages / elapsed,
            broker_cpu_us=ran.broker_cpu_s / messages * 1e6,
            producer_cpu_us=sum(one.cpu_s for one in producers) / messages * 1e6,
            consumer_cpu_us=sum(one.cpu_s for one in consumers) / messages * 1e6,
            # The kernel counts in ticks, so a short measurement can come out of range.
            neighbours=min(1.0, ran.neighbours_cpu_s / capacity_s),
            others=min(1.0, max(0.0, ran.machine_cpu_s - ours) / capacity_s),
        )

    def _run(self, jobs: list[_Job]) -> _Ran:
        """Run every job in a process of its own; they start together, and verify together."""
        processes: list[BaseProcess] = []
        channels: list[Connection] = []
        try:
            for job in jobs:
                ours, theirs = _FORK.Pipe()
                arguments = (job.work, job.task, theirs)
                process = _FORK.Process(target=run_worker, args=arguments, daemon=True)
                processes.append(process)
                process.start()
                theirs.close()
                channels.append(ours)
            deadline = time.monotonic() + self._plan.limit_s
            _collect(jobs, channels, deadline)
            before = self._clocks()
            _release(channels)
            _collect(jobs, channels, deadline)
            after = self._clocks()
            _release(channels)
            outcomes = [_outcome(said) for said in _collect(jobs, channels, deadline)]
            return _Ran(outcomes, *(b - a for a, b in zip(before, after, strict=True)))
        finally:
            for worker in processes:
                if worker.pid is not None:
                    worker.kill()
                    worker.join()
            for channel in channels:
                channel.close()

    def _clocks(self) -> tuple[float, float, float, float]:
        """Return the processor seconds of broker, neighbours and machine, and the time."""
        beside = self._neighbours_cpu_s()
        return self._broker.cpu_s(), beside, _machine_cpu_s(), time.monotonic()


def _machine_cpu_s() -> float:
    """Return the seconds that all cores together have been busy, time stolen from us included."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _new_tally(count: int) -> Tally:
    return Tally(_FORK.Value("q", count))


def _release(channels: list[Connection]) -> None:
    for channel in channels:
        channel.send(b"begin")


def _outcome(said: object) -> Outcome:
    assert isinstance(said, Outcome)
    return said


def _collect(jobs: list[_Job], channels: list[Connection], deadline: float) -> list[object]:
    """Return the next word of every worker; raise LoadError for the first one that failed."""
    said: dict[Connection, object] = {}
    while len(said) < len(channels):
        silent = [channel for channel in channels if channel not in said]
        ready = wait(silent, timeout=max(0.0, deadline - time.monotonic()))
        if not ready:
            names = ", ".join(jobs[channels.index(channel)].task.label for channel in silent)
            raise LoadError(f"the measurement ran out of its time while waiting for {names}")
        for channel in ready:
            assert isinstance(channel, Connection)
            label = jobs[channels.index(channel)].task.label
            try:
                word: object = channel.recv()
            except EOFError:
                raise LoadError(f"{label} died without a word") from None
            if isinstance(word, str):
                raise LoadError(word)
            said[channel] = word
    return [said[channel] for channel in channels]
