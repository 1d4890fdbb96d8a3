"""Messages and tables of the tests as frames of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dcpinspect.spark.spark_schema import COLUMNS, message_rows
from dcpinspect.tables.messages import MessageBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def messages(spark: SparkSession, *batches: MessageBatch) -> DataFrame:
    """Batches as one frame, with every column as Spark keeps it."""
    names = [column.name for column in COLUMNS]
    return spark.createDataFrame(
        pa.Table.from_batches([message_rows(one, np.arange(len(one)), names) for one in batches])
    )
