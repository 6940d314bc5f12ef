"""Medians and ratios are computed over the right samples."""

from pathlib import Path

import pytest
from rich.console import Console

from bench.report import Sample, describe_machine, print_report, summarise


def sample(target: str, run: int, rate: float, mode: str = "pipe", p50_us: float = 0.0) -> Sample:
    return Sample(
        target=target,
        run=run,
        mode=mode,
        messages=1000,
        rate=rate,
        elapsed_s=1000 / rate,
        broker_cpu_us=5.0,
        producer_cpu_us=1.0,
        consumer_cpu_us=2.0,
        others=0.04,
        p50_us=p50_us,
        p99_us=2 * p50_us,
    )


SAMPLES = [
    sample("floor", 1, 100.0),
    sample("rabbitmq", 1, 10.0),
    sample("floor", 1, 1.0, "roundtrip", 200.0),
    sample("floor", 2, 300.0),
    sample("rabbitmq", 2, 20.0),
    sample("floor", 3, 200.0),
    sample("rabbitmq", 3, 50.0),
    sample("activemq", 1, 1.0, "roundtrip", 500.0),
]


def test_medians_spreads_and_ratios() -> None:
    found = {(one.mode, one.target): one for one in summarise(SAMPLES)}
    floor, rabbitmq = found["pipe", "floor"], found["pipe", "rabbitmq"]
    assert (floor.value, floor.lowest, floor.highest, floor.runs) == (200.0, 100.0, 300.0, 3)
    assert rabbitmq.to_floor == pytest.approx(0.1)
    assert floor.to_rabbitmq == pytest.approx(10.0)
    trip = found["roundtrip", "activemq"]
    assert (trip.value, trip.p99_us, trip.to_rabbitmq) == (500.0, 1000.0, None)
    assert trip.to_floor == pytest.approx(2.5)


def test_the_report_is_a_markdown_table_with_every_summary(tmp_path: Path) -> None:
    console = Console(width=130, record=True, quiet=True, highlight=False)
    machine = describe_machine(tmp_path)
    with console.capture() as captured:
        console.quiet = False
        print_report(console, machine, summarise(SAMPLES), ["activemq was not measured"])
    text = captured.get()
    assert f"{machine.cores} cores" in text
    assert "| pipe | rabbitmq |    20 |   10 - 50 |    0.10 |       1.00 |" in text
    assert (
        "| roundtrip | activemq |   0.50 | 0.50 - 0.50 |   1.00 |    2.50 |          - |     4% |"
        in text
    )
    assert "- activemq was not measured" in text
