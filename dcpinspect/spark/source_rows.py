"""The work of one task of ``spark.read.format("dcp")``: reads captures, and yields record batches
of Spark's types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from dcpinspect.capture.open import FileDamage, open_capture
from dcpinspect.errors import CaptureError
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.reading.reading import Reading
from dcpinspect.spark.secrets import Secrets
from dcpinspect.spark.source_options import ERROR, POINT, SCHEMA, CaptureSlice, SourceOptions
from dcpinspect.spark.spark_schema import message_rows
from dcpinspect.spark.units import size_of, why_not
from dcpinspect.tables.arrow_types import in_pieces
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.transport.tls.keylog import of_point

ROWS = 10_000
"""Greatest number of messages in a record batch; Spark takes batches as they come."""
BYTES = 8 << 20
"""Greatest size of a record batch in bytes, unless a single message is larger."""


def record_batches(asked: SourceOptions, capture_slice: CaptureSlice) -> Iterator[Any]:
    """Yields the wanted messages of some captures, which are read as one, and rows for captures
    that could not be read, if ``asked`` wants them.

    Raises CaptureError, which says what to do, for a capture that cannot be read, if the job is to
    fail then.
    """
    readable, failures = _tried(capture_slice.files)
    for failure in failures:
        yield from _failure(asked, capture_slice, failure)
    if not readable:
        return
    before, _ = _tried(capture_slice.before)
    readable = before + readable
    seen = 0
    keys = (
        Secrets(tuple(map(of_point, asked.keylogs)), asked.tls_search)
        .of_point(capture_slice.point)
        .read()
    )
    try:
        with Reading(
            readable, extra_ports=asked.extra_ports, find_ports=asked.find_ports, keys=keys
        ) as reading:
            for batch in reading:
                for problem in reading.capture.problems[seen:]:
                    yield from _damage(asked, capture_slice, problem)
                seen = len(reading.capture.problems)
                yield from _messages(asked, capture_slice, batch)
            for problem in reading.capture.problems[seen:]:
                yield from _damage(asked, capture_slice, problem)
    except CaptureError as error:
        if asked.on_error == "fail":
            raise
        more = CaptureError(
            error.path,
            f"{error.what}; what comes after it at this capture point was not read",
            offset=error.offset,
        )
        yield from _failure(asked, capture_slice, more)


def _tried(files: tuple[str, ...]) -> tuple[list[str], list[CaptureError]]:
    """Returns the files that can be opened, and the reasons why the others cannot."""
    readable, failures = [], []
    for file in files:
        try:
            size_of(file)
            open_capture([file]).close()
            readable.append(file)
        except OSError as error:
            failures.append(CaptureError(file, why_not(error)))
        except CaptureError as error:
            failures.append(error)
    return readable, failures


def _damage(asked: SourceOptions, capture_slice: CaptureSlice, damage: FileDamage) -> Iterator[Any]:
    if damage.file not in capture_slice.before:  # the task of that file has reported it
        yield from _failure(
            asked, capture_slice, CaptureError(damage.file, damage.what, offset=damage.offset)
        )


def _failure(
    asked: SourceOptions, capture_slice: CaptureSlice, error: CaptureError
) -> Iterator[Any]:
    if asked.on_error == "fail":
        advice = (
            "option on_error=skip leaves out what cannot be read, and on_error=row has a row for it"
        )
        raise CaptureError(error.path, error.what, advice, offset=error.offset)
    if asked.on_error == "row":
        values = {"file": error.path, POINT.name: capture_slice.point, ERROR.name: str(error)}
        columns = [pa.array([values.get(name)], SCHEMA.field(name).type) for name in asked.columns]
        yield pa.RecordBatch.from_arrays(columns, schema=asked.schema)


def _messages(
    asked: SourceOptions, capture_slice: CaptureSlice, batch: MessageBatch
) -> Iterator[Any]:
    rows = _within(asked, batch)
    if capture_slice.before:
        earlier_files = [
            number for number, name in enumerate(batch.files) if name in capture_slice.before
        ]
        rows = rows[~np.isin(batch.last_file[rows], earlier_files)]
    for first in range(0, len(rows), ROWS):
        chunk = rows[first : first + ROWS]
        made = message_rows(
            batch, chunk, [name for name in asked.columns if name not in (POINT.name, ERROR.name)]
        )
        constants = {POINT.name: capture_slice.point, ERROR.name: None}
        columns = [
            pa.repeat(pa.scalar(constants[name], pa.string()), len(chunk))
            if name in constants
            else made.column(name)
            for name in asked.columns
        ]
        yield from in_pieces(pa.RecordBatch.from_arrays(columns, schema=asked.schema), BYTES)


def _within(asked: SourceOptions, batch: MessageBatch) -> RowNumbers:
    rows = asked.selection.rows(batch)
    if asked.since_ns is not None:
        rows = rows[batch.time_ns[rows] >= asked.since_ns]
    if asked.until_ns is not None:
        rows = rows[batch.time_ns[rows] < asked.until_ns]
    return np.asarray(rows)
