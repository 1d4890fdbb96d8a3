"""``dcpinspect pipeline sql``: the tables of a pipeline in every format, and one line for whatever
is wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest

from dcpinspect.cli.main import main
from tests.peers.truth import SAMPLES
from tests.spark.outputs import ran

COUNTS = (
    "select name, count(*) n, max(by_seqno) top from messages where vbucket = 417 and "
    "connection = 2 group by name order by n desc, name"
)
Sql = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("pipeline") / "out"
    ran(folder, SAMPLES / "tour.pcapng")
    return str(folder)


@pytest.fixture
def sql(capsysbinary: pytest.CaptureFixture[bytes], out: str) -> Sql:
    """Exit status, what is printed and what is complained of."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["pipeline", "sql", out, *arguments])
        printed = capsysbinary.readouterr()
        return status, printed.out.decode(), printed.err.decode()

    return run


def test_the_answer_is_that_of_sql(
    sql: Sql, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    status, printed, complaint = sql(COUNTS)
    assert (status, complaint) == (0, "")
    assert main(["sql", str(SAMPLES / "tour.pcapng"), COUNTS]) == 0
    assert printed == capsysbinary.readouterr().out.decode()
    assert sql(COUNTS, "-o", str(tmp_path / "x.parquet")) == (0, "", "")
    assert pyarrow.parquet.read_table(tmp_path / "x.parquet").to_pylist()[0] == {
        "name": "dcp_mutation",
        "n": 14,
        "top": 28,
    }


def test_a_filter_narrows_the_messages(sql: Sql) -> None:
    status, printed, _ = sql(
        "select distinct name from messages",
        "--filter",
        "@rollbacks",
        "-f",
        "ndjson",
    )
    assert (status, [json.loads(line) for line in printed.splitlines()]) == (
        0,
        [{"name": "dcp_stream_req"}],
    )
    status, _, complaint = sql("select 1", "--filter", "vbuket = 1")
    assert (status, complaint.splitlines()[0]) == (
        2,
        (
            "dcpinspect: --filter: no column is called vbuket; did you mean vbucket or "
            "vbucket_uuid or vbucket_from?"
        ),
    )
    status, _, complaint = sql("select 1", "--filter", "relative_ns > 5")
    assert (status, complaint[:90]) == (
        2,
        (
            "dcpinspect: filter: the tables of Spark and of pipelines have no column relative_ns; "
            "a cap"
        ),
    )


def test_a_plan_is_lines(sql: Sql) -> None:
    status, printed, complaint = sql("explain select name from messages")
    assert (status, complaint) == (0, "")
    assert len(printed.splitlines()) > 5
    assert "\\x0a" not in printed


def test_a_mistake_is_a_line_and_a_place(sql: Sql) -> None:
    status, printed, complaint = sql("select nam from messages")
    assert (status, printed) == (2, "")
    first, *place = complaint.splitlines()
    assert first.startswith('dcpinspect: query: Referenced column "nam" not found')
    assert place == ["  select nam from messages", "         ^"]


def test_two_columns_of_one_name(sql: Sql) -> None:
    assert sql("select 1 a, 2 a", "-f", "csv") == (0, '"a","a"\n1,2\n', "")
    assert (
        sql("select 1 a, 2 a", "-f", "json")[2]
        == "dcpinspect: --format json: two columns are called a; give one of them another name\n"
    )


def test_neither_spark_nor_java_is_needed(out: str) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; from dcpinspect.cli.main import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [
        sys.executable,
        "-c",
        program,
        "pipeline",
        "sql",
        out,
        "select count(*) n from messages",
        "-f",
        "csv",
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAVA_HOME": "/nosuch"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, '"n"\n450\n', "")


def test_what_no_pipeline_wrote(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    assert main(["pipeline", "sql", str(tmp_path), "select 1"]) == 2
    assert b"no pipeline has written here" in capsysbinary.readouterr().err
