"""Reads the TCP segments of some connections again from a place's captures, without decoding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, unique
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.diff.reading_side import AnswerTimes
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams.events import hash_keys
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.transport.connections import AddressPairs
from dcpinspect.transport.headers import (
    CAPTURED,
    FLAGS,
    PAYLOAD,
    SEQ,
    SYN,
    UNUSUAL,
    WIRE,
    HeaderParser,
)
from dcpinspect.transport.reassembly import Reassembler
from dcpinspect.transport.scapy_dissection import UnusualPackets

HASHED = 64
"""Number of bytes at the start of a segment that are compared."""
_SECRETS = 1_000_003, 998_244_353
_LAPS = 1 << 32


@dataclass(frozen=True, slots=True)
class Segments:
    """The packets that one direction of a connection sent, in order of time. A SYN counts as the
    byte before the first one.
    """

    start: IntArray
    """Place of the first byte, counted in bytes from ``origin``."""
    end: IntArray
    time_ns: IntArray
    hash: IntArray
    is_syn: BoolArray


class Tap(Protocol):
    """One of two places at which connections were captured, after the captures were read."""

    name: str
    """Name of the place: a or b."""
    answers: AnswerTimes

    @property
    def files(self) -> Sequence[str]:
        """Names of the captures from there."""

    @property
    def is_repeatable(self) -> bool:
        """Whether its packets can be read again."""

    @property
    def compared_links(self) -> list[TcpConnection]:
        """The connections that are compared."""

    @property
    def transport(self) -> Reassembler:
        """The reassembler, which knows the sequence numbers of the connections."""

    def packets(self) -> AbstractContextManager[Iterable[PacketBatch]]:
        """Reads the packets once more."""


def segments_of(
    side: Tap, origins: Mapping[int, tuple[int, int]]
) -> dict[tuple[int, int], Segments]:
    """Returns the segments of each direction of these connections.

    ``origins``: for each connection, the sequence numbers that places count from.
    """
    columns_of: dict[tuple[int, int], list[IntArray]] = {
        (number, direction): [] for number in origins for direction in (0, 1)
    }
    links = {link.number: link for link in side.compared_links}
    links_between: dict[tuple[str, str], list[int]] = {}
    for number in sorted(origins):
        links_between.setdefault((links[number].client, links[number].server), []).append(number)
    parser, pairs = HeaderParser(None), AddressPairs()
    unusual = UnusualPackets(parser)
    with side.packets() as capture:
        for batch in capture:
            headers, data = parser.columns(batch), batch.data
            if (headers.classes == UNUSUAL).any():
                headers, data, _ = unusual.resolve(batch, headers)
            tcp = headers.tcp
            if not len(tcp):
                continue
            pair, sender = pairs.find(tcp)
            is_syn = tcp[:, FLAGS] & SYN != 0
            hashes = np.empty(len(tcp), dtype=np.int64)
            sizes = np.minimum(tcp[:, CAPTURED], HASHED)
            hash_keys(data, np.ascontiguousarray(tcp[:, PAYLOAD]), sizes, *_SECRETS, hashes)
            time_ns = batch.time_ns[headers.index]
            says = is_syn | (tcp[:, WIRE] > 0)
            for pair_number in unique(pair).tolist():
                ends = pairs.address(pair_number, 0), pairs.address(pair_number, 1)
                if ends not in links_between and ends[::-1] not in links_between:
                    continue
                for client in (0, 1):
                    for number in links_between.get((ends[client], ends[1 - client]), ()):
                        link = links[number]
                        is_packet = (
                            says
                            & (pair == pair_number)
                            & (time_ns >= link.first_ns)
                            & (time_ns <= link.last_ns)
                        )
                        for direction in (0, 1):
                            rows = np.flatnonzero(
                                is_packet & (sender == (client if direction == 0 else 1 - client))
                            )
                            columns = (
                                tcp[rows, SEQ],
                                tcp[rows, WIRE],
                                time_ns[rows],
                                hashes[rows],
                                is_syn[rows].astype(np.int64),
                            )
                            columns_of[number, direction].append(np.array(columns, dtype=np.int64))
    return {
        key: _placed(
            np.concatenate([np.empty((5, 0), np.int64), *batches], axis=1), origins[key[0]][key[1]]
        )
        for key, batches in columns_of.items()
    }


def _placed(columns: IntArray, origin: int) -> Segments:
    """Returns the segments of a direction, sequence numbers turned into places that do not wrap."""
    seq, size, time_ns, hashes, syn = columns
    steps = np.diff(seq, prepend=origin)
    steps = (steps + _LAPS // 2) % _LAPS - _LAPS // 2
    start = np.cumsum(steps)
    return Segments(start, start + size + syn, time_ns, hashes, syn != 0)
