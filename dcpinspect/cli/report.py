"""What a command says of the capture itself once it is through: damage, and captures without what was looked for."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from dcpinspect.cli.terminal import complain
from dcpinspect.errors import CaptureError, DamagedCapture
from dcpinspect.escape import escape

if TYPE_CHECKING:
    from dcpinspect.reading import Reading

MAX_LINES = 10
"""Damaged places, or directions that lost bytes, told one by one."""
MAX_PORTS = 8
"""Ports of other traffic that are named."""


def report(reading: Reading, *, is_whole: bool = True, stats: bool = False, shown: int | None = None, skipped: int = 0) -> int:
    """Tell about the captures on standard error; the exit status of the command.

    ``is_whole`` is False when the command stopped before the end of the captures. ``stats``: with the table of all packets and bytes.
    ``shown``: messages that met the conditions, without those that were ``skipped``.
    """
    from dcpinspect.render.coverage import coverage_table, losses  # deferred: NumPy, which --help does without

    problems = reading.capture.problems
    for problem in problems[:MAX_LINES]:
        complain(DamagedCapture(problem.file, problem.offset, problem.what, "what could be read was read"))
    if len(problems) > MAX_LINES:
        complain(f"{len(problems) - MAX_LINES} more damaged places")
    if is_whole and not reading.messages:
        complain(nothing_found(reading))
    elif is_whole:
        if shown == 0 and skipped:
            complain(f"--skip left out all {skipped:,} messages that there are to show")
        elif shown == 0:
            complain(f"none of {reading.messages:,} messages met the conditions")
        lost = list(islice(losses(reading.coverage), MAX_LINES + 1))
        for line in lost[:MAX_LINES]:
            complain(line)
        if len(lost) > MAX_LINES:
            complain("more connections lost bytes; --stats lists all")
    if stats and not is_whole:
        complain("reading stopped before the end: --stats counts what was read so far")
    if stats:
        sys.stderr.write("".join(f"{line}\n" for line in coverage_table(reading.coverage, reading.capture.files)))
    if problems and not reading.capture.packets:
        return CaptureError.exit_status
    return DamagedCapture.exit_status if problems else 0


def nothing_found(reading: Reading) -> str:
    """One line for a capture without a message: what it has instead, and what to try."""
    # Deferred: NumPy, which --help does without.
    import numpy as np

    from dcpinspect.capture.source import STDIN
    from dcpinspect.protocol.foreign import MEMCACHED_TEXT, TLS
    from dcpinspect.render.coverage import ADVICE
    from dcpinspect.transport.headers import USED

    names = ", ".join("standard input" if file.name == STDIN else escape(file.name) for file in reading.capture.files)
    packets = reading.capture.packets
    if not packets:
        is_live = any(file.format == "live" for file in reading.capture.files)
        return f"{names}: no packets" + (" of the ports looked at; try -i any, or --port auto" if is_live else "")
    parser = reading.engine.transport.headers
    used = int(parser.counts[USED])
    if used:
        found = Counter(one.protocol for one in reading.coverage.directions if one.not_decodable)
        for protocol in (TLS, MEMCACHED_TEXT):
            if found[protocol]:
                return f"{names}: no DCP message in the {used} packets of the ports looked at; they carry {ADVICE[protocol]}"
        return f"{names}: no DCP message in the {used} packets of the ports looked at; they may be empty, encrypted or another protocol"
    ports = np.argsort(-parser.other_ports, kind="stable")[: np.count_nonzero(parser.other_ports)].tolist()
    if not ports:
        return f"{names}: no DCP, and no TCP in its {packets} packets"
    more = ", …" if len(ports) > MAX_PORTS else ""
    return f"{names}: no DCP in {packets} packets; it has TCP ports {', '.join(map(str, ports[:MAX_PORTS]))}{more}; try --port {ports[0]}"
