"""The data source ``dcp``: ``spark.read.format("dcp").load("captures/")``, after
``dcpinspect.spark.register(spark)``.

Importing this module imports PySpark. Spark finds the classes by their names, so executors must be
able to import the package, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from dcpinspect.spark.source_options import CaptureSlice, SourceOptions, read_options
from dcpinspect.spark.source_rows import record_batches
from dcpinspect.spark.spark_schema import spark_type


@dataclass
class Task(InputPartition):
    """The work of one task."""

    part: CaptureSlice


class DcpSource(DataSource):
    """The messages of captures."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for ``format``."""
        return "dcp"

    def schema(self) -> StructType:
        """Returns the columns, if the user gave no schema. Raises UsageError for wrong options."""
        return spark_type(read_options(self.options).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a reader of the columns in this schema. Raises UsageError for wrong options, or a
        wrong schema.
        """
        return Reader(self._source_options(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Returns a reader of captures as they come. Raises UsageError as ``reader`` does."""
        # deferred: that module needs this one
        from dcpinspect.spark.source_stream import StreamReader

        return StreamReader(self._source_options(schema))

    def _source_options(self, schema: StructType) -> SourceOptions:
        return read_options(
            self.options, {field.name: field.dataType.simpleString() for field in schema}
        )


class TaskReader:
    """Runs a task."""

    def __init__(self, asked: SourceOptions) -> None:
        self.asked = asked

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Returns the rows of one task."""
        if not isinstance(partition, Task):  # Spark passes a stand-in if no file is wanted
            return iter(())
        return record_batches(self.asked, partition.part)


class Reader(TaskReader, DataSourceReader):
    """Plans the tasks, and runs one."""

    def partitions(self) -> list[InputPartition]:
        """Returns one task for the files of each capture point, or for each file."""
        return [Task(capture_slice) for capture_slice in self.asked.task_parts()]
