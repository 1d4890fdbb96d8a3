"""dcpinspect on Apache Spark: the engine called from Spark's tasks. Nothing else of the package knows Spark, and this imports it late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from dcpinspect.spark.pipeline import Summary

    Path = str | os.PathLike[str]

__all__ = ["filter_sql", "readable", "register", "run", "table"]


def register(spark: SparkSession) -> None:
    """Let a session read captures: ``spark.read.format("dcp").load("captures/")``; ``docs/spark.md`` has the options and the columns."""
    from dcpinspect.spark.source import DcpSource

    spark.dataSource.register(DcpSource)


def readable(frame: DataFrame, table: str = "messages") -> DataFrame:
    """The same rows with 64-bit numbers as what they mean: seqnos as DECIMAL(20, 0), CAS and UUIDs as 0x-strings.

    ``frame`` has columns of ``table`` as Spark keeps them. Raises UsageError for a table that there is not.
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
    """Brings the tables at ``out`` up to date, in a session that there is, as ``dcpinspect pipeline run`` does; says what was done.

    ``capture_point``, ``keylog``, ``on_error``, ``redact`` and ``salt_file`` are the command's options. ``ports`` and ``find_ports`` are
    its ``--port``: numbers, and ``auto``. The session stays as it is. Captures, key logs, the salt and ``out`` are at paths that the
    driver and all executors see.

    Raises DcpInspectError: UsageError for what makes no sense, CaptureError for a capture where ``on_error`` is ``fail``,
    SparkFailedError where a job of Spark failed. The tables are then as they were before.
    """
    from contextlib import nullcontext

    from dcpinspect.spark import pipeline
    from dcpinspect.spark.tasks import SparkTasks

    options = pipeline.asked(captures, out, capture_point, ports, find_ports, keylog, on_error, redact, salt_file)
    return pipeline.run(options, lambda: nullcontext(SparkTasks(spark)))


def table(spark: SparkSession, out: Path, name: str = "messages") -> DataFrame:
    """A table of the newest run at ``out``, with readable columns, as ``dcpinspect pipeline sql`` has it.

    These are the files that the run names. A directory such as ``out/messages`` may also have files that are no longer, or not yet, part
    of it. Raises UsageError for a table that there is not, and where no pipeline has written.
    """
    from dcpinspect.spark import query
    from dcpinspect.spark.manifest import Manifest

    return query.table(spark, Manifest.newest(out), name)


def filter_sql(text: str, table: str = "messages") -> str:
    """A filter, as in ``--filter``, for readable rows: ``readable(frame).where(filter_sql("by_seqno > 5"))``. Raises UsageError."""
    from dcpinspect.spark import filter as filters

    return filters.filter_sql(text, table)
