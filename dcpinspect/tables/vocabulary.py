"""The possible words in columns of the messages table, if they are few and known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.datatype import DATATYPE_BITS
from dcpinspect.protocol.decode import PROBLEMS
from dcpinspect.protocol.fields import Field, Layout
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode, opcode_name
from dcpinspect.protocol.statuses import Status
from dcpinspect.tables.column_kinds import Column
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


def numbers_by_word(column: Column) -> dict[str, int]:
    """Returns the words for numbers of a column of numbers, as in JSON under its name with _name."""
    if BY_NAME.get(column.name) is not column:
        return dict.fromkeys(column.words, ENDLESS) if column.kind == "u64" else {}
    if column.kind in ("word", "words"):
        return {}
    specs = _specs(column.name)
    return {word: number for spec in specs for number, word in (spec.values or {}).items()}


def commands_with(column: Column, word: str) -> tuple[str, ...]:
    """Returns the commands whose numbers of a column a word names; none if all do that have the
    column.
    """
    if BY_NAME.get(column.name) is not column:
        return ()
    naming, others = set[str](), set[str]()
    for layout in LAYOUTS:
        command = opcode_name(layout.opcode, server=layout.server)
        for spec in _specs(column.name, (layout,)):
            (naming if word in (spec.values or {}).values() else others).add(command)
    return tuple(sorted(naming)) if others - naming else ()


def named_numbers(column: Column) -> list[str]:
    """Returns the numbers of a column that have words, with these, and with the commands of which
    they are if others have other numbers.
    """
    numbers_of: dict[tuple[str, ...], list[str]] = {}
    for word, number in numbers_by_word(column).items():
        numbers_of.setdefault(commands_with(column, word), []).append(f"{number} {word}")
    return [
        text
        for commands, (first, *more) in numbers_of.items()
        for text in (f"{', '.join(commands)}: {first}" if commands else first, *more)
    ]


def _specs(column: str, layouts: Iterable[Layout] = LAYOUTS) -> list[Field]:
    """Returns the fields of layouts that give a column its values; their words may differ."""
    items = (item for layout in layouts for item in (*layout.extras, *layout.value))
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
