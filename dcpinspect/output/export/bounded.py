"""Results that must not be longer than their reader can take: what is left out is counted, so that
nothing passes for the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Bound:
    """The greatest size of the JSON that a command writes, and what did not fit."""

    def __init__(self) -> None:
        self.room: int | None = None
        """Number of bytes that are left; None: there is no bound."""
        self.left_out = 0
        """Number of records that were left out."""

    def set(self, room: int | None) -> int | None:
        """Begins a new output with ``room`` bytes, which it returns."""
        self.room, self.left_out = None if room is None else room - _FRAME, 0
        return room

    def fitting(self, records: Sequence[bytes]) -> Sequence[bytes]:
        """Returns those of the next records that fit; none does after the first that does not."""
        if self.room is None:
            return records
        for index, record in enumerate(records):
            if self.left_out or len(record) + _AROUND > self.room:
                self.left_out += len(records) - index
                return records[:index]
            self.room -= len(record) + _AROUND
        return records


command_bound = Bound()
"""What ``--max-bytes`` says."""
_FRAME = 5
"""Bytes of the brackets of an array, and of its last line."""
_AROUND = 2
"""Bytes around a record: a comma and the end of a line."""
CUT = "cut"
"""Key of an object with what was left out of it: by the path of a list or a text, how many entries
or characters.
"""
_STEPS = ((200, 4000), (50, 1000), (20, 300), (8, 120), (3, 60), (1, 30))
"""Greatest numbers of entries of a list, and of characters of a text, from step to step."""


def size_of(value: Any) -> int:
    """Returns the length of a value as JSON."""
    import orjson  # deferred: columnar formats do not need it

    return len(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS))


def fitted(record: dict[str, Any], room: int) -> dict[str, Any]:
    """Returns a record with its long lists and texts cut until it takes ``room`` bytes as JSON, as
    far as possible; ``CUT`` counts what is left out.
    """
    for entries, characters in _STEPS:
        if size_of(record) <= room:
            break
        cut: dict[str, int] = dict(record.get(CUT, {}))
        record = {
            name: _cut(value, name, entries, characters, cut)
            for name, value in record.items()
            if name != CUT
        }
        if cut:
            record[CUT] = cut
    return record


def _cut(value: Any, path: str, entries: int, characters: int, cut: dict[str, int]) -> Any:
    if isinstance(value, dict):
        return {
            name: _cut(member, f"{path}.{name}", entries, characters, cut)
            for name, member in value.items()
        }
    if isinstance(value, list) and len(value) > entries:
        cut[path] = cut.get(path, 0) + len(value) - entries
        value = value[:entries]
    if isinstance(value, str) and len(value) > characters:
        cut[path] = cut.get(path, 0) + len(value) - characters
        return value[:characters]
    if isinstance(value, list):
        return [_cut(member, f"{path}[]", entries, characters, cut) for member in value]
    return value
