"""What has to be known of several captures before one of them is read: how far the clocks are apart
of those that have the same connections, as the client's and the server's, and secrets of TLS.

A packet takes as long in one direction as in the other: by the clock of one capture it is later in
the other, in the other direction earlier.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from dcpinspect.arrays import Array, IntArray, unique
from dcpinspect.capture.batch import MOST_OPEN, PacketBatch
from dcpinspect.capture.open import EARLIEST, open_capture, series_of
from dcpinspect.errors import CaptureError
from dcpinspect.transport.headers import ADDRESSES, CAPTURED, PAYLOAD, PORTS, SEQ, HeaderParser

CLOCKS_NS = 10_000_000
"""Clocks that are no further apart agree: an answer may take as long."""
LOOKED_AT = 1 << 28
"""So many bytes of captures are looked at, those of each file from its start."""
_KEPT = 1 << 12
"""Greatest number of packets that are taken of a file: in each the same ones."""
_LEAST = 4
"""So many packets of each direction have to be in both captures."""
_HEAD = 32
"""Number of bytes of a packet that have to be the same."""
_FACTORS = np.cumprod(np.full(_HEAD + 8, 6_364_136_223_846_793_005, np.uint64))


class Survey(NamedTuple):
    """What captures tell before they are read."""

    ahead_ns: Mapping[str, int] = MappingProxyType({})
    """Nanoseconds that clocks are ahead, by name of the capture; of clocks that differ, those of
    the captures that begin first count.
    """
    secrets: Sequence[bytes] = ()
    """Lines of TLS key logs: they may come behind packets of another capture."""


def survey(files: Sequence[str]) -> Survey:
    """Looks at captures that can be read again. ``files``: in order of their begin."""
    names = [name for name in files if os.path.isfile(name)]
    if not 1 < len(names) <= MOST_OPEN:
        return Survey()
    secrets = list[bytes]()
    samples = [_sample(name, LOOKED_AT // len(names), secrets) for name in names]
    return Survey(_ahead(names, samples), secrets)


def _ahead(names: Sequence[str], samples: Sequence[IntArray]) -> dict[str, int]:
    apart = _apart(samples)
    if not any(apart.values()):
        return {}
    # the files of a ring have one clock, and are not of the same time
    rings, ends, beside = [series_of(name) for name in names], dict[str, int](), set[str]()
    for sample, ring in zip(samples, rings, strict=True):
        if sample.size:
            end_ns = ends.get(ring, EARLIEST)
            if sample[1].min() < end_ns:
                beside.add(ring)
            ends[ring] = max(int(sample[1].max()) - CLOCKS_NS, end_ns)
    clocks = [name if ring in beside else ring for name, ring in zip(names, rings, strict=True)]
    ahead: dict[str, int] = {}
    for clock in clocks:
        waiting = [] if clock in ahead else [clock]
        ahead.setdefault(clock, 0)
        while waiting:
            clock = waiting.pop()
            for (first, second), apart_ns in apart.items():
                for near, far, ns in ((first, second, apart_ns), (second, first, -apart_ns)):
                    if clocks[near] == clock and clocks[far] not in ahead:
                        ahead[clocks[far]] = ahead[clock] + ns
                        waiting.append(clocks[far])
    return {name: ahead[clock] for name, clock in zip(names, clocks, strict=True) if ahead[clock]}


def _sample(name: str, most: int, secrets: list[bytes]) -> IntArray:
    """Returns packets of a capture with bytes of TCP: a row of what tells each from others, one of
    their times, and one of their directions. ``most``: number of bytes that are read. ``secrets``: gets what the capture has.
    """
    parser, packets, size = HeaderParser(None), np.empty((3, 0), np.int64), 0
    with suppress(CaptureError, OSError), open_capture(name) as capture:
        for batch in capture:
            packets = np.concatenate((packets, _packets(parser, batch)), axis=1)
            _, first = np.unique(packets[0], return_index=True)  # of copies the first
            packets, size = packets[:, first[:_KEPT]], size + len(batch.data)
            if size > most:
                break
        secrets += capture.files[0].secrets
    return packets


def _packets(parser: HeaderParser, batch: PacketBatch) -> IntArray:
    headers = parser.columns(batch)
    rows = np.flatnonzero(headers.tcp[:, CAPTURED] > 0)
    tcp = headers.tcp[rows]
    offsets = np.minimum(tcp[:, PAYLOAD, None] + np.arange(_HEAD), len(batch.data) - 1)
    head = batch.data[offsets] * (np.arange(_HEAD) < tcp[:, CAPTURED, None])
    words = np.concatenate((tcp[:, ADDRESSES : PORTS + 2], tcp[:, [SEQ]], head), axis=1)
    mixed: Array = words.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _FACTORS[: words.shape[1]]
    keys = (mixed ^ (mixed >> np.uint64(32))).sum(axis=1) * _FACTORS[-1]
    is_back = tcp[:, PORTS] > tcp[:, PORTS + 1]
    is_back |= (tcp[:, PORTS] == tcp[:, PORTS + 1]) & (tcp[:, 1] > tcp[:, 3])
    return np.stack((keys.view(np.int64), batch.time_ns[headers.index[rows]], is_back))


def _apart(samples: Sequence[IntArray]) -> dict[tuple[int, int], int]:
    """Returns how far the clock of the second capture of a pair is ahead, by the packets that both
    have; 0 if the clocks agree. Pairs that have too few are left out.
    """
    owner = np.repeat(np.arange(len(samples)), [sample.shape[1] for sample in samples])
    key, time_ns, is_back = np.concatenate(samples, axis=1)
    order = np.lexsort((owner, key))
    again = np.flatnonzero(np.diff(key[order]) == 0)
    rows, next_rows = order[again], order[again + 1]
    pair = owner[rows] * MOST_OPEN + owner[next_rows]
    apart = {}
    for number in unique(pair).tolist():
        of_pair = np.flatnonzero(pair == number)
        apart_ns = time_ns[next_rows[of_pair]] - time_ns[rows[of_pair]]
        directions = [apart_ns[is_back[rows[of_pair]] == direction] for direction in (0, 1)]
        if min(map(len, directions)) >= _LEAST:
            middle = int(sum(float(np.median(delays)) for delays in directions)) // 2
            spread = max(
                float(np.subtract(*np.percentile(delays, (75, 25)))) for delays in directions
            )
            is_step = abs(middle) > max(CLOCKS_NS, 4 * spread)
            apart[divmod(number, MOST_OPEN)] = middle if is_step else 0
    return apart
