"""Reading is measured by every engine, which must agree, and held against its gates."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from bench import pipeline
from bench.load.frames import LoadError
from bench.pipeline import DECODED, QUESTIONS, Figure, Run, gates, main, measure, report

EMBEDDED = ("DuckDB, journal", "DuckDB, Parquet")


def here(directory: Path, work: str, what: str, runs: int) -> Run:
    """As `run_alone`, in this process."""
    return pipeline.WORKS[work](directory, what, runs)


def test_everything_is_measured_and_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "run_alone", here)
    figures = measure(tmp_path / "1", 6000, 1, EMBEDDED)
    assert len(figures) == len(DECODED) + len(QUESTIONS) * len(EMBEDDED)
    for figure in figures:
        assert figure.events >= 6000
        assert figure.rows_per_second * figure.seconds == pytest.approx(figure.events)
        assert figure.rss > 0
    report(figures)
    # Existing results are used again; an engine that disagrees is not believed.
    wrong = here(tmp_path / "1", "decoder", "thin", 1)
    monkeypatch.setitem(pipeline.WORKS, "DuckDB, Parquet", lambda *_: wrong)
    with pytest.raises(LoadError, match="DuckDB, Parquet and DuckDB, journal differ"):
        measure(tmp_path / "1", 6000, 1, EMBEDDED)


def test_a_process_of_its_own_answers_or_says_why(tmp_path: Path) -> None:
    arguments = ["--events", "2000", "--runs", "1", "--data", str(tmp_path)]
    result = CliRunner().invoke(main, [*arguments, "--engine", "DuckDB, journal", "--json"])
    # So few events prove nothing about the gates.
    assert result.exit_code in (0, 1), result.output
    figures = msgspec.json.decode(result.stdout.splitlines()[-1], type=list[Figure])
    assert {figure.work for figure in figures} == {"decoder", "DuckDB, journal"}
    with pytest.raises(LoadError, match=r"for 'thin': Error: .*is not a data directory"):
        pipeline.run_alone(tmp_path / "nothing", "decoder", "thin", 1)


def figure(work: str, what: str, events: int, seconds: float) -> Figure:
    return Figure(
        work=work, what=what, events=events, seconds=seconds, rows_per_second=events / seconds,
        cpu=events / seconds, start=0.0, rss=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("decoder", "journal", "large", "missed"),
    [(1.0, 2.9, 29.0, []), (2.0, 1.0, 10.0, ["decoder"]), (1.0, 3.1, 31.0, ["DuckDB, journal : "]),
     (1.0, 1.0, 13.0, ["DuckDB, journal, growth"])],
)  # fmt: skip
def test_gates(decoder: float, journal: float, large: float, missed: list[str]) -> None:
    what = "events by queue and kind"
    figures = []
    for events, times, over_journal in ((5_000_000, 1, journal), (50_000_000, 10, large)):
        figures += [
            figure("decoder", "thin", events, decoder * times),
            figure("DuckDB, journal", what, events, over_journal),
            figure("DuckDB, Parquet", what, events, float(times)),
        ]
    found = {name for name, _, _, holds in gates(figures) if not holds}
    assert all(any(name.startswith(each) for name in found) for each in missed)
    assert bool(found) == bool(missed)
