"""Where a URI leads: the PyArrow file system that reads and writes there, and options by which
deltalake asks the same server.

Credentials are found where other programs look, too: in the environment, in profiles, and in what a
machine is given. None is ever part of a name or a message. PyArrow's messages tell the whole
address of a request, so tokens that are part of addresses (SAS) are not used.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import clip, one_line

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "abfs": "abfs",
    "abfss": "abfss",
    "hdfs": "hdfs",
    "viewfs": "viewfs",
}
"""Schemes of URIs, and the scheme for each in names that are kept."""
_URI = re.compile(rf"({'|'.join(SCHEMES)})://([^/]*)(/.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StorageTimeouts:
    """How long storage may take."""

    attempts: int
    """Number of attempts for a request to S3 that fails or is told to slow down; each waits longer
    than the one before, 20 s at most.
    """
    timeout_s: float
    """Seconds in which something has to come of a request to S3."""
    retry_s: int
    """Seconds in which a failing request to Google is sent again."""


LONG, SHORT = StorageTimeouts(10, 60.0, 120), StorageTimeouts(2, 5.0, 2)
"""Patience in the middle of work, and when nothing has come yet from a store. Azure's client knows
no such settings: it takes 6 s.
"""
_NOISE = re.compile(
    r"\A.*Azure Error: |google::cloud::Status\(| error_info=.*|\(?(Request|Host) ?I[Dd]:.*|\. "
    r"Detail: \[errno.*",
    re.DOTALL,
)
"""Matches what clients say before the reason of an error, and after it."""
_LIBRARY = re.compile(r"(?:Unable|Prior attempt) to load (libjvm|libhdfs)")
_HADOOP = "set JAVA_HOME, HADOOP_HOME, and CLASSPATH to what 'hadoop classpath --glob' prints"
_NO_ANSWER = re.compile(
    r"AWS Error NETWORK_CONNECTION.*Details: (?P<s3>.*)|CURL error "
    r"\[\d+\]=(?P<google>.*)|(?P<azure>Fail to get a new connection.*)",
    re.DOTALL,
)
"""Matches what clients say if no server answers, with the reason as a group."""


def is_uri(name: str) -> bool:
    """Returns whether a name is a URI of storage that is read here."""
    return _URI.fullmatch(name) is not None


def reach(name: str) -> None:
    """Asks the store of a URI whether it is there, without waiting long. Raises OSError, with what
    to do, if it is not.

    Ctrl-C does not wait for the answer, as it does in any other request: PyArrow does not notice
    signals.
    """
    # deferred, as the next: readers of local files do without
    from concurrent.futures import ThreadPoolExecutor

    from pyarrow.fs import FileType

    filesystem, path = file_system_of(name, SHORT)
    if filesystem.type_name == "hdfs":
        return  # its client does not hurry
    bucket = path.partition("/")[0]
    # for a container, PyArrow aborts if it has no credentials
    requested_path = f"{bucket}/-" if filesystem.type_name == "abfs" else bucket
    of_store, setting = _server(filesystem.type_name)
    pool = ThreadPoolExecutor(max_workers=1)
    try:
        file_info = pool.submit(filesystem.get_file_info, requested_path).result()
    except OSError as error:
        if reason := _NO_ANSWER.search(str(error)):
            store_message = clip(
                one_line(_NOISE.sub("", reason[reason.lastgroup or 0])), 120
            ).rstrip(".")
            failure = f"storage{of_store} does not answer ({store_message})"
            raise OSError(
                errno.EIO, f"{failure}; check the name, the network, and {setting}"
            ) from error
        return  # it answers; what it allows is another matter
    finally:
        pool.shutdown(wait=False)
    if file_info.type == FileType.NotFound and requested_path == bucket:
        raise OSError(
            errno.ENOENT,
            f"there is no bucket {one_line(bucket)} in storage{of_store}; check the name and "
            f"{setting}",
        )


def file_system_of(name: str, patience: StorageTimeouts = LONG) -> tuple[FileSystem, str]:
    """Returns the file system of a URI, and the path in it. Raises OSError if there is none."""
    scheme, authority, path = _uri_parts(name)
    bucket = authority.partition("@")[0] + path
    with one_line_errors():
        match scheme:
            case "s3":
                return _s3(
                    authority, _aws_endpoint(), _first("AWS_REGION", "AWS_DEFAULT_REGION"), patience
                ), bucket
            case "gs":
                return _google(_emulator(), patience), bucket
            case "abfs" | "abfss":
                return _azure(AzureAccount.from_authority(authority)), bucket
        return _hadoop(f"{scheme}://{authority}/"), path or "/"


def options(name: str) -> dict[str, str] | None:
    """Returns deltalake's options for a table by path or URI. Raises OSError."""
    if not is_uri(name):
        return None
    scheme, authority, _ = _uri_parts(name)
    table_options: dict[str, str] = {}
    if scheme == "s3" and (endpoint := _aws_endpoint() or "").startswith("http:"):
        table_options = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_FORCE_CREDENTIAL_LOAD": "true",
        }
    elif scheme == "gs" and (emulator := _emulator()):
        key = {
            "gcs_base_url": emulator,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        table_options = {"google_service_account_key": json.dumps(key), "allow_http": "true"}
    elif scheme.startswith("abfs"):
        table_options = AzureAccount.from_authority(authority).options()
    return table_options or None


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns what a file system raises into an OSError with one short line."""
    from pyarrow import ArrowException

    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "there is no such file") from error
    except (OSError, ValueError, NotImplementedError, ArrowException) as error:
        raise OSError(errno.EIO, _line(error)) from error


@dataclass(frozen=True, slots=True)
class AzureAccount:
    """An account of Azure's storage, the server that has it, and its key if there is one; else
    other credentials are looked for.
    """

    name: str
    endpoint: str
    """URL of the server's blobs; empty: Azure's own."""
    is_emulator: bool
    """Whether the server is Azurite."""
    key: str = field(repr=False)

    @classmethod
    def from_authority(cls, authority: str) -> Self:
        """Returns the account of ``CONTAINER@ACCOUNT.dfs.core.windows.net``, or of ``CONTAINER``
        and the environment.

        Raises OSError if no account is named.
        """
        settings = (
            setting.partition("=")
            for setting in os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "").split(";")
        )
        connection = {name: value for name, _, value in settings}
        name = authority.partition("@")[2].partition(".")[0] or _first(
            "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"
        )
        name = name or connection.get("AccountName", "")
        if not name:
            raise OSError(
                "names no account; write CONTAINER@ACCOUNT.dfs.core.windows.net, or set "
                "AZURE_STORAGE_ACCOUNT"
            )
        key = _first(
            "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY"
        ) or connection.get("AccountKey", "")
        is_emulator = os.environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in ("1", "true")
        endpoint = (
            _first("AZURITE_BLOB_STORAGE_URL") or "http://127.0.0.1:10000"
            if is_emulator
            else _first("AZURE_STORAGE_ENDPOINT") or connection.get("BlobEndpoint", "")
        )
        return cls(name, endpoint, is_emulator, key)

    def options(self) -> dict[str, str]:
        """Returns deltalake's options; deltalake finds the emulator itself."""
        table_options = {"azure_storage_account_name": self.name}
        if self.key:
            table_options["azure_storage_account_key"] = self.key
        if self.endpoint and not self.is_emulator:
            table_options["azure_storage_endpoint"] = self.endpoint
        return table_options


def _uri_parts(name: str) -> tuple[str, str, str]:
    match = _URI.fullmatch(name)
    assert match is not None
    return SCHEMES[match[1]], match[2], (match[3] or "").rstrip("/")


def _first(*names: str) -> str:
    """Returns the value of the first of these environment variables that is set; empty for none."""
    return next((value for name in names if (value := os.environ.get(name))), "")


def _aws_endpoint() -> str:
    return _first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def _server(kind: str) -> tuple[str, str]:
    """Returns where requests go, if the environment says it, and what decides that besides the name
    of a bucket.
    """
    if kind == "s3":
        endpoint = _aws_endpoint()
        return f" at {endpoint}" if endpoint else "", "AWS_ENDPOINT_URL"
    if kind == "gcs":
        if emulator := _emulator():
            return f" at {emulator}", "STORAGE_EMULATOR_HOST"
        return "", "GOOGLE_APPLICATION_CREDENTIALS"
    return "", "the account"


def _emulator() -> str:
    """Returns the URL of a server that stands for Google's; empty: Google's own."""
    url = os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/")
    return url if "://" in url or not url else f"http://{url}"


@lru_cache(maxsize=64)
def _s3(bucket: str, endpoint: str, region: str, patience: StorageTimeouts) -> FileSystem:
    from pyarrow import fs

    # any region answers, if only with the name of the right one
    if not (region or endpoint or patience == SHORT):
        with suppress(OSError):
            region = fs.resolve_s3_region(bucket)
    where = urlsplit(endpoint)
    return fs.S3FileSystem(
        region=region or None,
        scheme=where.scheme or None,
        endpoint_override=where.netloc or None,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=patience.attempts),
        connect_timeout=patience.timeout_s,
        request_timeout=patience.timeout_s,
    )


@lru_cache(maxsize=64)
def _google(emulator: str, patience: StorageTimeouts) -> FileSystem:
    from pyarrow import fs

    where = urlsplit(emulator)
    return fs.GcsFileSystem(
        anonymous=bool(emulator),
        scheme=where.scheme or None,
        endpoint_override=where.netloc or None,
        retry_time_limit=timedelta(seconds=patience.retry_s),
    )


@lru_cache(maxsize=64)
def _azure(account: AzureAccount) -> FileSystem:
    """Returns PyArrow's file system, which puts the account's name before the server's if that
    begins with a dot, else into paths.
    """
    from pyarrow import fs

    where = urlsplit(account.endpoint)
    blobs = where.netloc.removeprefix("" if account.is_emulator else account.name) or None
    return fs.AzureFileSystem(
        account_name=account.name,
        account_key=account.key or None,
        blob_storage_authority=blobs,
        blob_storage_scheme=where.scheme or None,
        dfs_storage_authority=blobs and blobs.replace(".blob.", ".dfs.", 1),
        dfs_storage_scheme=where.scheme or None,
    )


@lru_cache(maxsize=64)
def _hadoop(base: str) -> FileSystem:
    from pyarrow import fs

    try:
        filesystem, _ = fs.FileSystem.from_uri(base)
    except OSError as error:
        if missing := _LIBRARY.search(str(error)):
            raise OSError(
                f"HDFS takes Java and Hadoop on this machine, and {missing[1]} cannot be "
                f"loaded; {_HADOOP}"
            ) from error
        raise
    return filesystem


def _line(error: BaseException) -> str:
    return clip(one_line(_NOISE.sub("", str(error)).strip() or type(error).__name__), 200)
