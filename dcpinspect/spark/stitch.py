"""Finds out which packets must be read together: groups of all captures of a point form components, and components form parts.

Every component holds whole TCP connections, from the first capture to the last. So a part can be read by itself, and the engine's results
do not depend on where the captures were cut. Nothing here depends on times.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field

import numpy as np

from dcpinspect.records import dataclass
from dcpinspect.spark.marks import GroupMarks, are_same
from dcpinspect.spark.scan import ADDRESS_BYTES, KEY_BYTES

GroupPair = tuple[bytes, bytes]
GroupLocation = tuple[str, bytes]
"""A capture point, and the key of a group there."""


def components(keys: Iterable[bytes], joins: Iterable[GroupPair] = (), tunnels: Iterable[GroupPair] = ()) -> dict[bytes, bytes]:
    """Returns the component of each group of a point, named by one of its groups.

    ``joins`` and ``tunnels``: as in reports. Fragments belong with everything between their addresses, and with the groups that their
    segments are known to be part of. They also belong with segments from tunnels between their addresses: if the fragments of a segment are
    in several captures, only the tunnel is known of it.
    """
    known = list(dict.fromkeys(keys))
    wild = [key for key in known if len(key) != KEY_BYTES]
    if not wild:
        return {key: key for key in known}
    parent = {key: key for key in known}

    def root(key: bytes) -> bytes:
        while parent[key] != key:
            parent[key] = key = parent[parent[key]]
        return key

    def join(one: bytes, two: bytes) -> None:
        if one in parent and two in parent:
            first, second = sorted((root(one), root(two)))
            parent[second] = first

    for key in known:
        join(key[:ADDRESS_BYTES], key)
        if b"" in parent:  # fragments without addresses may belong to anything
            join(b"", key)
    for one, two in (*joins, *tunnels):
        join(one, two)
    return {key: root(key) for key in known}


@dataclass(frozen=True, slots=True)
class Seen:
    """What a point has of a group."""

    point: str
    key: bytes
    begun: Collection[int]
    """Sequence numbers of the SYNs in the group."""
    bytes: int
    marks: GroupMarks = field(default_factory=lambda: np.empty(0, np.uint64))

    def is_same(self, other: Seen) -> bool:
        """Whether both have a connection in common: the same ends and a SYN with the same number, or the same bytes in the same places.

        Clocks may differ, and so may addresses, if NAT stands in between.
        """
        return (self.key == other.key and not set(self.begun).isdisjoint(other.begun)) or are_same(self.marks, other.marks)


def copies(groups: Iterable[Seen]) -> dict[str, dict[bytes, GroupLocation]]:
    """Returns, for each point, the groups whose connections another point has more of.

    With each group, that other point and the key there.
    """
    ordered = sorted(groups, key=lambda one: (-one.bytes, one.point, one.key))
    if len({one.point for one in ordered}) < 2:
        return {}
    holders: dict[object, list[int]] = {}
    for number, one in enumerate(ordered):
        for token in _tokens(one):
            holders.setdefault(token, []).append(number)
    found: dict[int, GroupLocation] = {}
    for number, one in enumerate(ordered):
        if number in found:
            continue
        for other in {other for token in _tokens(one) for other in holders[token] if other > number and other not in found}:
            if ordered[other].point != one.point and one.is_same(ordered[other]):
                found[other] = one.point, one.key
    by_point: dict[str, dict[bytes, GroupLocation]] = {}
    for number, place in found.items():
        by_point.setdefault(ordered[number].point, {})[ordered[number].key] = place
    return by_point


def _tokens(one: Seen) -> Iterator[object]:
    """Yields values of which two groups have some in common, if they are the same."""
    yield from ((one.key, number) for number in one.begun)
    yield from one.marks.tolist()


def balanced(sizes: Mapping[bytes, int], parts: int) -> list[list[bytes]]:
    """Divides components into at most ``parts`` parts of about equal size: the largest first, each to the smallest part."""
    count = max(1, min(parts, len(sizes)))
    heap = [(0, number) for number in range(count)]
    found: list[list[bytes]] = [[] for _ in range(count)]
    for key in sorted(sizes, key=lambda key: (-sizes[key], key)):
        size, number = heapq.heappop(heap)
        found[number].append(key)
        heapq.heappush(heap, (size + sizes[key], number))
    return [part for part in found if part]
