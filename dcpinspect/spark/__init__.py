"""dcpinspect on Apache Spark: the engine called from Spark's tasks. Nothing else of the package knows Spark, and this imports it late."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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


def filter_sql(text: str, table: str = "messages") -> str:
    """A filter, as in ``--filter``, for readable rows: ``readable(frame).where(filter_sql("by_seqno > 5"))``. Raises UsageError."""
    from dcpinspect.spark import filter as filters

    return filters.filter_sql(text, table)
