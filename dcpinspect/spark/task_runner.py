"""Distributes work over Spark's tasks: a function is called with every item of a list, and the
results are returned.

Large data never goes through Spark: tasks themselves read captures and bundles, and write bundles
and tables.
"""

from __future__ import annotations

import os
import pickle
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import dcpinspect
from dcpinspect.errors import UsageError
from dcpinspect.spark import program
from dcpinspect.spark import spark_session as sessions
from dcpinspect.spark.stitch import balanced
from dcpinspect.temporary import remember

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MISSING = re.compile(r"No module named '(\w+)")
OURS = "dcpinspect"


def missing_module(text: str) -> str | None:
    """Returns the module that a task could not import, if a failure of Spark says so."""
    failure = _MISSING.search(text)
    return None if failure is None else failure[1]


def ship(spark: SparkSession, folder: str) -> None:
    """Sends the package to all executors of a session, also to later ones. ``folder``: for the file
    that they fetch.
    """
    path = os.path.join(folder, f"{OURS}.zip")
    write_zip(path)
    if hasattr(spark, "_jsc"):
        spark.sparkContext.addPyFile(path)
    else:  # a session over Spark Connect
        spark.addArtifacts(path, pyfile=True)


def write_zip(path: str) -> None:
    """Writes the package as a zip file from which Python can import."""
    root = Path(dcpinspect.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for source_file in sorted(root.rglob("*")):
            if source_file.is_file() and "__pycache__" not in source_file.parts:
                file.write(source_file, f"{OURS}/{source_file.relative_to(root).as_posix()}")


Item = TypeVar("Item")
Result = TypeVar("Result")

Show = Callable[[str, int, int], None]
"""Called with what is being done, how many items are finished, and how many there are."""
JVM = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Options for Java. Optimizing Spark's own code takes a third of its processor time, half for a
small query; that is more than it saves.
"""
TASK_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
}
"""Settings of a session that only runs tasks.

Spark need not compile code for a handful of rows, which saves a second. Arrow keeps freed memory
for the next batch: to take it from the system again and again costs a tenth of the time of a task,
or more.
"""
TASK_BYTES = 64 << 20
"""Smaller items share a task up to so many bytes."""
LEAST_BYTES = 4 << 20
"""With less work than this, one task does all of it: to start another worker would take longer."""
ITEM_BYTES = 256 << 10
"""An item counts as at least so many bytes here: it takes requests to storage at any size."""


class TaskRunner:
    """Does the work on a list of items: in this process, unless a subclass has more of them."""

    processors = 1
    """Number of items that can be worked on at the same time."""

    def __init__(self, show: Show = lambda *_: None) -> None:
        self._show = show

    def map(
        self, what: str, work: Callable[[Item], Result], items: Sequence[Item], sizes: Sequence[int]
    ) -> list[Result]:
        """Calls ``work`` with every item, in any order, and returns the results in the order of the
        items. ``what``: describes the work.

        ``sizes``: of the items in bytes, to divide the work evenly.
        """
        assert len(items) == len(sizes)
        results: list[Result] = []
        for item in items:
            self._show(what, len(results), len(items))
            results.append(work(item))
        return results


class SparkRunner(TaskRunner):
    """Does the work in Spark. ``work`` and items are pickled; ``work`` is a function of a module,
    or a ``functools.partial`` of one.
    """

    def __init__(
        self,
        spark: SparkSession,
        show: Show = lambda *_: None,
        remark: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``remark``: called with a line of what the user should know."""
        super().__init__(show)
        self._spark = spark
        self._remark = remark
        self._shipped: tempfile.TemporaryDirectory[str] | None = None
        self.processors = sessions.processors(spark)

    def map(
        self, what: str, work: Callable[[Item], Result], items: Sequence[Item], sizes: Sequence[int]
    ) -> list[Result]:
        """Calls ``work`` with every item; see ``TaskRunner``. Sends the package to executors that lack
        it.

        Raises SparkFailedError, and UsageError if executors have another build of the package.
        """
        if not items:
            return []
        while True:
            try:
                return self._map(what, work, items, sizes)
            except sessions.SparkFailedError as error:
                missing = missing_module(str(error))
                if missing is None:
                    raise
                if missing != OURS or self._shipped is not None:
                    advice = (
                        "install dcpinspect[spark] in the Python of the executors, and name "
                        "that with PYSPARK_PYTHON where you start this"
                    )
                    raise sessions.SparkFailedError(
                        f"{error}; {advice}; now it lacks {missing}"
                    ) from error
            self._shipped = tempfile.TemporaryDirectory(
                prefix="dcpinspect-", ignore_cleanup_errors=True
            )
            remember(self._shipped.name)
            ship(self._spark, self._shipped.name)

    def _map(
        self, what: str, work: Callable[[Item], Result], items: Sequence[Item], sizes: Sequence[int]
    ) -> list[Result]:
        from pyspark import cloudpickle

        numbers, own_build = packed(sizes, 2 * self.processors), program.build()
        # what tasks write is as private as what this process writes
        os.umask(mask := os.umask(0o077))
        task_work = work, [[items[number] for number in task] for task in numbers]
        sent = cloudpickle.dumps(task_work)  # type: ignore[no-untyped-call] # read only by the same code

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            is_same = (other_build := program.build()) == own_build
            work, lists = pickle.loads(sent) if is_same else (None, [])  # noqa: S301 - the driver has made it
            os.umask(mask)
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    results = pickle.dumps(
                        [work(item) for item in lists[number]] if is_same else []
                    )
                    yield pa.RecordBatch.from_pydict(
                        {"task": [number], "results": [results], "build": [other_build]}
                    )

        def job() -> Any:
            frame = self._spark.range(0, len(numbers), 1, len(numbers))
            return frame.mapInArrow(run, "task BIGINT, results BINARY, build STRING").toArrow()

        answers = sessions.watched(self._spark, job, partial(self._show, what), self._remark)
        for other_build in answers["build"].to_pylist():
            if other_build != own_build:
                raise UsageError(
                    f"executors have another build of dcpinspect ({other_build}; this is "
                    f"{own_build}); install the same one on all"
                )
        results: list[Any] = [None] * len(items)
        for task, pickled in zip(
            answers["task"].to_pylist(), answers["results"].to_pylist(), strict=True
        ):
            for number, result in zip(numbers[task], pickle.loads(pickled), strict=True):  # noqa: S301 - our own tasks have made it
                results[number] = result
        return results


@contextmanager
def spark_tasks(
    master: str | None,
    conf: Mapping[str, str] | None,
    show: Show = lambda *_: None,
    remark: Callable[[str], None] = lambda _: None,
) -> Iterator[SparkRunner]:
    """Yields the tasks of a session of Spark. ``remark``: as in ``SparkRunner``."""
    settings = {**JVM, **TASK_SETTINGS}
    if sessions.is_remote(master or ""):
        settings = {
            name: value for name, value in settings.items() if name.startswith("spark.sql.")
        }
    with sessions.session(master, {**settings, **(conf or {})}) as spark:
        yield SparkRunner(spark, show, remark)


def is_little(sizes: Sequence[int]) -> bool:
    """Whether items of these sizes are too little work for several tasks."""
    return sum(max(size, ITEM_BYTES) for size in sizes) < LEAST_BYTES


def packed(sizes: Sequence[int], tasks: int) -> list[list[int]]:
    """Returns the numbers of the items in tasks of about equal size: ``tasks`` of them, more if
    these would be too large, one for little work.
    """
    task_count = 1 if is_little(sizes) else max(tasks, -(-sum(sizes) // TASK_BYTES))
    groups = balanced(
        {number.to_bytes(8, "big"): size for number, size in enumerate(sizes)}, task_count
    )
    return [sorted(int.from_bytes(key, "big") for key in group) for group in groups]
