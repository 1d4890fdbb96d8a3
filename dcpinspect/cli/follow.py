"""``dcpinspect follow``: the conversation on one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.output import open_output
from dcpinspect.cli.remarks import no_such_connections, refuse_unless_damaged, remarks
from dcpinspect.text import wrap

if TYPE_CHECKING:
    from dcpinspect.reading.reading import Reading


def follow(
    captures: options.Captures,
    connection: Annotated[int, {"min": 1}],
    times: options.Times,
    redaction: options.Redaction,
    input_: options.Input,
    is_all: bool = False,
    output: str | None = None,
) -> int:
    """Show what client and server sent on one connection, in order. Many messages of one kind are
    one line.

    The captures come first, the number of the connection last.

    Options:
    connection CONNECTION: The number of the connection, from 'dcpinspect connections'.
    is_all --all: Print a line for each message, even if a side sends many of one kind.
    --output -o FILE: Write to this file, which appears when it is complete. - is standard output.
    """
    # deferred: NumPy and the decoder, which --help and completion do not need
    from dcpinspect.output.export.formats import TEXT
    from dcpinspect.output.render.conversation_text import Conversation, end_lines, heading
    from dcpinspect.reading.reading import Reading
    from dcpinspect.streams.session import Session
    from dcpinspect.tables.select import Selection

    span = times.span(captures)
    selection = Selection(connections=(range(connection, connection + 1),), span=span)
    redactor = redaction.redactor()
    with (
        Reading(captures, **input_.ports.reading_arguments()) as reading,
        open_output(output, TEXT, captures) as target,
    ):
        reading.track(redactor)
        paint = target.painter()
        painted = paint if paint("x", "bold") != "x" else None
        talk = Conversation(width=target.width(), folds=not is_all, paint=painted)
        shown_count = 0

        def begin(client: str, server: str, proxied: str | None) -> None:
            session = reading.tracker.conversation.sessions.get(connection) or Session()
            facts = {"name": session.name, "agent": session.agent, "bucket": session.bucket}
            head, proxy_line = heading(client, server, proxied, facts)
            lines = wrap(head, target.width(), "    ")
            lines += [proxy_line] if proxy_line else []
            target.write_piece("".join(f"{paint(line, 'bold')}\n" for line in lines))

        for batch in interrupts.batches(reading.capture, reading):
            rows = selection.rows(batch)
            if len(rows) and not shown_count:
                ends, number = batch.endpoints, connection - 1
                begin(ends.client[number], ends.server[number], ends.proxied.get(connection))
            shown_count += len(rows)
            target.write_piece(
                "".join(f"{line}\n" for line in talk.lines(batch.redacted(redactor), rows))
            )
        target.write_piece("".join(f"{line}\n" for line in talk.end()))
        link = next((link for link in reading.links if link.number == connection), None)
        is_unopened = False
        if span is None and link is not None:
            if not shown_count:
                begin(link.client, link.server, link.proxied)
            closing_lines = end_lines(link, reading.first_time_ns or 0)
            target.write_piece("".join(f"{paint(line, 'bold')}\n" for line in closing_lines))
            is_unopened = link.syns > 0
        if reading.messages and not shown_count and span is None and not is_unopened:
            refuse_unless_damaged(reading, _absent(reading, connection))
        return remarks(reading, stats=input_.stats, shown=shown_count)


def _absent(reading: Reading, connection: int) -> str:
    """Returns why there is nothing to show of a connection."""
    from dcpinspect.output.render.coverage_text import foreign

    protocol = ""
    for direction in reading.coverage.where(lambda all_: all_.connection == connection):
        protocol = protocol or foreign(direction.protocol, reading.coverage, connection)
    absent = f"connection {connection} has no message"
    carried = f"{absent}: it carries {protocol}" if protocol else absent
    return no_such_connections(reading, (range(connection, connection + 1),)) or carried
