"""Parquet and Arrow files, written while the rows come: no more of them is in memory than a row group."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from dcpinspect import __version__
from dcpinspect.errors import UsageError
from dcpinspect.escape import one_line
from dcpinspect.export.formats import Format

GROUP_ROWS = 1 << 17
"""Rows of a Parquet row group at most; readers divide their work by row groups."""
GROUP_BYTES = 64 << 20
"""Bytes of a row group, before it is compressed, at most one batch more."""


class Sink(Protocol):
    """What is asked of the file written to."""

    @property
    def closed(self) -> bool:
        """Whether it takes nothing more."""

    def write(self, data: bytes, /) -> int:
        """Take all of it."""

    def tell(self) -> int:
        """Bytes taken so far."""

    def flush(self) -> None:
        """Called now and then."""


class ColumnarFile:
    """Writes record batches of one schema as Parquet, or as an Arrow file or stream; ``close`` completes it, with no batch, too.

    Parquet is compressed with zstd; Arrow is not, so that it can be mapped into memory.
    """

    def __init__(self, sink: Sink, schema: Any, format_: Format, *, is_stream: bool = False) -> None:
        """``is_stream``: Arrow's format that is read from start to end, which a pipe can carry, instead of the one with an index.

        Raises UsageError for a column of a type that Parquet does not have.
        """
        self.schema = schema.with_metadata({"dcpinspect": __version__})
        self._pending: list[Any] = []
        self._rows = 0
        self._size = 0
        target = pa.PythonFile(sink, mode="w")
        self._is_parquet = format_ is Format.PARQUET
        self._writer: Any
        if self._is_parquet:
            import pyarrow.parquet  # deferred: Arrow files do without

            try:
                self._writer = pyarrow.parquet.ParquetWriter(target, self.schema, compression="zstd")
            except pa.ArrowNotImplementedError as error:
                raise UsageError(f"--format parquet: {one_line(str(error))}; cast that column to text") from error
        else:
            self._writer = (pa.ipc.new_stream if is_stream else pa.ipc.new_file)(target, self.schema)

    def write(self, batch: Any) -> None:
        """Write the rows of a record batch with the columns of the schema."""
        if not self._is_parquet:
            self._writer.write_batch(batch)
            return
        self._pending.append(batch)
        self._rows += batch.num_rows
        self._size += batch.nbytes
        if self._rows >= GROUP_ROWS or self._size >= GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_batches(self._pending, self.schema), row_group_size=self._rows)
        self._pending, self._rows, self._size = [], 0, 0

    def close(self) -> None:
        """Write what completes the file; the sink stays open."""
        if self._is_parquet:
            self._write_group()
        self._writer.close()
