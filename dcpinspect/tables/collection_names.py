"""Names of collections, as far as a reading was told, and from which message on they are valid.

A name is valid from the message that tells it. So a reading says the same of every row, even if it
goes on, or has batches of another size. Names that one connection is told are valid on every
connection that selected the same bucket of the same server. Ids that no message explained are
written ``0x8``; ids of scopes, too, as in ``0x9.fruit``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from copy import copy
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import RowNumbers

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor

_MOST = 1 << 14
"""Greatest number of names, and of changes of names, that are remembered for a bucket."""
DEFAULT = "_default"
"""Name of the collection and of the scope with id 0."""


@dataclass(slots=True)
class _Values:
    """Successive names of a collection or scope, each with the row from which it is valid."""

    rows: list[int] = field(default_factory=list)
    values: list[tuple[int | str, str]] = field(default_factory=list)

    def value_at(self, row: int) -> tuple[int | str, str] | None:
        index = bisect_right(self.rows, row)
        return self.values[index - 1] if index else None


class _Owner(NamedTuple):
    """Which names are valid for a connection from a row on."""

    own: Hashable
    """Key of the names that the connection was told itself."""
    shared: Hashable
    """Key of the names of the bucket that it selected."""


@dataclass(slots=True)
class _Bucket:
    collections: dict[int, _Values] = field(default_factory=dict)
    """Names of collections by id: scope, by id or by name, and name."""
    scopes: dict[int, _Values] = field(default_factory=dict)
    changes: int = 0


class Names:
    """The names of a reading. Names are only added: those for a row that was read do not change."""

    def __init__(self) -> None:
        self._buckets: dict[Hashable, _Bucket] = {}
        self._owners: dict[int, tuple[list[int], list[_Owner]]] = {}
        self._moments: list[int] = []
        """Rows from which on a name is different from before."""
        self._known: dict[tuple[int, int, int], str | None] = {}
        """Found names, by connection, collection and number of moments before."""
        self._redactor: Redactor | None = None
        self._replaced: Names | None = None

    def redacted(self, redactor: Redactor) -> Names:
        """Returns a view of these names, now and in future, with a replacement for each name."""
        if self._replaced is None or self._replaced._redactor is not redactor:
            # both share the same tables, so later names are known to both
            self._replaced = copy(self)
            self._replaced._redactor, self._replaced._known = redactor, {}
        return self._replaced

    # -- telling: in order of rows

    def select(self, row: int, connection: int, server: str, bucket: bytes) -> bool:
        """Records that a connection selected a bucket; returns whether it is another one."""
        rows, owners = self._owners.setdefault(connection, ([], []))
        shared = (server, bucket)
        if owners and owners[-1].shared == shared:
            return False
        rows.append(row)
        owners.append(_Owner((connection, row), shared))
        self._note(row)
        return True

    def tell_scope(self, row: int, connection: int, number: int, name: str) -> None:
        """Records that a connection was told the name of a scope."""
        for bucket in self._buckets_of(connection, row):
            self._add_to(row, bucket, bucket.scopes, number, (number, name))

    def add(self, row: int, connection: int, number: int, scope: int | str, name: str) -> None:
        """Records that a connection was told a collection's name, and its scope by id or name."""
        for bucket in self._buckets_of(connection, row):
            earlier_values = bucket.collections.get(number)
            before = earlier_values.values[-1] if earlier_values is not None else None
            if (
                isinstance(scope, int)
                and before is not None
                and before[1] == name
                and isinstance(before[0], str)
            ):
                self._add_to(row, bucket, bucket.scopes, scope, (scope, before[0]))
            self._add_to(row, bucket, bucket.collections, number, (scope, name))

    def _buckets_of(self, connection: int, row: int) -> list[_Bucket]:
        return [
            self._buckets.setdefault(key, _Bucket())
            for key in dict.fromkeys(self._owner(connection, row))
        ]

    def _add_to(
        self,
        row: int,
        bucket: _Bucket,
        of: dict[int, _Values],
        number: int,
        value: tuple[int | str, str],
    ) -> None:
        earlier_values = of.get(number)
        if (
            earlier_values is not None and earlier_values.values[-1] == value
        ) or bucket.changes >= _MOST:
            return
        bucket.changes += 1
        if earlier_values is None:
            earlier_values = of.setdefault(number, _Values())
        earlier_values.rows.append(row)
        earlier_values.values.append(value)
        self._note(row)

    def _note(self, row: int) -> None:
        if not self._moments or self._moments[-1] != row:
            self._moments.append(row)

    # -- asking: for any row that was read

    def collection(self, connection: int, number: int, row: int) -> str:
        """Returns the name of a collection in a message of a connection: ``scope.collection``,
        ``0x9.collection`` or ``0x8``.
        """
        return self.known_collection(connection, number, row) or unnamed(number)

    def known_collection(
        self, connection: int, number: int, row: int, *, is_own: bool = False
    ) -> str | None:
        """Returns the name of a collection; None if it is not known. ``is_own``: only uses names
        that the connection itself was told.
        """
        if is_own:
            return self._name_at(connection, number, row, is_own=True)
        key = (connection, number, bisect_right(self._moments, row))
        try:
            return self._known[key]
        except KeyError:
            name = self._name_at(connection, number, row, is_own=False)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = name
        return name

    def _name_at(self, connection: int, number: int, row: int, *, is_own: bool) -> str | None:
        if number == 0:
            return f"{DEFAULT}.{DEFAULT}"
        bucket = self._bucket(connection, row, is_own=is_own)
        collection_names = bucket.collections.get(number) if bucket is not None else None
        scope_and_name = collection_names.value_at(row) if collection_names is not None else None
        if scope_and_name is None:
            return None
        scope, name = scope_and_name
        named = (
            self._shown_name(scope)
            if isinstance(scope, str)
            else self.known_scope(connection, scope, row, is_own=is_own) or unnamed(scope)
        )
        return f"{named}.{self._shown_name(name)}"

    def _shown_name(self, name: str) -> str:
        return name if self._redactor is None else shown_name(name, self._redactor)

    def known_scope(
        self, connection: int, number: int, row: int, *, is_own: bool = False
    ) -> str | None:
        """Returns the name of a scope; None if it is not known."""
        if number == 0:
            return DEFAULT
        bucket = self._bucket(connection, row, is_own=is_own)
        scope_names = bucket.scopes.get(number) if bucket is not None else None
        scope_name = scope_names.value_at(row) if scope_names is not None else None
        return self._shown_name(scope_name[1]) if scope_name is not None else None

    def moments(self, first: int, last: int) -> RowNumbers:
        """Returns the rows after ``first`` up to ``last`` from which on a name differs."""
        low, high = bisect_right(self._moments, first), bisect_right(self._moments, last)
        return np.array(self._moments[low:high], dtype=np.int64)

    def _owner(self, connection: int, row: int) -> _Owner:
        rows, owners = self._owners.get(connection, ((), ()))
        index = bisect_right(rows, row)
        return owners[index - 1] if index else _Owner(connection, connection)

    def _bucket(self, connection: int, row: int, *, is_own: bool) -> _Bucket | None:
        owner = self._owner(connection, row)
        return self._buckets.get(owner.own if is_own else owner.shared)


NO_NAMES = Names()
"""Names for messages without a reading."""


class NamesAt(NamedTuple):
    """The names of a reading that are valid for one message."""

    names: Names
    connection: int
    row: int

    def collection(self, number: int) -> str | None:
        """Returns a collection with its id, as ``shop.orders (0x8)``; None for an unknown name."""
        name = self.names.known_collection(self.connection, number, self.row)
        return None if name is None else with_id(name, number)

    def scope(self, number: int) -> str | None:
        """Returns a scope with its id; None if its name is not known."""
        name = self.names.known_scope(self.connection, number, self.row)
        return None if name is None else with_id(name, number)


def shown_name(name: str, redactor: Redactor | None) -> str:
    """Returns the text for the name of a scope or a collection; names of the default ones reveal
    nothing, and are not replaced.
    """
    return name if redactor is None or name == DEFAULT else redactor.text(name)


def unnamed(number: int) -> str:
    """Returns the text for an unknown name."""
    return f"0x{number:x}"


def with_id(name: str, number: int) -> str:
    """Returns a name with its number."""
    return f"{name} (0x{number:x})"
