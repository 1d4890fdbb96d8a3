"""Which packets have to be read together: groups of all captures of a point put together to components, components to parts.

Every component holds whole TCP connections, from the first capture to the last; so a part can be read by itself, and what the engine
says of it does not depend on how the captures were cut. Nothing here looks at a sequence number or at a clock.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dcpinspect.spark.scan import ADDRESS_BYTES, KEY_BYTES

Pair = tuple[bytes, bytes]


def components(keys: Iterable[bytes], joins: Iterable[Pair] = (), tunnels: Iterable[Pair] = ()) -> dict[bytes, bytes]:
    """The component of each group of a point, named by one of its groups.

    ``joins`` and ``tunnels``: as those of reports. Fragments belong with everything between their addresses; with what their segments are
    known to be part of; and with what came through tunnels between their addresses, for of a segment whose fragments are in several
    captures nobody has seen more than the tunnel.
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
        if b"" in parent:  # fragments without addresses: what they carry may belong anywhere
            join(b"", key)
    for one, two in (*joins, *tunnels):
        join(one, two)
    return {key: root(key) for key in known}


@dataclass(frozen=True, slots=True)
class PointSummary:
    """What a point has between two ends."""

    point: str
    begun: Collection[int]
    """Sequence numbers of its SYNs."""
    bytes: int


def copies(groups: Mapping[bytes, Sequence[PointSummary]]) -> dict[str, set[bytes]]:
    """By point: the groups of which another point has the same connections, and more of them.

    Connections at two points are the same where they have the same ends and began with the same sequence number; clocks may differ.
    """
    found: dict[str, set[bytes]] = {}
    for key, seen in groups.items():
        rest = sorted(seen, key=lambda one: (-one.bytes, one.point))
        while rest:
            first, *others = rest
            rest = []
            for one in others:
                if set(first.begun).isdisjoint(one.begun):
                    rest.append(one)
                else:
                    found.setdefault(one.point, set()).add(key)
    return found


def balanced(sizes: Mapping[bytes, int], parts: int) -> list[list[bytes]]:
    """Components in at most so many parts of about equal size: the largest first, each where there is least."""
    count = max(1, min(parts, len(sizes)))
    heap = [(0, number) for number in range(count)]
    found: list[list[bytes]] = [[] for _ in range(count)]
    for key in sorted(sizes, key=lambda key: (-sizes[key], key)):
        size, number = heapq.heappop(heap)
        found[number].append(key)
        heapq.heappush(heap, (size + sizes[key], number))
    return [part for part in found if part]
