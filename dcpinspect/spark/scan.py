"""Scans one capture: finds the packets that the engine would use, and puts them into bundles by
their two ends.

The scan decides nothing: packets stay as they are, and the engine reads them in order. A segment in
IP fragments is complete only when all fragments are together, perhaps from several captures. So
fragments are in a group of their addresses, and the report says which other groups they may belong
to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from itertools import accumulate

import numpy as np

from dcpinspect.arrays import grown
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.merging import consecutive
from dcpinspect.capture.open import BATCH_BYTES, Capture, open_capture
from dcpinspect.capture.packet_walk import MAX_PROBLEMS
from dcpinspect.errors import CaptureError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.spark.bundles import BundleWriter
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.stretches import Stretch, StretchPackets
from dcpinspect.spark.units import digests, size_of, why_not
from dcpinspect.transport.capture_survey import Copies, survey
from dcpinspect.transport.clock_steps import ClockSteps, Edges, edges, greatest_leaps, is_apart
from dcpinspect.transport.connections import DEFAULT_PORTS, AddressPairs
from dcpinspect.transport.headers import (
    CLASS_NAMES,
    COPY,
    FLAGS,
    FRAGMENT,
    SEQ,
    SYN,
    USED,
    HeaderParser,
    network_start,
)
from dcpinspect.transport.scapy_dissection import UnusualPackets

KEY_BYTES = 36
"""Size of the key of a group between two ends, in bytes: both addresses and both ports.

A key of fragments has only addresses, or nothing.
"""
ADDRESS_BYTES = 32

GroupPairs = set[tuple[bytes, bytes]]


@dataclass(slots=True)
class ScanReport:
    """What a scan says about its capture, besides the bundles."""

    begin: int = 0
    """Offset of the first packet in the file as stored, if known."""
    size: int = 0
    """Number of bytes of the file, as stored, that were read."""
    head: str = ""
    tail: str = ""
    """Digests of both ends of these bytes, as in ``Unit``."""
    format: str = ""
    packets: int = 0
    shipped: int = 0
    """Number of packets in bundles."""
    first_ns: int | None = None
    last_ns: int | None = None
    """Times of the first and the last packet, by the clock as it was at the first."""
    may_be_set: bool = False
    """Whether the clock of the capture was set, or packets before and behind these may show it."""
    ahead_ns: int | None = None
    """What it is ahead at the end; None if the edges are not with the bundles: there are no
    packets, or an older version scanned them.
    """
    pause: tuple[int, int, int] | None = None
    leaps: list[tuple[int, int, int]] = field(default_factory=list)
    """As those of ``Edges``."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Number of packets that are in no bundle, by class."""
    problems: list[tuple[int | None, str]] = field(default_factory=list)
    """Damaged places: offset in the unpacked bytes, and what is wrong."""
    error: str | None = None
    """Why the capture could not be read at all."""
    begun: dict[str, list[int]] = field(default_factory=dict)
    """Sequence numbers of the SYNs in a group, by its key in hex. They distinguish connections that
    have the same two ends.
    """
    joins: list[tuple[str, str]] = field(default_factory=list)
    """Groups of fragments, and groups that the segments in them belong to; keys in hex."""
    cut: int = 0
    """Number of packets in bundles that the snapshot length cut."""
    secrets: int = 0
    """Number of blocks with TLS secrets in the capture; they are not copied."""
    tunnels: list[tuple[str, str]] = field(default_factory=list)
    """Group keys of addresses that fragments between them would have, and groups of segments that
    were in tunnels between these addresses.
    """


def scan(
    path: str,
    target: str,
    *,
    extra_ports: tuple[int, ...] = (),
    find_ports: bool = False,
    stretch: Stretch | None = None,
    salt: Salt | None = None,
    skipped: int = 0,
) -> ScanReport:
    """Writes the bundles of the capture at ``path`` to ``target``, with their index, unless the
    capture cannot be read at all.

    ``stretch``: scans only this stretch, whose packets are numbered from its first one. ``salt``:
    encrypts the bundles. ``skipped``: number of packets at the start to leave out.
    """
    report = ScanReport()
    try:
        size_of(path)
        capture = (
            StretchPackets(path, stretch, BATCH_BYTES)
            if stretch
            else open_capture(path, batch_bytes=BATCH_BYTES)
        )
    except CaptureError as error:
        report.error = error.what
        return report
    except OSError as error:
        report.error = why_not(error)
        return report
    sorter = _Sorter(
        None if find_ports else (*DEFAULT_PORTS, *extra_ports),
        BundleWriter(target, salt),
        survey([path]).copies if isinstance(capture, Capture) and capture.has_snaplens else None,
    )
    with capture:
        try:
            sorter.writer.close(_sort_packets(capture, sorter, report, skipped))
        except BaseException:
            sorter.writer.abandon()
            raise
        report.packets, report.size = capture.packets, capture.position
        report.begin = capture.begin if isinstance(capture, StretchPackets) else 0
        report.problems = [(problem.offset, problem.what) for problem in capture.problems]
        report.format = capture.files[0].format
        report.secrets = len(capture.files[0].secrets)
    try:
        report.head, report.tail = digests(path, report.size)
    except OSError:  # the file is gone, but what was read of it is kept
        report.head = ""
    report.left_out = {
        name: count
        for name, count in zip(CLASS_NAMES, sorter.left_out.tolist(), strict=True)
        if count
    }
    report.cut = sorter.cut
    report.shipped = report.packets - skipped - sum(report.left_out.values())
    report.begun = {key.hex(): sorted(numbers) for key, numbers in sorted(sorter.begun.items())}
    report.joins, report.tunnels = (
        [(problem.hex(), two.hex()) for problem, two in sorted(pairs)]
        for pairs in (sorter.joins, sorter.tunnels)
    )
    return report


def _sort_packets(
    capture: Iterable[PacketBatch], sorter: _Sorter, report: ScanReport, skipped: int
) -> Edges | None:
    """Gives a sorter the packets behind the first ``skipped``, and reports their times. Returns the
    edges of all packets; None if there are none.
    """
    clock, seen, both_edges = ClockSteps(), 0, None
    for batch in capture:
        both_edges = both_edges.with_later(batch) if both_edges else edges(batch)
        if report.first_ns is None:
            report.first_ns = int(batch.time_ns[0])
        batch, skipped_here = clock.steady(batch), max(0, skipped - seen)
        report.last_ns = int(batch.time_ns[-1])
        seen += len(batch)
        if skipped_here < len(batch):
            first = batch.first_packet + skipped_here
            behind = consecutive(batch, slice(skipped_here, len(batch)))
            sorter.add(replace(behind, first_packet=first))
    report.may_be_set = clock.may_be_set
    if both_edges is None:
        return None
    kept_edges = clock.steady_edges(both_edges)
    _, _, report.ahead_ns, report.pause, leaps = kept_edges
    report.leaps = [*leaps]
    return kept_edges


def joined(reports: Sequence[ScanReport]) -> ScanReport | None:
    """Joins the reports on all stretches of a capture; None if the stretches do not follow one
    another, because a guess was wrong.
    """
    first, *later_reports = reports
    if any(report.error is not None for report in reports) or any(
        report.size != two.begin or may_be_set(report, two)
        for report, two in zip(reports, later_reports, strict=False)
    ):
        return None
    left_out: Counter[str] = Counter()
    begun: dict[str, set[int]] = {}
    for report in reports:
        left_out.update(report.left_out)
        for key, numbers in report.begun.items():
            begun.setdefault(key, set()).update(numbers)
    begins = accumulate((report.packets for report in reports), initial=0)
    leaps = [
        (begin + packet, leap_ns, ahead_ns)
        for begin, report in zip(begins, reports, strict=False)
        for packet, leap_ns, ahead_ns in report.leaps
    ]
    first_times = (report.first_ns for report in reports if report.first_ns is not None)
    last_times = (report.last_ns for report in reversed(reports) if report.last_ns is not None)
    return replace(
        reports[-1],
        begin=first.begin,
        format=first.format,
        packets=sum(report.packets for report in reports),
        shipped=sum(report.shipped for report in reports),
        first_ns=next(first_times, None),
        last_ns=next(last_times, None),
        ahead_ns=None if any(report.ahead_ns is None for report in reports) else 0,
        leaps=greatest_leaps(leaps),
        left_out=dict(left_out),
        problems=[problem for report in reports for problem in report.problems][:MAX_PROBLEMS],
        begun={key: sorted(numbers) for key, numbers in sorted(begun.items())},
        joins=sorted({pair for report in reports for pair in report.joins}),
        cut=sum(report.cut for report in reports),
        tunnels=sorted({pair for report in reports for pair in report.tunnels}),
    )


def may_be_set(report: ScanReport, later: ScanReport) -> bool:
    """Returns whether the clock may have been set in one of two captures, or between them. Of
    stretches of one capture, one scan then has to read all.
    """
    if report.may_be_set or later.may_be_set:
        return True
    if report.last_ns is None or later.first_ns is None:
        return False
    return bool(is_apart(np.array([later.first_ns - report.last_ns])).any())


class _Sorter:
    """Finds the group of every packet."""

    def __init__(
        self, ports: tuple[int, ...] | None, writer: BundleWriter, copies: Copies | None
    ) -> None:
        self.writer = writer
        self.cut = 0
        self._copies = copies
        self.left_out = np.zeros(len(CLASS_NAMES), np.int64)
        self.begun: dict[bytes, set[int]] = {}
        self.joins: GroupPairs = set()
        self.tunnels: GroupPairs = set()
        self._parser = HeaderParser(ports)
        self._unusual = UnusualPackets(self._parser)
        self._pairs = AddressPairs()
        self._keys: list[bytes] = []  # by number of the pair of ends
        self._group = np.empty(0, np.int64)  # by number of the pair of ends

    def add(self, batch: PacketBatch) -> None:
        """Writes the packets of a batch as a window."""
        parsed = self._parser.columns(batch)
        headers, data, _ = self._unusual.resolve(batch, parsed)
        if self._copies is not None:
            is_copy = self._copies.mask(batch, headers)
            headers.classes[headers.index[is_copy]] = COPY
            headers = headers.only(~is_copy)
        pairs, _ = self._pairs.find(headers.tcp)
        self._meet()
        pair_of, groups = np.full((2, len(batch)), -1, np.int64)
        pair_of[headers.index], groups[headers.index] = pairs, self._group[pairs]
        self.writer.marker.add(data, headers.tcp, self._group[pairs])
        for row in np.flatnonzero(headers.tcp[:, FLAGS] & SYN).tolist():
            begun = self.begun.setdefault(self._keys[int(pairs[row])], set())
            begun.add(int(headers.tcp[row, SEQ]))
        completing = {number - batch.first_packet for number, _ in self._unusual.companions}
        self._unusual.companions.clear()
        for row in parsed.unusual.tolist():
            kind, inner = int(headers.classes[row]), int(pair_of[row])
            if kind == FRAGMENT or row in completing:
                outer = addresses(batch, row)
                groups[row] = self.writer.number(outer)
                if inner >= 0:
                    self.joins.add((outer, self._keys[inner]))
            elif kind == USED and inner >= 0:
                outer = addresses(batch, row)
                if not self._keys[inner].startswith(outer) or not outer:
                    self.tunnels.add((outer, self._keys[inner]))
        rows = np.flatnonzero(groups >= 0)
        self.left_out += np.bincount(headers.classes[groups < 0], minlength=len(CLASS_NAMES))
        self.cut += int(np.count_nonzero(batch.captured[rows] < batch.wire[rows]))
        self.writer.add(batch, rows, groups[rows])

    def _meet(self) -> None:
        known_keys = len(self._keys)
        if self._pairs.count > known_keys:
            self._group = grown(self._group, self._pairs.count)
            words = self._pairs.words(np.arange(known_keys, self._pairs.count))
            for ends, ports in zip(
                words[:, :8].astype(">u4"), words[:, 8:].astype(">u2"), strict=True
            ):
                self._keys.append(ends.tobytes() + ports.tobytes())
                self._group[len(self._keys) - 1] = self.writer.number(self._keys[-1])


def addresses(batch: PacketBatch, row: int) -> bytes:
    """Returns the outermost IP addresses of a packet in the form of a key, the lower one first;
    empty if there are none.
    """
    view = batch.data.data
    start, end = int(batch.offset[row]), int(batch.offset[row] + batch.captured[row])
    header = network_start(view, start, end, int(batch.link_type[row]))  # type: ignore[arg-type] # as scapy_dissection.py does
    if header < 0:
        return b""
    version = view[header] >> 4
    size, first, before = (
        (4, header + 12, bytes(10) + b"\xff\xff") if version == 4 else (16, header + 8, b"")
    )
    if version not in (4, 6) or first + 2 * size > end:
        return b""
    return b"".join(
        sorted(
            before + view[address_start : address_start + size].tobytes()
            for address_start in (first, first + size)
        )
    )
