"""``dcpinspect explain``: what a command, status, control key, rule or pasted message means."""

from __future__ import annotations

from typing import Annotated

from dcpinspect.cli import completion

MAX_PASTE = 4 << 20
"""Greatest number of bytes of text that are explained."""


def explain(
    what: Annotated[list[str], {"autocompletion": completion.words}],
) -> None:
    """Explain a command (dcp_snapshot_marker, 0x56), a status (rollback, 0x23), a control key, a
    rule, a word, a column of a table, or the bytes of a message.

    Bytes may be hex with blanks or colons, or a dump of xxd, hexdump -C, tcpdump -X or Wireshark.

    Options:
    what NAME|NUMBER|HEX…: A command, status, control key, feature, rule, word or column, by
        name or number, or bytes. - is standard input.
    """
    # deferred: the tables of the protocol, which --help and completion do not need
    import sys

    from dcpinspect.cli import terminal
    from dcpinspect.errors import UsageError
    from dcpinspect.output.render.explanation import explained

    pasted = sys.stdin.buffer.read(MAX_PASTE + 1) if what == ["-"] else b""
    if len(pasted) > MAX_PASTE:
        raise UsageError(
            f"standard input: longer than {MAX_PASTE >> 20} MiB; give a capture to dcpinspect read"
        )
    if b"\0" in pasted:
        raise UsageError(
            "standard input: binary; pipe it through xxd, or give a capture to dcpinspect read"
        )
    terminal.put_folded(
        explained(pasted.decode(errors="replace") if what == ["-"] else " ".join(what)),
        has_titles=True,
    )
