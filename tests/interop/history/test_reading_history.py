"""History is read while a broker writes it, rolls over and lets it leave."""

from pathlib import Path

from daybook.pipeline.decoding import read_plan
from daybook.pipeline.planning import Plan, Source, durable_lsn
from daybook.pipeline.reading import reading
from tests.crash.retention import first_lsn
from tests.interop.history.test_retention import SETTINGS, drain, leave, send, status
from tests.support.process import BrokerProcess, wait_for


def check_all(plan: Plan) -> None:
    """Everything from the first event to the last is there, with names."""
    lsns: list[int] = []
    queues: set[str | None] = set()
    for batch in read_plan(plan, ["lsn", "queue"]):
        lsns += batch.column(0).to_pylist()
        queues |= set(batch.column(1).to_pylist())
    assert lsns == list(range(plan.first_lsn, plan.last_lsn + 1))
    assert queues <= {None, "some"}


def test_a_snapshot_stays_whole_while_history_goes_on_and_leaves(tmp_path: Path) -> None:
    settings = (*SETTINGS, "journal.retention-max-bytes=100KiB")
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        broker.start()
        source = Source(str(broker.data))
        with reading(source) as plan:
            send(broker, "some", 0, 100)
            drain(broker, "some", 100)
            wait_for(lambda: "is being read" in status(broker)["retention_held_back"], "a look")
            assert first_lsn(broker.data) == 1
            check_all(plan)
            # The plan has the events that were durable then; now there are more.
            assert durable_lsn(source, plan.last_lsn + 1) > plan.last_lsn + 200
        leave(broker)
        with reading(source) as plan:
            assert plan.first_lsn > 1
            assert "some" in plan.names.queues.names
            check_all(plan)
        assert broker.stop() == 0
        with reading(source) as after:
            check_all(after)
            assert after.last_lsn > plan.last_lsn
