"""``dcpinspect live``: the messages on network interfaces, as they come."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcpinspect.cli import options
from dcpinspect.cli.capturing import Interfaces, all_ports, capturing
from dcpinspect.cli.output import StandardOutput
from dcpinspect.cli.read import show
from dcpinspect.cli.subset import say_what_is_written
from dcpinspect.cli.terminal import complain
from dcpinspect.cli.tui import KEPT_MIB, Keep, explore, is_terminal
from dcpinspect.errors import UsageError
from dcpinspect.escape import escape

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor

LOOK_S = 1.0
"""Seconds for which the list of interfaces watches traffic."""


@options.shared(show, without=["with_handshakes", "with_secrets", "decrypted"])
@options.shared(capturing)
def live(
    context: typer.Context,
    list_interfaces: Annotated[
        bool,
        typer.Option(
            "--list-interfaces", "-D", help="List the interfaces, with their addresses and whether anything comes on the ports, and exit."
        ),
    ] = False,
    tui: Annotated[bool, typer.Option("--tui", help="Open the terminal UI, and show the messages as they come.")] = False,
    keep: Keep = KEPT_MIB,
    **choices: Any,  # options of capturing and show
) -> int:
    """Print the messages on network interfaces as they come, until Ctrl-C."""
    if list_interfaces:
        _list_interfaces(choices["port"])
        return 0
    write, interfaces = choices["write"], options.taken(capturing, choices)
    if tui:
        options.refuse_others(
            context, "--tui", ("tui", "keep", "filter_", "redact", "redact_salt", "port", *signature(capturing).parameters)
        )
        redactor = options.redactor(choices["redact"], choices["redact_salt"])
        return _explore(context, interfaces, port=choices["port"], filter_=choices["filter_"], keep_mib=keep, redactor=redactor)
    if options.is_typed(context, "keep"):
        raise UsageError("--keep: is for --tui; printed messages are not kept")
    if write is not None and write == choices["output"]:
        raise UsageError("--write and --output name the same file")
    if write is not None and (choices["redact"] or choices["redact_salt"] is not None):
        raise UsageError("--write: packets have what --redact replaces; leave out one of the two")
    if write is not None:
        say_what_is_written(write)
    return show(context, interfaces, write=None, **choices)


def _explore(
    context: typer.Context,
    source: Interfaces,
    *,
    port: list[str] | None,
    filter_: str | None,
    keep_mib: int,
    redactor: Redactor | None,
) -> int:
    """Runs the terminal UI on interfaces, and says at its end what was captured."""
    if not is_terminal():
        raise UsageError("--tui: standard input, output and error must be a terminal; without it the messages are printed")
    extra_ports, find_ports = options.ports(port)
    notices: list[str] = []
    capture = source.capture(extra_ports, find_ports=find_ports, tell=notices.append)
    status = explore(
        context,
        capture,
        extra_ports=extra_ports,
        find_ports=find_ports,
        filter_=filter_,
        is_saved=bool(source.captures),
        notices=notices,
        keep_mib=keep_mib,
        redactor=redactor,
        prepare=source.bound,
    )
    for notice in notices:
        complain(notice)
    complain(source.captured())
    return status


def _list_interfaces(port: list[str] | None) -> None:
    from dcpinspect.capture.interfaces import ANY, interfaces, traffic

    extra_ports, find_ports = options.ports(port)
    ports = all_ports(extra_ports)
    found = interfaces()
    seen = traffic([one.name for one in found if one.is_up], ports, LOOK_S) if not find_ports else {}
    width = max(len(escape(one.name)) for one in found)
    addresses = {one.name: "all of them" if one.name == ANY else ", ".join(one.addresses) if one.is_up else "down" for one in found}
    if seen:
        column = max(map(len, addresses.values()))
        for name, count in seen.items():
            said = f"{count:,} packets of the ports in {LOOK_S:.0f} s" if count else "nothing of the ports"
            addresses[name] = f"{addresses[name]:<{column}}  {said}"
    StandardOutput().put("".join(f"{escape(one.name):<{width}}  {addresses[one.name]}".rstrip() + "\n" for one in found))
    if not seen and not find_ports:
        complain("whether there is traffic on the ports can be seen with the right to capture; run it with sudo")
