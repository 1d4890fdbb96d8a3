"""A message under construction: its bytes, which of them are missing, and what was found out so far."""

from __future__ import annotations

from collections.abc import Sequence

from dcpinspect.protocol.message import Context, Message, Problem, Severity


class Annotation:
    """What all parts of the annotator share."""

    def __init__(self, data: bytes, context: Context, missing: Sequence[tuple[int, int]]) -> None:
        self.data = data
        self.context = context
        self.missing = list(missing)
        """Ranges [start, end) that hold zeros because the capture does not have them."""
        self.message = Message(data, None, "incomplete")

    def problem(self, rule: str, severity: Severity, where: str, offset: int, reason: str) -> None:
        """Something does not fit: at byte ``offset`` of the message, in the field of path ``where``."""
        self.message.problems.append(Problem(rule, severity, where, offset, reason))

    def take(self, start: int, size: int) -> bytes | None:
        """The bytes [start, start + size) when the capture has all of them."""
        end = start + size
        if any(start < gap_end and gap_start < end for gap_start, gap_end in self.missing):
            return None
        return self.data[start:end]

    def held(self, start: int, size: int) -> bytes:
        """What the capture has of the bytes [start, start + size): up to the first missing one."""
        end = min(start + size, len(self.data))
        for gap_start, gap_end in self.missing:
            if start < gap_end and gap_start < end:
                end = max(start, gap_start)
        return self.data[start:end]
