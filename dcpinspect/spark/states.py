"""What it takes to go on with a part when a new capture continues its connections: files beside the part, one a run.

A state belongs to the run that named it. Which packets it has seen is known, so it is used only where nothing else comes before or between.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from dcpinspect.capture.stores import is_uri
from dcpinspect.ownership import UnsafeError, check_above
from dcpinspect.reading import Reading
from dcpinspect.resuming import NotKeptError, go_on, put_aside
from dcpinspect.spark import files
from dcpinspect.spark.bundles import Bundled
from dcpinspect.spark.salt import Salt

_DIGEST = 16
"""Bytes of a digest."""
_ABOVE = 5
"""A state, the folders of its run, of all runs and of the output, and that which the output is in."""


def mark_of(bundles: Iterable[Bundled]) -> str:
    """Which packets these are, with their numbers."""
    return _digest("\n".join(f"{one.base} {one.file} {one.first} {one.path}" for one in bundles).encode())


def write_state(reading: Reading, stem: str, salt: Salt | None = None) -> str:
    """Puts a reading aside before it comes to its end, and gives the path of the file; empty where it cannot go on, or hardly will.

    ``stem``: path of the file, to which a digest and the ending are appended. ``salt``: it is encrypted.
    """
    if all(link.closed for link in reading.engine.links):
        return ""
    try:
        data = put_aside(reading)
    except NotKeptError:
        return ""
    path = f"{stem}.{_digest(data)}.state"
    files.write(path, data, salt)
    return path


def read_state(reading: Reading, path: str, salt: Salt | None = None) -> bool:
    """Lets a reading begin where the one of a state ended; whether it could: nobody has changed the file, and nobody else can."""
    try:
        if not is_uri(path):
            for place in (Path(path), *Path(path).parents)[:_ABOVE]:
                check_above(place.stat(), place)
        data = files.content(path, salt)
        if _digest(data) != path.split(".")[-2]:
            return False
        go_on(reading, data)
    except (OSError, UnsafeError, NotKeptError):
        return False
    return True


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST).hexdigest()
