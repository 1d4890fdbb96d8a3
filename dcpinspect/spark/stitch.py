"""Finds out which packets must be read together: groups of all captures of a point form components,
and components form parts.

Every component holds whole TCP connections, from the first capture to the last. So a part can be
read by itself, and the engine's results do not depend on where the captures were cut. Nothing here
depends on times.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field

import numpy as np

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.spark.data_marks import GroupMarks, are_same
from dcpinspect.spark.scan import ADDRESS_BYTES, KEY_BYTES

GroupPair = tuple[bytes, bytes]
GroupLocation = tuple[str, bytes]
"""A capture point, and the key of a group there."""


def components(keys: Iterable[bytes], joins: Iterable[GroupPair] = ()) -> dict[bytes, bytes]:
    """Returns the component of each group of a point, named by one of its groups.

    ``joins``: those of reports, and their tunnels. Fragments belong with everything between their
    addresses, and with the groups that their segments are known to be part of. They also belong
    with segments from tunnels between their addresses: if the fragments of a segment are in several
    captures, only the tunnel is known of it.
    """
    all_keys = list(dict.fromkeys(keys))
    wild = [key for key in all_keys if len(key) != KEY_BYTES]
    if not wild:
        return {key: key for key in all_keys}
    parent = {key: key for key in all_keys}

    def root(key: bytes) -> bytes:
        while parent[key] != key:
            parent[key] = key = parent[parent[key]]
        return key

    def join(first_key: bytes, second_key: bytes) -> None:
        if first_key in parent and second_key in parent:
            first, second = sorted((root(first_key), root(second_key)))
            parent[second] = first

    for key in all_keys:
        join(key[:ADDRESS_BYTES], key)
        if b"" in parent:  # fragments without addresses may belong to anything
            join(b"", key)
    for first_key, second_key in joins:
        join(first_key, second_key)
    return {key: root(key) for key in all_keys}


@dataclass(frozen=True, slots=True)
class PointPackets:
    """What a point has of a group."""

    point: str
    key: bytes
    begun: Collection[int]
    """Sequence numbers of the SYNs in the group."""
    bytes: int
    marks: GroupMarks = field(default_factory=lambda: np.empty(0, np.uint64))

    def is_same(self, other: PointPackets) -> bool:
        """Whether both have a connection in common: the same ends and a SYN with the same number,
        or the same bytes in the same places.

        Clocks may differ, and so may addresses, if NAT stands in between.
        """
        return (self.key == other.key and not set(self.begun).isdisjoint(other.begun)) or are_same(
            self.marks, other.marks
        )


def copies(groups: Iterable[PointPackets]) -> dict[str, dict[bytes, GroupLocation]]:
    """Returns, for each point, the groups whose connections another point has more of.

    With each group, that other point and the key there.
    """
    ordered = sorted(groups, key=lambda group: (-group.bytes, group.point, group.key))
    if len({group.point for group in ordered}) < 2:
        return {}
    holders: dict[object, list[int]] = {}
    for number, group in enumerate(ordered):
        for token in _tokens(group):
            holders.setdefault(token, []).append(number)
    originals: dict[int, GroupLocation] = {}
    for number, group in enumerate(ordered):
        if number in originals:
            continue
        for later in {
            later
            for token in _tokens(group)
            for later in holders[token]
            if later > number and later not in originals
        }:
            if ordered[later].point != group.point and group.is_same(ordered[later]):
                originals[later] = group.point, group.key
    by_point: dict[str, dict[bytes, GroupLocation]] = {}
    for number, location in originals.items():
        by_point.setdefault(ordered[number].point, {})[ordered[number].key] = location
    return by_point


def _tokens(group: PointPackets) -> Iterator[object]:
    """Yields values of which two groups have some in common, if they are the same."""
    yield from ((group.key, number) for number in group.begun)
    yield from group.marks.tolist()


def balanced(sizes: Mapping[bytes, int], parts: int) -> list[list[bytes]]:
    """Divides components into at most ``parts`` parts of about equal size: the largest first, each
    to the smallest part.
    """
    count = max(1, min(parts, len(sizes)))
    heap = [(0, number) for number in range(count)]
    bins: list[list[bytes]] = [[] for _ in range(count)]
    for key in sorted(sizes, key=lambda key: (-sizes[key], key)):
        size, number = heapq.heappop(heap)
        bins[number].append(key)
        heapq.heappush(heap, (size + sizes[key], number))
    return [bin_keys for bin_keys in bins if bin_keys]
