"""States of parts: what is needed to continue a part when a new capture continues its connections.
Each is a file beside the part.

The task that follows the connections writes the state. Other tasks that follow keys each write what
they know of keys to a file of their own.

A state belongs to the run that named it. The packets that it has seen are known, so it is used only
if no other packet comes before or between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dcpinspect.capture.stores import is_uri
from dcpinspect.ownership import UnsafeError, check_above
from dcpinspect.reading.joining import from_bytes, to_bytes
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.resuming import NotResumableError, go_on, put_aside
from dcpinspect.spark import files
from dcpinspect.spark.bundles import UnitBundles
from dcpinspect.spark.salt import Salt
from dcpinspect.streams.contents import Contents

_ABOVE = 5
"""Number of places whose owner is checked: the state, the folders of its run, of all runs and of
the output, and the folder around it.
"""


def mark_of(bundles: Iterable[UnitBundles]) -> str:
    """Returns a digest of which packets these are, with their numbers and clocks."""
    return files.digest(
        "\n".join(
            " ".join(map(str, (bundle.base, bundle.file, bundle.first, bundle.path, *bundle.ahead)))
            for bundle in bundles
        ).encode()
    )


def write_state(reading: Reading, stem: str, salt: Salt | None = None) -> str:
    """Saves a reading before it ends, and returns the path of the file; empty if it cannot be
    continued.

    ``stem``: path of the file, to which a digest and the ending are added. ``salt``: encrypts the
    file.
    """
    try:
        return _write(stem, put_aside(reading), salt)
    except NotResumableError:
        return ""


def may_continue(reading: Reading) -> bool:
    """Returns whether a reading can be continued, and some of its connections may do so."""
    return reading.engine.tls.is_plain and not all(link.closed for link in reading.engine.links)


def write_contents(contents: Contents, stem: str, salt: Salt | None = None) -> str:
    """Saves what is known of keys, and returns the file's path; parameters as ``write_state``."""
    return _write(stem, to_bytes(contents), salt)


def read_contents(paths: Iterable[str], salt: Salt | None = None) -> list[Contents] | None:
    """Returns what was saved of keys; None if a file has changed, or is not safe from others."""
    try:
        return [from_bytes(_read(path, salt), Contents) for path in paths]
    except (OSError, UnsafeError, NotResumableError, ValueError):
        return None


def read_state(reading: Reading, path: str, salt: Salt | None = None) -> bool:
    """Lets a reading begin where the reading of a state ended.

    Returns whether it could: the file must be unchanged and safe from other users.
    """
    try:
        go_on(reading, _read(path, salt))
    except (OSError, UnsafeError, NotResumableError):
        return False
    return True


def _write(stem: str, data: bytes, salt: Salt | None) -> str:
    path = f"{stem}.{files.digest(data)}.state"
    files.write(path, data, salt)
    return path


def _read(path: str, salt: Salt | None) -> bytes:
    if not is_uri(path):
        for folder in (Path(path), *Path(path).parents)[:_ABOVE]:
            check_above(folder.stat(), folder)
    data = files.content(path, salt)
    if files.digest(data) != path.split(".")[-2]:
        raise NotResumableError(f"{path} has changed")
    return data
