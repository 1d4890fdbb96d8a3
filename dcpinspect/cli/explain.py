"""``dcpinspect explain``: what a command, status, control key, feature, rule or pasted message means."""

from __future__ import annotations

from typing import Annotated

import typer

from dcpinspect.cli import completion

MAX_PASTE = 4 << 20
"""Greatest number of bytes of text that are explained."""
SHOWN = 60
"""Number of columns of an unknown text that the error repeats."""


def explain(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME|NUMBER|HEX…",
            autocompletion=completion.words,
            help="A command, status, control key, feature, rule, word or column, by name or number, or bytes. - is standard input.",
        ),
    ],
) -> None:
    """Explain a command (dcp_snapshot_marker, 0x56), a status (rollback, 0x23), a control key, a rule, a word, a column of a table, or
    the bytes of a message.

    Bytes may be hex with blanks or colons, base64, or a dump of xxd, hexdump -C, od, tcpdump -X or Wireshark. They may also be a literal
    of C ({0x80, …}, xxd -i) or Python (b'…').
    """
    # deferred: the tables of the protocol, which --help and completion do not need
    import sys

    from dcpinspect.cli import terminal
    from dcpinspect.errors import UsageError
    from dcpinspect.escape import clip, escape
    from dcpinspect.protocol.hextext import HexError, parse_hex
    from dcpinspect.render.explain import explain as explanation
    from dcpinspect.render.explain import suggestions

    pasted = sys.stdin.buffer.read(MAX_PASTE + 1) if what == ["-"] else b""
    if len(pasted) > MAX_PASTE:
        raise UsageError(f"standard input: longer than {MAX_PASTE >> 20} MiB; give a capture to dcpinspect read")
    if b"\0" in pasted:
        raise UsageError("standard input: binary; pipe it through xxd, or give a capture to dcpinspect read")
    text = pasted.decode(errors="replace") if what == ["-"] else " ".join(what)
    lines = explanation(text)
    if lines is None:
        if not text.strip():
            raise UsageError("nothing to explain: give a name, a number, or bytes in hex")
        shown = clip(escape(text.strip()), SHOWN)
        close = suggestions(text)
        if close:
            raise UsageError(f"nothing is called {shown}; did you mean {' or '.join(close)}?")
        try:
            parse_hex(text)
        except HexError as error:
            raise UsageError(
                f"{shown} is no command, status, control key, feature, rule, word or column, and no hex either: {error}"
            ) from None
        raise UsageError(f"{shown} is the number of no command, status or feature")
    terminal.put_folded(lines)
