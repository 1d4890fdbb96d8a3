"""What the data source is asked for, and one clear line for what is wrong with that."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.spark.source_options import (
    OPTIONS,
    SCHEMA,
    CaptureSlice,
    read_options,
)
from dcpinspect.spark.spark_schema import spark_type
from tests.catalogue import each
from tests.peers.truth import SAMPLES

TOUR = str(SAMPLES / "tour.pcapng")


@each(
    ("options", "told"),
    [
        ({"opcode": "1"}, "option opcode: there is none; did you mean opcodes?"),
        ({"header": "true"}, "option header: there is none; there are path, paths, columns"),
        (
            {"columns": "vbuket"},
            "option columns vbuket: messages have no such column; did you mean vbucket",
        ),
        ({"columns": " , "}, "option columns: name at least one, as in name,vbucket,by_seqno"),
        ({"columns": "row,ROW"}, "option columns: row is there twice"),
        ({"vbuckets": "5-1"}, "option vbuckets '5-1': '5-1' ends before it begins; write 1-5"),
        ({"connections": "x"}, "option connections 'x': 'x' is no number"),
        ({"max_files_per_trigger": "0"}, "option max_files_per_trigger: 0 is no number above 0"),
        ({"rested": "soon"}, "option rested soon: "),
        (
            {"opcodes": "dcp_mutatoin"},
            "option opcodes: no command has this name; did you mean dcp_mutation",
        ),
        ({"statuses": "okay"}, "option statuses: no status has this name"),
        ({"filter": "vbucket = 'x'"}, "option filter: vbucket is a number"),
        (
            {"since": "yesterday"},
            "option since: time is a moment: write UTC, as in '2024-04-06 05:34:37.411'",
        ),
        ({"until": "'; --"}, "option until: time is a moment"),
        (
            {"port": "11210,http"},
            "option port: http is no port; write numbers from 1 to 65535, or auto",
        ),
        ({"onError": "ignore"}, "option on_error: ignore is not known; write row, fail or skip"),
        (
            {"onError": "row", "columns": "row"},
            "option on_error: a row says in the column error what could not be read",
        ),
        (
            {"capturePoint": "host"},
            "option capture_point: files belong together by their directory (dir)",
        ),
        (
            {"path": "ftp://bucket/x.pcap"},
            "ftp://bucket/x.pcap: captures are read at paths, and by URIs of s3, s3a, s3n, gs, ",
        ),
        ({"mode": "failfast"}, "option mode: there is none"),
        (
            {"recursiveFileLookup": "false"},
            "option recursiveFileLookup: there is none; there are path, paths, columns, ",
        ),
        ({"modifiedAfter": "later"}, "option modified_after: time is a moment"),
        (
            {"columns": "row,_metadata"},
            (
                "option columns _metadata: there is none; the columns file, frame and "
                "capture_point say where"
            ),
        ),
        ({"path": ""}, "name captures, as in spark.read"),
    ],
)
def test_one_line_says_what_is_wrong(options: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match="^" + re.escape(told)):
        read_options({"path": TOUR, **options})


def test_a_schema_has_columns_of_ours_with_their_types() -> None:
    found = read_options(
        {"path": TOUR},
        {"VBucket": "int", "failover_log": "array<struct<uuid:string,seqno:bigint>>"},
    )
    assert found.columns == ("vbucket", "failover_log")
    assert found.schema.names == ["VBucket", "failover_log"]
    with pytest.raises(
        UsageError, match="schema: vbucket is int here, and not bigint; cast it in the query"
    ):
        read_options({"path": TOUR}, {"vbucket": "bigint"})
    with pytest.raises(UsageError, match="schema vbuket: messages have no such column"):
        read_options({"path": TOUR}, {"vbuket": "int"})
    with pytest.raises(UsageError, match="option columns: the schema names other columns"):
        read_options({"path": TOUR, "columns": "row"}, {"vbucket": "int"})


def test_usual_answers() -> None:
    found = read_options({"path": TOUR})
    assert found.columns == tuple(SCHEMA.names[:-1])
    assert found.on_error == "fail"
    assert read_options({"path": TOUR, "columns": "row,error"}).on_error == "row"
    assert read_options({"path": TOUR, "on_error": "row"}).columns == tuple(SCHEMA.names)
    assert read_options({"path": TOUR, "columns": "row"}).on_error == "fail"
    assert spark_type(SCHEMA)["time"].dataType.simpleString() == "timestamp"


def test_what_is_asked_travels_to_executors() -> None:
    options = {
        "path": TOUR,
        "filter": "vbucket = 5",
        "keys": "a*",
        "opcodes": "mutation",
        "since": "2024-04-06",
        "port": "auto,9000",
    }
    found = pickle.loads(pickle.dumps(read_options(options)))  # noqa: S301 - our own
    assert found.since_ns == 1_712_361_600 * 10**9
    assert (found.extra_ports, found.find_ports) == ((9000,), True)
    assert found.selection.filter.filter.columns == ("vbucket",)


def test_a_task_reads_what_was_captured_at_one_point(tmp_path: Path) -> None:
    for name in ("node1/a_1.pcap", "node1/a_2.pcap", "node2/a_1.pcap"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\xd4\xc3\xb2\xa1")
    one, two = (str(tmp_path / "node1" / name) for name in ("a_1.pcap", "a_2.pcap"))
    three = str(tmp_path / "node2" / "a_1.pcap")
    assert read_options({"path": str(tmp_path)}).task_parts() == [
        CaptureSlice("node1", (one, two)),
        CaptureSlice("node2", (three,)),
    ]
    assert read_options({"paths": f'["{one}", "file://{three}"]'}).task_parts() == [
        CaptureSlice("node1", (one,)),
        CaptureSlice("node2", (three,)),
    ]
    assert read_options({"path": str(tmp_path), "pathGlobFilter": "*_2.pcap"}).task_parts() == [
        CaptureSlice("node1", (two,))
    ]
    os.utime(two, (86_400, 86_400))
    assert read_options({"path": str(tmp_path), "modifiedBefore": "1970-01-03"}).task_parts() == [
        CaptureSlice("node1", (two,))
    ]
    assert read_options(
        {"path": str(tmp_path), "modifiedAfter": "1970-01-02 00:00:00"}
    ).task_parts() == [
        CaptureSlice("node1", (one,)),
        CaptureSlice("node2", (three,)),
    ]
    assert read_options(
        {"path": str(tmp_path / "**" / "*.pcap"), "capture_point": "name:all"}
    ).task_parts() == [CaptureSlice("all", (one, two, three))]
    with pytest.raises(UsageError, match="no file matches"):
        read_options({"path": str(tmp_path / "*.none")}).task_parts()
    assert read_options({"path": str(tmp_path / "*.none")}).task_parts(may_be_empty=True) == []


def test_every_option_is_described() -> None:
    page = Path(__file__).parents[2] / "docs" / "spark.md"
    assert [name for name in OPTIONS if f"`{name}`" not in page.read_text("utf-8")] == []
