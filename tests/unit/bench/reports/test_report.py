"""Medians and ratios are computed over the right samples."""

from pathlib import Path

import pytest
from rich.console import Console

from bench.reports.report import Sample, describe_machine, summarise
from bench.reports.tables import print_report

REFERENCES = ("floor", "rabbitmq", "activemq", "artemis")


def sample(
    target: str, run: int, rate: float, mode: str = "pipe", p50_us: float = 0.0, busy: int = 0
) -> Sample:
    return Sample(
        target=target,
        run=run,
        mode=mode,
        busy=busy,
        messages=1000,
        rate=rate,
        elapsed_s=1000 / rate,
        broker_cpu_us=5.0,
        producer_cpu_us=1.0,
        consumer_cpu_us=2.0,
        neighbours=0.48 * busy,
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


BUSY = [
    sample("floor", 1, 80.0, busy=1),
    sample("artemis", 1, 20.0, busy=1),
    sample("floor", 1, 1.0, "roundtrip", 400.0, busy=1),
    sample("floor", 2, 120.0, busy=1),
]


def test_medians_spreads_and_ratios() -> None:
    found = {(one.mode, one.target): one for one in summarise(SAMPLES, REFERENCES)}
    floor, rabbitmq = found["pipe", "floor"], found["pipe", "rabbitmq"]
    assert (floor.value, floor.lowest, floor.highest, floor.runs) == (200.0, 100.0, 300.0, 3)
    assert rabbitmq.ratios == {"floor": pytest.approx(0.1), "rabbitmq": 1.0}
    assert floor.ratios == {"floor": 1.0, "rabbitmq": pytest.approx(10.0)}
    trip = found["roundtrip", "activemq"]
    assert (trip.value, trip.p99_us) == (500.0, 1000.0)
    assert trip.ratios == {"floor": pytest.approx(2.5), "activemq": 1.0}


def test_ratios_compare_what_ran_beside_equally_many_neighbours() -> None:
    summaries = summarise([*SAMPLES[:1], *BUSY, *SAMPLES[1:]], REFERENCES)
    order = [(one.busy, one.mode, one.target) for one in summaries]
    assert order == [
        *((0, "pipe", "floor"), (0, "pipe", "rabbitmq")),
        *((0, "roundtrip", "floor"), (0, "roundtrip", "activemq")),
        *((1, "pipe", "floor"), (1, "pipe", "artemis"), (1, "roundtrip", "floor")),
    ]
    found = dict(zip(order, summaries, strict=True))
    artemis, floor = found[1, "pipe", "artemis"], found[1, "pipe", "floor"]
    assert artemis.ratios == {"floor": pytest.approx(0.2), "artemis": 1.0}
    assert (floor.value, floor.ratios["artemis"]) == (100.0, pytest.approx(5.0))
    assert (floor.neighbours, floor.others) == (0.48, 0.04)
    # What neighbours cost: half the rate, twice the time; unknown where idle was not measured.
    assert floor.to_idle == pytest.approx(0.5)
    assert found[1, "roundtrip", "floor"].to_idle == pytest.approx(2.0)
    assert artemis.to_idle is None
    assert found[0, "pipe", "floor"].to_idle is None


def printed(samples: list[Sample], directory: Path, niceness: int = 0) -> str:
    console = Console(width=150, record=True, quiet=True, highlight=False)
    machine = describe_machine(directory)
    with console.capture() as captured:
        console.quiet = False
        notes = ["activemq was not measured"]
        print_report(console, machine, summarise(samples, REFERENCES), notes, niceness)
    text = captured.get()
    assert f"{machine.cores} cores" in text
    assert "- activemq was not measured" in text
    return text


def test_the_report_is_markdown_tables_with_every_summary(tmp_path: Path) -> None:
    text = printed(SAMPLES, tmp_path)
    assert text.count("**") == 2
    assert "**Without neighbours**" in text
    assert "x artemis" not in text
    assert "x idle" not in text
    rows = [
        "| mode | target   | msg/s | min - max | x floor | x rabbitmq | others |",
        "| pipe | rabbitmq |    20 |   10 - 50 |    0.10 |       1.00 |     4% |",
        "| roundtrip | activemq |   0.50 | 0.50 - 0.50 |   1.00 |    2.50 |       1.00 |     4% |",
        "| pipe      | rabbitmq |       5.0 |         1.0 |         2.0 |         0% |     4% |",
    ]
    assert [row for row in rows if row not in text] == []


def test_each_number_of_neighbours_has_its_tables(tmp_path: Path) -> None:
    text = printed(SAMPLES + BUSY, tmp_path, niceness=5)
    idle, busy = text.split("**Beside 1 busy neighbour, niceness 5**")
    assert "| pipe | floor    |   200 | 100 - 300 |    1.00 |      10.00 |     4% |" in idle
    rows = [
        "| mode | target  | msg/s | min - max | x floor | x artemis | x idle | others |",
        "| pipe | floor   |   100 |  80 - 120 |    1.00 |      5.00 |   0.50 |     4% |",
        "| pipe | artemis |    20 |   20 - 20 |    0.20 |      1.00 |      - |     4% |",
        "| roundtrip | floor  |   0.40 | 0.40 - 0.40 |   0.80 |    1.00 |   2.00 |     4% |",
        "| pipe      | artemis |       5.0 |         1.0 |         2.0 |        48% |     4% |",
    ]
    assert [row for row in rows if row not in busy] == []
