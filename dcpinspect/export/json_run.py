"""The JSON of many messages at once, byte for byte what ``json.message_object`` and ``json.dump`` make of each."""

from __future__ import annotations

from collections.abc import Iterator

from dcpinspect.export import row_text as rt
from dcpinspect.export.document_text import document_text
from dcpinspect.export.json import Values, dump, message_object
from dcpinspect.export.json_programs import JsonPrograms
from dcpinspect.export.row_programs import COLUMN
from dcpinspect.export.row_run import Run
from dcpinspect.protocol.columns import Rows
from dcpinspect.protocol.fields import Field
from dcpinspect.protocol.layouts import LAYOUTS
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
        """The JSON of these messages in order, many in a piece."""
        if self._values != "full" or not rt.write_rows.runs_compiled(len(rows)):
            yield from (self._ordinary(batch, index) for index in rows.tolist())
            return
        run = _JsonRun(self._programs, batch, rows)
        yield from run.pieces(lambda place: self._ordinary(batch, int(rows[place])))

    def _ordinary(self, batch: MessageBatch, index: int) -> bytes:
        return self._before + dump(message_object(batch, index, fields=self._programs.fields, values=self._values)) + self._after


class _JsonRun(Run):
    """Objects of messages."""

    def __init__(self, programs: JsonPrograms, batch: MessageBatch, rows: Rows) -> None:
        self._has_fields = programs.fields
        super().__init__(programs, batch, rows)

    def prepare(self) -> None:
        """Objects stand for themselves."""

    def write_xattrs(self, places: Rows, data: memoryview) -> None:
        """The value among the fields, and the object of the value."""
        decoded, columns = self._batch.decoded, self._columns
        starts, sizes, at = (columns[COLUMN[name]][places].tolist() for name in ("value_start", "value_size", "value_at"))
        for place, start, size, offset in zip(places.tolist(), starts, sizes, at, strict=True):
            row, found = self._rows[place], None
            if self._batch.redactor is None:
                (spec,) = LAYOUTS[decoded.layout[row]].value
                assert isinstance(spec, Field)
                found = document_text(spec, bytes(data[start : start + size]), int(decoded.datatype[row]), offset, fields=self._has_fields)
            if found is None:
                self._plain[place] = False
                continue
            self._put("field", place, found[0])
            self._put("object", place, found[1])
