from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.outputs import problems, rows_of
from dcpinspect.spark.spark_schema import SCHEMAS
from tests.spark.cuts import cut, packets_of, written
from tests.spark.outputs import ran

SAMPLES = Path(__file__).parents[2] / "sample_captures"


def table(out: Path, name: str) -> Any:
    return Manifest.newest(out).dataset(name).to_table()


def test_every_table_has_its_schema(tmp_path: Path) -> None:
    ran(tmp_path / "out", SAMPLES / "tour.pcapng")
    for name, rows in rows_of(Manifest.newest(tmp_path / "out")).items():
        found = table(tmp_path / "out", name)
        assert len(found) == rows
        assert found.schema.names == SCHEMAS[name].names
        assert found.schema.types == SCHEMAS[name].types


@pytest.mark.slow
def test_connections_say_where_and_when_they_were_captured(tmp_path: Path) -> None:
    ran(tmp_path / "out", SAMPLES / "tour.pcapng")
    rows = table(tmp_path / "out", "connections").to_pylist()
    messages = {*table(tmp_path / "out", "messages")["connection_id"].to_pylist()}
    assert messages <= {row["connection_id"] for row in rows}
    assert [row["connection_id"] for row in rows] == sorted(row["connection_id"] for row in rows)
    packets = packets_of(SAMPLES / "tour.pcapng")
    assert [packets[row["connection_id"]].time_ns for row in rows] == [
        row["first_time_ns"] for row in rows
    ]
    assert {row["capture_point"] for row in rows} == {"sample_captures"}


@pytest.mark.slow
def test_a_connection_at_time_0_is_a_copy_of_the_one_that_another_point_has(tmp_path: Path) -> None:
    packets = [replace(packet, time_ns=0) for packet in packets_of(SAMPLES / "rollback.pcap")]
    ran(
        tmp_path / "out",
        *(written(tmp_path / name, packets) for name in ("near.pcap", "far.pcap")),
        point_rule="stem",
    )
    rows = table(tmp_path / "out", "connections").to_pylist()
    assert {row["first_time_ns"] for row in rows} == {0}
    originals = {row["client"]: row["connection_id"] for row in rows if row["duplicate_of"] is None}
    assert len(originals) == 2
    assert {
        row["client"]: row["duplicate_of"] for row in rows if row["duplicate_of"] is not None
    } == originals


@pytest.mark.slow
def test_the_end_of_the_newest_file_is_no_damage(tmp_path: Path) -> None:
    one, two = cut(tmp_path / "ring", packets_of(SAMPLES / "rollback.pcap"), [60])
    for path in (one, two):
        path.write_bytes(path.read_bytes()[:-3])
    done = ran(tmp_path / "out", tmp_path / "ring")
    assert (done.damaged, done.quarantined) == (1, 0)
    assert [row["severity"] for row in problems(Manifest.newest(tmp_path / "out"))] == [
        "warning",
        "note",
    ]
    assert table(tmp_path / "out", "captures")["state"].to_pylist() == ["damaged", "ok"]


@pytest.mark.slow
def test_captures_of_one_point_that_cannot_continue_each_other_are_told(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    late = [replace(packet, time_ns=packet.time_ns + 10_000_000) for packet in packets]
    slow = [
        replace(one, time_ns=one.time_ns + number * 10**9) for number, one in enumerate(packets)
    ]
    for folder, first, second in (("both", packets, late), ("slow", slow, slow[30:])):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder / "client.pcap", first)
        written(tmp_path / folder / "server.pcap", second)
        cut(tmp_path / f"{folder}-ring", first, [60])
        for point_rule in ("dir", "stem"):
            out = tmp_path / f"{folder}-{point_rule}"
            ran(out, tmp_path / folder, tmp_path / f"{folder}-ring", point_rule=point_rule)
            told = [
                (Path(row["file"]).name, row["severity"], Path(row["what"].partition(",")[0]).name)
                for row in problems(Manifest.newest(out))
            ]
            assert told == (
                [("server.pcap", "note", "client.pcap")]
                if (folder, point_rule) == ("slow", "dir")
                else []
            )
