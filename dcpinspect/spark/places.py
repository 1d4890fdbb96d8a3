"""Where captures and outputs are: at paths that every process sees. Names written as URIs are paths too, or are refused."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from dcpinspect.errors import UsageError
from dcpinspect.escape import escape

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def local_path(name: str, what: str) -> str:
    """A path as it was written, or that of a ``file:`` URI. ``what``: what is there, in words.

    Raises UsageError for other URIs: a folder of that name would take what was meant for another machine.
    """
    if not _URI.match(name) or ("://" not in name and os.path.lexists(name)):
        return name
    parts = urlsplit(name)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()  # others may hold secrets
    raise UsageError(
        f"{escape(shown)}: {what} at paths that every process sees, and not by URI; mount that storage, and name the path, or file:///PATH"
    )
