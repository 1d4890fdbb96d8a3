"""SQL over captures: the tables are those of the reading, read no more than is asked for, and
nothing else is in reach.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dcpinspect.errors import CaptureError, PlacedError, UsageError
from dcpinspect.findings.finding_records import CONTRACTS, needs_rules
from dcpinspect.reading import query
from dcpinspect.reading.query import QueriedCaptures, ScannedQuery, ScannedTable
from dcpinspect.reading.reading import Reading
from dcpinspect.tables import duck_query
from dcpinspect.tables.arrow import arrow_schema, record_batch
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.filter_sql import Sql
from dcpinspect.tables.schema import BY_NAME
from tests import builders
from tests.encode import encode

SAMPLES = Path(__file__).parent.parent.parent / "sample_captures"
TOUR, LARGE, SNAPSHOTS, ROLLBACK = (
    str(SAMPLES / name)
    for name in ("tour.pcapng", "large.pcapng.gz", "snapshots.pcap", "rollback.pcap")
)
NAMES = list(BY_NAME)


def ask(text: str, *paths: str) -> list[dict[str, Any]]:
    with QueriedCaptures(paths or [TOUR]) as captures, ScannedQuery(text, captures) as asked:
        return [row for batch in asked.result() for row in batch.to_pylist()]


def refusal(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        ask(text)
    return caught.value


def messages() -> list[dict[str, Any]]:
    with Reading([TOUR]) as reading:
        return [
            row
            for batch in reading
            for row in record_batch(batch, np.arange(len(batch)), NAMES).to_pylist()
        ]


# -- what queries give
# ---------------------------------------------------------------------------------


def test_the_table_is_that_of_the_reading() -> None:
    # NumPy's views of times go by microseconds
    assert ask("select * from messages order by row") == messages()


def test_columns_have_the_types_of_the_table() -> None:
    with QueriedCaptures([TOUR]) as captures, ScannedQuery("from messages", captures) as asked:
        assert asked.result().schema.equals(arrow_schema(NAMES))


def test_groups_and_joins_are_computed() -> None:
    counts = Counter(row["name"] for row in messages())
    assert {
        row["name"]: row["n"] for row in ask("select name, count(*) n from messages group by name")
    } == counts
    pairs = ask(
        "select a.row, b.row as request from messages a join messages b on a.request_row = "
        "b.row where b.name = 'get'"
    )
    assert sorted((row["row"], row["request"]) for row in pairs) == [
        (row["row"], row["request_row"])
        for row in messages()
        if row["name"] == "get" and row["request_row"] is not None
    ]


def test_seqnos_are_unsigned_and_sums_exact(tmp_path: Path) -> None:
    path = builders.capture(
        tmp_path / "x.pcap",
        server=b"".join(encode("dcp_mutation", key=b"k", by_seqno=2**64 - 1 - n) for n in range(3)),
    )
    assert ask(
        (
            "select max(by_seqno) most, sum(by_seqno) total from messages where by_seqno > "
            "18446744073709551613"
        ),
        str(path),
    ) == [{"most": 2**64 - 1, "total": 2**65 - 3}]


def test_rows_keep_the_order_of_the_capture_where_none_is_asked_for() -> None:
    rows = [row["row"] for row in ask("select row from messages where by_seqno % 2 = 1", LARGE)]
    assert rows == sorted(rows) != []


def test_several_captures_are_one_reading() -> None:
    rows = ask("select file, count(*) n from messages group by file", TOUR, SNAPSHOTS)
    assert {row["file"]: row["n"] for row in rows} == {
        path: ask("select count(*) n from messages", path)[0]["n"] for path in (TOUR, SNAPSHOTS)
    }


@pytest.mark.parametrize(
    "text",
    [
        "vbucket = 417 and name = 'dcp_mutation'",
        "by_seqno between 3 and 9 or status = 0",
        "name in ('get', 'hello') and key is not null",
        "not status_name = 'success'",
        "by_seqno > 18446744073709551600 or cas >= '0x17c3af17d2ff0000'",
        "key like 'd%' and datatype = 'json'",
        "key_bytes > x'70' and rtt_ns is null",
        "start_seqno < end_seqno",
    ],
)
def test_conditions_mean_what_they_mean_in_filters(text: str) -> None:
    condition = parse_filter(text)
    with Reading([TOUR]) as reading:
        kept = [
            int(batch.row[index])
            for batch in reading
            for index in FilterRows(condition).rows(batch, np.arange(len(batch)))
        ]
    found = ask(
        f"select row from messages where {Sql().condition(condition.condition)} order by row"  # noqa: S608 - that is the test
    )
    assert [row["row"] for row in found] == kept != []


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_tables_of_streams_are_those_of_the_reading(name: str) -> None:
    path = ROLLBACK if name == "rollbacks" else SNAPSHOTS
    with Reading([path], track=True) as reading:
        if needs_rules(name):
            reading.check()
        assert list(reading)
        expected = reading.by_name()[name].arrow()
    with QueriedCaptures([path]) as captures, ScannedQuery(f"from {name}", captures) as asked:
        result = asked.result()
        assert result.schema.equals(expected.schema)
        assert [row for batch in result for row in batch.to_pylist()] == expected.to_pylist() != []


def test_one_reading_makes_all_tables_of_streams() -> None:
    text = """select s.vbucket, s.gaps, count(g.vbucket) n, count(distinct p.index) snapshots
        from streams s join snapshots p using (connection, vbucket, stream) left join gaps g using (connection, vbucket, stream)
        group by s.connection, s.vbucket, s.stream, s.gaps"""
    with QueriedCaptures([SNAPSHOTS]) as captures, ScannedQuery(text, captures) as asked:
        rows = [row for batch in asked.result() for row in batch.to_pylist()]
        assert captures.scans == 1
    assert rows
    assert all(row["n"] == row["gaps"] * row["snapshots"] for row in rows)


def test_findings_are_counted_in_vbuckets_and_join_their_messages() -> None:
    assert ask("select vbucket, findings['note'] n from vbuckets order by all", ROLLBACK) == [
        {"vbucket": vbucket, "n": 1 + int(vbucket != 8)} for vbucket in (7, 8, 9, 10)
    ]
    text = (
        "select f.rule, m.name from findings f join messages m on m.row = f.rows[1] where "
        "f.rule = 'rollback' group by all"
    )
    assert ask(text, ROLLBACK) == [{"rule": "rollback", "name": "dcp_stream_req"}]


def test_rules_are_asked_only_for_tables_that_need_them() -> None:
    text = (
        "select (select count(*) from streams) streams, (select count(*) from findings where "
        "rule = 'rollback') findings"
    )
    assert ask(text, ROLLBACK) == [{"streams": 11, "findings": 3}]
    with QueriedCaptures([ROLLBACK]) as captures:
        captures.records("gaps")
        captures.records("streams", ["vbucket", "answer"])
        assert not captures.readings[-1].is_checking
        captures.records("streams", ["findings"])
        assert captures.readings[-1].is_checking
        captures.records("streams")
        assert captures.scans == 2


def test_messages_and_streams_join() -> None:
    text = "select m.name from messages m join streams s on m.row = s.open_row group by all"
    assert ask(text, SNAPSHOTS) == [{"name": "dcp_stream_req"}]


def test_statements_before_the_last_are_done() -> None:
    text = (
        "create table few as from messages where key is not null; create macro twice(n) as 2 * "
        "n; select twice(count(*)) n from few"
    )
    assert ask(text) == [{"n": 2 * sum(row["key"] is not None for row in messages())}]


def test_describing_needs_no_reading() -> None:
    with QueriedCaptures([TOUR]) as captures, ScannedQuery("describe messages", captures) as asked:
        assert [
            row["column_name"] for batch in asked.result() for row in batch.to_pylist()
        ] == NAMES
        assert captures.scans == 0


# -- no more than is asked for
# -------------------------------------------------------------------------


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The columns of every batch that is made."""
    seen: list[Sequence[str]] = []

    def noted(batch: Any, rows: Any, columns: Sequence[str]) -> Any:
        seen.append(list(columns))
        return record_batch(batch, rows, columns)

    monkeypatch.setattr(query, "record_batch", noted)
    return seen


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("select name, count(*) from messages group by name", {"name"}),
        (
            "select key from messages where vbucket = 417 and by_seqno > 5",
            {"key", "vbucket", "by_seqno"},
        ),
        (
            "select key from messages where name in ('get', 'set') or status = 1",
            {"key", "name", "status"},
        ),
        ("with m as (select * from messages) select row from m where cas > '0x0'", {"row", "cas"}),
        (
            "select a.key from messages a join messages b on a.row = b.request_row",
            {"key", "row", "request_row"},
        ),
    ],
)
def test_only_columns_that_a_query_reads_are_made(
    text: str, columns: set[str], made: list[Sequence[str]]
) -> None:
    ask(text)
    assert {name for names in made for name in names} == columns


def test_reading_ends_where_a_query_has_enough() -> None:
    with (
        QueriedCaptures([LARGE]) as captures,
        ScannedQuery("select row from messages limit 3", captures) as asked,
    ):
        assert [row["row"] for batch in asked.result() for row in batch.to_pylist()] == [1, 2, 3]
        assert not captures.is_whole
        assert captures.readings[0].messages < 100_000


def test_rows_come_while_a_table_is_read() -> None:
    schema, pulled = pa.schema({"n": pa.int64()}), []

    def rows(_: Sequence[str]) -> Iterator[Any]:
        for number in range(2_000):
            pulled.append(number)
            yield pa.record_batch([pa.array(np.arange(5_000))], schema=schema)

    with (
        QueriedCaptures([TOUR]) as captures,
        ScannedQuery("select n from many where n % 2 = 0", captures) as asked,
    ):
        asked.register("many", ScannedTable(schema, rows))
        first = next(iter(asked.result()))
        assert 0 < first.num_rows <= duck_query.SLICE
        assert len(pulled) < 1_000


def test_what_must_be_in_memory_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duck_query, "MEMORY", "50MiB")
    assert str(refusal("select list(i) from range(20000000) t(i)")) == (
        "query: it needs more than 50MiB of memory at once, for a list or text that cannot "
        "wait on disk; ask for less"
    )


def test_times_are_utc_wherever_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert ask(
            "select time::varchar t, date_trunc('day', time)::varchar d from messages where row = 1"
        ) == [{"t": "2024-04-06 12:01:00.577974+00", "d": "2024-04-06 00:00:00+00"}]
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.slow
def test_what_is_sorted_may_exceed_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duck_query, "MEMORY", "80MiB")
    text = (
        "select max(n) n from (select row_number() over (order by md5(i::varchar)) n from "
        "range(1500000) t(i))"
    )
    assert ask(text) == [{"n": 1_500_000}]


def test_nothing_is_left_in_the_folder_of_temporary_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ask("select count(*) from messages")
    refusal("select error('x') from messages")
    assert list(tmp_path.iterdir()) == []


# -- captures that flow by once, and captures that end early
# -------------------------------------------


@pytest.fixture
def piped() -> Iterator[None]:
    """Standard input is a capture."""
    before = os.dup(0)
    reader, writer = os.pipe()
    os.write(writer, Path(TOUR).read_bytes()[:60_000])
    os.close(writer)
    os.dup2(reader, 0)
    yield
    os.dup2(before, 0)
    os.close(reader)
    os.close(before)


@pytest.mark.usefixtures("piped")
def test_standard_input_is_read_once() -> None:
    assert ask("select count(*) n, max(row) most from messages", "-") == [{"n": 262, "most": 262}]


@pytest.mark.usefixtures("piped")
def test_a_query_that_reads_standard_input_twice_is_told_what_to_do() -> None:
    with pytest.raises(UsageError) as caught:
        ask("select count(*) from messages a join messages b using (row)", "-")
    assert str(caught.value) == (
        "standard input can be read once, and the query reads it more often; write it to a "
        "file, or, if it is messages that it reads twice,"
        " begin it with: with m as materialized (from messages), and read m"
    )


@pytest.mark.usefixtures("piped")
def test_tables_of_streams_of_standard_input_go_together() -> None:
    assert ask(
        (
            "select count(*) > 0 as some from streams join snapshots using (connection, vbucket, "
            "stream)"
        ),
        "-",
    ) == [{"some": True}]


@pytest.mark.usefixtures("piped")
def test_tables_of_streams_and_messages_need_standard_input_twice() -> None:
    with pytest.raises(UsageError, match="standard input can be read once"):
        ask("select count(*) from streams, messages", "-")


@pytest.mark.usefixtures("piped")
def test_what_a_query_keeps_it_can_read_twice() -> None:
    assert ask(
        "with m as materialized (from messages) select count(*) n from m a join m b using (row)",
        "-",
    ) == [{"n": 262}]


def test_a_capture_that_grows_ends_for_all_tables_where_it_ended_for_the_first(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.pcap"
    whole = (SAMPLES / "rollback.pcap").read_bytes()
    with Reading([str(SAMPLES / "rollback.pcap")]) as reading:
        last = list(reading.capture)[-1]
    path.write_bytes(whole[: last.file_offset + int(last.offset[-40]) - 16])
    with QueriedCaptures([str(path)]) as captures:
        first = sum(map(len, captures.messages(["row"])))
        path.write_bytes(whole)
        assert sum(map(len, captures.messages(["row"]))) == first > 0
        with QueriedCaptures([str(path)]) as again:
            assert sum(map(len, again.messages(["row"]))) > first


# -- what is refused
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        (
            "select nme from messages",
            "nme from",
            'Referenced column "nme" not found in FROM clause! Candidate bindings: "name"',
        ),
        (
            "select 'é', nme from messages",
            "nme from",
            'Referenced column "nme" not found in FROM clause!',
        ),
        (
            "create table t as select 1; select nme from messages",
            "nme from",
            'Referenced column "nme" not found in FROM clause!',
        ),
        (
            "explain select nme from messages",
            "nme from",
            'Referenced column "nme" not found in FROM clause!',
        ),
        ("selct name", "selct", 'syntax error at or near "selct"'),
        ("select 'abc", "'abc", "unterminated"),
        (
            "select * from mesages",
            "mesages",
            "Table with name mesages does not exist! Did you mean messages?",
        ),
        (
            "select row from messages where vbucket = 'x'",
            "'x'",
            "Could not convert string 'x' to UINT16: compare with a number; 'dcpinspect explain "
            "COLUMN' lists those that have names",
        ),
        (
            "select * from read_csv('/etc/passwd')",
            "read_csv",
            (
                'Cannot access file "/etc/passwd" - queries reach the tables of the captures, and '
                "nothing else"
            ),
        ),
        (
            "select no_such(row) from messages",
            "no_such",
            "Scalar Function with name no_such does not exist!",
        ),
    ],
)
def test_what_duckdb_refuses_is_told_at_its_place(text: str, place: str, says: str) -> None:
    error = refusal(text)
    assert isinstance(error, PlacedError)
    assert error.what.startswith(says)
    assert error.text[error.at :].startswith(place)
    assert str(error).isprintable()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("select error('boom\x1b[2J') from messages", "query: boom\\x1b[2J"),
        ("", ("the query is empty; write one, as in select name, count(*) from messages group by "
            "name")),
        (" ; -- nothing", ("the query is empty; write one, as in select name, count(*) from "
            "messages group by name")),
        ("copy messages to '/x.csv'", ('query: Cannot access file "/x.csv" - queries reach the '
            'tables of the captures, and nothing else')),
        ("set threads = 1", "query: Cannot change configuration option "),
        ("select $1", "query: "),
        ("select 'caf\udce9'", ("query: it is not UTF-8; other keys are compared as bytes, as in "
            "key_bytes = '\\xff'::blob")),
        ("select " + "1+" * 5000 + "1", "query: Max expression depth limit of 1000 exceeded."),
        ("select " + "(" * 20, "query: "),
        (
            "select * from captures",
            ("query: Table with name captures does not exist! There are messages, connections, "
                "streams, snapshots, gaps,"),
        ),
        ("insert into messages values (1)", ("query: tables of captures cannot be changed; make "
        "one "
            "of your own, as in create table t as")),
        ("update gaps set width = 0", "query: tables of captures cannot be changed; "),
        ("delete from streams", "query: tables of captures cannot be changed; "),
        ("drop table messages", "query: tables of captures cannot be changed; "),
        ("alter table messages add column x int", "query: tables of captures cannot be changed; "),
        ("create view v as select 1; drop table v", ('query: Existing object "v" is of type View, '
            'trying to drop type Table')),
    ],
)  # fmt: skip
def test_what_has_no_place_is_told_in_a_line(text: str, says: str) -> None:
    assert str(refusal(text)).startswith(says)


def test_a_missing_file_is_told_before_the_query_is_read() -> None:
    with pytest.raises(CaptureError, match=r"missing\.pcap"):
        ask("selct", "missing.pcap")


def test_what_goes_wrong_while_reading_is_told_as_it_is() -> None:
    def rows(_: Sequence[str]) -> Iterator[Any]:
        yield pa.record_batch({"n": [1]})
        raise CaptureError("a.pcap", "cut", offset=24)

    with (
        QueriedCaptures([TOUR]) as captures,
        ScannedQuery("select sum(n) from broken", captures) as asked,
    ):
        asked.register("broken", ScannedTable(pa.schema({"n": pa.int64()}), rows))
        with pytest.raises(UsageError, match="cut"):
            list(asked.result())


def test_a_capture_that_is_replaced_between_two_scans_is_told_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    shutil.copy(SAMPLES / "rollback.pcap", path)
    with (
        QueriedCaptures([str(path)]) as captures,
        ScannedQuery(
            "select count(*) from messages join (from messages) using (row)", captures
        ) as asked,
    ):
        path.write_bytes(b"nothing that is a capture")
        with pytest.raises(CaptureError, match=r"x\.pcap"):
            list(asked.result())
