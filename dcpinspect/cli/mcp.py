"""``dcpinspect mcp``: lets agents ask about captures, over the Model Context Protocol."""

from __future__ import annotations

import os
import re
import secrets
from typing import Annotated

from dcpinspect.cli import options
from dcpinspect.cli.choices import as_option
from dcpinspect.cli.terminal import complain
from dcpinspect.errors import UsageError
from dcpinspect.text import escape

TOKEN = "DCPINSPECT_MCP_TOKEN"  # noqa: S105 - the name of a variable
"""Variable with the token of ``--http``."""

_DIGITS = 16
"""Digits of a pseudonym: an agent pays for each of them."""


def mcp(
    ports: options.Ports,
    directories: list[str] | None = None,
    show_data: bool = False,
    redact_salt: str | None = None,
    http: Annotated[
        str | None,
        as_option(
            "--http 127.0.0.1:PORT",
            "Serve over HTTP on this machine. Clients give a token, which is printed, or "
            f"which the variable {TOKEN} has.",
        ),
    ] = None,
) -> int:
    """Let agents ask about captures, over the Model Context Protocol, on standard input and
    output.

    Options:
    directories [DIR…]: Captures below these directories may be read, and nothing else. By
        default, this one.
    --show-data: Show keys, values and names. By default, pseudonyms replace them, as --redact
        does.
    --redact-salt TEXT: Redact with this salt. Runs with the same salt have the same pseudonyms.
    """
    try:
        import anyio

        from dcpinspect.agents.library import Library  # deferred: only this command needs them
        from dcpinspect.agents.server import over_http, server
    except ImportError:
        raise UsageError("mcp needs the package mcp; install dcpinspect[mcp]") from None
    from dcpinspect.api import Recording
    from dcpinspect.transport.tls.keylog import command_secrets as keys

    if show_data and redact_salt is not None:
        raise UsageError(
            "--show-data: shows data, and --redact-salt hides them; leave one of them out"
        )
    redactor = (
        None
        if show_data
        else options.Redaction(redact=True, redact_salt=redact_salt).redactor(_DIGITS)
    )
    address = None if http is None else _address(http)
    port_choice = ports.reading_arguments()
    port_names = [*port_choice["extra_ports"], *(["auto"] if port_choice["find_ports"] else [])]
    library = Library(
        directories or ["."],
        lambda paths: Recording(
            paths, port=port_names, keylog=keys.paths, tls_search=keys.search, redactor=redactor
        ),
    )
    try:
        if address is None:
            anyio.run(server(library).run_stdio_async)
            return 0
        token = os.environ.get(TOKEN) or secrets.token_urlsafe(32)
        complain(
            "serving at "
            f"http://{escape(http or '')}/mcp{'' if TOKEN in os.environ else f', with the token {token}'}"
        )
        anyio.run(over_http, server(library), *address, token)
    finally:
        library.close()
    return 0


def _address(text: str) -> tuple[str, int]:
    """Returns host and port. Raises UsageError for other machines' addresses."""
    address_match = re.fullmatch(
        r"(127\.\d{1,3}\.\d{1,3}\.\d{1,3}|localhost|\[::1\]):(\d{1,5})", text, re.ASCII
    )
    if address_match is None or not 0 < int(address_match[2]) < 65_536:
        raise UsageError(
            f"--http {escape(text)}: write an address of this machine, as in 127.0.0.1:8765; "
            "others cannot reach it"
        )
    return address_match[1].strip("[]"), int(address_match[2])
