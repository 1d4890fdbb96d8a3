"""Files of problems in single messages, found by tasks that do not follow the connections; each
file stands beside its part.
"""

from __future__ import annotations

from collections.abc import Iterable

from dcpinspect.errors import UsageError
from dcpinspect.findings.collector import Collector
from dcpinspect.reading.joining import ReadingPart, from_bytes, to_bytes
from dcpinspect.spark import files
from dcpinspect.spark.salt import Salt
from dcpinspect.text import escape

ENDING = ".looks"
"""Ending of such a file."""


def write_looks(part: str, collector: Collector, salt: Salt | None) -> str:
    """Writes the problems, and returns the path of the file."""
    files.write(f"{part}{ENDING}", to_bytes(collector), salt)
    return f"{part}{ENDING}"


def include_looks(part: ReadingPart, paths: Iterable[str], salt: Salt | None) -> None:
    """Adds the problems in these files to those of the task that followed the connections. Raises
    UsageError for files that are missing or damaged.
    """
    for path in paths:
        assert part.checker is not None, "parts are checked"
        try:
            collector = from_bytes(files.content(path, salt), Collector)
        except (OSError, ValueError) as error:
            message = f"{escape(path)}: cannot be read ({escape(str(error))})"
            raise UsageError(f"{message}; run the pipeline into a new directory") from error
        part.checker.gathered.include(collector)
