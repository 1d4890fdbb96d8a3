"""What tasks find wrong with messages by themselves, where another task follows the connections: a file of each, beside the part."""

from __future__ import annotations

from collections.abc import Iterable

from dcpinspect.findings.collector import Collector
from dcpinspect.parts import Part, from_bytes, to_bytes
from dcpinspect.spark import files
from dcpinspect.spark.salt import Salt

ENDING = ".looks"
"""What the name of such a file ends with."""


def write_looks(part: str, found: Collector, salt: Salt | None) -> str:
    """Writes what was found, and gives the path."""
    files.write(f"{part}{ENDING}", to_bytes(found), salt)
    return f"{part}{ENDING}"


def include_looks(part: Part, paths: Iterable[str], salt: Salt | None) -> None:
    """Adds what these files say to what the task that followed has found. Raises OSError, and ValueError for other files."""
    for path in paths:
        assert part.checker is not None, "parts are checked"
        part.checker.gathered.include(from_bytes(files.content(path, salt), Collector))
