"""Files of an output, at a path or URI. Tasks write files of own names, and change none. A path is
one that every process sees; other names are refused.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from dcpinspect.capture.remote import info, open_remote
from dcpinspect.capture.stores import SCHEMES, file_system_of, is_uri, one_line_errors, reach
from dcpinspect.errors import UsageError
from dcpinspect.text import clip, escape

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from dcpinspect.spark.salt import Salt

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


def absolute(path: str) -> str:
    """Returns an absolute path; a URI stays as it is."""
    return path.rstrip("/") if is_uri(path) else os.path.abspath(path)


def system(path: str) -> tuple[FileSystem, str]:
    """Returns the file system of a path or URI, and the path in it. Raises OSError if the file
    system is not available.
    """
    if is_uri(path):
        return file_system_of(path)
    from pyarrow.fs import LocalFileSystem

    return LocalFileSystem(), path


def created(path: str, salt: Salt | None = None) -> Any:
    """Opens a new file for writing, and makes the folders above it. In storage the file exists only
    after it is closed. Raises OSError.

    ``salt``: encrypts the file; the same for the functions below.
    """
    filesystem, inner = system(path)
    if not is_uri(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with one_line_errors():
        # otherwise the ending of the name would choose a compression
        stream = filesystem.open_output_stream(inner, compression=None)
    return stream if salt is None else salt.sealing(stream)


@contextmanager
def source(path: str, salt: Salt | None = None) -> Iterator[Any]:
    """Opens a file for Arrow: a local one as mapped memory, others by ranges. Raises OSError."""
    if not is_uri(path):
        file = pa.memory_map(path)
    else:
        filesystem, inner = file_system_of(path)
        with one_line_errors():
            file = filesystem.open_input_file(inner)
    with file:
        yield file if salt is None else salt.opening(file)


@contextmanager
def reading_known_file(path: str) -> Iterator[None]:
    """Reads a file that an earlier run wrote, within this context. Raises UsageError if it is
    missing, or damaged such that reading it raises ValueError or an error of Arrow.
    """
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        raise not_read(path, " ".join(str(error).split())) from error


def not_read(path: str, what: str) -> UsageError:
    """Returns the error for an output, or a file of it, that is missing or damaged."""
    return UsageError(
        f"{escape(path)}: cannot be read ({clip(escape(what), 200)}); run the pipeline into a "
        "new directory"
    )


def content(path: str, salt: Salt | None = None) -> bytes:
    """Returns all bytes of a file. Raises OSError."""
    if salt is not None:
        with source(path, salt) as sealed:
            return bytes(sealed.read())
    with open_remote(path) as file:
        return file.read()


def write(path: str, data: bytes, salt: Salt | None = None) -> None:
    """Writes a whole file durably. Raises OSError."""
    data = data if salt is None else salt.sealed(data)
    if is_uri(path):
        with created(path) as stream:
            stream.write(data)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:  # of a full disk it names no file
        raise OSError(error.errno, error.strerror, path) from error


def digest(data: Any) -> str:
    """Returns a digest of bytes, in hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def size(path: str) -> int:
    """Returns the size of a file in bytes. Raises OSError."""
    return int(info(path).size or 0) if is_uri(path) else os.path.getsize(path)


def exists(path: str) -> bool:
    """Whether a file or folder exists."""
    try:
        return bool(info(path)) if is_uri(path) else os.path.exists(path)
    except FileNotFoundError:
        return False


def names_in(folder: str) -> list[str]:
    """Returns the names of the entries of a folder; empty if there is no folder. Raises OSError."""
    entries = _entries(folder, is_deep=False)
    return list(dict.fromkeys(path.partition("/")[0] for path, _ in entries))


def below(folder: str) -> list[str]:
    """Returns all files below a folder, as paths from there. Raises OSError."""
    return [path for path, is_file in _entries(folder, is_deep=True) if is_file]


def _entries(folder: str, *, is_deep: bool) -> list[tuple[str, bool]]:
    """Returns the paths in a folder, from there, and whether each is a file."""
    from pyarrow.fs import FileSelector

    filesystem, inner = system(folder)
    is_deep |= filesystem.type_name == "gcs"  # it lists folders only by the files in them
    with one_line_errors():
        entries = filesystem.get_file_info(
            FileSelector(inner, allow_not_found=True, recursive=is_deep)
        )
    return [(entry.path.removeprefix(inner).lstrip("/"), entry.is_file) for entry in entries]


def remove(path: str) -> None:
    """Removes a file, if it exists."""
    filesystem, inner = system(path)
    with suppress(FileNotFoundError), one_line_errors():
        filesystem.delete_file(inner)


def remove_folder(path: str) -> None:
    """Removes a folder and its content, if it exists."""
    if exists(path):
        filesystem, inner = system(path)
        # a folder in storage may vanish with its last file
        with suppress(FileNotFoundError), one_line_errors():
            filesystem.delete_dir(inner)
