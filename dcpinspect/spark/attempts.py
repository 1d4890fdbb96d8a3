"""Files of tasks: every attempt of a task writes files with names of its own, and a commit names
the files of one attempt.

Spark repeats a task if it failed, and runs it twice at the same time if it is slow
(``spark.speculation``). Spark can kill the unneeded attempt at any moment, so an attempt must never
open a file of another one.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Collection, Iterable
from dataclasses import field
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from dcpinspect.errors import OutputError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.spark import files
from dcpinspect.spark.delta import Bounds, bounds_of
from dcpinspect.spark.salt import is_sealed
from dcpinspect.text import escape

_RANDOM = 8
"""Number of random bytes in a name; every session of Spark numbers its attempts anew, so their
numbers are not unique.
"""
_ARROW = (".arrow", ".index", ".keys", ".paths")


def attempt() -> str:
    """Returns a text that only the names of this attempt's files contain: Spark's number of the
    attempt, if Spark runs it, and random bytes.
    """
    return f"{_number()}{secrets.token_hex(_RANDOM)}"


def _number() -> str:
    spark = sys.modules.get("pyspark")
    context = None if spark is None else spark.TaskContext.get()
    return "" if context is None else f"{context.taskAttemptId()}-"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file as its writer left it."""

    path: str
    size: int
    footer: int
    """Number of rows of a Parquet file, or of record batches of an Arrow file, as the file's end
    says; 0 for other files.
    """
    bounds: Bounds = field(default_factory=dict, compare=False)
    """What the log of a table stores of columns of a Parquet file."""

    @classmethod
    def from_file(cls, path: str, bounded: Collection[str] = ()) -> Self:
        """Describes a file as it is now. Raises OSError, or an exception of Arrow, if the end of
        the file cannot be read.

        ``bounded``: columns of a Parquet file whose bounds are wanted.
        """
        footer: int = 0
        bounds: Bounds = {}
        if path.endswith(".parquet"):
            with files.source(path) as source:
                metadata = pq.read_metadata(source)
            footer = metadata.num_rows
            bounds = bounds_of(metadata, bounded)
        elif path.endswith(_ARROW):
            with files.source(path) as source:
                if not is_sealed(source):  # of an encrypted file, only the size is compared
                    footer = pa.ipc.open_file(source).num_record_batches
        return cls(path, files.size(path), footer, bounds)


def verify(written: Iterable[WrittenFile]) -> None:
    """Raises OutputError if a file is not as its writer left it, or cannot be seen from here."""
    for expected in written:
        try:
            now = WrittenFile.from_file(expected.path)
        except (OSError, pa.ArrowException) as error:
            raise _changed(expected.path, str(error)) from error
        if now != expected:
            change = (
                f"has {now.size} bytes and {now.footer} rows or batches, and was written with "
                f"{expected.size} and {expected.footer}"
            )
            raise _changed(expected.path, change)


def _changed(path: str, what: str) -> OutputError:
    return OutputError(
        f"{escape(path)}: is not as its task left it ({escape(what)}); the tables are as they "
        "were before, run it again"
    )
