"""Parquet and Arrow files, written while the rows come: a row group at most is in memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dcpinspect import __version__
from dcpinspect.errors import UsageError
from dcpinspect.output.export.target import Target
from dcpinspect.text import one_line

GROUP_ROWS = 1 << 17
"""Greatest number of rows of a Parquet row group; readers divide their work by row groups."""
GROUP_BYTES = 64 << 20
"""Size of a row group in bytes, before compression, from which it is written."""


def _signed(schema: Any) -> Any:
    return schema.with_metadata({"dcpinspect": __version__})


class ArrowFile:
    """Writes record batches of one schema as an Arrow file or stream, without compression, so that
    it can be mapped into memory.

    ``close`` completes the file, even if there was no batch.
    """

    def __init__(self, sink: Target, schema: Any, *, is_stream: bool = False) -> None:
        """``is_stream``: writes the format that is read from start to end, which also works in a
        pipe, not the one with an index.
        """
        self._writer = (pa.ipc.new_stream if is_stream else pa.ipc.new_file)(
            pa.PythonFile(sink, mode="w"), _signed(schema)
        )

    def write(self, batch: Any) -> None:
        """Writes the rows of a record batch with the columns of the schema."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Writes the end of the file; the sink stays open."""
        self._writer.close()


class ParquetFile:
    """Writes record batches of one schema as Parquet, compressed with zstd."""

    def __init__(self, sink: Target, schema: Any) -> None:
        """Opens the file. Raises UsageError for a column of a type that Parquet does not have."""
        import pyarrow.parquet  # deferred: Arrow files do not need it

        self._schema = _signed(schema)
        self._pending: list[Any] = []
        self._rows = 0
        self._size = 0
        try:
            self._writer = pyarrow.parquet.ParquetWriter(
                pa.PythonFile(sink, mode="w"), self._schema, compression="zstd"
            )
        except pa.ArrowNotImplementedError as error:
            raise UsageError(
                f"--format parquet: {one_line(str(error))}; cast that column to text"
            ) from error

    def write(self, batch: Any) -> None:
        """Writes the rows of a record batch with the columns of the schema."""
        self._pending.append(batch)
        self._rows += batch.num_rows
        self._size += batch.nbytes
        if self._rows >= GROUP_ROWS or self._size >= GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        if self._rows:
            self._writer.write_table(
                pa.Table.from_batches(self._pending, self._schema), row_group_size=self._rows
            )
        self._pending, self._rows, self._size = [], 0, 0

    def close(self) -> None:
        """Writes the end of the file; the sink stays open."""
        self._write_group()
        self._writer.close()
