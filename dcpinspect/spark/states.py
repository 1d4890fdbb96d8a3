"""States of parts: what is needed to continue a part when a new capture continues its connections. Each is a file beside the part.

A state belongs to the run that named it. The packets that it has seen are known, so it is used only if no other packet comes before or
between them.
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
"""Size of a digest in bytes."""
_ABOVE = 5
"""Number of places whose owner is checked: the state, the folders of its run, of all runs and of the output, and the folder around it."""


def mark_of(bundles: Iterable[Bundled]) -> str:
    """Returns a digest of which packets these are, with their numbers."""
    return _digest("\n".join(f"{one.base} {one.file} {one.first} {one.path}" for one in bundles).encode())


def write_state(reading: Reading, stem: str, salt: Salt | None = None) -> str:
    """Saves a reading before it ends, and returns the path of the file; empty if it cannot be continued, or will hardly be.

    ``stem``: path of the file, to which a digest and the ending are added. ``salt``: encrypts the file.
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
    """Lets a reading begin where the reading of a state ended.

    Returns whether it could: the file must be unchanged and safe from other users.
    """
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
