"""``dcpinspect export``: what ``read`` shows, in a file of the format that its name says."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from dcpinspect.cli import options
from dcpinspect.cli.output import STDOUT
from dcpinspect.cli.read import CaptureSource, MessageChoices, show
from dcpinspect.cli.subset import Packets
from dcpinspect.cli.terminal import complain
from dcpinspect.text import counted, escape

if TYPE_CHECKING:
    from dcpinspect.reading.reading import Reading


class _Exported(CaptureSource):
    """Captures whose messages go to a file, where the user cannot see them come."""

    def __init__(self, captures: Sequence[str], output: str) -> None:
        super().__init__(captures)
        self._output = output

    def report(
        self, reading: Reading, *, is_whole: bool, stats: bool, shown: int | None, skipped: int
    ) -> int:
        """Says how many messages were written, and everything else."""
        if self._output not in (*STDOUT, os.devnull):
            complain(f"{counted(shown or 0, 'message')} to {escape(self._output)}")
        return super().report(reading, is_whole=is_whole, stats=stats, shown=shown, skipped=skipped)


def export(
    context: typer.Context,
    captures: options.Captures,
    output: str,
    choices: MessageChoices,
    packets: Packets,
) -> int:
    """Write the messages of captures (pcap or pcapng) to a file, in the format that its name
    says.

    Options:
    --output -o FILE: Write to this file, which appears when it is complete.
    """
    return show(context, _Exported(captures, output), choices, packets)
