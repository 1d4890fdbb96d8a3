"""``spark.read.format("dcp")`` on a real Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dcpinspect.cli.main import main
from dcpinspect.spark import filter_sql, readable, register
from tests import builders
from tests.peers.truth import SAMPLES
from tests.tls.forged import Forged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TOUR = str(SAMPLES / "tour.pcapng")


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def test_the_rows_are_those_of_read(
    session: SparkSession, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    columns = "row,name,vbucket,by_seqno,end_seqno,cas,key,datatype,failover_log"
    assert (
        main(
            ["read", TOUR, "--columns", columns, "--filter", "vbucket = 417", "--format", "ndjson"]
        )
        == 0
    )
    wanted = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    frame = readable(
        session.read.format("dcp").option("columns", columns).option("on_error", "skip").load(TOUR)
    )
    found = [
        row.asDict(recursive=True)
        for row in frame.where(filter_sql("vbucket = 417")).orderBy("row").collect()
    ]
    assert len(found) == len(wanted) > 10
    for one, other in zip(found, wanted, strict=True):
        assert {name: one[name] for name in columns.split(",")} == {
            name: other.get(name) for name in columns.split(",")
        }


def test_a_schema_chooses_columns_and_several_files_are_one_reading(
    session: SparkSession, tmp_path: Path
) -> None:
    for name in ("rollback.pcap", "snapshots.pcap"):
        (tmp_path / name).write_bytes((SAMPLES / name).read_bytes())
    frame = (
        session.read.format("dcp")
        .schema("VBUCKET int, file string")
        .load([str(tmp_path / "*.pcap")])
    )
    assert frame.columns == ["VBUCKET", "file"]
    assert frame.rdd.getNumPartitions() == 1
    assert {Path(row.file).name for row in frame.distinct().collect()} == {
        "rollback.pcap",
        "snapshots.pcap",
    }


def test_tls_is_decrypted_with_a_key_log_that_no_plan_shows(
    session: SparkSession, tmp_path: Path
) -> None:
    forged = Forged(tmp_path)
    for seqno in range(1, 31):
        forged.send(1, builders.mutation(seqno))
    recorded = forged.finish()
    reader = (
        session.read.format("dcp")
        .option("columns", "by_seqno")
        .option("keylog", str(recorded.keylog))
    )
    frame = reader.option("tls_search", "0").load(str(recorded.path))
    assert sorted(row.by_seqno for row in frame.collect()) == list(range(1, 31))
    plan = frame._jdf.queryExecution().toString()
    assert str(recorded.keylog) not in plan
    assert not [
        line for line in recorded.keylog.read_text().split() if len(line) == 64 and line in plan
    ]


def test_every_row_is_a_message_unless_errors_are_asked_for(
    session: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "cut.pcap").write_bytes((SAMPLES / "rollback.pcap").read_bytes()[:-7])
    (tmp_path / "note.pcap").write_text("no capture")
    reader = session.read.format("dcp")
    with pytest.raises(
        Exception,
        match=(
            "option on_error=skip leaves out what cannot be read, and on_error=row has a row for it"
        ),
    ):
        reader.load(str(tmp_path)).count()
    messages = reader.option("on_error", "skip").load(str(tmp_path)).count()
    told = session.read.format("dcp").option("on_error", "row").load(str(tmp_path))
    assert (told.where("error is null").count(), told.count()) == (messages, messages + 2)
    assert reader.option("pathGlobFilter", "*.none").load(str(tmp_path)).count() == 0


def test_wrong_options_are_told_in_the_error_of_spark(session: SparkSession) -> None:
    with pytest.raises(Exception, match="option opcode: there is none; did you mean opcodes"):
        session.read.format("dcp").option("opcode", "1").load(TOUR)
    with pytest.raises(Exception, match="the key log cannot be read"):
        session.read.format("dcp").option("keylog", "/nosuch.log").option("columns", "row").option(
            "on_error", "skip"
        ).load(TOUR).collect()
    with pytest.raises(Exception, match=r"nosuch\.pcap: is missing"):
        session.read.format("dcp").load("nosuch.pcap").collect()
    session.conf.set("spark.sql.execution.pyspark.udf.hideTraceback.enabled", "true")
    try:
        with pytest.raises(Exception, match=r"nosuch\.pcap: is missing") as told:
            session.read.format("dcp").load("nosuch.pcap").collect()
    finally:
        session.conf.unset("spark.sql.execution.pyspark.udf.hideTraceback.enabled")
    assert "File" not in str(told.value)
