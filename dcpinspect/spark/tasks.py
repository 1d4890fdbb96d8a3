"""Work spread over Spark's tasks: a function for every item of a list, and what they give back.

What is large never goes through Spark: tasks read captures and bundles, and write bundles and tables, themselves.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dcpinspect.spark import session as sessions
from dcpinspect.spark.shipping import OURS, missing_module, ship
from dcpinspect.spark.stitch import balanced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")

Show = Callable[[str, int, int], None]
"""Told what is done, how much of it, and of how much."""
JVM = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Spark is soon done: what it would spend on making its own code faster is a third of its processor time, and of a small query half."""
TASKS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
}
"""Of a session that does nothing but tasks. Spark need not compile what a handful of rows go through: a second. And Arrow keeps memory that
it has freed, for the next batch: to take it from the system again and again is a tenth of the time of a task, or more."""
TASK_BYTES = 64 << 20
"""Items that are smaller share a task up to so many bytes."""


class Tasks(Protocol):
    """Who does the work."""

    @property
    def processors(self) -> int:
        """Items that can be worked on at the same time."""

    def each(self, what: str, work: Callable[[Item], Result], items: Sequence[Item], sizes: Sequence[int]) -> list[Result]:
        """``work`` on every item, in any order; the results in theirs. ``what``: in words. ``sizes``: in bytes, to share it out by."""


class OwnTasks:
    """This process does it."""

    processors = 1

    def __init__(self, show: Show = lambda *_: None) -> None:
        self._show = show

    def each(self, what: str, work: Callable[[Item], Result], items: Sequence[Item], sizes: Sequence[int]) -> list[Result]:
        """As ``Tasks`` has it."""
        assert len(items) == len(sizes)
        found: list[Result] = []
        for item in items:
            self._show(what, len(found), len(items))
            found.append(work(item))
        return found


class SparkTasks:
    """Spark does it. ``work`` and items are pickled; ``work`` is a function of a module, or a ``functools.partial`` of one."""

    def __init__(self, spark: SparkSession, show: Show = lambda *_: None) -> None:
        self._spark = spark
        self._show = show
        self._shipped: tempfile.TemporaryDirectory[str] | None = None
        self.processors = sessions.processors(spark)

    def each(self, what: str, work: Callable[[Item], Result], items: Sequence[Item], sizes: Sequence[int]) -> list[Result]:
        """As ``Tasks`` has it. Executors that lack the package are sent it. Raises SparkFailedError."""
        if not items:
            return []
        try:
            return self._each(what, work, items, sizes)
        except sessions.SparkFailedError as error:
            missing = missing_module(str(error))
            if missing is None:
                raise
            if missing != OURS or self._shipped is not None:
                advice = (
                    f"install dcpinspect[spark] in the Python of the executors, and name that with PYSPARK_PYTHON; now it lacks {missing}"
                )
                raise sessions.SparkFailedError(f"{error}; {advice}") from error
        self._shipped = tempfile.TemporaryDirectory(prefix="dcpinspect-", ignore_cleanup_errors=True)
        ship(self._spark, self._shipped.name)
        return self._each(what, work, items, sizes)

    def _each(self, what: str, work: Callable[[Item], Result], items: Sequence[Item], sizes: Sequence[int]) -> list[Result]:
        numbers = packed(sizes, 2 * self.processors)
        lists = [[items[number] for number in task] for task in numbers]

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for batch in batches:
                for number in batch.column(0).to_pylist():
                    results = pickle.dumps([work(item) for item in lists[number]])
                    yield pa.RecordBatch.from_pydict({"task": [number], "results": [results]})

        def job() -> Any:
            frame = self._spark.range(0, len(lists), 1, len(lists))
            return frame.mapInArrow(run, "task BIGINT, results BINARY").toArrow()

        found = sessions.watched(self._spark, job, partial(self._show, what))
        results: list[Any] = [None] * len(items)
        for task, one in zip(found["task"].to_pylist(), found["results"].to_pylist(), strict=True):
            for number, result in zip(numbers[task], pickle.loads(one), strict=True):  # noqa: S301 - our own tasks have made it
                results[number] = result
        return results


@contextmanager
def spark_tasks(master: str | None, conf: Mapping[str, str] | None, show: Show = lambda *_: None) -> Iterator[SparkTasks]:
    """A session of Spark that does the work."""
    settings = {**JVM, **TASKS}
    if sessions.is_remote(master or ""):
        settings = {name: value for name, value in settings.items() if name.startswith("spark.sql.")}
    with sessions.session(master, {**settings, **(conf or {})}) as spark:
        yield SparkTasks(spark, show)


def packed(sizes: Sequence[int], tasks: int) -> list[list[int]]:
    """Items by number, in tasks of about equal size: as many as are wanted, more where they would be too large."""
    wanted = max(tasks, -(-sum(sizes) // TASK_BYTES))
    groups = balanced({number.to_bytes(8, "big"): size for number, size in enumerate(sizes)}, wanted)
    return [sorted(int.from_bytes(key, "big") for key in group) for group in groups]
