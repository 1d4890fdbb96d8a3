"""Where temporary files belong."""

from __future__ import annotations

import os
import tempfile

_ON_DISK = "/var/tmp"  # noqa: S108 - who uses it makes a folder of its own there


def large_files() -> str:
    """The folder for those that may be large: ``TMPDIR``, else one on a disk rather than in memory. Raises OSError where there is none."""
    return os.environ.get("TMPDIR") or (_ON_DISK if os.access(_ON_DISK, os.W_OK) else tempfile.gettempdir())
