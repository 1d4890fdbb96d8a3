"""``dcpinspect mcp``: lets agents ask about captures, over the Model Context Protocol."""

from __future__ import annotations

from dcpinspect.cli import options
from dcpinspect.errors import UsageError

_DIGITS = 16
"""Digits of a pseudonym: an agent pays for each of them."""


def mcp(
    ports: options.Ports,
    directories: list[str] | None = None,
    show_data: bool = False,
    redact_salt: str | None = None,
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
        from dcpinspect.agents.server import server
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
    port_choice = ports.reading_arguments()
    port_names = [*port_choice["extra_ports"], *(["auto"] if port_choice["find_ports"] else [])]
    library = Library(
        directories or ["."],
        lambda paths: Recording(
            paths, port=port_names, keylog=keys.paths, tls_search=keys.search, redactor=redactor
        ),
    )
    try:
        anyio.run(server(library).run_stdio_async)
    finally:
        library.close()
    return 0
