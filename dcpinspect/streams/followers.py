"""What goes along with the messages keeps its state in one form: it leaves, travels to other
processes and is joined here, for all.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Collection, Hashable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.kernels.structs import StructRows
from dcpinspect.streams.examples import Examples

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Portable:
    """An object that other processes may get. What only further messages need stays behind."""

    travels: ClassVar[Sequence[str]] = ()
    """Names of the attributes that travel; empty: all of them."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.travels or vars(self)}

    def __setstate__(self, saved_state: dict[str, Any]) -> None:
        if self.travels:
            self.__init__()  # type: ignore[misc] # there is nothing yet
        vars(self).update(saved_state)


class PerConnection(UserDict[K, V]):
    """Keys are numbers of connections, or tuples that begin with one. Values may hold numbers of
    connections in fields of this name, also in tuples, lists, examples and data classes.
    """

    def leave(self, connections: Collection[int]) -> None:
        """Drops these connections."""
        for key in [
            key for key in self if (key[0] if isinstance(key, tuple) else key) in connections
        ]:
            del self[key]

    def join(
        self, mappings: Sequence[PerConnection[K, V]], connections: Sequence[IntArray]
    ) -> None:
        """Adds what is known in other readings, in order of connections. ``connections``: for each
        reading, their new numbers.
        """
        added: list[tuple[int, Any, V]] = []
        for mapping, numbers in zip(mappings, connections, strict=True):
            for key, value in mapping.items():
                old: Any = key[0] if isinstance(key, tuple) else key
                number = int(numbers[old])
                added.append(
                    (
                        number,
                        (number, *key[1:]) if isinstance(key, tuple) else number,
                        renumbered(value, numbers),
                    )
                )
        self.update((key, value) for _, key, value in sorted(added, key=lambda item: item[0]))


class Follower(Portable):
    """What goes along with the messages. What it knows of connections is in attributes that are
    ``PerConnection`` or followers, too.
    """

    def leave(self, connections: Collection[int]) -> None:
        """Frees what only these connections need: they are over, and their findings are known."""
        for state in vars(self).values():
            if isinstance(state, PerConnection | Follower):
                state.leave(connections)

    @classmethod
    def joined(cls, readings: Sequence[Self], connections: Sequence[IntArray]) -> Self:
        """Joins what is known of readings of different connections; ``connections``: for each
        reading, the new numbers of its connections. The whole must not be fed.
        """
        follower = cls()
        for name, state in vars(follower).items():
            if isinstance(state, PerConnection):
                state.join([getattr(reading, name) for reading in readings], connections)
        return follower


def table_of(kind: type[StructRows[Any]], array: Any) -> StructRows[Any]:
    """Returns the table that was in this array. Raises ValueError for anything else: kernels take
    the array as it is.
    """
    if not isinstance(array, np.ndarray) or array.dtype != kind.dtype or array.ndim != 1:
        raise ValueError(f"this is no table of {kind.__name__}")
    return kind(np.require(array, requirements=("C", "W", "A")))


def renumbered(
    value: Any, numbers: IntArray
) -> Any:  # Any: a value of any of these types, and one of the same type
    """Returns a value with the new numbers of its connections."""
    if isinstance(value, Examples):
        return value.renamed(lambda example: renumbered(example, numbers))
    if isinstance(value, tuple | list):
        items = (renumbered(item, numbers) for item in value)
        return type(value)._make(items) if hasattr(value, "_make") else type(value)(items)
    if is_dataclass(value) and not isinstance(value, type):
        field_values = {field.name: getattr(value, field.name) for field in fields(value)}
        new = {
            name: int(numbers[old]) if name == "connection" else renumbered(old, numbers)
            for name, old in field_values.items()
        }
        changed = {name: now for name, now in new.items() if now is not field_values[name]}
        return replace(value, **changed) if changed else value
    return value
