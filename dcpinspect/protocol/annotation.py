"""A message under construction: its bytes, which of them are missing, what is known so far."""

from __future__ import annotations

from collections.abc import Sequence

from dcpinspect.protocol.fields import Field
from dcpinspect.protocol.meanings import json_members
from dcpinspect.protocol.message import (
    SEVERITIES,
    Context,
    FieldValue,
    Message,
    Problem,
    Severity,
    Value,
)
from dcpinspect.protocol.secrecy import Secrecy, names_credentials

_MOST_TOLD = 512
"""Greatest number of letters of a hidden value's members that are shown."""


class Annotation:
    """The state that all parts of the annotator share."""

    def __init__(self, data: bytes, context: Context, missing: Sequence[tuple[int, int]]) -> None:
        self.data = data
        self.context = context
        self.missing = list(missing)
        """Ranges [start, end) that hold zeros because the capture does not have them."""
        self.message = Message(data, None, "incomplete")
        self.secrecy = Secrecy.UNKNOWN

    def name_of(self, field: str, number: int) -> str | None:
        """Returns name and id of the collection or scope with this number, by the name of its
        field; None if it has no name.
        """
        names = self.context.names
        if names is None:
            return None
        if field == "collection_id":
            return names.collection(number)
        if field == "scope_id":
            return names.scope(number)
        return None

    def problem(
        self, rule: str, where: str, offset: int, reason: str, severity: Severity | None = None
    ) -> None:
        """Adds a problem: something does not fit at byte ``offset`` of the message, in the field of
        path ``where``. ``severity``: of a rule that is not always as bad.
        """
        severity = severity or SEVERITIES.get(rule, "error")
        self.message.problems.append(Problem(rule, severity, where, offset, reason))

    def hidden(self, spec: Field, at: int, size: int, depth: int, *, is_value: bool) -> FieldValue:
        """Returns a field of which only the length is shown, and the members that its layout allows
        to be shown.
        """
        if is_value:
            self.message.value = Value("hidden", size)
        shown_members = (
            json_members(self.captured_bytes(at, size) or b"", spec.shown_members)
            if spec.shown_members
            else ""
        )
        if len(shown_members) > _MOST_TOLD:
            shown_members = shown_members[:_MOST_TOLD] + "…"
        meaning = f"hidden, {size} bytes" + (
            f", among them {shown_members}" if shown_members else ""
        )
        return FieldValue.of(spec, at, size, b"", None, meaning, depth=depth, hidden=True)

    def names_credentials(self, text: bytes) -> bool:
        """Returns whether a text to be shown must be hidden, because it names credentials."""
        return self.secrecy is not Secrecy.OPEN and names_credentials(text, self.message.key)

    def captured_bytes(self, start: int, size: int) -> bytes | None:
        """Returns the bytes [start, start + size) if the capture has all of them, else None."""
        end = start + size
        for gap_start, gap_end in self.missing:
            if start < gap_end and gap_start < end:
                return None
        return self.data[start:end]

    def held(self, start: int, size: int) -> bytes:
        """Returns what the capture has of [start, start + size), up to the first missing byte."""
        end = min(start + size, len(self.data))
        for gap_start, gap_end in self.missing:
            if start < gap_end and gap_start < end:
                end = max(start, gap_start)
        return self.data[start:end]
