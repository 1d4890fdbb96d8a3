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
            offset = field.offset
            number = (
                "header"
                if offset < HEADER_SIZE
                else "framing"
                if offset < framing
                else "extras"
                if offset < extras
                else "key"
                if offset < key
                else "value"
            )
            count = count + 1 if number == before else 0
            before = number
            self._starts.append(offset)
            self._names.append(f"{number}-next" if count % 2 else number)

    def at_offset(self, offset: int) -> str:
        """Returns the part that contains a byte."""
        number = bisect_right(self._starts, offset) - 1
        return self._names[number] if number >= 0 else "header"

    def of_field(self, field: FieldValue) -> str:
        """Returns the part that contains a field, in its first colour: names need no borders. Fields
        of an unpacked value are in the part of the value.
        """
        return self.at_offset(field.offset).removesuffix("-next") if not field.inflated else "value"
