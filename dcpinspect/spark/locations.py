"""Where captures and outputs are: at paths that every process sees, or in storage, by URI. Other
names are refused.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from dcpinspect.capture.stores import SCHEMES, is_uri, reach
from dcpinspect.errors import UsageError
from dcpinspect.text import escape

_QUERY = re.compile(r"[?&][^/]*=")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def path_or_uri(name: str, what: str) -> str:
    """Returns a path as it was written, or that of a ``file:`` URI, or another URI, in which S3 has
    only one scheme. ``what``: what is there, in words.

    Raises UsageError for a URI of unknown storage, or with credentials: names are shown and stored.
    """
    if not is_uri(name):
        return local_path(name, what)
    if ":" in urlsplit(name).netloc.rpartition("@")[0] or _QUERY.search(name):
        raise UsageError(
            f"{_without_secrets(name)}: {what} without credentials in the name; put them into "
            "the environment or a profile"
        )
    scheme, _, remainder = name.partition("://")
    return f"{'s3' if SCHEMES[scheme] == 's3' else scheme}://{remainder}"


def reached(name: str, what: str) -> str:
    """Returns the place as ``path_or_uri`` does, and checks that requests reach it.

    Raises UsageError also if storage does not answer, or has no such bucket.
    """
    location = path_or_uri(name, what)
    if is_uri(location):
        try:
            reach(location)
        except OSError as error:
            raise UsageError(f"{escape(name)}: {error.strerror}") from error
    return location


def local_path(name: str, what: str) -> str:
    """Returns a path as it was written, or that of a ``file:`` URI. ``what``: what is there, in
    words.

    Raises UsageError for other URIs: otherwise a local folder of that name would get data for
    another machine.
    """
    if not _URI.match(name) or ("://" not in name and os.path.lexists(name)):
        return name
    uri = urlsplit(name)
    if uri.scheme == "file" and uri.netloc in ("", "localhost"):
        return unquote(uri.path)
    where = (
        "at paths that every process sees, and not by URI"
        if is_uri(name)
        else f"at paths, and by URIs of {', '.join(SCHEMES)}"
    )
    raise UsageError(
        f"{_without_secrets(name)}: {what} {where}; mount that storage, and name the path, or "
        "file:///PATH"
    )


def _without_secrets(name: str) -> str:
    uri = urlsplit(name)
    return escape(
        uri._replace(netloc=uri.netloc.rpartition("@")[2], query="", fragment="").geturl()
    )
