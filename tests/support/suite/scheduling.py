"""Which tests each worker of pytest-xdist gets, and what becomes of them if it dies.

The scheduler of xdist for whole files stands still, until somebody interrupts it, once a worker has
died: it gives the next one what the dead one had finished, which is nothing to do, and waits for
the end of that. It also runs the test again that the worker died of. Here such a test has failed,
and the next worker gets what is left.
"""

from typing import Any, Final

from xdist.scheduler import LoadFileScheduling

_JVMS_OF_THEIR_OWN: Final = ("test_cluster.py", "test_exactly_once.py")
"""Files of the pipeline that start Spark themselves, and do not use the session of the others."""
_TOGETHER: Final = ("tests/meta/code",)
"""Folders that one worker gets whole: their checks share the syntax trees of all sources."""
_ENOUGH: Final = 2
"""A worker begins its last test only when it knows that it is the last, or has another one."""


class Files(LoadFileScheduling):  # type: ignore[misc]
    """Gives each file to one worker, and all that share a session of Spark, or syntax trees, to the
    same one.

    A session costs half a minute of a processor until its virtual machine is warm, and all trees
    cost five seconds.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        _, folder, name = (*file.split("/", 2), "")[:3]
        if folder == "pipeline" and name not in _JVMS_OF_THEIR_OWN:
            return "tests/pipeline"
        return next((each for each in _TOGETHER if file.startswith(f"{each}/")), file)

    def running(self, node: Any) -> str | None:
        """Return the test that a worker is at."""
        units = self.assigned_work[node].values()
        return next((test for unit in units for test, done in unit.items() if not done), None)

    def remove_node(self, node: Any) -> str | None:
        """Give what is left of the work of a dead worker to others, without the test it died of."""
        died_of = self.running(node)
        if died_of is not None:
            self.assigned_work[node][self._split_scope(died_of)][died_of] = True
        super().remove_node(node)
        return died_of

    def _reschedule(self, node: Any) -> None:
        while (
            self.workqueue
            and not node.shutting_down
            and self._pending_of(self.assigned_work[node]) <= _ENOUGH
        ):
            self._assign_work_unit(node)
        super()._reschedule(node)
