from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from dcpinspect.cli.main import DeferredCommand
from dcpinspect.errors import UsageError
from dcpinspect.output.export.atomic import AtomicFile
from dcpinspect.output.export.formats import FORMATS, Format, format_of
from dcpinspect.output.export.target import Target


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.json", FORMATS["json"]),
        ("dir.csv/A.PARQUET", FORMATS["parquet"]),
        ("x.jsonl", FORMATS["ndjson"]),
        ("x.y.arrows", FORMATS["arrow"]),
    ],
)
def test_the_end_of_a_name_says_the_format(path: str, expected: Format) -> None:
    assert format_of(path) is expected


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("out.xml", "out.xml: no format has names in .xml; end it in .txt, .json, "),
        ("out", "out: its name says no format; end it in .txt, "),
        (".json", ".json: its name says no format; "),
        (
            "o.pcap.gz",
            (
                "o.pcap.gz: no format has names in .gz; 'dcpinspect read CAPTURE -w FILE' writes "
                "packets; for a table end it in .txt, "
            ),
        ),
        ("a.\x1b[2J", "a.\\x1b[2J: no format has names in .\\x1b[2J; "),
    ],
)
def test_another_name_is_refused_with_those_there_are(path: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        format_of(path)
    assert str(caught.value).startswith(says)
    assert str(caught.value).endswith(".arrow, .arrows, or give --format")


def test_a_terminal_can_show_what_is_text() -> None:
    assert [one.name for one in FORMATS.values() if one.is_binary] == ["parquet", "arrow"]


TABLE = pa.table(
    {
        "vbucket": pa.array([7, 1023, None], pa.uint16()),
        "seqno": pa.array([2**64 - 1, 0, 5], pa.uint64()),
        "name": ["=evil()", "\x1b[2J", None],
        "words": pa.array([["memory", "disk"], [], None], pa.list_(pa.string())),
        "log": [[{"uuid": "0x01", "seqno": 3}], None, []],
        "time": pa.array([1_700_000_000_000_000_001, None, 0], pa.timestamp("ns", "UTC")),
    }
)


def written(
    path: Path, batches: Iterable[Any] | None = None, *, guard: bool = True, table: Any = TABLE
) -> Path:
    format_ = format_of(path.name)
    with AtomicFile(str(path)) as file:
        file.guards_csv = guard
        format_.write(file, table.schema, table.to_batches() if batches is None else batches)
    return path


def test_text_is_aligned_and_safe(tmp_path: Path) -> None:
    assert written(tmp_path / "x.txt").read_text("utf-8").splitlines() == [
        "vbucket                 seqno  name     words         log                time",
        (
            "      7  18446744073709551615  =evil()  memory, disk  uuid=0x01 seqno=3  "
            "2023-11-14T22:13:20.000000001Z"
        ),
        "   1023                     0  \\x1b[2J",
        (
            "                            5                                            "
            "1970-01-01T00:00:00.000000000Z"
        ),
    ]


class _Pieces(Target):
    """What reaches a terminal without being made safe by the target."""

    def __init__(self) -> None:
        self.taken = b""

    def write_network_text(self, text: bytes) -> None:
        """It would have escapes."""

    def write(self, data: bytes | memoryview, /) -> int:
        self.taken += bytes(data)
        return len(data)

    def tell(self) -> int:
        return len(self.taken)


def test_no_format_for_terminals_lets_a_control_character_through() -> None:
    table = pa.table({"name": ["\x1b]0;title\x07", "a\x9b2Jb", "\u202e"]})
    for format_ in FORMATS.values():
        if not format_.is_binary:
            target = _Pieces()
            format_.write(target, table.schema, table.to_batches())
            text = target.taken.decode()
            assert not [letter for letter in "\x1b\x07\x9b\u202e" if letter in text], format_.name


def test_json_objects_have_all_keys(tmp_path: Path) -> None:
    first, second, third = json.loads(written(tmp_path / "x.json").read_bytes())
    assert list(first) == TABLE.schema.names
    assert first == {
        "vbucket": 7,
        "seqno": 2**64 - 1,
        "name": "=evil()",
        "words": ["memory", "disk"],
        "log": [{"uuid": "0x01", "seqno": 3}],
        "time": "2023-11-14T22:13:20.000000001Z",
    }
    assert (second["words"], second["log"], second["time"], third["vbucket"]) == (
        [],
        None,
        None,
        None,
    )


def test_ndjson_has_the_same_objects(tmp_path: Path) -> None:
    lines = written(tmp_path / "x.ndjson").read_bytes().splitlines()
    assert [json.loads(line) for line in lines] == json.loads(
        written(tmp_path / "x.json").read_bytes()
    )


def test_csv_is_flat_and_runs_nothing(tmp_path: Path) -> None:
    rows = list(csv.reader(io.StringIO(written(tmp_path / "x.csv").read_text("utf-8"), newline="")))
    assert rows[0] == TABLE.schema.names
    assert rows[1][:5] == [
        "7",
        "18446744073709551615",
        "'=evil()",
        "memory disk",
        '[{"uuid":"0x01","seqno":3}]',
    ]
    assert rows[3] == ["", "5", "", "", "[]", "1970-01-01T00:00:00.000000000Z"]
    assert "=evil()" in written(tmp_path / "y.csv", guard=False).read_text("utf-8").split("\n")[
        1
    ].split('"')


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.arrows"])
def test_columnar_files_are_the_table(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / name)
    if name == "x.parquet":
        found = pyarrow.parquet.read_table(path)
    else:
        found = (pa.ipc.open_stream if name.endswith("s") else pa.ipc.open_file)(path).read_all()
    assert found.equals(TABLE)


def test_batches_may_come_one_by_one(tmp_path: Path) -> None:
    assert (
        written(tmp_path / "x.json", iter(TABLE.to_batches(max_chunksize=1))).read_bytes()
        == written(tmp_path / "y.json").read_bytes()
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x.txt", "  ".join(TABLE.schema.names) + "\n"),
        ("x.json", "[]\n"),
        ("x.ndjson", ""),
        ("x.csv", ",".join(f'"{name}"' for name in TABLE.schema.names) + "\n"),
    ],
)
def test_a_table_without_rows_is_still_one(name: str, expected: str, tmp_path: Path) -> None:
    assert written(tmp_path / name, []).read_text("utf-8") == expected


@pytest.mark.parametrize("name", ["x.json", "x.ndjson", "x.parquet", "x.arrow"])
def test_two_columns_of_one_name_are_refused_where_one_would_be_lost(
    name: str, tmp_path: Path
) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(UsageError, match="two columns are called a; give one of them"):
        written(tmp_path / name, table=table)


def test_a_type_that_parquet_does_not_have_is_named(tmp_path: Path) -> None:
    table = pa.table({"span": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with pytest.raises(UsageError, match="month_day_nano_interval; cast that"):
        written(tmp_path / "x.parquet", table=table)


def test_a_format_that_does_not_say_how_it_writes_cannot_be_made() -> None:
    class Half(Format):
        name = "half"

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract] # this is what is tested


def test_a_format_is_known_to_every_command_by_its_class_alone() -> None:
    for command, formats in (
        ("read", [*FORMATS]),
        ("streams", [*FORMATS]),
        ("sql", [*FORMATS]),
        ("check", [*FORMATS]),
    ):
        (option,) = (
            one for one in DeferredCommand(command, "").load().params if "--format" in one.opts
        )
        assert list(getattr(option.type, "choices")) == formats  # noqa: B009 - the type is typer's own affair


def test_no_two_formats_have_files_of_one_name() -> None:
    suffixes = [suffix for one in FORMATS.values() for suffix in one.suffixes]
    assert len(set(suffixes)) == len(suffixes)
