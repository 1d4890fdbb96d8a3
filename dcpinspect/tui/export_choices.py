"""What the terminal UI can export: messages, their packets and a report. The name of the file decides
the format.

The file appears only when it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from dcpinspect.errors import UsageError
from dcpinspect.findings.collector import place_of
from dcpinspect.findings.finding import Finding
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.export.atomic import AtomicFile
from dcpinspect.output.export.formats import SUFFIXES, Format
from dcpinspect.output.export.message_writers import WriterOptions
from dcpinspect.output.export.packet_subset import Subset
from dcpinspect.output.finding_marks import rows_of
from dcpinspect.protocol.column_types import NO_ROWS, RowNumbers
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.text import counted, escape, one_line
from dcpinspect.tui.inspection import Inspection

PACKETS = ".pcapng"
NAMES = (PACKETS, *SUFFIXES)
"""Endings that a file of messages can have."""
REPORTS = (".html", ".md")
PAGE = 4096
"""Number of messages that are in memory at once."""

Tell = Callable[[float], None]
"""Takes the share that is done, 0 to 1, and can raise an error to stop the export."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Something that can be exported."""

    words: str
    """Description of the choice, for the user."""
    names: Sequence[str]
    """Endings that the name of the file can have."""
    write: Callable[[str, Tell], str]
    """Writes the choice to a new file of that name, and returns how much was written, in words.

    Raises UsageError, OutputError, and what ``Tell`` and the store raise; then there is no file.
    """


def messages(words: str, inspection: Inspection, rows: Callable[[], RowNumbers]) -> Choice:
    """Returns the choice to export messages. ``rows`` returns their rows in rising order; it is
    called when they are written.
    """

    def write(path: str, tell: Tell) -> str:
        chosen_rows = rows()
        export(path, inspection, chosen_rows, tell)
        return f"{len(chosen_rows):,} messages"

    has_packets = inspection.reading.redactor is None and _are_files(inspection)
    return Choice(words, NAMES if has_packets else tuple(SUFFIXES), write)


def of_finding(inspection: Inspection, finding: Finding | None) -> Sequence[Choice]:
    """Returns the choice to export the messages that show a finding; none if no message does."""
    rows = NO_ROWS if finding is None else rows_of(finding)
    shows = f"show{'s' * (len(rows) == 1)} this one"
    words = f"the {counted(len(rows), 'message')} that {shows}"
    return [messages(words, inspection, lambda: rows)] if len(rows) else ()


def of_vbucket(inspection: Inspection, vbucket: int) -> Choice:
    """Returns the choice to export the messages about a vbucket."""
    condition = FilterRows(parse_filter(f"vbucket = {vbucket}"))
    return messages(
        f"the messages of vbucket {vbucket}",
        inspection,
        lambda: inspection.store.matching(condition).astype(np.int64),
    )


def report(inspection: Inspection) -> Choice:
    """Returns the choice to export a report of all results, for readers with a browser."""

    def write(path: str, tell: Tell) -> str:
        from dcpinspect.output.report.report_contents import of_reading
        from dcpinspect.output.report.written import format_of, written

        tell(0)
        if inspection.state == "reading":
            raise UsageError(
                f"{escape(path)}: a report is of a whole capture; wait until it is read"
            )
        results, charts = inspection.results, inspection.results.charts
        assert results.tables is not None, "reading is over"
        source = of_reading(
            inspection.reading,
            inspection.store,
            lambda *_: charts,
            is_whole=inspection.state == "done",
            worked_out=(results.tables, results.findings, results.records),
        )
        with AtomicFile(path) as file:
            file.write(written(format_of(path), source).encode())
        return f"{len(results.findings):,} findings"

    return Choice("a report of all that was found", REPORTS, write)


def refuse(path: str, names: Sequence[str], inspection: Inspection) -> None:
    """Raises UsageError if no export can go to this file; the error says which can be used."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix == PACKETS and inspection.reading.redactor is not None:
        raise UsageError(
            f"{escape(path)}: packets have what --redact replaces; export messages in another "
            "format"
        )
    if suffix == PACKETS and not _are_files(inspection):
        raise UsageError(
            f"{escape(path)}: packets of a pipe or of live are not kept; record them with "
            "'live -w FILE', or export"
            f" messages in another format"
        )
    if suffix not in names:
        raise UsageError(
            f"{escape(path)}: the name has no known ending; use one of {', '.join(names)}"
        )
    if os.path.lexists(path):
        raise UsageError(f"{escape(path)}: already exists; name another file")


def _are_files(inspection: Inspection) -> bool:
    """Whether the captures are files, which can be read again."""
    return all(os.path.isfile(name) for name in inspection.files)


def export(path: str, inspection: Inspection, rows: RowNumbers, tell: Tell) -> None:
    """Writes these rows, which are in rising order. Raises the same errors as ``Choice.write``."""
    refuse(path, NAMES, inspection)
    if not len(rows):
        raise UsageError(f"{escape(path)}: nothing was written, because no message matches")
    suffix = os.path.splitext(path)[1].lower()
    with AtomicFile(path) as file:
        if suffix == PACKETS:
            _packets(file, inspection, rows, tell)
        else:
            _messages(file, SUFFIXES[suffix], inspection, rows, tell)


def _messages(
    file: AtomicFile, format_: Format, inspection: Inspection, rows: RowNumbers, tell: Tell
) -> None:
    notes = {row: note.text for row, note in inspection.notes.of.items() if note.text}
    writer = format_.messages(file, WriterOptions(notes=notes), lambda: None)
    for start in range(0, len(rows), PAGE):
        tell(start / len(rows))
        batch = inspection.store.messages(rows[start : start + PAGE])
        writer.write(batch, np.arange(len(batch.row), dtype=np.int64))
    writer.end()


def _packets(file: AtomicFile, inspection: Inspection, rows: RowNumbers, tell: Tell) -> None:
    """Writes the packets of the messages. Reads the captures again, because the packets of a
    message are not kept.

    Notes become comments of packets.
    """
    last = int(rows[-1]) if len(rows) else 0
    with (
        Subset() as subset,
        Reading(inspection.files, keeper=subset, **inspection.reading.options) as reading,
    ):
        subset.follow(reading)
        notes = inspection.notes
        noted = np.array([row for row in rows.tolist() if notes.text(row)], np.int64)
        size = 2 * (reading.capture.size or 1)
        for batch in reading if last else ():
            tell(min(1.0, reading.capture.position / size))
            first = int(batch.row[0])
            subset.choose(
                batch,
                rows[
                    np.searchsorted(rows, first) : np.searchsorted(
                        rows, int(batch.row[-1]), "right"
                    )
                ]
                - first,
            )
            for row in noted[(first <= noted) & (noted <= int(batch.row[-1]))].tolist():
                subset.comment(place_of(batch, row - first), one_line(notes.text(row)))
            if int(batch.row[-1]) >= last:
                break
        subset.write(file, check=lambda: tell(min(1.0, 0.5 + subset.position / size)))
