from __future__ import annotations

import resource
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from dcpinspect.errors import OutputError, UsageError
from dcpinspect.spark import delta
from dcpinspect.spark.attempts import WrittenFile
from tests.peers.truth import SAMPLES
from tests.spark.outputs import ran

SCHEMA = pa.schema(
    [
        ("point", pa.string()),
        ("number", pa.int64()),
        ("text", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
    ]
)
BY, TOLD = ("point",), ("number",)


def file(folder: Path, name: str, point: str, *numbers: int, by: tuple[str, ...] = BY) -> AddAction:
    """A file, without the columns that are null everywhere in it."""
    folder.mkdir(exist_ok=True)
    table = pa.table(
        {"point": [point] * len(numbers), "number": numbers},
        schema=pa.schema([SCHEMA.field(0), SCHEMA.field(1)]),
    )
    pq.write_table(table, folder / name)
    written = WrittenFile.from_file(str(folder / name), (*BY, *TOLD))
    return delta.add_action(name, written.size, written.footer, written.bounds, by)


def numbers(table: DeltaTable) -> list[int]:
    return sorted(table.to_pyarrow_table()["number"].to_pylist())


def test_files_come_and_go_and_every_version_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    odd = "node \x1b/ü=%20"
    assert (
        delta.commit(
            str(folder),
            delta.TableForm(SCHEMA, BY, TOLD),
            [file(folder, "a.parquet", odd, 1, 2)],
            run=1,
            base=None,
        )
        == 0
    )
    assert (
        delta.commit(
            str(folder),
            delta.TableForm(SCHEMA, BY),
            [file(folder, "b.parquet", "p", 3)],
            run=2,
            base=0,
            gone=(),
        )
        == 1
    )
    assert (
        delta.commit(
            str(folder),
            delta.TableForm(SCHEMA, BY),
            [file(folder, "c.parquet", "p", 4)],
            run=3,
            base=1,
            gone=["a.parquet"],
        )
        == 2
    )
    assert delta.commit(str(folder), delta.TableForm(SCHEMA, BY), [], run=4, base=2, gone=()) == 2
    assert (
        delta.commit(
            str(folder),
            delta.TableForm(SCHEMA, BY),
            [file(folder, "d.parquet", "p", 5)],
            run=4,
            base=2,
        )
        == 3
    )
    assert [numbers(delta.open_table(str(folder), version)) for version in range(4)] == [
        [1, 2],
        [1, 2, 3],
        [3, 4],
        [5],
    ]
    assert delta.open_table(str(folder), 0).to_pyarrow_table()["point"].to_pylist() == [odd, odd]
    assert (
        delta.paths(delta.open_table(str(folder))),
        delta.rows(delta.open_table(str(folder), 1)),
    ) == (
        ["d.parquet"],
        3,
    )


def test_columns_that_are_null_everywhere_are_there_for_others(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    delta.commit(
        str(folder),
        delta.TableForm(SCHEMA, BY, TOLD),
        [file(folder, "a.parquet", "p", 1, 2)],
        run=1,
        base=None,
    )
    found = DeltaTable(folder).to_pyarrow_dataset()
    assert found.schema.names == SCHEMA.names
    assert DeltaTable(folder).to_pandas().columns.tolist() == SCHEMA.names
    with duckdb.connect() as database:
        assert database.from_arrow(found).filter("number > 1 and text is null").fetchall() == [
            ("p", 2, None, None)
        ]
    assert found.count_rows(filter=ds.field("point") == "p") == 2
    assert found.count_rows(filter=ds.field("number") == 3) == 0


@pytest.mark.slow
def test_tables_ask_for_nothing_that_old_readers_lack(tmp_path: Path) -> None:
    """Trino, DuckDB, Spark and others have version 1 of Delta's readers (Delta's protocol, "Reader
    Version Requirements").
    """
    ran(tmp_path / "out", SAMPLES / "tour.pcapng")
    tables = [path.parent for path in (tmp_path / "out").glob("*/_delta_log")]
    assert {path.name for path in tables} >= {"messages", "findings", "runs"}
    for path in tables:
        table = DeltaTable(path)
        asked, kinds = (
            table.protocol(),
            {
                str(field.type)
                for field in pa.schema(table.schema())
                if not pa.types.is_nested(field.type)
            },
        )
        assert (asked.min_reader_version, asked.reader_features) == (1, None)
        assert kinds <= {
            "int16",
            "int32",
            "int64",
            "double",
            "bool",
            "string",
            "binary",
            "date32[day]",
            "timestamp[us, tz=UTC]",
        }
        columns = [column for file in table.file_uris() for column in pq.ParquetFile(file).schema]
        assert not [
            column.name for column in columns if "isSigned=false" in str(column.logical_type)
        ]


def test_another_version_with_the_same_base_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    first, second = file(folder, "a.parquet", "p", 1), file(folder, "b.parquet", "p", 2)
    delta.commit(str(folder), delta.TableForm(SCHEMA, BY), [first], run=1, base=None)
    delta.commit(str(folder), delta.TableForm(SCHEMA, BY), [second], run=2, base=0, gone=())
    for base in (0, None):
        with pytest.raises(UsageError, match="t: another run has written here since; run it again"):
            delta.commit(
                str(folder), delta.TableForm(SCHEMA, BY), [second], run=2, base=base, gone=()
            )
    with pytest.raises(UsageError, match="t: is no Delta table that can be read in version 7"):
        delta.open_table(str(folder), 7)
    with pytest.raises(UsageError, match="x: is no Delta table that can be read as it is now"):
        delta.open_table(str(tmp_path / "x"))


def test_a_commit_that_lost_its_bytes_is_no_older_table(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    first, second = file(folder, "a.parquet", "p", 1), file(folder, "b.parquet", "p", 2)
    delta.commit(str(folder), delta.TableForm(SCHEMA, BY), [first], run=1, base=None)
    delta.commit(str(folder), delta.TableForm(SCHEMA, BY), [second], run=2, base=0, gone=())
    (folder / "_delta_log" / f"{1:020}.json").write_bytes(b"")
    with pytest.raises(UsageError, match=r"t: is no Delta table .*1\.json is empty; restore it"):
        delta.open_table(str(folder))
    assert delta.rows(delta.open_table(str(folder), 0)) == 1


@pytest.mark.parametrize("gone", [None, ["a.parquet"], []], ids=["all", "one", "none"])
def test_a_commit_that_was_cut_at_the_end_of_a_line_is_no_smaller_table(
    gone: list[str] | None, tmp_path: Path
) -> None:
    folder = tmp_path / "t"
    first, *later = (file(folder, f"{name}.parquet", "p", 1) for name in "abc")
    form = delta.TableForm(SCHEMA, BY)
    delta.commit(str(folder), form, [first], run=1, base=None)
    delta.commit(str(folder), form, later, run=2, base=0, gone=gone)
    entry = folder / "_delta_log" / f"{1:020}.json"
    lines = entry.read_text().splitlines(keepends=True)
    assert len(lines) == (3 if gone == [] else 4)
    for count in range(1, len(lines)):
        entry.write_text("".join(lines[:count]))
        with pytest.raises(
            UsageError, match=r"t: is no Delta table .*1\.json was cut short: it has "
        ):
            delta.open_table(str(folder))
    entry.write_text("".join(lines))
    assert delta.rows(delta.open_table(str(folder))) == (3 if gone == [] else 2)


def test_a_table_gets_the_columns_of_a_later_version_of_the_program(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    delta.commit(
        str(folder),
        delta.TableForm(SCHEMA, BY),
        [file(folder, "a.parquet", "p", 1)],
        run=1,
        base=None,
    )
    wider = SCHEMA.append(pa.field("more", pa.int32()))
    delta.commit(
        str(folder), delta.TableForm(wider, BY), [file(folder, "b.parquet", "p", 2)], run=2, base=0
    )
    assert delta.open_table(str(folder)).to_pyarrow_table().to_pylist() == [
        {"point": "p", "number": 2, "text": None, "time": None, "more": None}
    ]
    assert numbers(delta.open_table(str(folder), 0)) == [1]


def test_rows_go_out_of_files_that_have_others_too(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    delta.commit(
        str(folder),
        delta.TableForm(SCHEMA, BY),
        [file(folder, "a.parquet", "p", 1, 2, 3)],
        run=1,
        base=None,
    )
    assert delta.without(str(folder), 0, "number in (1, 3)", 2) == 1
    assert numbers(delta.open_table(str(folder))) == [2]
    assert numbers(delta.settled(str(folder), 0)) == [1, 2, 3]
    delta.restore(str(folder), 0, 2)
    assert numbers(delta.open_table(str(folder))) == [1, 2, 3]


def test_files_go_when_nobody_can_be_reading_them(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    delta.commit(
        str(folder),
        delta.TableForm(SCHEMA, BY),
        [file(folder, "a.parquet", "p", 1)],
        run=1,
        base=None,
    )
    delta.commit(
        str(folder), delta.TableForm(SCHEMA, BY), [file(folder, "b.parquet", "p", 2)], run=2, base=0
    )
    delta.sweep(delta.open_table(str(folder)))
    assert (folder / "a.parquet").exists()
    DeltaTable(folder).alter.set_table_properties(
        {"delta.deletedFileRetentionDuration": "interval 0 days"}
    )
    delta.sweep(delta.open_table(str(folder)))
    assert not (folder / "a.parquet").exists()
    assert numbers(delta.open_table(str(folder))) == [2]


def test_bounds_are_those_of_all_row_groups(tmp_path: Path) -> None:
    times = [datetime(2024, 4, 6, 12, 0, 0, number, UTC) for number in (123_456, 1, 2)]
    table = pa.table(
        {"point": ["p"] * 3, "number": [7, -3, 5], "text": ["x", "y", "z"], "time": times},
        schema=SCHEMA,
    )
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=2)
    written = WrittenFile.from_file(str(tmp_path / "x.parquet"), ("point", "number", "time"))
    assert written.footer == 3
    assert written.bounds == {
        "point": ("p", "p"),
        "number": (-3, 7),
        "time": ("2024-04-06T12:00:00.000Z", "2024-04-06T12:00:00.124Z"),
    }


def test_a_log_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    delta.commit(
        str(folder),
        delta.TableForm(SCHEMA, BY, TOLD),
        [file(folder, "a.parquet", "p", 1)],
        run=1,
        base=None,
    )
    added = [file(folder, "b.parquet", "p", 2)]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # as on a full disk
    try:
        with pytest.raises(OutputError, match=r"/t: cannot be committed \([^\x1b\n]*\)$"):
            delta.commit(str(folder), delta.TableForm(SCHEMA, BY), added, run=2, base=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (
        delta.commit(str(folder), delta.TableForm(SCHEMA, BY), added, run=2, base=0, gone=()) == 1
    )
