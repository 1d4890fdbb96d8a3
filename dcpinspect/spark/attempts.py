"""Files of tasks: every attempt of a task writes under names of its own, and a commit names the files of one attempt.

Spark does a task again where it failed, and twice at the same time where it is slow (``spark.speculation``). The attempt that is not
wanted is killed at any moment, so it must never have had a file of the other one open.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from dcpinspect.errors import OutputError
from dcpinspect.escape import escape
from dcpinspect.spark import files
from dcpinspect.spark.delta import statistics_of
from dcpinspect.spark.salt import is_sealed

_RANDOM = 8
"""Bytes of chance in a name: task attempts are numbered anew by every session."""
_ARROW = (".arrow", ".index", ".keys", ".paths")


def attempt() -> str:
    """What the names of this attempt's files have in them, and no other's: Spark's number of it, if Spark runs it, and chance."""
    return f"{_number()}{secrets.token_hex(_RANDOM)}"


def _number() -> str:
    spark = sys.modules.get("pyspark")
    context = None if spark is None else spark.TaskContext.get()
    return "" if context is None else f"{context.taskAttemptId()}-"


@dataclass(frozen=True, slots=True)
class Written:
    """A file as who wrote it left it."""

    path: str
    size: int
    footer: int
    """Rows of a Parquet file, record batches of an Arrow file, as its end says; 0 of others."""
    statistics: str = field(default="", compare=False)
    """Of a Parquet file: what the log of its table tells of it."""

    @classmethod
    def of(cls, path: str, *, tells: bool = True) -> Self:
        """A file as it is now. Raises OSError, or an exception of Arrow, where it has no end that can be read.

        ``tells``: with statistics, which take time where there are many rows.
        """
        footer, statistics = 0, ""
        if path.endswith(".parquet"):
            with files.source(path) as source:
                metadata = pq.read_metadata(source)
            footer = metadata.num_rows
            statistics = statistics_of(metadata) if tells else ""
        elif path.endswith(_ARROW):
            with files.source(path) as source:
                if not is_sealed(source):  # of what is encrypted the size is compared
                    footer = pa.ipc.open_file(source).num_record_batches
        return cls(path, files.size(path), footer, statistics)


def verify(written: Iterable[Written]) -> None:
    """Raises OutputError where a file is no longer as it was left, or cannot be seen from here."""
    for said in written:
        try:
            found = Written.of(said.path, tells=False)
        except (OSError, pa.ArrowException) as error:
            raise _changed(said.path, str(error)) from error
        if found != said:
            what = f"has {found.size} bytes and {found.footer} rows or batches, and was written with {said.size} and {said.footer}"
            raise _changed(said.path, what)


def _changed(path: str, what: str) -> OutputError:
    return OutputError(f"{escape(path)}: is not as its task left it ({escape(what)}); the tables are as they were before, run it again")
