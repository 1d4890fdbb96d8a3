"""The JSON of many messages at once, byte for byte the same as from ``json.message_object`` and ``json.dump``."""

from __future__ import annotations

from collections.abc import Iterator

from dcpinspect.export import row_text as rt
from dcpinspect.export.json import Values, dump, message_object
from dcpinspect.export.json_programs import JsonPrograms
from dcpinspect.export.row_run import Run
from dcpinspect.protocol.columns import Rows
from dcpinspect.tables.messages import MessageBatch


class JsonRows:
    """Writes messages of a reading as JSON; remembers the kinds it has met."""

    def __init__(self, *, fields: bool, values: Values, before: bytes = b"", after: bytes = b"") -> None:
        """``before`` and ``after`` stand around every object."""
        self._programs = JsonPrograms(fields=fields, before=before, after=after)
        self._values = values
        self._before = before
        self._after = after

    def pieces(self, batch: MessageBatch, rows: Rows) -> Iterator[bytes]:
        """Yields the JSON of these messages in order, many in a piece."""
        if self._values != "full" or not rt.write_rows.is_compiled:
            yield from (self._ordinary(batch, index) for index in rows.tolist())
            return
        run = _JsonRun(self._programs, batch, rows)
        yield from run.pieces(lambda place: self._ordinary(batch, int(rows[place])))

    def _ordinary(self, batch: MessageBatch, index: int) -> bytes:
        return self._before + dump(message_object(batch, index, fields=self._programs.fields, values=self._values)) + self._after


class _JsonRun(Run):
    """Writes the objects of messages."""

    xattrs_are_json = True

    def prepare(self) -> None:
        """Does nothing, because nothing stands before the objects."""
