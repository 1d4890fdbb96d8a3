"""The data source ``dcp``: ``spark.read.format("dcp").load("captures/")`` once ``dcpinspect.spark.register(spark)`` was called.

Importing this imports PySpark. Spark finds the classes by their names, so executors have to be able to import the package, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from dcpinspect.spark.pushdown import pushed
from dcpinspect.spark.schema import ddl
from dcpinspect.spark.source_options import Asked, Part, asked, wants_pushdown
from dcpinspect.spark.source_rows import record_batches
from dcpinspect.tables.filter_rows import FilterRows


@dataclass
class Task(InputPartition):
    """One task's work."""

    part: Part


class DcpSource(DataSource):
    """Messages of captures."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` is given."""
        return "dcp"

    def schema(self) -> str:
        """The columns, where the user did not give a schema. Raises UsageError for options that are wrong."""
        return ddl(asked(self.options).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads the columns of this schema. Raises UsageError for options that are wrong, or a schema that is."""
        found = self._asked(schema)
        return PushdownReader(found) if wants_pushdown(self.options) else Reader(found)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """The same for captures as they come. Raises UsageError as ``reader`` does."""
        from dcpinspect.spark.source_stream import StreamReader  # deferred: it needs what is here

        return StreamReader(self._asked(schema))

    def _asked(self, schema: StructType) -> Asked:
        return asked(self.options, {field.name: field.dataType.simpleString() for field in schema})


class Reader(DataSourceReader):
    """Plans tasks, and does one."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.conditions: FilterRows | None = None

    def partitions(self) -> list[InputPartition]:
        """One task for the files of each capture point, or for each file."""
        return [Task(part) for part in self.asked.parts()]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task."""
        if not isinstance(partition, Task):  # Spark's stand-in where no file is wanted
            return iter(())
        return record_batches(self.asked, partition.part, self.conditions)


class PushdownReader(Reader):
    """The same where Spark hands over the conditions of the query; the class for it is another, since Spark asks by default not to."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Takes note of the conditions that filters can say. All stay Spark's to look at, so that it alone decides what is a row."""
        known = dict(zip(self.asked.names, self.asked.columns, strict=True))
        self.conditions = pushed(filters, known)
        return filters
