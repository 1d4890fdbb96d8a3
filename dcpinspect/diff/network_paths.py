"""Compares the same connection in the captures of both sides: what was lost between the two taps,
how long packets took, and where answers waited.

Address translation changes addresses but not sequence numbers. So connections are matched by the
sequence numbers of both SYNs, or else by ranges that overlap and hold equal bytes.

The clocks of the taps differ, so a one-way delay can be known only under an assumption: that the
handshake, or else the quickest packets, took equally long both ways. The error of that is at most
half of what both ways took together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray, unique
from dcpinspect.diff.difference_columns import PATHS
from dcpinspect.diff.reading_side import AnswerTimes, Tap
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams.events import hash_keys
from dcpinspect.tables.messages import DIRECTIONS
from dcpinspect.tables.record_tables import Records
from dcpinspect.transport.connections import AddressPairs
from dcpinspect.transport.headers import (
    CAPTURED,
    FLAGS,
    PAYLOAD,
    SEQ,
    SYN,
    WIRE,
    HeaderParser,
)
from dcpinspect.transport.scapy_dissection import UnusualPackets

_ROUNDED_NS = 1_000
"""Clocks that differ by less are rounded alike: it does not tell which capture is nearer."""
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
            headers, data, _ = unusual.resolve(batch, parser.columns(batch))
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


PathRow = dict[str, Any]
ConnectionPair = tuple[int, int]
"""Numbers of a connection in A and in B."""

_MOST = 1000
"""Greatest number of connections of B that are candidates for one of A, if the beginning of either
was not captured.
"""
_ALIKE = 0.9
"""Least share of the segments at one place and of one size that must have equal bytes."""


@dataclass(frozen=True, slots=True)
class PathLosses:
    """Bytes of one direction that one tap saw less often than the other."""

    between: int
    """Number of ranges that the sender's tap saw more often than the receiver's, which saw them
    too: they were lost and sent again.
    """
    between_bytes: int
    missed: Mapping[str, int]
    """For each side, the number of bytes that its capture lacks and the other has."""


def pairs(a: Tap, b: Tap) -> list[ConnectionPair]:
    """Returns the pairs of connections that may be the same."""
    transport_a, transport_b = a.transport, b.transport
    by_seq = {
        transport_b.first_seq(link.number): link.number
        for link in b.compared_links
        if link.has_handshake
    }
    late = [link.number for link in b.compared_links if not link.has_handshake]
    candidates: list[ConnectionPair] = []
    for link in a.compared_links:
        number = by_seq.get(transport_a.first_seq(link.number)) if link.has_handshake else None
        numbers_b = late if link.has_handshake else [*late, *by_seq.values()][:_MOST]
        same = (
            [number]
            if number is not None
            else [number_b for number_b in numbers_b if _overlap(a, link.number, b, number_b)]
        )
        candidates += [(link.number, number_b) for number_b in same]
    return candidates


def _overlap(a: Tap, number_a: int, b: Tap, number_b: int) -> bool:
    """Whether both directions of two connections have sequence numbers in common."""
    both = (a.transport, number_a), (b.transport, number_b)
    for direction in (0, 1):
        begins = [transport.first_seq(number)[direction] for transport, number in both]
        accounts = [transport.account(number, direction) for transport, number in both]
        sizes = [account.unique + account.missing for account in accounts]
        if min(begins) < 0 or (
            (begins[1] - begins[0]) % _LAPS >= sizes[0]
            and (begins[0] - begins[1]) % _LAPS >= sizes[1]
        ):
            return False
    return True


_OF_TIMES = re.compile("_ns$|^clock_from$|^client_side$|^lost")
"""Columns that nobody can tell where times of packets were replaced."""


def paths(a: Tap, b: Tap) -> Records:
    """Returns a record for each direction of each connection that both captures have. Reads their
    packets again.
    """
    rows, matched = list[PathRow](), set[int]()
    is_of_two = a.is_repeatable and b.is_repeatable and sorted(a.files) != sorted(b.files)
    if is_of_two and (candidates := pairs(a, b)):
        origins = {number_a: a.transport.first_seq(number_a) for number_a, _ in candidates}
        of_a = segments_of(a, origins)
        of_b = segments_of(
            b, {number_b: origins[number_a] for number_a, number_b in reversed(candidates)}
        )
        for number_a, number_b in candidates:
            ways = [(of_a[number_a, direction], of_b[number_b, direction]) for direction in (0, 1)]
            if (
                all(_are_alike(*segments_pair) for segments_pair in ways)
                and number_a not in matched
            ):
                matched.add(number_a)
                rows += _records(a, b, (number_a, number_b), ways, origins[number_a])
    if not (a.has_times and b.has_times):
        rows = [
            {name: value for name, value in row.items() if not _OF_TIMES.search(name)}
            for row in rows
        ]
    return Records.of_rows(PATHS, rows)


def _are_alike(segments_a: Segments, segments_b: Segments) -> bool:
    """Whether segments at the same place have the same bytes; true also without such."""
    _, rows_a, rows_b = np.intersect1d(segments_a.start, segments_b.start, return_indices=True)
    same_size = (segments_a.end[rows_a] == segments_b.end[rows_b]) & ~segments_a.is_syn[rows_a]
    rows_a, rows_b = rows_a[same_size], rows_b[same_size]
    return (
        not len(rows_a)
        or float(np.mean(segments_a.hash[rows_a] == segments_b.hash[rows_b])) >= _ALIKE
    )


def _records(
    a: Tap,
    b: Tap,
    pair: ConnectionPair,
    ways: list[tuple[Segments, Segments]],
    origin: tuple[int, int],
) -> list[PathRow]:
    differences = [_differences(*segment_pair) for segment_pair in ways]
    if not all(len(delays_ns) for delays_ns in differences):
        return []
    clock, to_server, to_client = _clock(ways, differences)
    offset, error = (to_server + to_client) // 2, abs(to_server - to_client) // 2
    near_client = "a" if to_server >= to_client else "b"
    links = [
        next(link for link in side.compared_links if link.number == number)
        for side, number in zip((a, b), pair, strict=True)
    ]
    rows = []
    for direction, (segment_pair, delays_ns) in enumerate(zip(ways, differences, strict=True)):
        is_forward = (near_client == "a") == (direction == 0)  # the packets go from A's tap to B's
        delays = delays_ns - offset if is_forward else offset - delays_ns
        lost = losses(*segment_pair, sender="a" if is_forward else "b")
        waits = _waits(a, b, pair, direction, near_client, origin)
        rows.append(
            {
                "a_connection": pair[0],
                "b_connection": pair[1],
                "direction": DIRECTIONS[direction],
                "a_client": links[0].client,
                "a_server": links[0].server,
                "b_client": links[1].client,
                "b_server": links[1].server,
                "client_side": near_client if error >= _ROUNDED_NS else None,
                "clock_offset_ns": offset,
                "clock_error_ns": error,
                "clock_from": clock,
                "segments": len(delays_ns),
                "delay_min_ns": int(delays.min()),
                "delay_median_ns": int(np.median(delays)),
                "delay_p99_ns": int(np.percentile(delays, 99)),
                "delay_max_ns": int(delays.max()),
                "lost": lost.between,
                "lost_bytes": lost.between_bytes,
                **{f"{side}_missed_bytes": count for side, count in lost.missed.items()},
                **waits,
                "first_time": links[0].first_ns,
                "last_time": links[0].last_ns,
            }
        )
    return rows


def _clock(
    ways: Sequence[tuple[Segments, Segments]], differences: Sequence[IntArray]
) -> tuple[str, int, int]:
    """Returns by which packets the clocks of two captures are compared, and their differences on
    the way to the server and to the client, in nanoseconds.
    """
    if all(segments_a.is_syn.any() and segments_b.is_syn.any() for segments_a, segments_b in ways):
        return "handshake", _of_syn(*ways[0]), _of_syn(*ways[1])
    to_server, to_client = int(differences[0].min()), int(differences[1].max())
    # because B is nearer to the client: the quickest packets are those with the opposite extremes
    if to_server < to_client:
        to_server, to_client = int(differences[0].max()), int(differences[1].min())
    return "quickest-packets", to_server, to_client


def _of_syn(segments_a: Segments, segments_b: Segments) -> int:
    """Returns B's time of the SYN minus A's; if the SYN was sent again, the last one counts."""
    return int(
        segments_b.time_ns[segments_b.is_syn][-1] - segments_a.time_ns[segments_a.is_syn][-1]
    )


def _differences(segments_a: Segments, segments_b: Segments) -> IntArray:
    """Returns B's time minus A's for each byte that ends a segment on both taps, at first sight."""
    (ends_a, first_a), (ends_b, first_b) = (
        np.unique(segments.end, return_index=True) for segments in (segments_a, segments_b)
    )
    _, rows_a, rows_b = np.intersect1d(ends_a, ends_b, return_indices=True)
    difference_ns: IntArray = (
        segments_b.time_ns[first_b][rows_b] - segments_a.time_ns[first_a][rows_a]
    )
    return difference_ns


def losses(a: Segments, b: Segments, *, sender: str) -> PathLosses:
    """Returns what one tap saw less often than the other, of the bytes between the first and the
    last that both saw.

    ``sender``: the side whose tap is nearer to the sender.
    """
    if not len(a.start) or not len(b.start):
        return PathLosses(0, 0, {"a": 0, "b": 0})
    low, high = max(a.start.min(), b.start.min()), min(a.end.max(), b.end.max())
    offsets = unique(np.clip(np.concatenate((a.start, a.end, b.start, b.end)), low, high))
    times = {name: _times_seen(segments, offsets) for name, segments in (("a", a), ("b", b))}
    width = np.diff(offsets)
    receiver = "b" if sender == "a" else "a"
    again = (times[sender] > times[receiver]) & (times[receiver] > 0)
    begins = again & ~np.concatenate(([False], again[:-1]))
    missed = {
        name: int(width[(times[name] == 0) & (times[other_name] > 0)].sum())
        for name, other_name in (("a", "b"), ("b", "a"))
    }
    return PathLosses(
        int(begins.sum()),
        int((width * np.maximum(times[sender] - times[receiver], 0))[again].sum()),
        missed,
    )


def _times_seen(segments: Segments, offsets: IntArray) -> IntArray:
    """Returns how often a tap saw the bytes from each place to the next one."""
    change = np.zeros(len(offsets) + 1, dtype=np.int64)
    np.add.at(change, np.searchsorted(offsets, np.clip(segments.start, offsets[0], offsets[-1])), 1)
    np.add.at(change, np.searchsorted(offsets, np.clip(segments.end, offsets[0], offsets[-1])), -1)
    return np.cumsum(change)[: len(offsets) - 1]


def _waits(
    a: Tap, b: Tap, pair: ConnectionPair, direction: int, near_client: str, origin: tuple[int, int]
) -> PathRow:
    """Returns how long requests of this direction waited for their answers, and how much of that
    they waited beyond the other tap.
    """
    answers = {
        side.name: _answers(side.answers, number, 1 - direction, side, origin)
        for side, number in zip((a, b), pair, strict=True)
    }
    _, rows_a, rows_b = np.intersect1d(answers["a"][0], answers["b"][0], return_indices=True)
    if not len(rows_a):
        return {"answers": 0}
    waited = {"a": answers["a"][1][rows_a], "b": answers["b"][1][rows_b]}
    asker = near_client if direction == 0 else ("b" if near_client == "a" else "a")
    answerer = "b" if asker == "a" else "a"
    return {
        "answers": len(rows_a),
        "answer_median_ns": int(np.median(waited[asker])),
        "answerer_median_ns": int(np.median(waited[answerer])),
        "network_median_ns": int(np.median(waited[asker] - waited[answerer])),
        "answer_max_ns": int(waited[asker].max()),
    }


def _answers(
    answers: AnswerTimes, connection: int, direction: int, side: Tap, origin: tuple[int, int]
) -> tuple[IntArray, IntArray]:
    """Returns (place, time that the answer took) of the answers in a connection's direction."""
    offset, rtt = answers.in_direction(connection, direction)
    shift = (
        side.transport.first_seq(connection)[direction] - origin[direction] + _LAPS // 2
    ) % _LAPS - _LAPS // 2
    return offset + shift, rtt
