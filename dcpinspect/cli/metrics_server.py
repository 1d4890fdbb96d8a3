"""The server of ``--metrics``: a thread of its own serves the numbers of a running reading to
Prometheus.

The thread of the reading makes the numbers, between two batches, when a scrape asks for them. The
server's threads only wait for this, at most ``WAIT_S``, and then send the numbers that there are.
So no client sees a half-done reading, and clients that ask slowly, often or never do not change the
reading.
"""

from __future__ import annotations

import errno
import re
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer, ThreadingTCPServer
from typing import TYPE_CHECKING, Any

from dcpinspect.cli.terminal import complain
from dcpinspect.errors import UsageError
from dcpinspect.text import escape

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from dcpinspect.output.exposition import Family, MeasuredReading, Metrics, Snapshot, Value
    from dcpinspect.reading.reading import Reading
    from dcpinspect.tables.messages import MessageBatch

WAIT_S = 2.0
"""Seconds that a scrape waits for new numbers, before it gets the last ones."""
EVERY_S = 1.0
"""Least number of seconds between two times that numbers are made; also at least SHARE times as
long as making them takes.
"""
SHARE = 10
ANSWER_S = 10.0
"""Seconds that a client may take to ask, and to read the answer."""
MOST = 64
"""Greatest number of connections at once. For a further one the oldest that has not asked is turned
away, or else the further one.
"""
_BUSY = (
    b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: "
    b"close\r\n\r\n"
)
_TIMEOUT = "X-Prometheus-Scrape-Timeout-Seconds"


class Exporter:
    """Hands out the numbers of a reading."""

    def __init__(self) -> None:
        self._metrics: Metrics | None = None
        self._latest: Snapshot = {}
        self._made = threading.Condition()
        self._count = 0
        self._is_wanted = False
        self._due = 0.0
        self._encoding = threading.Lock()
        self._encoded: dict[str, tuple[int, bytes]] = {}
        """Count of the numbers and their text, by content type."""

    def between(self, reading: Reading, batches: Iterable[MessageBatch]) -> Iterator[MessageBatch]:
        """Yields the batches of the reading, and makes numbers between them. Tells the reading to
        track streams before the first batch.
        """
        metrics = self.serve(reading)
        before = reading.on_pause

        def on_pause() -> None:
            before()
            self.renew_when_due()

        reading.on_pause = on_pause
        for batch in batches:
            metrics.feed(batch)
            self.renew_when_due()
            yield batch

    def serve(self, source: MeasuredReading) -> Metrics:
        """Serves the numbers of ``source`` from now on; ``renew_when_due`` makes them."""
        from dcpinspect.output.exposition import Metrics  # deferred: NumPy

        self._metrics = metrics = Metrics(source)
        self._is_wanted = True  # the first packet may come late
        self.renew_when_due()
        return metrics

    def renew_when_due(self) -> None:
        """Makes the numbers, if somebody wants them and it is time."""
        begin, metrics = time.monotonic(), self._metrics
        if metrics is None or not self._is_wanted or begin < self._due:
            return
        self._is_wanted = False
        latest = metrics.snapshot()
        end = time.monotonic()
        self._due = end + max(EVERY_S, SHARE * (end - begin))
        with self._made:
            self._latest, self._count = latest, self._count + 1
            self._made.notify_all()

    def text(self, accepted: str, patience_s: float = WAIT_S) -> tuple[str, bytes]:
        """Returns content type and text of the numbers; can be called from any thread.
        ``patience_s``: how long to wait for new numbers.
        """
        from prometheus_client.exposition import choose_encoder

        with self._made:
            count = self._count
            if time.monotonic() >= self._due:
                self._is_wanted = True
                self._made.wait_for(lambda: self._count > count, patience_s)
        encode, content_type = choose_encoder(accepted)
        with self._encoding:  # encodes once, even if many clients ask
            count, latest = self._count, self._latest
            if self._encoded.get(content_type, (-1, b""))[0] != count:
                self._encoded = {
                    kind: encoded for kind, encoded in self._encoded.items() if encoded[0] == count
                }
                self._encoded[content_type] = count, encode(_Registry(latest))
            return content_type, self._encoded[content_type][1]


class _Registry:
    """A snapshot in the form that encoders take."""

    def __init__(self, latest: Snapshot) -> None:
        self._latest = latest

    def collect(self) -> Iterator[Metric]:
        """Yields the families that have samples, then those of this process."""
        from prometheus_client import ProcessCollector

        from dcpinspect.output.exposition import FAMILIES

        for family in FAMILIES:
            if family.name in self._latest:
                yield _metric(family, self._latest[family.name])
        yield from ProcessCollector(registry=None).collect()


def _metric(family: Family, samples: Iterable[tuple[tuple[str, ...], Value]]) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    from dcpinspect.output.exposition import BOUNDS_S, Times

    if family.kind == "histogram":
        bounds = [*map(str, BOUNDS_S), "+Inf"]
        histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        for labels, value in samples:
            assert isinstance(value, Times)
            histogram.add_metric(labels, list(zip(bounds, value.counts, strict=True)), value.sum)
        return histogram
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(family.name, family.help, labels=family.labels)
    for labels, value in samples:
        assert not isinstance(value, Times)
        metric.add_metric(labels, value)
    return metric


class _Server(ThreadingTCPServer):
    """A server with a thread for each of a few short connections.

    A client that connects and does not ask holds a connection only until somebody else wants it, so
    it keeps nobody from the numbers.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, listener: socket.socket, exporter: Exporter) -> None:
        super().__init__(listener.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.exporter = exporter
        self._open: dict[Any, float] = {}
        """Connections in the order in which they came, and when each has to end."""
        self._silent: dict[Any, None] = {}
        """Those that have not asked yet, in the same order."""
        self._changing = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handles a connection as the base class does, unless there are too many."""
        with self._changing:
            if is_full := len(self._open) >= MOST and not self._silent:
                _turn_away(request)
            else:
                if len(self._open) >= MOST:
                    oldest = next(iter(self._silent))
                    _turn_away(oldest)
                    del self._silent[oldest], self._open[oldest]
                self._open[request] = time.monotonic() + ANSWER_S
                self._silent[request] = None
        if is_full:
            super().shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def asks(self, request: Any) -> bool:
        """Notes that a client has asked; returns whether it is to get an answer."""
        with self._changing:
            self._silent.pop(request, None)
            return request in self._open

    def service_actions(self) -> None:
        """Ends connections that took too long, even busy ones."""
        with self._changing:
            late = [request for request, end in self._open.items() if time.monotonic() >= end]
        for request in late:
            with suppress(OSError):  # the connection has ended by itself
                request.shutdown(socket.SHUT_RDWR)
            self._forget(request)

    def shutdown_request(self, request: Any) -> None:
        """Closes a connection as the base class does."""
        self._forget(request)
        super().shutdown_request(request)

    def _forget(self, request: Any) -> None:
        with self._changing:
            self._open.pop(request, None)
            self._silent.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors of clients that go away early."""


def _turn_away(request: socket.socket) -> None:
    """Says that there are too many connections, and ends this one. Never waits for the client."""
    with suppress(OSError):  # the client has gone
        request.settimeout(0)
        request.send(_BUSY)
        with suppress(BlockingIOError):
            request.recv(1 << 16)  # what is left unread makes the kernel take the answer back
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server_version, sys_version = "dcpinspect", ""
    timeout = ANSWER_S

    def __init__(self, request: Any, client_address: Any, server: BaseServer) -> None:
        assert isinstance(server, _Server)
        self._server = server
        super().__init__(request, client_address, server)

    def do_GET(self) -> None:
        """Sends the numbers."""
        if not self._server.asks(self.request):
            return
        path = self.path.partition("?")[0]
        if path not in ("/", "/metrics"):
            self.send_error(404, "Not here", "Metrics are at /metrics.")
            return
        kind, body = (
            ("text/plain", b"/metrics\n")
            if path == "/"
            else self._server.exporter.text(self.headers.get("Accept", ""), self._patience_s)
        )
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @property
    def _patience_s(self) -> float:
        """How long to wait for new numbers: a quarter of Prometheus' timeout in its request."""
        try:
            return max(0.0, min(WAIT_S, float(self.headers.get(_TIMEOUT, 4 * WAIT_S)) / 4))
        except ValueError:
            return WAIT_S

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@contextmanager
def serving(address: str) -> Iterator[Exporter]:
    """Runs the server until the end, once there is a reading. Raises UsageError."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise UsageError(
            "--metrics needs the package prometheus_client; install dcpinspect[metrics]"
        ) from None
    exporter = Exporter()
    with _Server(_listener(address), exporter) as server:
        host, port = server.socket.getsockname()[:2]
        complain(
            f"metrics are served at http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
        )
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield exporter
        finally:
            server.shutdown()


def _listener(address: str) -> socket.socket:
    """Opens the listening socket. Raises UsageError."""
    address_match = re.fullmatch(
        r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\[\]:\s]*)):(\d{1,5})", address, re.ASCII
    )
    option_text = f"--metrics {escape(address)}"
    if address_match is None or int(address_match[3]) > 65_535:
        raise UsageError(
            f"{option_text}: write HOST:PORT, or :PORT for all interfaces, as in :9464"
        )
    host, port = address_match[1] or address_match[2], int(address_match[3])
    try:
        if not host:
            if socket.has_dualstack_ipv6():
                return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
            return socket.create_server(("", port))
        family, _, _, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(where[:2], family=family)
    except UnicodeError:
        raise UsageError(
            f"{option_text}: no host has this name; write HOST:PORT, or :PORT for all "
            "interfaces, as in :9464"
        ) from None
    except OSError as error:
        reason = (
            "the port is in use"
            if error.errno == errno.EADDRINUSE
            else escape(error.strerror or str(error))
        )
        raise UsageError(f"{option_text}: {reason}; choose another address") from None
