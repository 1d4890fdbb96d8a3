"""``dcpinspect live``: the messages on network interfaces, as they come."""

from __future__ import annotations

from typing import NoReturn

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.capturing import Capturing, Interfaces, all_ports
from dcpinspect.cli.output import StandardOutput
from dcpinspect.cli.read import MessageChoices, show
from dcpinspect.cli.remarks import MAX_LINES, complain_of
from dcpinspect.cli.subset import say_what_is_written
from dcpinspect.cli.terminal import complain
from dcpinspect.cli.tui import KEPT_MIB, Keep, OpenedCapture, UiOptions, explore, is_terminal
from dcpinspect.errors import DamagedCapture, DcpInspectError, UsageError
from dcpinspect.text import escape

LOOK_S = 1.0
"""Seconds for which the list of interfaces watches traffic."""


def live(
    context: typer.Context,
    capturing: Capturing,
    choices: MessageChoices,
    list_interfaces: bool = False,
    tui: bool = False,
    keep: Keep = KEPT_MIB,
) -> int:
    """Print the messages on network interfaces as they come, until Ctrl-C.

    Options:
    --list-interfaces -D: List the interfaces, with their addresses and whether anything comes
        on the ports, and exit.
    --tui: Open the terminal UI, and show the messages as they come.
    """
    if list_interfaces:
        _list_interfaces(choices.input_.ports)
        return 0
    if choices.order.limit == 0:
        raise UsageError("-n 0: would capture nothing; write 1 or more")
    write, interfaces = capturing.write, capturing.interfaces()
    if tui:
        options.refuse_others(
            context,
            "--tui",
            (
                *("tui", "keep", "filter_", "redact", "redact_salt", "port"),
                *("keylog", "tls_search", *Capturing.parameters()),
            ),
        )
        return _explore(context, interfaces, choices, keep)
    if options.is_typed(context, "keep"):
        raise UsageError("--keep: is for --tui; printed messages are not kept")
    if write is not None and write == choices.result.output:
        raise UsageError("--write and --output name the same file")
    if write is not None and choices.redaction.is_wanted:
        raise UsageError("--write: packets have what --redact replaces; leave out one of the two")
    if write is not None:
        say_what_is_written(write)
    return show(context, interfaces, choices)


def _explore(
    context: typer.Context, source: Interfaces, choices: MessageChoices, keep_mib: int
) -> int:
    """Runs the terminal UI on interfaces, and says at its end what was captured."""
    if not is_terminal():
        raise UsageError(
            "--tui: standard input, output and error must be a terminal; without it the "
            "messages are printed"
        )
    redactor, ports = choices.redaction.redactor(), choices.input_.ports.reading_arguments()
    notices: list[str] = []
    with interrupts.telling(source.last_line):
        capture = source.capture(**ports, tell=notices.append)

        def keep_and_raise(error: DcpInspectError) -> NoReturn:
            source.errors.append(error)
            raise error  # the terminal UI shows it while it is open

        capture.on_error = keep_and_raise
        capture_to_open = OpenedCapture(
            capture,
            filter_text=choices.conditions.filter_ or "",
            is_saved=bool(source.captures),
            notices=notices,
            prepare=source.bound,
        )
        status = explore(context, capture_to_open, UiOptions(ports, keep_mib, redactor))
    for notice in notices:
        complain(notice)
    complain(source.captured())
    complain_of(capture.problems[:MAX_LINES])
    is_damaged = capture.problems and not status
    return source.report_errors(DamagedCapture.exit_status if is_damaged else status)


def _list_interfaces(chosen: options.Ports) -> None:
    from dcpinspect.capture.interfaces import ANY, interfaces, traffic

    extra_ports, find_ports = chosen.reading_arguments().values()
    ports = all_ports(extra_ports)
    all_interfaces = interfaces()
    seen = (
        traffic([interface.name for interface in all_interfaces if interface.is_up], ports, LOOK_S)
        if not find_ports
        else {}
    )
    width = max(len(escape(interface.name)) for interface in all_interfaces)
    addresses = {
        interface.name: "all of them"
        if interface.name == ANY
        else ", ".join(interface.addresses)
        if interface.is_up
        else "down"
        for interface in all_interfaces
    }
    if seen:
        column = max(map(len, addresses.values()))
        for name, count in seen.items():
            traffic_text = (
                f"{count:,} packets of the ports in {LOOK_S:.0f} s"
                if count
                else "nothing of the ports"
            )
            addresses[name] = f"{addresses[name]:<{column}}  {traffic_text}"
    StandardOutput().write_piece(
        "".join(
            f"{escape(interface.name):<{width}}  {addresses[interface.name]}".rstrip() + "\n"
            for interface in all_interfaces
        )
    )
    if not seen and not find_ports:
        complain(
            "whether there is traffic on the ports can be seen with the right to capture; run "
            "it with sudo"
        )
