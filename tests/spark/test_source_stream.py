"""``spark.readStream.format("dcp")`` on a real Spark: every message once, over batches and
restarts.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dcpinspect.spark import register
from tests.peers.truth import SAMPLES
from tests.spark.cuts import cut, packets_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_messages_come_once_over_batches_and_restarts(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    packets = packets_of(SAMPLES / "rollback.pcap")
    files = cut(tmp_path / "later", packets, [40, 75, 110])
    ring = tmp_path / "ring"
    ring.mkdir()

    def ran(*names: Path) -> None:
        """A query that reads what is there and ends."""
        for path in names:
            path.rename(ring / path.name)
        time.sleep(0.1)
        reader = spark.readStream.format("dcp").option(
            "columns", "name,vbucket,opaque,time,capture_point"
        )
        reader = reader.option("rested", "50ms").option("maxFilesPerTrigger", "2")
        writer = (
            reader.load(str(ring))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
        )
        query = writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start()
        query.awaitTermination(120)
        assert query.exception() is None

    ran(files[0], files[1])
    ran(files[2], files[3])
    found = [
        (row.name, row.vbucket, row.opaque, row.time)
        for row in spark.read.parquet(str(tmp_path / "out")).collect()
    ]
    whole = (
        spark.read.format("dcp")
        .option("columns", "name,vbucket,opaque,time")
        .load(str(SAMPLES / "rollback.pcap"))
        .collect()
    )
    assert sorted(found, key=str) == sorted(
        ((row.name, row.vbucket, row.opaque, row.time) for row in whole), key=str
    )
