"""Where captures and outputs are: at paths that every process sees, or in storage, by URI. Other names are refused."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from dcpinspect.capture.stores import SCHEMES, is_uri, reach
from dcpinspect.errors import UsageError
from dcpinspect.escape import escape

_QUERY = re.compile(r"[?&][^/]*=")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def place(name: str, what: str) -> str:
    """A path as it was written or that of a ``file:`` URI, or another URI, with one scheme for S3. ``what``: what is there, in words.

    Raises UsageError for a URI of storage that is not known, or with credentials in it: names are shown, and kept.
    """
    if not is_uri(name):
        return local_path(name, what)
    if ":" in urlsplit(name).netloc.rpartition("@")[0] or _QUERY.search(name):
        raise UsageError(f"{_without_secrets(name)}: {what} without credentials in the name; put them into the environment or a profile")
    scheme, _, rest = name.partition("://")
    return f"{'s3' if SCHEMES[scheme] == 's3' else scheme}://{rest}"


def reached(name: str, what: str) -> str:
    """The same of a place to which requests go now. Raises UsageError also where storage does not answer, or has no such bucket."""
    found = place(name, what)
    if is_uri(found):
        try:
            reach(found)
        except OSError as error:
            raise UsageError(f"{escape(name)}: {error.strerror}") from error
    return found


def local_path(name: str, what: str) -> str:
    """A path as it was written, or that of a ``file:`` URI. ``what``: what is there, in words.

    Raises UsageError for other URIs: a folder of that name would take what was meant for another machine.
    """
    if not _URI.match(name) or ("://" not in name and os.path.lexists(name)):
        return name
    parts = urlsplit(name)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    where = "at paths that every process sees, and not by URI" if is_uri(name) else f"at paths, and by URIs of {', '.join(SCHEMES)}"
    raise UsageError(f"{_without_secrets(name)}: {what} {where}; mount that storage, and name the path, or file:///PATH")


def _without_secrets(name: str) -> str:
    parts = urlsplit(name)
    return escape(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl())
