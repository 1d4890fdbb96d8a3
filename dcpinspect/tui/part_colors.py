"""The parts of a message: bytes and fields of the same part have the same colour."""

from __future__ import annotations

from bisect import bisect_right

from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.message import FieldValue, Message


class Parts:
    """The parts of one message, as the palette names them. Neighbouring fields of a part have two
    colours in turn.
    """

    def __init__(self, message: Message | None) -> None:
        self._starts: list[int] = []
        self._names: list[str] = []
        if message is None:
            return
        header, before, count = message.header, "", 0
        framing = HEADER_SIZE + message.framing_size
        extras = framing + (header.extras_size if header is not None else 0)
        key = extras + (header.key_size if header is not None else 0)
        for field in message.fields:
            at = field.offset
            part = (
                "header"
                if at < HEADER_SIZE
                else "framing"
                if at < framing
                else "extras"
                if at < extras
                else "key"
                if at < key
                else "value"
            )
            count = count + 1 if part == before else 0
            before = part
            self._starts.append(at)
            self._names.append(f"{part}-next" if count % 2 else part)

    def at(self, offset: int) -> str:
        """Returns the part that contains a byte."""
        place = bisect_right(self._starts, offset) - 1
        return self._names[place] if place >= 0 else "header"

    def of(self, field: FieldValue) -> str:
        """Returns the part that contains a field; fields of an unpacked value are in the part of
        the value.
        """
        return self.at(field.offset) if not field.inflated else "value"
