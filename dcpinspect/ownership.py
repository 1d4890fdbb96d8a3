"""Who can write a file or a folder: what is loaded or kept for one user must be in no place where
another user can put something else.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HAS_USERS = hasattr(os, "geteuid")
"""False on Windows, where users' folders are their own and these numbers say nothing."""


class UnsafeError(OSError):
    """A place that another user can write."""


def check_own(info: os.stat_result, path: Path) -> None:
    """Raises ``UnsafeError`` unless this is a file or folder that only its owner, who is this user
    or root, can write.
    """
    _check_owner(info, path)
    if not (stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode)):
        raise UnsafeError(None, "it is a link, or something else that is no folder or file", path)
    if info.st_mode & 0o022 and HAS_USERS:
        raise UnsafeError(None, "other users can write it", path)


def check_above(info: os.stat_result, path: Path) -> None:
    """Checks a folder that is not only ours, as ``check_own`` does, but allows more.

    All users may write there if they can only remove what is theirs. A group may write there if
    this user is its only member, as on many systems.
    """
    _check_owner(info, path)
    has_own_group = info.st_gid == info.st_uid != 0
    others_may_write = info.st_mode & (0o002 if has_own_group else 0o022)
    if others_may_write and not info.st_mode & stat.S_ISVTX and HAS_USERS:
        raise UnsafeError(None, "other users can write it", path)


def check_around(path: Path) -> None:
    """Raises ``UnsafeError`` if another user can put something in the place of what is in a folder,
    or of the folder itself.
    """
    for folder in [folder for folder in (path, *path.parents) if folder.exists()][:2]:
        check_above(folder.stat(), folder)


def _check_owner(info: os.stat_result, path: Path) -> None:
    if HAS_USERS and info.st_uid not in (0, os.geteuid()):
        raise UnsafeError(None, "it belongs to another user", path)
