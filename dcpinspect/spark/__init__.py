"""dcpinspect on Apache Spark: Spark's tasks call the engine. No other part of the package knows
Spark, and this module imports it late.

Captures in folders and stores go in; Delta tables of messages, streams, gaps and findings come out.
The data source ``dcp`` gives the messages of captures to any query.

``pipeline.py`` is one run from end to end: ``scan.py`` looks for captures, ``plan.py`` makes parts
of connections, ``task_runner.py`` starts tasks, in which ``analysis.py`` reads a part, and
``runs.py`` commits what came of it. ``data_source.py`` is where Spark asks for rows. Begin with
``pipeline.py``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dcpinspect.spark.pipeline import Summary

    Path = str | os.PathLike[str]

__all__ = ["filter_sql", "readable", "register", "run", "table"]


def register(spark: SparkSession) -> None:
    """Lets a session read captures with ``spark.read.format("dcp").load("captures/")``;
    ``docs/spark.md`` has options and columns.
    """
    from dcpinspect.spark.data_source import DcpSource

    spark.dataSource.register(DcpSource)


def readable(frame: DataFrame, table: str = "messages") -> DataFrame:
    """Returns the same rows with 64-bit numbers in readable form: seqnos as DECIMAL(20, 0), CAS and
    UUIDs as 0x-strings.

    ``frame`` has columns of ``table`` as Spark keeps them. Raises UsageError if there is no such
    table.
    """
    from dcpinspect.spark import views

    return views.readable(frame, table)


def run(
    spark: SparkSession,
    captures: Path | Sequence[Path],
    out: Path,
    *,
    capture_point: str | None = None,
    ports: Sequence[int] = (),
    find_ports: bool | None = None,
    keylog: Path | Sequence[Path] = (),
    on_error: Literal["keep", "fail"] = "keep",
    redact: bool = False,
    salt_file: Path | None = None,
) -> Summary:
    """Brings the tables at ``out`` up to date in an existing session, as ``dcpinspect pipeline
    run`` does. Returns what was done.

    ``capture_point``, ``keylog``, ``on_error``, ``redact`` and ``salt_file`` are the options of the
    command. ``ports`` and ``find_ports`` are its ``--port``: numbers, and ``auto``. The session
    stays as it is. The driver and all executors must see captures, key logs, the salt and ``out``
    at the same paths.

    Raises DcpInspectError: UsageError for wrong arguments, CaptureError for a bad capture if
    ``on_error`` is ``fail``, SparkFailedError if a job of Spark failed. The tables are then as they
    were before.
    """
    from dcpinspect.spark import pipeline
    from dcpinspect.spark.task_runner import SparkRunner

    options = pipeline.Options(
        pipeline.paths_of(captures),
        os.fspath(out),
        point_rule=capture_point,
        extra_ports=tuple(ports) or None,
        find_ports=find_ports,
        redacts=redact,
        salt_file=None if salt_file is None else os.fspath(salt_file),
    )
    options = pipeline.checked_options(options, keylog, on_error)
    return pipeline.run(options, lambda: nullcontext(SparkRunner(spark)))


def table(spark: SparkSession, out: Path, name: str = "messages") -> DataFrame:
    """Returns a table of the newest run at ``out`` with readable columns, as ``dcpinspect pipeline
    sql`` shows it.

    The table consists of the files that the run names. A directory such as ``out/messages`` can
    also contain files that are not part of the table any more, or not yet. Raises UsageError if
    there is no such table, or if no pipeline has written to ``out``.
    """
    from dcpinspect.spark import views
    from dcpinspect.spark.manifest import Manifest

    return views.table(spark, Manifest.newest(out), name)


def filter_sql(text: str, table: str = "messages") -> str:
    """Returns a filter, as in ``--filter``, for readable rows:
    ``readable(frame).where(filter_sql("by_seqno > 5"))``. Raises UsageError.
    """
    from dcpinspect.spark import spark_filter as filters

    return filters.filter_sql(text, table)
