"""The options of ``--metrics``, and its server if an address is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dcpinspect.cli.choices import Choices

if TYPE_CHECKING:
    from dcpinspect.cli.metrics_server import Exporter


class Exposition(Choices):
    """Whether numbers are served to Prometheus."""

    title = "Metrics"
    words = """
    metrics_at --metrics [HOST]:PORT: Serve numbers to Prometheus at this address, under /metrics.
        Without a host, all interfaces serve them.
    """
    metrics_at: str | None = None

    @contextmanager
    def exporting(self) -> Iterator[Exporter | None]:
        """Runs the server until the end, once there is a reading; yields None without an address."""
        if self.metrics_at is None:
            yield None
            return
        # deferred: the library's server takes 20 ms
        from dcpinspect.cli.metrics_server import serving

        with serving(self.metrics_at) as exporter:
            yield exporter
