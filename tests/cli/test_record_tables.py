"""The commands that write one table of streams: same options, every format, their rows those of the
tracker.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from random import Random

import pyarrow.parquet
import pytest

from dcpinspect.cli.main import main
from dcpinspect.output.export.table_schema import table_schema
from dcpinspect.output.render.record_lines import FIRST, READABLE, record_lines
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.table_columns import BY_TABLE
from tests import builders
from tests.captures import field, real_server
from tests.encode import encode
from tests.headings import headings, names_in
from tests.peers.truth import SAMPLES
from tests.schemas import validate

ROLLBACK = str(SAMPLES / "rollback.pcap")
LOSSY = str(SAMPLES / "lossy.pcap")


def ndjson(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert main([*arguments, "--format", "ndjson"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_convention_of_a_snapshot_is_whole_or_not_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = set()
    for width in (80, 100, 120, 140):
        monkeypatch.setattr("dcpinspect.cli.terminal.width", lambda width=width: width)
        assert main(["snapshots", str(SAMPLES / "snapshots.pcap")]) == 0
        told = capsys.readouterr().out
        assert "starts at its c" not in told or "starts at its checkpoint " in told, width
        shown |= {width} if "starts at its checkpoint " in told else set()
    assert shown == {120, 140}


@pytest.mark.parametrize("width", ["80", "100", "120"])
def test_a_snapshot_says_how_far_it_came_rather_than_where_it_began(
    width: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = headings(text(capsys, "snapshots", ROLLBACK, "--width", width))
    assert "last_seqno" in shown
    assert "first_seqno" not in shown


@pytest.mark.parametrize("name", BY_TABLE)
@pytest.mark.parametrize("capture", [ROLLBACK, LOSSY])
def test_json_is_the_contract(name: str, capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Reading([capture], track=True) as reading:
        reading.check()
        for _ in reading:
            pass
        expected = json.loads(json.dumps(reading.by_name()[name].records()))
    found = ndjson(capsys, name, capture)
    assert found == expected, "findings are counted, too: null would be read as none"
    columns = ",".join(column.name for column in BY_TABLE[name].columns)
    assert ndjson(capsys, name, capture, "--columns", columns) == expected
    assert found or (name, capture) in (
        ("gaps", LOSSY),
        ("rollbacks", LOSSY),
    )  # what it lost, it lost of a plain conversation
    for record in found:
        validate(record, table_schema(BY_TABLE[name]))
    assert main([name, capture, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == found


@pytest.mark.parametrize(
    ("command", "column"),
    [("vbuckets", "behind"), ("diff", "delay_median_ns"), ("check", "rule"), ("log", "reason")],
)
def test_columns_alone_lists_them(
    command: str, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--columns"]) == 0
    assert any(line.split()[0] == column for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["vbuckets", ROLLBACK, "--filter", "verdict = 'behind'"],
            "none of 4 vbuckets met the conditions",
        ),
        (
            ["streams", ROLLBACK, "--connection", "9"],
            "connection 9: there are 2; 'dcpinspect connections' lists them",
        ),
        (["rollbacks", LOSSY], "the capture shows no rollbacks"),
        (
            ["gaps", ROLLBACK, "--vbucket", "3"],
            "none of 74 gaps met the conditions: they are of vbuckets 7–10",
        ),
    ],
)
def test_an_empty_table_says_why(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    assert capsys.readouterr().err == f"dcpinspect: {told}\n"


@pytest.mark.parametrize("name", BY_TABLE)
def test_every_format_has_as_many_rows(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = len(ndjson(capsys, name, ROLLBACK))
    assert main([name, ROLLBACK]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + rows
    assert main([name, ROLLBACK, "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + rows
    path = tmp_path / "table.parquet"
    assert main([name, ROLLBACK, "-o", str(path)]) == 0
    assert pyarrow.parquet.read_table(path).num_rows == rows


def test_conditions_choose_rows_and_columns(capsys: pytest.CaptureFixture[str]) -> None:
    found = ndjson(
        capsys,
        "gaps",
        ROLLBACK,
        "--filter",
        "cause = 'rollback'",
        "--vbucket",
        "7,9",
        "--columns",
        "vbucket,width",
    )
    assert found == [
        {"schema": "dcpinspect.gap/1", "vbucket": 7, "width": 10},
        {"schema": "dcpinspect.gap/1", "vbucket": 9, "width": 25},
    ]
    assert len(ndjson(capsys, "gaps", ROLLBACK, "-n", "3")) == 3
    assert {
        one["connection"] for one in ndjson(capsys, "streams", ROLLBACK, "--connection", "2")
    } == {2}


def text(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", BY_TABLE)
@pytest.mark.parametrize("sample", ["rollback.pcap", "tour.pcapng", "orphans.pcap", "upr.pcap"])
def test_at_80_columns_what_matters_most_is_shown_and_nothing_is_cut(
    name: str, sample: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = text(capsys, name, str(SAMPLES / sample), "--width", "80")
    assert max(map(len, lines)) <= 80
    # names of 27 letters
    if name not in ("vbuckets", "connections") or sample not in ("tour.pcapng", "upr.pcap"):
        assert "…" not in "".join(lines)
    assert set(headings(lines)) >= {
        "connections": {"connection", "client", "name", "verdict", "findings"}
        | (set() if sample in ("tour.pcapng", "upr.pcap") else {"closed_by"}),  # long names
        "streams": {"vbucket", "status", "verdict", "findings"}
        | (set() if sample == "tour.pcapng" else {"end_reason"}),  # status of 21 letters,
        "snapshots": {"vbucket", "start_seqno", "end_seqno", "type", "items", "state"},
        "gaps": {"vbucket", "cause", "width", "after_seqno", "before_seqno"},
        "rollbacks": {"vbucket", "requested_start", "rollback_seqno", "resume_start"}
        | {"resume_snapshot_end", "resume_uuid"},
        "vbuckets": {"vbucket", "verdict", "findings"}
        | (set() if sample == "tour.pcapng" else {"last_seqno"}),  # a client of 31 letters
    }[name] - ({"start_seqno", "end_seqno", "last_seqno"} if sample == "upr.pcap" else set())


@pytest.mark.parametrize("width", range(40, 140, 10))
def test_connections_say_who_each_is_in_any_width(
    width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first one has no name. A name that has no room stands below its row."""
    tour = str(SAMPLES / "tour.pcapng")
    shown = "\n".join(text(capsys, "connections", tour, "--width", str(width)))
    assert {"10.11.0.1:50000", "secidx:orders-1"} <= set(shown.split())


@pytest.mark.parametrize("width", ["80", "120"])
def test_connections_seen_twice_say_of_which_one_they_are_copies(
    width: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(field("t05-sidecar-two-legs"))
    assert "copy_of" in headings(text(capsys, "connections", path, "--width", width))
    path = str(field("p06-zero-window"))
    assert "copy_of" not in headings(text(capsys, "connections", path, "--width", width))


def test_the_text_of_vbuckets_is_in_order_of_numbers_and_other_formats_of_requests(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(field("p06-zero-window"))
    shown = [line.strip() for line in text(capsys, "vbuckets", path, "--columns", "vbucket")]
    assert shown == ["vbucket", "6", "677", "723", "900", "952"]
    assert [row["vbucket"] for row in ndjson(capsys, "vbuckets", path)] == [677, 952, 6, 723, 900]


@pytest.mark.parametrize(
    ("arguments", "remark"),
    [
        ((), "not counted here: 1 error about connections of 1 vbucket; check says what to do\n"),
        (("--columns", "vbucket,verdict"), ""),
        (("--vbucket", "7"), ""),
        (("--format", "ndjson"), ""),
    ],
)
def test_vbuckets_say_what_their_connections_bear(
    capsys: pytest.CaptureFixture[str], arguments: Sequence[str], remark: str
) -> None:
    main(["vbuckets", str(real_server("noop-timeout")), *arguments])
    said = capsys.readouterr().err
    assert remark in said
    assert ("not counted here" in said) == bool(remark)


def test_the_request_that_works_is_shown_before_the_one_that_did_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    works = {"resume_start", "resume_uuid", "resume_snapshot_start", "resume_snapshot_end"}
    wide = headings(text(capsys, "rollbacks", ROLLBACK, "--width", "120"))
    assert {*works, "cause", "requested_start", "rollback_seqno"} <= set(wide)
    assert "vbucket_uuid" not in wide


@pytest.mark.parametrize("width", ["60", "250", "340"])
def test_at_every_width_a_rollback_has_its_explanation(
    width: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = " ".join(" ".join(text(capsys, "rollbacks", ROLLBACK, "--width", width)).split())
    assert (
        "the client is ahead of the branch point 50, so resume there with that branch's uuid"
        in whole
    )


@pytest.mark.parametrize("width", ["60", "80", "200"])
def test_at_every_width_a_stream_has_why_it_ended(
    width: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "".join(text(capsys, "streams", str(SAMPLES / "tour.pcapng"), "--width", width))
    for reason in ("state-changed", "lost-privileges", "backfill-failed", "filter-empty"):
        assert reason in told


@pytest.mark.parametrize("name", READABLE)
def test_a_wider_line_lacks_a_column_only_for_a_more_important_one(name: str) -> None:
    random = Random(name)
    for _ in range(3):
        table = pyarrow.table(
            {
                column: ["x" * random.randint(0, 70) for _ in range(3)]
                if random.random() < 0.4
                else [10 ** random.randint(0, 18)] * 3
                for column in READABLE[name]
            }
        )
        by_importance = list(dict.fromkeys((*FIRST[name], *READABLE[name])))
        shown = [False] * len(by_importance)
        for width in range(20, 261):
            columns = columns_at(width, table, FIRST[name])
            assert shown <= [column in columns for column in by_importance], width
            shown = [column in columns for column in by_importance]
        assert columns_at(2000, table, FIRST[name]) == set(READABLE[name])


def test_a_column_that_does_not_fit_takes_no_later_one_with_it_and_counts_of_nothing_come_last() -> (
    None
):
    table = pyarrow.table(
        {
            "client": ["c"],
            "vbucket": [0],
            "behind": [0],
            "gaps": [[("rollback", 0)]],
            "cause": ["deduplicated" * 3],
            "rollbacks": [4],
        },
        pyarrow.schema(
            {
                "client": pyarrow.string(),
                "vbucket": pyarrow.int64(),
                "behind": pyarrow.int64(),
                "gaps": pyarrow.map_(pyarrow.string(), pyarrow.int64()),
                "cause": pyarrow.string(),
                "rollbacks": pyarrow.int64(),
            }
        ),
    )
    shown = {width: columns_at(width, table, table.schema.names) for width in (26, 34, 40)}
    assert shown[26] == {"client", "vbucket", "rollbacks"}
    assert shown[34] == {"client", "vbucket", "rollbacks", "behind"}
    assert shown[40] == {"client", "vbucket", "rollbacks", "behind", "gaps"}


def test_vbuckets_show_rollbacks_where_their_gaps_do_not_fit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = text(capsys, "vbuckets", str(SAMPLES / "loop.pcap"), "--width", "80")
    assert "rollbacks" in names_in(lines[:2])


def columns_at(width: int, table: pyarrow.Table, first: Sequence[str]) -> set[str]:
    lines = record_lines(table, first, width=width)
    return {*names_in([line for line, _ in takewhile(lambda pair: pair[1] == "bold", lines)])}


def test_what_does_not_fit_is_below_each_row_with_v(capsys: pytest.CaptureFixture[str]) -> None:
    lines = text(capsys, "rollbacks", ROLLBACK, "--width", "80", "-v")
    assert "+" not in lines[0]
    assert [line for line in lines if "vbucket_uuid 0xa7a7000000000007" in line]
    assert max(map(len, lines)) <= 80


def test_tables_say_where_a_snapshot_starts_and_json_has_the_word(
    capsys: pytest.CaptureFixture[str],
) -> None:
    only = ("--columns", "type,convention", "-n", "1")
    assert text(capsys, "snapshots", ROLLBACK, *only)[1].split("  ") == [
        "memory",
        "starts at the request",
    ]
    assert ndjson(capsys, "snapshots", ROLLBACK, *only)[0]["convention"] == "memory-1"
    assert text(capsys, "snapshots", ROLLBACK, *only, "--filter", "convention = 'memory-1'")[1:]


def test_a_stream_without_an_end_says_so_in_lines_and_has_its_number_elsewhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "no end" in text(capsys, "streams", ROLLBACK)[1]
    assert ndjson(capsys, "streams", ROLLBACK, "-n", "1")[0]["requested_end"] == "no end"
    assert (
        main(["streams", ROLLBACK, "--format", "csv", "--columns", "requested_end", "-n", "1"]) == 0
    )
    assert capsys.readouterr().out.splitlines()[1] == "18446744073709551615"


def test_seqnos_of_gaps_are_counted_by_stream_and_by_vbucket_and_cause(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gaps = ndjson(capsys, "gaps", ROLLBACK)
    for stream in ndjson(capsys, "streams", ROLLBACK):
        own = [
            gap
            for gap in gaps
            if all(gap[name] == stream[name] for name in ("connection", "vbucket", "sid", "stream"))
        ]
        assert (stream["gaps"], stream["gap_seqnos"]) == (
            len(own),
            sum(int(str(gap["width"])) for gap in own),
        )
    for vbucket in ndjson(capsys, "vbuckets", ROLLBACK):
        by_cause: dict[object, int] = {}
        for gap in gaps:
            if gap["vbucket"] == vbucket["vbucket"]:
                by_cause[gap["cause"]] = by_cause.get(gap["cause"], 0) + int(str(gap["width"]))
        assert vbucket["gap_seqnos"] == by_cause


def test_the_role_of_the_server_stands_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    heading = text(capsys, "connections", ROLLBACK, "--width", "200")[0].split()
    assert heading[heading.index("server") + 1] == "role"


def test_connections_and_streams_have_findings_and_their_colours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    orphans, resent = (str(SAMPLES / "orphans.pcap"), str(field("r05-nmvb-not-retried")))
    streams = ndjson(capsys, "streams", orphans, "--columns", "vbucket,stream,findings")
    found = {(row["vbucket"], row["stream"]): row["findings"] for row in streams}
    assert found[42, 1] == {"error": 1, "warning": 0, "note": 1}
    assert found[47, 2] == {"error": 0, "warning": 0, "note": 0}
    assert ndjson(capsys, "connections", orphans, "--filter", "findings.error = 2")
    main(["streams", resent, "--color", "always"])
    red = "\x1b[91m"
    wrong, moved, *_ = (
        line for line in capsys.readouterr().out.splitlines() if "not_my_vbucket" in line
    )
    assert red in wrong
    assert "✖ 1" in wrong
    assert red not in moved, "granted by another node, which is a note"
    main(["connections", orphans, "--color", "always"])
    told = capsys.readouterr().out
    assert f"{red}closed" in told
    assert f"{red}✖ 2" in told


def test_a_vbucket_that_its_client_forgot_is_orphaned(capsys: pytest.CaptureFixture[str]) -> None:
    found = {
        one["vbucket"]: one["verdict"]
        for one in ndjson(capsys, "vbuckets", str(SAMPLES / "orphans.pcap"))
    }
    assert [vbucket for vbucket, verdict in found.items() if verdict == "orphaned"] == [42, 45]
    assert found[40] == "ended"


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_TABLE)
def test_every_column_of_the_lines_can_be_filtered_and_sorted(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    heading = headings(text(capsys, name, ROLLBACK))
    rows = len(text(capsys, name, ROLLBACK)) - 1
    for column in heading:
        has_order = column not in ("connections", "failover_log")  # lists have none
        by = ["--sort", column] if has_order else []
        filtered = [
            len(text(capsys, name, ROLLBACK, *by, "--filter", f"{column} {what} null")) - 1
            for what in ("is", "is not")
        ]
        assert sum(filtered) == rows, column


def test_counts_are_filtered_and_sorted_by_their_sum_or_one_by_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def vbuckets(*arguments: str) -> list[object]:
        return [one["vbucket"] for one in ndjson(capsys, "vbuckets", ROLLBACK, *arguments)]

    assert vbuckets("--filter", "findings > 1") == [7, 9, 10]
    assert vbuckets("--filter", "findings.error = 0 and gap_seqnos.deduplicated > 20") == [7, 9]
    assert vbuckets("--filter", "connections = 2 and not connections = 9") == [7, 8, 9, 10]
    assert vbuckets("--sort", "gap_seqnos.rollback,vbucket", "--reverse") == [9, 10, 7, 8]
    assert vbuckets("--sort", "gaps.rollback") == [8, 7, 9, 10]
    assert vbuckets("--reverse", "-n", "1") == [10]


def test_rows_without_a_value_come_last_either_way(capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--reverse"]):
        rows = [
            one["rollback_seqno"]
            for one in ndjson(capsys, "streams", ROLLBACK, "--sort", "rollback_seqno", *more)
        ]
        assert [one for one in rows[:3] if one is None] == []
        assert set(rows[3:]) == {None}


def test_columns_without_any_value_are_left_out_of_lines_unless_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["streams", ROLLBACK]) == 0
    assert "sid" not in capsys.readouterr().out.splitlines()[0].split()
    assert main(["streams", ROLLBACK, "--columns", "vbucket,sid"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["vbucket", "sid"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["gaps", "--columns", "vbukcet"],
            "--columns vbukcet: gaps have no such column; did you mean vbucket?",
        ),
        (["connections", "--vbucket", "5"], "--vbucket: a connection has no vbucket"),
        (["streams", "--filter", "verdict = 'done'"], "--filter: verdict is never 'done'"),
        (
            ["vbuckets", "--sort", "connections"],
            "--sort connections: vbuckets have no such column to sort by; ",
        ),
        (
            ["vbuckets", "--filter", "findings.eror > 0"],
            "--filter: no column is called findings.eror; did you mean findings.error or",
        ),
        (
            ["vbuckets", "--filter", "connections > 1"],
            "--filter: connections is a list of numbers: it has a number (= 5) or not (<> 5)",
        ),
        (
            ["vbuckets", "--filter", "connections = 'x'"],
            "--filter: connections is a list of numbers",
        ),
        (
            ["streams", "--format", "csv", "--width", "90"],
            "--width: csv does not use it; it is for --format text",
        ),
        (
            ["streams", "--columns", ","],
            "--columns: name at least one column; there are connection, vbucket",
        ),
        (["streams", "--format", "json", "--no-csv-guard"], "--no-csv-guard: json does not use it"),
    ],
)
def test_what_a_table_does_not_have_is_said(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([arguments[0], ROLLBACK, *arguments[1:]]) == 2
    assert capsys.readouterr().err.startswith(f"dcpinspect: {says}")


def test_a_capture_without_dcp_is_an_empty_table_and_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "empty.pcap"
    path.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    assert main(["streams", str(path)]) == 0
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (1, f"dcpinspect: {path}: no packets\n")


def test_of_several_captures_every_record_says_in_which_one_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = Path(ROLLBACK).read_bytes()
    places, offset = [], 24
    while offset < len(data):
        places.append(offset)
        offset += 16 + int.from_bytes(data[offset + 8 : offset + 12], "little")
    cut = places[len(places) // 2]
    parts = [str(tmp_path / "a.pcap"), str(tmp_path / "b.pcap")]
    Path(parts[0]).write_bytes(data[:cut])
    Path(parts[1]).write_bytes(data[:24] + data[cut:])
    begins = {str(one["row"]): one["file"] for one in ndjson(capsys, "read", *parts, "--no-fields")}
    for name, row in (("streams", "open_row"), ("snapshots", "row"), ("gaps", "rows")):
        whole, told = ndjson(capsys, name, ROLLBACK), ndjson(capsys, name, *parts)
        assert [
            {key: value for key, value in one.items() if key != "file"} for one in told
        ] == whole
        assert {one["file"] for one in told} == set(parts)
        for one in told:
            place = one[row]
            assert isinstance(place, list) or one["file"] == begins[str(place)]
            validate(one, table_schema(BY_TABLE[name]))
    gaps = [one for one in ndjson(capsys, "gaps", *parts) if one["cause"] == "rollback"]
    assert [one["file"] for one in gaps] == [
        begins[str(rows[0])] for one in gaps if isinstance(rows := one["rows"], list)
    ]
    assert [one["file"] for one in ndjson(capsys, "connections", *parts)] == parts
    assert {one["file"] for one in ndjson(capsys, "vbuckets", *parts)} == {parts[0]}
    assert (
        ndjson(capsys, "streams", *parts, "--filter", f"file = '{parts[1]}'", "-n", "1")[0]["file"]
        == parts[1]
    )
    assert main(["streams", *parts, "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(',"file"')
    assert main(["streams", *parts]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(parts[1])


@pytest.mark.slow
@pytest.mark.parametrize("command", ["gaps", "vbuckets", "check"])
def test_ctrl_c_ends_a_pipe_and_the_table_of_what_came_is_whole(
    command: str, tmp_path: Path
) -> None:
    """The writer of the pipe stops in the middle, and Ctrl-C comes."""
    path, out = tmp_path / "pipe", tmp_path / "out.ndjson"
    os.mkfifo(path)
    capture = (SAMPLES / "rollback.pcap").read_bytes()
    program = [sys.executable, "-m", "dcpinspect", command, str(path), "-o", str(out)]
    with (
        subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process,
        path.open("wb") as pipe,
    ):
        for piece in (
            capture[:-800],
            capture[-800:-400],
        ):  # who takes the second has handed on the first
            pipe.write(piece)
            pipe.flush()
            while struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]:
                time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode in (0, 1)
    assert "interrupted: what was read until now makes the result; Ctrl-C again ends at once" in err
    assert [json.loads(line) for line in out.read_text().splitlines()]


def test_saved_filters_and_defaults_of_the_config_file_are_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        "[filters]\ntold = 'rollback_seqno is not null'\n[rollbacks]\nfilter = '@told'\n"
    )
    expected = [
        one for one in ndjson(capsys, "streams", ROLLBACK) if one["rollback_seqno"] is not None
    ]
    monkeypatch.setenv("DCPINSPECT_CONFIG", str(config))
    assert (
        ndjson(capsys, "streams", ROLLBACK, "--filter", "@told and vbucket >= 0") == expected != []
    )
    assert ndjson(capsys, "rollbacks", ROLLBACK)
    assert main(["streams", ROLLBACK, "--filter", "@errors"]) == 2
    assert capsys.readouterr().err.startswith(
        "dcpinspect: --filter: no filter is saved as @errors; there are @told"
    )


def test_bytes_of_names_are_escaped_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opening = encode("dcp_open", key=b"foo\xff\x1b\n", flags=["producer"])
    path = str(
        builders.capture(
            tmp_path / "x.pcap", client=opening, server=encode("dcp_open", side="response")
        )
    )
    assert main(["connections", path, "--columns", "name"]) == 0
    assert capsys.readouterr().out == "name\nfoo\\xff\\x1b\\x0a\n"
    assert [one["name"] for one in ndjson(capsys, "connections", path)] == ["foo\\xff\x1b\n"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["connections", "streams", "snapshots", "gaps", "rollbacks", "vbuckets"]
)
@pytest.mark.parametrize("sample", ["rollback.pcap", "tour.pcapng"])
def test_since_and_until_leave_what_goes_on_between_them_and_change_nothing_of_it(
    name: str, sample: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(SAMPLES / sample)
    every = ndjson(capsys, name, path)
    times = [
        [str(value) for key, value in one.items() if key == "time" or key.endswith("_time")]
        for one in every
    ]
    known = sorted(time for pair in times for time in pair)
    middle = known[len(known) // 2]
    since = [one for one, pair in zip(every, times, strict=True) if pair[-1] >= middle]
    until = [one for one, pair in zip(every, times, strict=True) if pair[0] < middle]
    assert ndjson(capsys, name, path, "--since", middle) == since != []
    assert ndjson(capsys, name, path, "--until", middle) == until
    assert until != [] or len(every) == 1
    assert (
        ndjson(capsys, name, path, "--since", "1d")
        == ndjson(capsys, name, path, "--until", "-1d")
        == []
    )
    assert ndjson(capsys, name, path, "--since", "-1d", "--until", "1d") == every


def test_the_end_that_times_count_from_is_known_of_what_comes_through_a_pipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = ndjson(capsys, "streams", ROLLBACK, "--since", "-3ms")
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "streams",
        "-",
        "--since",
        "-3ms",
        "-f",
        "ndjson",
    ]
    piped = subprocess.run(
        command, input=Path(ROLLBACK).read_bytes(), stdout=subprocess.PIPE, check=True
    ).stdout
    assert [json.loads(line) for line in piped.splitlines()] == expected != []


@pytest.mark.parametrize("name", ["streams", "snapshots", "gaps"])
def test_streams_of_one_vbucket_are_told_apart_by_their_stream_ids_at_80_columns(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = text(capsys, name, str(SAMPLES / "tour.pcapng"), "--width", "80")
    assert {"vbucket", "sid"} <= set(headings(lines))


@pytest.mark.parametrize("name", BY_TABLE)
def test_files_of_any_bytes_have_a_name_in_tables(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (os.fsdecode(b"a\xff.pcap"), "b.pcap"):
        shutil.copy(SAMPLES / "rollback.pcap", tmp_path / file)
    rows = ndjson(capsys, name, str(tmp_path))
    assert {row["file"] for row in rows} == {f"{tmp_path}/a\\xff.pcap"}, "the other one is a copy"
