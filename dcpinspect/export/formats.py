"""The formats that results are written in, and which of them a file name asks for."""

from __future__ import annotations

import os
from enum import StrEnum

from dcpinspect.errors import UsageError
from dcpinspect.escape import escape


class Format(StrEnum):
    """Forms that messages and tables are written in."""

    TEXT = "text"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"

    @property
    def is_binary(self) -> bool:
        """Whether a terminal can do nothing with it."""
        return self in (Format.PARQUET, Format.ARROW)


ARROW_STREAM = ".arrows"
"""Suffix of the Arrow format that is read from start to end; ``.arrow`` is the one with an index of its batches."""

SUFFIXES = {
    ".txt": Format.TEXT,
    ".json": Format.JSON,
    ".ndjson": Format.NDJSON,
    ".jsonl": Format.NDJSON,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
    ".arrow": Format.ARROW,
    ARROW_STREAM: Format.ARROW,
}
"""What the names of files end in."""


def format_of(path: str) -> Format:
    """The format that a file's name asks for. Raises UsageError, saying what names there are."""
    suffix = os.path.splitext(path)[1]
    if suffix.lower() in SUFFIXES:
        return SUFFIXES[suffix.lower()]
    what = f"no format has names in {escape(suffix)}" if suffix else "its name says no format"
    raise UsageError(f"{escape(path)}: {what}; end it in {', '.join(SUFFIXES)}, or give --format")
