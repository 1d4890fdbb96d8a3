"""Files of the tables of records. Some are written part by part, each by a task of its own.

A table that is made of all parts is written with a fixed number of rows per file. The name of a
file contains a digest of its rows: a run writes only the files that do not exist yet.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dcpinspect.findings.collector import Collector
from dcpinspect.reading.joining import ReadingPart, from_bytes, to_bytes
from dcpinspect.spark import files
from dcpinspect.spark.attempts import WrittenFile, attempt
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.spark_schema import spark_table
from dcpinspect.streams.whole_reading import OfWhole
from dcpinspect.tables.record_tables import Records

ROWS = 1 << 15
"""Number of rows of a table that are made and written at once."""


def mark_of(of_whole: OfWhole, captures: int) -> str:
    """Returns a digest of everything that the rows of a part depend on besides the part.

    Names of captures do not change, and captures may be added.
    """
    return files.digest(pickle.dumps((of_whole, captures > 1)))


def write_part_rows(
    item: tuple[str, str, str, str], *, captures: Sequence[str], salt: Salt | None = None
) -> WrittenFile | None:
    """Writes the rows of a part in one table, and returns the file; None if there are no rows.

    ``item``: path of the part, path of the file with what only the whole shows of it, the table,
    which is one of ``SET_APART``, and the folder of the file. ``captures``: names of all.
    """
    part_path, of_whole, table, folder = item
    records = ReadingPart.from_bytes(files.content(part_path, salt)).rows(
        table, from_bytes(files.content(of_whole, salt), OfWhole), captures
    )
    if len(records):
        return written_rows(f"{folder}/{attempt()}.parquet", pieces(table, records))
    return None


def pieces(name: str, records: Records) -> Iterator[Any]:
    """Yields a table in pieces: a piece in Spark's form takes more memory than its records."""
    for start in range(0, max(1, len(records)), ROWS):
        yield spark_table(
            name, records.take(np.arange(start, min(start + ROWS, len(records)))).arrow()
        )


class WrittenAnew(NamedTuple):
    """The changes of a run to the files of a table."""

    new: list[WrittenFile]
    gone: list[str]
    """Earlier files that do not belong to the table any more, as paths in its folder."""


def written_anew(
    folder: str, inside: str, tables: Iterable[Any], there: Collection[str]
) -> WrittenAnew:
    """Writes the new rows of a table. ``inside``: where in its folder; ``there``: its files so far,
    as paths in its folder.
    """
    path_of_digest = {PurePosixPath(path).name.partition(".")[0]: path for path in there}
    new, stays = [], set()
    for table in tables:
        for start in range(0, max(1, len(table)), ROWS):
            # a slice could contain bits of the rows behind it, which would change the digest
            rows = table.take(np.arange(start, min(start + ROWS, len(table))))
            digest = _digest_of(rows)
            if digest in path_of_digest:
                stays.add(path_of_digest[digest])
            else:
                new.append(
                    written_rows(f"{folder}/{inside}/{digest}.{attempt()}.parquet", iter([rows]))
                )
    return WrittenAnew(new, [path for path in there if path not in stays])


def _digest_of(table: Any) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return files.digest(sink.getvalue())


def written_rows(path: str, tables: Iterator[Any]) -> WrittenFile:
    """Writes a file of these rows, which are in the form that Spark keeps."""
    first = next(tables)
    # dictionaries are of no use for numbers, which hardly occur twice
    words = [field.name for field in first.schema if field.type == pa.string()]
    settings = {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": words,
        "store_schema": False,
    }
    with files.created(path) as stream, pq.ParquetWriter(stream, first.schema, **settings) as file:
        for piece in chain([first], tables):
            file.write_table(piece)
    return WrittenFile.from_file(path)


ENDING = ".looks"
"""Ending of such a file."""


def write_looks(part: str, collector: Collector, salt: Salt | None) -> str:
    """Writes the problems, and returns the path of the file; empty if there are none."""
    if not len(collector):
        return ""
    files.write(f"{part}{ENDING}", to_bytes(collector), salt)
    return f"{part}{ENDING}"


def include_looks(part: ReadingPart, paths: Iterable[str], salt: Salt | None) -> None:
    """Adds the problems in these files to those of the task that followed the connections. Raises
    UsageError for files that are missing or damaged.
    """
    for path in paths:
        assert part.checker is not None, "parts are checked"
        with files.reading_known_file(path):
            part.checker.gathered.include(from_bytes(files.content(path, salt), Collector))
