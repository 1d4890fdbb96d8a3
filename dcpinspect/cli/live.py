"""``dcpinspect live``: the messages on network interfaces, as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.output import StandardOutput
from dcpinspect.cli.read import show
from dcpinspect.cli.report import report
from dcpinspect.cli.terminal import complain
from dcpinspect.cli.tui import KEPT_MIB, Keep, explore, is_terminal
from dcpinspect.errors import UsageError
from dcpinspect.escape import escape

if TYPE_CHECKING:
    from dcpinspect.capture.live import LiveCapture
    from dcpinspect.engine import Keeper
    from dcpinspect.reading import Reading


@options.shared(show, without=["with_handshakes"])
def live(
    context: typer.Context,
    interface: Annotated[
        list[str] | None,
        typer.Option("--interface", "-i", metavar="NAME", help="Capture on this interface. any means all. May be repeated."),
    ] = None,
    list_interfaces: Annotated[bool, typer.Option("--list-interfaces", help="List the interfaces and exit.")] = False,
    write: Annotated[str | None, typer.Option("--write", "-w", metavar="FILE", help="Also write the packets to this pcapng file.")] = None,
    duration: Annotated[
        float | None, typer.Option("--duration", metavar="SECONDS", min=0, help="Stop after this time, instead of at Ctrl-C.")
    ] = None,
    buffer: Annotated[
        int, typer.Option("--buffer", metavar="MIB", min=1, max=2047, help="Kernel memory for packets that wait to be read.")
    ] = 64,
    tui: Annotated[bool, typer.Option("--tui", help="Open the terminal UI, and show the messages as they come.")] = False,
    keep: Keep = KEPT_MIB,
    **choices: Any,  # show's
) -> int:
    """Print the messages on network interfaces as they come, until Ctrl-C."""
    if list_interfaces:
        _list_interfaces()
        return 0
    if not interface:
        raise UsageError("-i: name an interface, or any for all of them; --list-interfaces lists them")
    if write == "-":
        raise UsageError("--write -: standard output already has the messages; name a file")
    if tui:
        options.refuse_others(context, "--tui", ("tui", "interface", "write", "duration", "buffer", "keep", "filter_", "port"))
        return _explore(
            context, _Interfaces(interface, write, duration, buffer), port=choices["port"], filter_=choices["filter_"], keep_mib=keep
        )
    if options.is_typed(context, "keep"):
        raise UsageError("--keep: is for --tui; printed messages are not kept")
    if write is not None and write == choices["output"]:
        raise UsageError("--write and --output name the same file")
    if write is not None and (choices["redact"] or choices["redact_salt"] is not None):
        raise UsageError("--write: packets have what --redact replaces; leave out one of the two")
    return show(context, _Interfaces(interface, write, duration, buffer), **choices)


def _explore(context: typer.Context, source: _Interfaces, *, port: list[str] | None, filter_: str | None, keep_mib: int) -> int:
    """The terminal UI of what comes; what was captured is said when it has ended."""
    if not is_terminal():
        raise UsageError("--tui: standard input, output and error must be a terminal; without it the messages are printed")
    extra_ports, find_ports = options.ports(port)
    notices: list[str] = []
    capture = source.capture(extra_ports, find_ports=find_ports, tell=notices.append)
    with source.recorded():
        status = explore(
            context,
            capture,
            extra_ports=extra_ports,
            find_ports=find_ports,
            filter_=filter_,
            is_saved=bool(source.captures),
            notices=notices,
            keep_mib=keep_mib,
        )
    for notice in notices:
        complain(notice)
    complain(source.captured())
    return status


def _list_interfaces() -> None:
    from dcpinspect.capture.interfaces import ANY, interfaces

    found = interfaces()
    width = max(len(escape(one.name)) for one in found)
    lines = []
    for one in found:
        says = "all of them" if one.name == ANY else ", ".join(one.addresses) if one.is_up else "down"
        lines.append(f"{escape(one.name):<{width}}  {says}".rstrip() + "\n")
    StandardOutput().put("".join(lines))


class _Interfaces:
    """Interfaces, as ``Source``."""

    pauses = True

    def __init__(self, names: Sequence[str], record: str | None, duration_s: float | None, buffer_mib: int) -> None:
        self.captures: Sequence[str] = () if record is None else (record,)
        self._names = names
        self._record = record
        self._duration_s = duration_s
        self._buffer_mib = buffer_mib
        self._capture: LiveCapture

    def capture(self, extra_ports: Sequence[int], *, find_ports: bool, tell: Callable[[str], None]) -> LiveCapture:
        """The interfaces, opened. ``tell`` takes a line for the user."""
        from dcpinspect.capture.live import MIB, LiveCapture
        from dcpinspect.kernel import make_no_machine_code
        from dcpinspect.transport.headers import HeaderParser

        make_no_machine_code()  # packets would be lost meanwhile
        ports = None if find_ports else _ports(extra_ports)
        self._capture = LiveCapture(
            self._names,
            ports,
            keep=HeaderParser(tuple(ports or ())).kept,
            tell=tell,
            duration_s=self._duration_s,
            buffer_bytes=self._buffer_mib * MIB,
        )
        return self._capture

    @contextmanager
    def reading(self, extra_ports: Sequence[int], *, find_ports: bool, keeper: Keeper | None) -> Iterator[Reading]:
        """Until Ctrl-C, the end of the time, or of the interfaces."""
        from dcpinspect.reading import Reading

        capture = self.capture(extra_ports, find_ports=find_ports, tell=complain)
        with (
            Reading(capture, extra_ports=extra_ports, find_ports=find_ports, keeper=keeper) as reading,
            interrupts.stopping(capture.stop),
            self.recorded(),
        ):
            where = ", ".join(map(escape, self._names))
            ports = "all ports" if find_ports else f"ports {', '.join(map(str, _ports(extra_ports)))}"
            complain(f"{where}: capturing {ports}; Ctrl-C stops it")
            try:
                yield reading
            except KeyboardInterrupt:
                complain(f"{self.captured()}, {capture.unread:,} left unread")
                raise

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """What is captured meanwhile also goes to the file, if there is to be one."""
        if self._record is None:
            yield
            return
        from dcpinspect.capture.recorder import Recorder

        recorder = Recorder(self._record, self._capture.interfaces, capture_filter=self._capture.filter)
        self._capture.on_batch = recorder.batch
        try:
            yield
        finally:
            recorder.close(self._capture.counts)

    def report(self, reading: Reading, *, is_whole: bool, stats: bool, shown: int, skipped: int) -> int:
        """What was captured and what was not, then as for files."""
        complain(f"{self.captured()}; {reading.messages:,} messages, {shown:,} shown")
        return report(reading, is_whole=is_whole, stats=stats, shown=shown, skipped=skipped)

    def captured(self) -> str:
        """How many packets came, and how many did not."""
        capture = self._capture
        dropped = (
            "the system does not say how many were dropped" if capture.dropped is None else f"{capture.dropped:,} dropped by the kernel"
        )
        return f"{escape(capture.files[0].name)}: {capture.packets:,} packets captured, {dropped}"


def _ports(extra: Sequence[int]) -> list[int]:
    from dcpinspect.transport.connections import DEFAULT_PORTS

    return sorted({*DEFAULT_PORTS, *extra})
