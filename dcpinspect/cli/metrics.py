"""The options of ``--metrics``, and its server if an address is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from dcpinspect.errors import UsageError

if TYPE_CHECKING:
    from dcpinspect.cli.metrics_server import Exporter

Address = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="[HOST]:PORT",
        help="Serve numbers to Prometheus at this address, under /metrics. Without a host, all interfaces serve them.",
    ),
]
WithVbuckets = Annotated[bool, typer.Option("--metrics-vbuckets", help="For --metrics, also serve numbers of each vbucket.")]


@contextmanager
def exporting(address: str | None, *, with_vbuckets: bool) -> Iterator[Exporter | None]:
    """Runs the server until the end, once there is a reading; yields None without an address. Raises UsageError."""
    if address is None:
        if with_vbuckets:
            raise UsageError("--metrics-vbuckets: is for --metrics; give it an address, as in --metrics :9464")
        yield None
        return
    from dcpinspect.cli.metrics_server import serving  # deferred: the library's server takes 20 ms

    with serving(address, with_vbuckets=with_vbuckets) as exporter:
        yield exporter
