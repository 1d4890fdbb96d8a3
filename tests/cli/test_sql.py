"""``dcpinspect sql``: a query and its result in every format, and one line for whatever is wrong
with it.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.feather
import pyarrow.parquet
import pytest

from dcpinspect.cli.main import main
from tests import builders
from tests.cli.test_output import wait_until_it_waits
from tests.encode import encode
from tests.findings.logs.written import rollback

SAMPLES = Path(__file__).parents[2] / "sample_captures"
TOUR = str(SAMPLES / "tour.pcapng")
COUNTS = (
    "select name, count(*) n, max(by_seqno) top from messages where vbucket = 417 and "
    "connection = 2 group by name order by n desc, name"
)
EXAMPLE = 'as in dcpinspect sql CAPTURE… "select name, count(*) from messages group by name"'

Sql = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sql(capsysbinary: pytest.CaptureFixture[bytes]) -> Sql:
    """Exit status, what is printed and what is complained of."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["sql", *arguments])
        printed = capsysbinary.readouterr()
        return status, printed.out.decode(), printed.err.decode()

    return run


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "dcpinspect", "sql", *arguments],
        capture_output=True,
        check=False,
        timeout=60,
        **options,
    )


# -- results
# -------------------------------------------------------------------------------------------


def test_a_table_for_people(sql: Sql, golden: Callable[[str, str], None]) -> None:
    status, printed, complaint = sql(TOUR, COUNTS)
    assert (status, complaint) == (0, "")
    golden("sql/counts.txt", printed)


def test_every_format_has_the_same_rows(sql: Sql, tmp_path: Path) -> None:
    def written(name: str) -> Path:
        assert sql(TOUR, COUNTS, "-o", str(tmp_path / name)) == (0, "", "")
        return tmp_path / name

    rows = json.loads(written("x.json").read_bytes())
    assert rows[0] == {"name": "dcp_mutation", "n": 14, "top": 28}
    assert [json.loads(line) for line in written("x.ndjson").read_bytes().splitlines()] == rows
    assert pyarrow.parquet.read_table(written("x.parquet")).to_pylist() == rows
    assert pyarrow.feather.read_table(written("x.arrow")).to_pylist() == rows
    with written("x.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [
            {name: "" if value is None else str(value) for name, value in row.items()}
            for row in rows
        ]
    assert sql(TOUR, COUNTS, "--format", "json")[1].encode() == (tmp_path / "x.json").read_bytes()


def test_parquet_keeps_the_types_of_the_table(sql: Sql, tmp_path: Path) -> None:
    sql(
        TOUR,
        "select by_seqno, cas, key, key_bytes, datatype, time from messages",
        "-o",
        str(tmp_path / "x.parquet"),
    )
    schema = pyarrow.parquet.read_schema(tmp_path / "x.parquet")
    assert [str(kind) for kind in schema.types] == [
        "uint64",
        "string",
        "string",
        "binary",
        "list<element: string>",
        "timestamp[us, tz=UTC]",
    ]


def test_a_result_without_rows_is_its_heading_and_no_complaint(sql: Sql) -> None:
    assert sql(TOUR, "select row, key from messages where row > 1000") == (0, "row  key\n", "")


def test_keys_cannot_steer_the_terminal(sql: Sql, tmp_path: Path) -> None:
    path = builders.capture(
        tmp_path / "keys.pcap", server=encode("dcp_mutation", key=b"\x1b]0;x\x07\xe2\x80\xae")
    )
    for form in ("text", "json", "ndjson"):
        status, printed, _ = sql(
            str(path), 'select key, key as "\x1b[2J" from messages', "--format", form
        )
        assert status == 0
        assert all(line.isprintable() for line in printed.splitlines())


def test_several_captures_and_ports_are_read(sql: Sql, tmp_path: Path) -> None:
    one = builders.Conversation(server=("10.0.0.2", 9999))
    one.handshake()
    one.stream(False, builders.mutation())
    path = tmp_path / "other.pcap"
    path.write_bytes(builders.pcap(builders.recorded(one.segments)))
    assert sql(
        TOUR, str(path), "--port", "9999", "select count(*) n from messages", "-f", "ndjson"
    ) == (0, '{"n":451}\n', "")


def test_stats_are_those_of_the_reading(sql: Sql) -> None:
    status, _, complaint = sql(TOUR, "select count(*) from messages", "--stats")
    assert status == 0
    assert complaint.split()[1:3] == ["packets", "read"]


# -- what was read
# -------------------------------------------------------------------------------------


def test_a_damaged_capture_is_status_3_after_the_result(sql: Sql, tmp_path: Path) -> None:
    path = tmp_path / "cut.pcapng"
    path.write_bytes(Path(TOUR).read_bytes()[:50_000])
    status, printed, complaint = sql(str(path), "select count(*) > 100 as many from messages")
    assert (status, printed) == (3, "many\ntrue\n")
    assert complaint.startswith(f"dcpinspect: {path}, offset ")


def test_a_capture_without_dcp_is_told(sql: Sql, tmp_path: Path) -> None:
    one = builders.Conversation(server=("10.0.0.2", 443))
    one.handshake()
    path = tmp_path / "web.pcap"
    path.write_bytes(builders.pcap(builders.recorded(one.segments)))
    assert sql(str(path), "select count(*) n from messages") == (
        0,
        "n\n0\n",
        f"dcpinspect: {path}: no DCP in 3 packets; it has TCP ports 443; try --port 443\n",
    )


def test_a_query_that_needs_no_message_says_nothing_of_the_capture(sql: Sql) -> None:
    assert sql(TOUR, "select 1 as one") == (0, "one\n  1\n", "")


def test_standard_input_is_a_capture() -> None:
    done = run(
        "-", "select count(*) n from messages", "--format", "csv", input=Path(TOUR).read_bytes()
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b'"n"\n450\n', b"")


def test_standard_output_has_a_name_too() -> None:
    done = run(TOUR, "select 1 as one", "--format", "csv", "-o", "/dev/stdout")
    assert (done.returncode, done.stdout, done.stderr) == (0, b'"one"\n1\n', b"")


def test_standard_input_is_the_query() -> None:
    done = run(TOUR, "-", "--format", "csv", input=b"select count(*) n\nfrom messages\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b'"n"\n450\n', b"")


# -- what is refused
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([TOUR], f"the query is missing: write it last, {EXAMPLE}"),
        (["-"], f"the query is missing: write it last, {EXAMPLE}"),
        (["select 1"], f"the capture is missing: write it before the query, {EXAMPLE}"),
        ([TOUR, TOUR], f"{TOUR}: is a file; the query comes last and in quotes, {EXAMPLE}"),
        (
            [TOUR, "select", "name", "from", "messages"],
            f"messages: is no query; the query comes last and in quotes, {EXAMPLE}",
        ),
        (
            [TOUR, "\x1b[2J"],
            f"\\x1b[2J: is no query; the query comes last and in quotes, {EXAMPLE}",
        ),
        (
            ["-", "-"],
            "-: standard input is either a capture or the query; put one of them in a file",
        ),
        (["missing.pcap", "select 1"], "missing.pcap: there is no such file; check the name"),
        (
            [TOUR, "select 1", "--no-csv-guard"],
            "--no-csv-guard: text does not use it; it is for --format csv",
        ),
        (
            [TOUR, "select 1; select 2"],
            (
                "query: only the rows of the last statement are printed; give each select to a "
                "command of its own"
            ),
        ),
        (
            [TOUR, "select 1 a, 2 a", "-f", "json"],
            "--format json: two columns are called a; give one of them another name",
        ),
        ([TOUR, "select 1", "-o", "x.xyz"], "x.xyz: no format has names in .xyz; end it in "),
        (
            [TOUR, "select 1", "-o", "/no/x.csv"],
            "/no/x.csv: cannot be written (No such file or directory); name a file in a folder",
        ),
    ],
    ids=lambda value: " ".join(value).replace(TOUR, "TOUR") if isinstance(value, list) else "",
)
def test_wrong_arguments_are_one_line_and_status_2(
    arguments: list[str], says: str, sql: Sql
) -> None:
    status, printed, complaint = sql(*arguments)
    assert (status, printed) == (2, "")
    assert complaint.startswith(f"dcpinspect: {says}")
    assert complaint.count("\n") == 1


def test_a_wrong_query_is_a_line_and_its_place_below(sql: Sql) -> None:
    assert sql(TOUR, "select name, coutn(*) from messages") == (
        2,
        "",
        'dcpinspect: query: Scalar Function with name coutn does not exist! Did you mean "count"?\n'
        "  select name, coutn(*) from messages\n"
        "               ^\n",
    )


def test_a_row_that_would_take_all_memory_is_refused_before_it_becomes_text(tmp_path: Path) -> None:
    path = tmp_path / "x.ndjson"
    query = "select repeat('x', 300_000_000) a"
    done = run(str(SAMPLES / "rollback.pcap"), query, "-o", str(path))
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == (
        b"dcpinspect: query: a row of its result has 286 MiB, and the most is 64; ask for less, or "
        b"for several rows\n"
    )
    assert not path.exists()


def test_a_query_that_fails_leaves_no_file(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("before")
    status, _, complaint = sql(
        TOUR, "select error('never') from messages", "-o", str(tmp_path / "x.csv")
    )
    assert (status, complaint) == (2, "dcpinspect: query: never\n")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x.csv", "before")]


def test_a_query_that_is_no_text_is_refused() -> None:
    done = run(TOUR, "-", input=b"select '\xff'")
    assert (done.returncode, done.stderr) == (
        2,
        b"dcpinspect: -: the query is not UTF-8 at offset 8\n",
    )


# -- as a program
# --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_closed_pipe_is_silent() -> None:
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "sql",
        str(SAMPLES / "large.pcapng.gz"),
        "select * from messages",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


WATCHED = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="watches the program through /proc"
)


@pytest.mark.slow
@WATCHED
def test_ctrl_c_ends_a_pipe_and_gives_the_result_of_what_came() -> None:
    """A pipe from which no more comes, as of a program that records."""
    query = "select count(*) > 100 as many, max(row) = count(*) as whole from messages"
    command = [sys.executable, "-m", "dcpinspect", "sql", "-", query]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(Path(TOUR).read_bytes()[:60_000])
        process.stdin.flush()
        wait_until_it_waits(process, process.stdin.fileno())
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = process.stdout.read(), process.stderr.read()
    assert out == b"many  whole\ntrue  true\n"
    assert err == (
        b"dcpinspect: interrupted: what was read until now makes the result; Ctrl-C again ends "
        b"at once\n"
    )
    assert process.returncode == 0


def wait_until_it_computes(process: subprocess.Popen[bytes]) -> None:
    """Until it has used more time of the processor than starting takes."""
    used = 0.0
    while used < 2:
        assert process.poll() is None
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        time.sleep(0.02)


@pytest.mark.slow
@WATCHED
def test_ctrl_c_ends_a_query_that_computes_and_reads_nothing() -> None:
    query = (
        "select count(*) from range(100000000) a join range(100000000) b on hash(a.range) < "
        "hash(b.range)"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "dcpinspect", "sql", TOUR, query],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        wait_until_it_computes(process)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == (
            b"",
            b"dcpinspect: interrupted; nothing was written\n",
        )
    assert process.returncode == 130


@pytest.mark.slow
def test_since_and_until_leave_of_every_table_what_its_command_shows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    times = ("--since", "12:01:00.59", "--until", "12:01:00.6")

    def shown(*arguments: str) -> list[str]:
        main([*arguments, *times])
        return capsys.readouterr().out.splitlines()

    for name in ("streams", "gaps", "connections", "snapshots", "vbuckets"):
        expected = shown(
            name,
            TOUR,
            "-f",
            "csv",
            "--columns",
            "vbucket" if name != "connections" else "connection",
        )
        assert (
            shown("sql", TOUR, f"from {name} select {expected[0]}", "-f", "csv")
            == expected
            != expected[:1]
        )
    expected = shown("check", TOUR, "-f", "csv", "--columns", "rule", "--fail-on", "never")
    assert shown("sql", TOUR, "select rule from findings", "-f", "csv") == expected != expected[:1]
    expected = shown("read", TOUR, "-f", "csv", "--columns", "row")
    assert shown("sql", TOUR, "select row from messages", "-f", "csv") == expected != expected[:1]


def test_records_of_a_log_are_a_table_beside_those_of_the_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "memcached.log"
    log.write_text(rollback(7, to=50))
    query = "select cause, reason from rollbacks join log_events using (vbucket, rollback_seqno)"
    assert (
        main(["sql", str(SAMPLES / "rollback.pcap"), "--log", str(log), query, "-f", "ndjson"]) == 0
    )
    assert json.loads(capsys.readouterr().out) == {
        "cause": "leading-consumer",
        "reason": "consumer ahead of producer - producer upper at 900",
    }
    assert (
        main(["sql", str(SAMPLES / "rollback.pcap"), "--log", str(tmp_path / "none"), query]) == 2
    )
    assert "there is no such file" in capsys.readouterr().err
