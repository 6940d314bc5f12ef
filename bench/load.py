"""One measurement: which workers run, when their clock starts, and whether to believe them.

Fault model: a worker that dies, a broker that stalls and a run that takes too long all end the
measurement with a LoadError that says what was being waited for; no worker outlives it.
"""

import multiprocessing
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final

import msgspec

from bench.frames import LoadError
from bench.wire import Endpoint
from bench.workers import (
    Outcome,
    Tally,
    Task,
    check_empty,
    check_exactly_once,
    consume,
    produce,
    round_trip,
    run_worker,
)

MODES: Final = ("send", "pipe", "pipe-4", "drain", "roundtrip")

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
    """What one measurement found. Processor times are microseconds for each message."""

    mode: str
    messages: int
    elapsed_s: float
    rate: float
    producer_cpu_us: float
    consumer_cpu_us: float
    p50_us: float = 0.0
    p99_us: float = 0.0


class _Job(msgspec.Struct, frozen=True):
    work: Work
    task: Task


def measure(mode: str, endpoint: Endpoint, queue: str, plan: Plan) -> Measurement:
    """Run one mode against the broker at `endpoint`, on the empty queue named `queue`.

    Raises LoadError if anything that the broker said or delivered was wrong.
    """
    if mode == "send":
        return _measure_send(endpoint, queue, plan)
    if mode == "pipe":
        return _measure_pipe(endpoint, [f"/queue/{queue}"], 1, plan)
    if mode == "pipe-4":
        names = [f"/queue/{queue}.{number}" for number in range(plan.queues)]
        return _measure_pipe(endpoint, names, 4, plan)
    if mode == "drain":
        return _measure_drain(endpoint, queue, plan)
    if mode == "roundtrip":
        return _measure_round_trip(endpoint, queue, plan)
    raise LoadError(f"there is no mode {mode!r}; the modes are {', '.join(MODES)}")


def _task(endpoint: Endpoint, destination: str, label: str, plan: Plan) -> Task:
    return Task(
        endpoint=endpoint,
        destination=destination,
        label=label,
        seed=plan.seed,
        body_bytes=plan.body_bytes,
        stall_s=plan.stall_s,
        window=plan.window,
        prefetch=plan.prefetch,
    )


def _producer(endpoint: Endpoint, destination: str, plan: Plan, number: int, count: int) -> _Job:
    task = _task(endpoint, destination, f"producer {number}", plan)
    return _Job(produce, msgspec.structs.replace(task, producer=number, count=count))


def _consumer(endpoint: Endpoint, destination: str, plan: Plan, number: int, tally: Tally) -> _Job:
    task = _task(endpoint, destination, f"consumer {number}", plan)
    return _Job(partial(consume, tally=tally), task)


def _new_tally(count: int) -> Tally:
    return Tally(_FORK.Value("q", count))


def _measure_send(endpoint: Endpoint, queue: str, plan: Plan) -> Measurement:
    job = _producer(endpoint, f"/queue/{queue}", plan, 0, plan.messages)
    return _result("send", _run([job], plan), [], plan.messages)


def _measure_pipe(
    endpoint: Endpoint, destinations: list[str], pairs: int, plan: Plan
) -> Measurement:
    """Measure `pairs` producers and as many consumers at the same time."""
    share = plan.messages // pairs
    tallies = [_new_tally(share * pairs // len(destinations)) for _ in destinations]
    jobs = []
    for number in range(pairs):
        at = number % len(destinations)
        jobs.append(_consumer(endpoint, destinations[at], plan, number, tallies[at]))
    for number in range(pairs):
        destination = destinations[number % len(destinations)]
        jobs.append(_producer(endpoint, destination, plan, number, share))
    outcomes = _run(jobs, plan)
    for tally in tallies:
        tally.close()
    check_exactly_once(outcomes[:pairs], dict.fromkeys(range(pairs), share))
    for destination in destinations:
        check_empty(endpoint, destination, plan.stall_s)
    mode = "pipe" if pairs == 1 else f"pipe-{pairs}"
    return _result(mode, outcomes[pairs:], outcomes[:pairs], share * pairs)


def _measure_drain(endpoint: Endpoint, queue: str, plan: Plan) -> Measurement:
    destination = f"/queue/{queue}"
    _run([_producer(endpoint, destination, plan, 0, plan.messages)], plan)
    with closing(_new_tally(plan.messages)) as tally:
        outcomes = _run([_consumer(endpoint, destination, plan, 0, tally)], plan)
    check_exactly_once(outcomes, {0: plan.messages})
    check_empty(endpoint, destination, plan.stall_s)
    return _result("drain", [], outcomes, plan.messages)


def _measure_round_trip(endpoint: Endpoint, queue: str, plan: Plan) -> Measurement:
    task = _task(endpoint, f"/queue/{queue}", "round trip", plan)
    job = _Job(round_trip, msgspec.structs.replace(task, count=plan.round_trips))
    outcomes = _run([job], plan)
    found = _result("roundtrip", outcomes, [], plan.round_trips)
    ordered = sorted(outcomes[0].latencies_us)
    return msgspec.structs.replace(
        found, p50_us=ordered[len(ordered) // 2], p99_us=ordered[len(ordered) * 99 // 100]
    )


def _result(
    mode: str, producers: list[Outcome], consumers: list[Outcome], messages: int
) -> Measurement:
    everybody = producers + consumers
    elapsed = max(one.ended for one in everybody) - min(one.started for one in everybody)
    return Measurement(
        mode=mode,
        messages=messages,
        elapsed_s=elapsed,
        rate=messages / elapsed,
        producer_cpu_us=sum(one.cpu_s for one in producers) / messages * 1e6,
        consumer_cpu_us=sum(one.cpu_s for one in consumers) / messages * 1e6,
    )


def _run(jobs: list[_Job], plan: Plan) -> list[Outcome]:
    """Run every job in a process of its own, released together; return outcomes in order."""
    processes: list[BaseProcess] = []
    channels: list[Connection] = []
    try:
        for job in jobs:
            ours, theirs = _FORK.Pipe()
            process = _FORK.Process(target=run_worker, args=(job.work, job.task, theirs))
            processes.append(process)
            process.start()
            theirs.close()
            channels.append(ours)
        deadline = time.monotonic() + plan.limit_s
        _collect(jobs, channels, deadline)
        for channel in channels:
            channel.send(b"start")
        return [_outcome(said) for said in _collect(jobs, channels, deadline)]
    finally:
        for worker in processes:
            worker.kill()
            worker.join()
        for channel in channels:
            channel.close()


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
