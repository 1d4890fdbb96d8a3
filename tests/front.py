"""A program in front of a server of storage on loopback: it tells what was asked, and fails, waits
and is a rival on request.

It is a process of its own, since deltalake keeps every thread of Python waiting in some of its
calls.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

READY = "in front at port"
CONTROL = "/front"
"""Where the state is read with GET, and changed with PATCH."""
BUSY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_OURS = ("connection", "expect", "transfer-encoding")
"""Headers of one connection; each has its own."""


def main(port: int, *, is_google: bool) -> None:
    """Serves until it is killed.

    ``is_google``: for fake-gcs-server, which knows uploads by Google's JSON API only, and lists
    from the start: those by its XML API, as deltalake sends them, become such, and what is before
    the start is left out.
    """
    state: dict[str, Any] = {"ranges": [], "refused": [], "failures": 0, "rivals": 0, "slow_s": 0.0}
    pause = threading.Event()

    class Front(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # so that headers and body come as one: Azure's client aborts where they come one after the
        # other
        wbufsize = -1

        def handle_expect_100(self) -> bool:
            super().handle_expect_100()
            self.wfile.flush()
            return True

        def answer(self) -> None:
            body = self._body()
            if self.path == CONTROL:
                state.update(json.loads(body or b"{}"))
                self._send(200, [], json.dumps(state).encode())
                return
            wanted = self.headers.get("x-ms-range") or self.headers.get("Range")
            if wanted is not None and self.command == "GET":
                state["ranges"].append(wanted)
                pause.wait(state["slow_s"])
                if state["failures"]:
                    state["failures"] -= 1
                    self._send(
                        503,
                        [("Content-Type", "application/xml"), ("x-ms-retry-after-ms", "1")],
                        BUSY,
                    )
                    return
            headers = [one for one in self.headers.items() if one[0].lower() not in _OURS]
            if "Transfer-Encoding" in self.headers:
                headers.append(("Content-Length", str(len(body))))
            ask = self.command, self.path, headers, body
            if (
                is_upload := is_google
                and self.command == "PUT"
                and not self.path.startswith("/upload/")
            ):
                ask = _upload(self.path, self.headers.get("x-goog-if-generation-match"), body)
            is_new = self.command == "PUT" and (
                "If-None-Match" in self.headers or "x-goog-if-generation-match" in self.headers
            )
            if (
                is_new and state["rivals"]
            ):  # of two that write the same at the same time we are the second
                state["rivals"] -= 1
                _asked(port, *ask)
            found = _asked(port, *ask)
            if is_upload:
                found[1].append(("ETag", '"x"'))
            if is_google and (start := parse_qs(urlsplit(self.path).query).get("start-after")):
                listed = re.sub(
                    rb"<Contents><Key>(.*?)</Key>.*?</Contents>",
                    lambda one: one[0] if one[1].decode() > start[0] else b"",
                    found[2],
                )
                found = (
                    found[0],
                    [one for one in found[1] if one[0].lower() != "content-length"],
                    listed,
                )
            if is_new and found[0] in (409, 412):
                state["refused"].append(unquote(self.path))
            self._send(*found)

        def _body(self) -> bytes:
            if "Transfer-Encoding" not in self.headers:
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            pieces = []
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                pieces.append(self.rfile.read(size + 2)[:size])
            self.rfile.readline()
            return b"".join(pieces)

        def _send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                self.send_header(name, value)
            if not any(name.lower() == "content-length" for name, _ in headers):
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    for method in ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"):
        setattr(Front, f"do_{method}", Front.answer)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    sys.stdout.write(f"{READY} {server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


def _asked(
    port: int, method: str, path: str, headers: list[tuple[str, str]], body: bytes
) -> tuple[int, list[tuple[str, str]], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in headers:
        connection.putheader(name, value)
    connection.endheaders(body)
    found = connection.getresponse()
    kept = [one for one in found.getheaders() if one[0].lower() not in _OURS]
    content = found.read()
    connection.close()
    return found.status, kept, content


def _upload(
    path: str, condition: str | None, content: bytes
) -> tuple[str, str, list[tuple[str, str]], bytes]:
    """An upload by Google's XML API as one by its JSON API."""
    bucket, _, key = unquote(urlsplit(path).path).lstrip("/").partition("/")
    parts = (
        b"Content-Type: application/json\r\n\r\n" + json.dumps({"name": key}).encode(),
        b"Content-Type: text/plain\r\n\r\n" + content,
    )
    body = b"".join(b"--part\r\n" + part + b"\r\n" for part in parts) + b"--part--\r\n"
    headers = [
        ("Host", "storage"),
        ("Content-Type", "multipart/related; boundary=part"),
        ("Content-Length", str(len(body))),
    ]
    asked = f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart&name={quote(key, safe='')}"
    return (
        "POST",
        asked + ("" if condition is None else f"&ifGenerationMatch={condition}"),
        headers,
        body,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), is_google="google" in sys.argv[2:])
