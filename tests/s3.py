"""S3 on loopback, from moto, with the troubles that storage has."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

BUCKET = "captures"
MARKER = "SeCrEtMaRkEr"


@dataclass
class Store:
    """A server, and what it was asked."""

    ranges: list[str] = field(default_factory=list)
    """Of the requests that read."""
    failures: int = 0
    """Requests that read and are to fail first."""
    slow_s: float = 0.0
    """Seconds that reading takes longer."""
    client: Any = None

    def put(self, key: str, content: bytes) -> str:
        """An object, and its URI."""
        self.client.put_object(Bucket=BUCKET, Key=key, Body=content)
        return f"s3://{BUCKET}/{key}"

    def keys(self, prefix: str = "") -> list[str]:
        """What there is."""
        return [one["Key"] for one in self.client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ())]


@contextmanager
def s3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    """A server with an empty bucket; the environment says where it is, and a profile has the credentials."""
    import boto3
    from moto.server import DomainDispatcherApplication, create_backend_app  # type: ignore[attr-defined]
    from werkzeug.serving import make_server

    store = Store()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, _troubled(app, store), threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    profile = tmp_path / "credentials"
    profile.write_text(f"[here]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = {MARKER}\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    settings = {
        "AWS_SHARED_CREDENTIALS_FILE": str(profile),
        "AWS_PROFILE": "here",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    from dcpinspect.capture import remote

    remote._filesystem.cache_clear()
    try:
        with urlopen(Request(f"{settings['AWS_ENDPOINT_URL']}/moto-api/reset", method="POST"), timeout=60):  # noqa: S310 - on loopback
            pass  # else there is what the test before has left
        store.client = boto3.client("s3")
        store.client.create_bucket(Bucket=BUCKET)
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        remote._filesystem.cache_clear()


def _troubled(app: Callable[..., Any], store: Store) -> Callable[..., Any]:
    """The application, with what is wrong with it by now."""
    pause = threading.Event()

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        wanted = environ.get("HTTP_RANGE")
        if wanted is not None and environ["REQUEST_METHOD"] == "GET":
            store.ranges.append(wanted)
            pause.wait(store.slow_s)
            if store.failures:
                store.failures -= 1
                body = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
                start("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
                return [body]
        return app(environ, start)

    return answer
