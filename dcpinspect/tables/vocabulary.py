"""The possible words in columns of the messages table, if they are few and known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.datatype import DATATYPE_BITS
from dcpinspect.protocol.decode import PROBLEMS
from dcpinspect.protocol.fields import Field
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode
from dcpinspect.protocol.statuses import Status
from dcpinspect.tables.messages import DIRECTIONS, SIDES
from dcpinspect.tables.schema import BY_NAME


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Every word that a column can have."""

    words: tuple[str, ...]
    others: re.Pattern[str] | None = None
    """Pattern of texts for numbers without a name."""

    def __contains__(self, word: str) -> bool:
        return word in self.words or (
            self.others is not None and self.others.fullmatch(word) is not None
        )


NO_END = ("requested_end", "end_seqno")
"""Columns whose greatest number of 64 bits stands for no end."""
_OPCODE = re.compile(r"opcode_0x[0-9a-f]{2}")
_STATUS = re.compile(r"status_0x[0-9a-f]{4}")
_BIT = re.compile(r"0x(0[1248]|[1248]0+)")
_NUMBER = re.compile(r"unknown \([0-9]+\)")


@cache
def vocabulary(column: str) -> Vocabulary | None:
    """Returns the words of a column of the messages table; None if it can have any value."""
    if column in _BASE:
        return _BASE[column]
    kind = BY_NAME[column].kind
    if kind == "words":
        return Vocabulary(
            _distinct(bit.name for spec in _specs(column) for bit in spec.flags), _BIT
        )
    if kind == "word":
        return Vocabulary(
            _distinct(word for spec in _specs(column) for word in (spec.values or {}).values()),
            _NUMBER,
        )
    return None


@cache
def numbers_by_word(column: str) -> dict[str, int]:
    """Returns the words for numbers of a column of numbers, as in JSON under its name with _name."""
    words = {
        word: number for spec in _specs(column) for number, word in (spec.values or {}).items()
    }
    return words | ({"no end": ENDLESS} if column in NO_END else {})


def _specs(column: str) -> list[Field]:
    """Returns the fields of all layouts that give a column its values; their words may differ."""
    items = (item for layout in LAYOUTS for item in (*layout.extras, *layout.value))
    return [item for item in items if isinstance(item, Field) and column in (item.name, item.alias)]


def _distinct(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


_BASE = {
    "direction": Vocabulary(DIRECTIONS),
    "side": Vocabulary(SIDES),
    "name": Vocabulary(_distinct(op.name.lower() for op in (*Opcode, *ServerOpcode)), _OPCODE),
    "layout": Vocabulary(_distinct([*(layout.generation for layout in LAYOUTS), "error"])),
    "vbucket_from": Vocabulary(("request",)),
    "status_name": Vocabulary(_distinct(status.name.lower() for status in Status), _STATUS),
    "datatype": Vocabulary(_distinct(bit.name for bit in DATATYPE_BITS), _BIT),
    "problem": Vocabulary(PROBLEMS[1:]),
}
