"""What watchers know of each connection. ``Watcher`` drops it when the connection leaves, and joins that of several readings."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Collection, Hashable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from dcpinspect.findings.finding import Place
from dcpinspect.protocol.columns import Rows
from dcpinspect.streams.examples import Examples

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class PerConnection(UserDict[K, V]):
    """Keys are numbers of connections, or tuples that begin with one. Values may hold places, also in tuples, lists, examples and data
    classes."""

    def leave(self, connections: Collection[int]) -> None:
        """Drops these connections."""
        for key in [key for key in self if (key[0] if isinstance(key, tuple) else key) in connections]:
            del self[key]

    def join(self, other: PerConnection[K, V], numbers: Rows) -> None:
        """Adds what is known in another reading. ``numbers``: the new numbers of its connections."""
        for key, value in other.items():
            new: Any = (int(numbers[key[0]]), *key[1:]) if isinstance(key, tuple) else int(numbers[key])  # type: ignore[call-overload] # an int
            self[new] = renumbered(value, numbers)


def renumbered(value: Any, numbers: Rows) -> Any:  # Any: a value of any of these types, and one of the same type
    """Returns a value with the new numbers of the connections of its places."""
    if isinstance(value, Place):
        return replace(value, connection=int(numbers[value.connection]))
    if isinstance(value, Examples):
        return value.renamed(lambda example: renumbered(example, numbers))
    if isinstance(value, tuple | list):
        return type(value)(renumbered(item, numbers) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        own = {field.name: getattr(value, field.name) for field in fields(value)}
        changed = {name: new for name, old in own.items() if (new := renumbered(old, numbers)) is not old}
        return replace(value, **changed) if changed else value
    return value
