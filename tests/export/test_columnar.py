from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from dcpinspect.export.columnar import GROUP_ROWS, ColumnarFile
from dcpinspect.export.formats import Format

SCHEMA = pa.schema([("row", pa.int64()), ("words", pa.list_(pa.string()))])


def batch(first: int, count: int) -> Any:
    return pa.RecordBatch.from_pydict({"row": list(range(first, first + count)), "words": [["a", "b"]] * count}, schema=SCHEMA)


def written(format_: Format, *batches: Any, is_stream: bool = False) -> io.BytesIO:
    sink = io.BytesIO()
    file = ColumnarFile(sink, SCHEMA, format_, is_stream=is_stream)
    for one in batches:
        file.write(one)
    file.close()
    assert not sink.closed
    sink.seek(0)
    return sink


def read(format_: Format, sink: io.BytesIO, *, is_stream: bool = False) -> Any:
    if format_ is Format.PARQUET:
        return pa.parquet.read_table(sink)
    return (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(sink).read_all()


@pytest.mark.parametrize(("format_", "is_stream"), [(Format.PARQUET, False), (Format.ARROW, False), (Format.ARROW, True)])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_what_is_written_is_read_again(format_: Format, is_stream: bool, count: int) -> None:
    batches = [batch(10 * i, 10) for i in range(count)]
    found = read(format_, written(format_, *batches, is_stream=is_stream), is_stream=is_stream)
    assert found.equals(pa.Table.from_batches(batches, SCHEMA))
    assert b"dcpinspect" in found.schema.metadata


def test_row_groups_are_written_while_rows_come() -> None:
    half = GROUP_ROWS // 2
    sink = io.BytesIO()
    file = ColumnarFile(sink, SCHEMA, Format.PARQUET)
    sizes = []
    for i in range(5):
        file.write(batch(i * half, half))
        sizes.append(sink.tell())
    file.close()
    assert sizes[0] < sizes[1] == sizes[2] < sizes[3] == sizes[4]
    groups = pa.parquet.ParquetFile(io.BytesIO(sink.getvalue()))
    assert [groups.metadata.row_group(i).num_rows for i in range(groups.num_row_groups)] == [GROUP_ROWS, GROUP_ROWS, half]


def test_what_the_sink_raises_comes_through() -> None:
    class Full(io.BytesIO):
        def write(self, _: Any, /) -> int:
            raise BrokenPipeError

    file = ColumnarFile(io.BytesIO(), SCHEMA, Format.PARQUET)
    file.close()
    with pytest.raises(BrokenPipeError):
        ColumnarFile(Full(), SCHEMA, Format.PARQUET)
