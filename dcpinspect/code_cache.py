"""The folder for code that was made on this machine and is loaded again: kernels, and Java's classes for Spark.

Whoever can write there can make the program do anything, so only folders are used that nobody but their user can write.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from dcpinspect.ownership import check_above, check_around, check_own


def base() -> Path:
    """Returns the folder of this program in the cache that the environment names, or else in the user's cache."""
    if home := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(home, "dcpinspect").absolute()
    from platformdirs import user_cache_path

    return user_cache_path("dcpinspect").absolute()


def folder(*names: str, is_made: bool) -> Path:
    """Returns a folder in the cache, checked from the top down; makes it if it is missing and ``is_made``. Raises OSError, also
    UnsafeError.

    Nobody can put a file there, or replace a folder, between the checks: at each step only the owner could.
    """
    path = base()
    if not is_made and not (path / names[0]).exists():
        raise FileNotFoundError
    check_around(path)
    if is_made:
        for place in reversed([path, *path.parents]):
            if not place.exists():
                place.mkdir(0o700, exist_ok=True)
        check_above(path.stat(), path)
    for name in names:
        path /= name
        if is_made:
            with contextlib.suppress(FileExistsError):
                path.mkdir(0o700)
        check_own(path.lstat(), path)
    return path
