"""Where a URI leads: the file system of PyArrow that reads and writes there, and what deltalake is told so that it asks the same server.

Credentials are found where others look, too: in the environment, in profiles, and in what a machine is given. None is ever part of a name,
and none is in a message: PyArrow's say the whole address of a request, so tokens that are part of addresses (SAS) are not used.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from dcpinspect.escape import clip, one_line

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

SCHEMES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfs": "abfs", "abfss": "abfss", "hdfs": "hdfs", "viewfs": "viewfs"}
"""Schemes of URIs, and what they are called in names that are kept."""
_URI = re.compile(rf"({'|'.join(SCHEMES)})://([^/]*)(/.*)?", re.DOTALL)
ATTEMPTS = 10
"""Of a request to S3 that fails or is told to slow down; each waits longer than the one before, 20 s at most."""
TIMEOUT_S = 60.0
"""Seconds in which something has to come of a request to S3."""
RETRY_S = 120
"""Seconds in which a request to Google that fails is sent again."""
_NOISE = re.compile(r"\A.*Azure Error: |google::cloud::Status\(| error_info=.*|\(?(Request|Host) ?I[Dd]:.*|\. Detail: \[errno.*", re.DOTALL)
"""Of what clients say: what comes before the reason, and behind it."""


def is_uri(name: str) -> bool:
    """Whether a name is a URI of storage that is read here."""
    return _URI.fullmatch(name) is not None


def place(name: str) -> tuple[FileSystem, str]:
    """The file system of a URI, and the path in it. Raises OSError where it cannot be had here."""
    scheme, authority, path = _parts(name)
    bucket = authority.partition("@")[0] + path
    with told():
        match scheme:
            case "s3":
                return _s3(authority, _aws_endpoint(), os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")), bucket
            case "gs":
                return _google(_emulator()), bucket
            case "abfs" | "abfss":
                return _azure(Account.of(authority)), bucket
        return _hadoop(f"{scheme}://{authority}/"), path or "/"


def options(name: str) -> dict[str, str] | None:
    """What deltalake is told of a table by path or URI. Raises OSError where a URI does not say enough."""
    if not is_uri(name):
        return None
    scheme, authority, _ = _parts(name)
    found: dict[str, str] = {}
    if scheme == "s3" and (endpoint := _aws_endpoint() or "").startswith("http:"):
        found = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_FORCE_CREDENTIAL_LOAD": "true"}
    elif scheme == "gs" and (emulator := _emulator()):
        key = {"gcs_base_url": emulator, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
        found = {"google_service_account_key": json.dumps(key), "allow_http": "true"}
    elif scheme.startswith("abfs"):
        found = Account.of(authority).options()
    return found or None


@contextmanager
def told() -> Iterator[None]:
    """What a file system raises, as an OSError with one short line."""
    from pyarrow import ArrowException

    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "there is no such file") from error
    except (OSError, ValueError, NotImplementedError, ArrowException) as error:
        raise OSError(errno.EIO, _line(error)) from error


@dataclass(frozen=True, slots=True)
class Account:
    """An account of Azure's storage, the server that has it, and its key if there is one; else other credentials are looked for."""

    name: str
    endpoint: str
    """URL of the server's blobs; empty: Azure's own."""
    is_emulator: bool
    """Whether that is Azurite."""
    key: str = field(repr=False)

    @classmethod
    def of(cls, authority: str) -> Self:
        """The account of ``CONTAINER@ACCOUNT.dfs.core.windows.net``, or of ``CONTAINER`` and the environment.

        Raises OSError where none is named.
        """
        settings = (part.partition("=") for part in os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "").split(";"))
        connection = {name: value for name, _, value in settings}
        name = authority.partition("@")[2].partition(".")[0] or _first("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
        if not (name := name or connection.get("AccountName", "")):
            raise OSError("names no account; write CONTAINER@ACCOUNT.dfs.core.windows.net, or set AZURE_STORAGE_ACCOUNT")
        key = _first("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY") or connection.get("AccountKey", "")
        if os.environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in ("1", "true"):
            return cls(name, os.environ.get("AZURITE_BLOB_STORAGE_URL") or "http://127.0.0.1:10000", True, key)
        return cls(name, os.environ.get("AZURE_STORAGE_ENDPOINT") or connection.get("BlobEndpoint", ""), False, key)

    def options(self) -> dict[str, str]:
        """What deltalake is told; it finds the emulator itself."""
        found = {"azure_storage_account_name": self.name}
        if self.key:
            found["azure_storage_account_key"] = self.key
        if self.endpoint and not self.is_emulator:
            found["azure_storage_endpoint"] = self.endpoint
        return found

    def filesystem(self) -> FileSystem:
        """PyArrow's, which puts the name of the account in front of the server's if this begins with a dot, else into paths."""
        from pyarrow import fs

        where = urlsplit(self.endpoint)
        blobs = where.netloc.removeprefix("" if self.is_emulator else self.name) or None
        return fs.AzureFileSystem(
            account_name=self.name,
            account_key=self.key or None,
            blob_storage_authority=blobs,
            blob_storage_scheme=where.scheme or None,
            dfs_storage_authority=blobs and blobs.replace(".blob.", ".dfs.", 1),
            dfs_storage_scheme=where.scheme or None,
        )


def _parts(name: str) -> tuple[str, str, str]:
    found = _URI.fullmatch(name)
    assert found is not None
    return SCHEMES[found[1]], found[2], (found[3] or "").rstrip("/")


def _first(*names: str) -> str:
    """The first of some variables of the environment that is set."""
    return next((value for name in names if (value := os.environ.get(name))), "")


def _aws_endpoint() -> str:
    return _first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def _emulator() -> str:
    """The URL of a server that stands for Google's; empty: Google's own."""
    found = os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/")
    return found if "://" in found or not found else f"http://{found}"


@lru_cache(maxsize=64)
def _s3(bucket: str, endpoint: str, region: str | None) -> FileSystem:
    from pyarrow import fs

    if not (region or endpoint):
        with suppress(OSError):
            region = fs.resolve_s3_region(bucket)
    where = urlsplit(endpoint)
    return fs.S3FileSystem(
        region=region,
        scheme=where.scheme or None,
        endpoint_override=where.netloc or None,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        connect_timeout=TIMEOUT_S,
        request_timeout=TIMEOUT_S,
    )


@lru_cache(maxsize=64)
def _google(emulator: str) -> FileSystem:
    from pyarrow import fs

    where = urlsplit(emulator)
    return fs.GcsFileSystem(
        anonymous=bool(emulator),
        scheme=where.scheme or None,
        endpoint_override=where.netloc or None,
        retry_time_limit=timedelta(seconds=RETRY_S),
    )


@lru_cache(maxsize=64)
def _azure(account: Account) -> FileSystem:
    return account.filesystem()


@lru_cache(maxsize=64)
def _hadoop(base: str) -> FileSystem:
    from pyarrow import fs

    found, _ = fs.FileSystem.from_uri(base)
    return found


def _line(error: BaseException) -> str:
    return clip(one_line(_NOISE.sub("", str(error)).strip() or type(error).__name__), 200)
