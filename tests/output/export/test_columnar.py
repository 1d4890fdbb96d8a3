from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from dcpinspect.output.export.columnar import GROUP_ROWS, ArrowFile, ParquetFile

SCHEMA = pa.schema([("row", pa.int64()), ("words", pa.list_(pa.string()))])


def batch(first: int, count: int) -> Any:
    return pa.RecordBatch.from_pydict(
        {"row": list(range(first, first + count)), "words": [["a", "b"]] * count}, schema=SCHEMA
    )


def written(name: str, *batches: Any) -> io.BytesIO:
    sink = io.BytesIO()
    target: Any = sink
    file = (
        ParquetFile(target, SCHEMA)
        if name == "parquet"
        else ArrowFile(target, SCHEMA, is_stream=name == "arrows")
    )
    for one in batches:
        file.write(one)
    file.close()
    assert not sink.closed
    sink.seek(0)
    return sink


def read(name: str, sink: io.BytesIO) -> Any:
    if name == "parquet":
        return pa.parquet.read_table(sink)
    return (pa.ipc.open_stream if name == "arrows" else pa.ipc.open_file)(sink).read_all()


@pytest.mark.parametrize("name", ["parquet", "arrow", "arrows"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_what_is_written_is_read_again(name: str, count: int) -> None:
    batches = [batch(10 * i, 10) for i in range(count)]
    found = read(name, written(name, *batches))
    assert found.equals(pa.Table.from_batches(batches, SCHEMA))
    assert b"dcpinspect" in found.schema.metadata


def test_row_groups_are_written_while_rows_come() -> None:
    half = GROUP_ROWS // 2
    sink: Any = io.BytesIO()
    file = ParquetFile(sink, SCHEMA)
    sizes = []
    for i in range(5):
        file.write(batch(i * half, half))
        sizes.append(sink.tell())
    file.close()
    assert sizes[0] < sizes[1] == sizes[2] < sizes[3] == sizes[4]
    groups = pa.parquet.ParquetFile(io.BytesIO(sink.getvalue()))
    assert [groups.metadata.row_group(i).num_rows for i in range(groups.num_row_groups)] == [
        GROUP_ROWS,
        GROUP_ROWS,
        half,
    ]


def test_what_the_sink_raises_comes_through() -> None:
    class Full(io.BytesIO):
        def write(self, _: Any, /) -> int:
            raise BrokenPipeError

    sink: Any = io.BytesIO()
    file = ParquetFile(sink, SCHEMA)
    file.close()
    full: Any = Full()
    with pytest.raises(BrokenPipeError):
        ParquetFile(full, SCHEMA)
