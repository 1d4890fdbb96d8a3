"""What a command says of the capture itself once it is through: damage, and captures without what was looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dcpinspect.cli.terminal import complain
from dcpinspect.errors import DamagedCapture
from dcpinspect.escape import escape

if TYPE_CHECKING:
    from dcpinspect.reading import Reading

MAX_LINES = 10
"""Damaged places told one by one."""
MAX_PORTS = 8
"""Ports of other traffic that are named."""


def report(reading: Reading, *, is_whole: bool = True) -> int:
    """Tell about the captures on standard error; the exit status of the command.

    ``is_whole`` is False when the command stopped before the end of the captures.
    """
    problems = reading.capture.problems
    for problem in problems[:MAX_LINES]:
        complain(DamagedCapture(problem.file, problem.offset, problem.what, "what could be read was read"))
    if len(problems) > MAX_LINES:
        complain(f"{len(problems) - MAX_LINES} more damaged places")
    if is_whole and not reading.messages:
        complain(nothing_found(reading))
    return DamagedCapture.exit_status if problems else 0


def nothing_found(reading: Reading) -> str:
    """One line for a capture without a message: what it has instead, and what to try."""
    # Deferred: NumPy, which --help does without.
    import numpy as np

    from dcpinspect.capture.source import STDIN
    from dcpinspect.transport.headers import USED

    names = ", ".join("standard input" if file.name == STDIN else escape(file.name) for file in reading.capture.files)
    packets = reading.capture.packets
    if not packets:
        return f"{names}: no packets"
    parser = reading.engine.transport.headers
    used = int(parser.counts[USED])
    if used:
        return f"{names}: no DCP message in the {used} packets of the ports looked at; they may be empty, encrypted or another protocol"
    ports = np.argsort(-parser.other_ports, kind="stable")[: np.count_nonzero(parser.other_ports)].tolist()
    if not ports:
        return f"{names}: no DCP, and no TCP in its {packets} packets"
    more = ", …" if len(ports) > MAX_PORTS else ""
    return f"{names}: no DCP in {packets} packets; it has TCP ports {', '.join(map(str, ports[:MAX_PORTS]))}{more}; try --port {ports[0]}"
