"""What a task reads is what a reading has, in pieces that Spark can hold."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dcpinspect.errors import CaptureError
from dcpinspect.spark import source_rows
from dcpinspect.spark.source_options import SCHEMA, read_options
from dcpinspect.spark.spark_schema import spark_table
from tests import builders
from tests.encode import encode
from tests.peers.truth import SAMPLES
from tests.spark.test_spark_schema import told

TOUR = str(SAMPLES / "tour.pcapng")


def read(*paths: str | Path, **options: str) -> Any:
    """All tasks' rows as one table."""
    found = read_options({"paths": "[" + ", ".join(f'"{path}"' for path in paths) + "]", **options})
    batches = [
        batch for part in found.task_parts() for batch in source_rows.record_batches(found, part)
    ]
    assert all(batch.schema == found.schema for batch in batches)
    return pa.Table.from_batches(batches, found.schema)


def test_messages_are_those_of_a_reading() -> None:
    table, wanted = read(TOUR), spark_table("messages", told(Path(TOUR))["messages"])
    assert table.select(wanted.column_names).equals(wanted)
    assert set(table["capture_point"].to_pylist()) == {"sample_captures"}
    assert "error" not in table.column_names


def test_messages_over_the_border_of_two_files_are_whole(tmp_path: Path) -> None:
    segments = builders.conversation(
        server=b"".join(builders.mutation(n, key=b"k%d" % n) for n in range(1, 400))
    )
    packets = builders.recorded(segments)
    half = len(packets) // 2
    (tmp_path / "ring_1.pcap").write_bytes(builders.pcap(packets[:half]))
    (tmp_path / "ring_2.pcap").write_bytes(builders.pcap(packets[half:]))
    seqnos = read(tmp_path, columns="by_seqno", opcodes="mutation")["by_seqno"].to_pylist()
    assert seqnos == list(range(1, 400))


def test_a_pipe_is_no_capture_and_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.pcap")
    (row,) = read(tmp_path / "a.pcap", columns="file,error").to_pylist()
    assert row["error"] == f"{tmp_path}/a.pcap: is not a file that can be read more than once"


def test_options_say_which_messages() -> None:
    whole = read(TOUR, columns="vbucket,connection,name,time_ns,row")
    rows = whole.to_pylist()
    middle = rows[len(rows) // 2]["time_ns"]
    assert read(TOUR, columns="row", vbuckets="417", connections="2")["row"].to_pylist() == [
        row["row"] for row in rows if row["vbucket"] == 417 and row["connection"] == 2
    ]
    moment = np.datetime64(middle, "ns")
    early, late = (
        read(TOUR, columns="row", **{bound: str(moment)})["row"].to_pylist()
        for bound in ("until", "since")
    )
    assert early == [row["row"] for row in rows if row["time_ns"] < middle]
    assert early + late == [row["row"] for row in rows]
    assert read(TOUR, columns="name", filter="@rollbacks", statuses="rollback")[
        "name"
    ].to_pylist() == ["dcp_stream_req"] * len(
        read(TOUR, columns="name", filter="status_name = 'rollback'")
    )


def test_columns_come_in_the_order_asked_for() -> None:
    table = read(TOUR, columns="error,vbucket,capture_point,name")
    assert table.schema.names == ["error", "vbucket", "capture_point", "name"]
    assert table.schema.field("vbucket").type == SCHEMA.field("vbucket").type


def test_batches_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_rows, "ROWS", 100)
    monkeypatch.setattr(source_rows, "BYTES", 4096)
    path = builders.capture(
        tmp_path / "a.pcap",
        server=b"".join(encode("dcp_mutation", key=b"k" * 200, by_seqno=n) for n in range(500)),
    )
    found = read_options({"path": str(path), "columns": "row,key"})
    batches = list(source_rows.record_batches(found, found.task_parts()[0]))
    assert sum(map(len, batches)) == 500
    assert max(batch.nbytes for batch in batches) <= 4096
    assert max(map(len, batches)) <= 100


def test_what_cannot_be_read_is_a_row_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(b"garbage, and a long text of it")
    (tmp_path / "b.pcap").write_bytes(b"")
    (tmp_path / "c.pcap").write_bytes(Path(SAMPLES / "rollback.pcap").read_bytes()[:-7])
    table = read(tmp_path, on_error="row")
    told_of = (
        table.filter(pa.compute.is_valid(table["error"]))
        .select(["file", "error", "row"])
        .to_pylist()
    )
    assert [(Path(row["file"]).name, row["row"]) for row in told_of] == [
        ("a.pcap", None),
        ("b.pcap", None),
        ("c.pcap", None),
    ]
    assert "is not a capture" in told_of[0]["error"]
    assert "is empty" in told_of[1]["error"]
    assert "offset" in told_of[2]["error"]
    assert len(table) > 3
    assert len(read(tmp_path, on_error="skip")) == len(table) - 3


def test_or_the_job_fails_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(b"garbage, and a long text of it")
    with pytest.raises(
        CaptureError,
        match=r"a.pcap: is not a capture .*; option on_error=skip leaves out what cannot be read",
    ):
        read(tmp_path, columns="row")
    (tmp_path / "a.pcap").write_bytes(Path(SAMPLES / "rollback.pcap").read_bytes()[:-7])
    with pytest.raises(CaptureError, match=r"a.pcap, offset \d+: .*; option on_error=skip"):
        read(tmp_path, on_error="fail")
