"""What happened to packets and bytes, as text: a table on request, and a line for each direction
that lost something.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from dcpinspect.capture.byte_source import STDIN
from dcpinspect.capture.encapsulations import ETW
from dcpinspect.capture.open import CaptureFile
from dcpinspect.capture.packet_walk import InterfaceCounts
from dcpinspect.coverage import OTHER, UNPLACED, Coverage, DirectionCoverage
from dcpinspect.findings.finding import ranges
from dcpinspect.protocol.foreign import HTTP, MEMCACHED_TEXT, TLS
from dcpinspect.tables.messages import DIRECTIONS
from dcpinspect.text import aligned, cells, counted, escape, listed, wrap
from dcpinspect.transport.chunk import C2S
from dcpinspect.transport.headers import USED

if TYPE_CHECKING:
    from dcpinspect.reading.reading import Reading

_OTHERS = {
    HTTP: "HTTP, which has no DCP",
    MEMCACHED_TEXT: "memcached's text protocol, which has no DCP",
    OTHER: "another protocol",
}

MAX_PORTS = 8
"""Number of ports of other traffic that are named."""

_OTHER_LINK = (
    "record on another interface, as in tcpdump -i any, or, if they are Ethernet: editcap "
    "-T ether IN OUT"
)
_OF_ETW = "record with dumpcap, or convert the event trace of Windows: pktmon etl2pcap IN --out OUT"

_COLUMNS = (
    "con", "direction", "protocol", "bytes captured", "decoded", "skipped", "unfinished", "not decodable", "TLS", "duplicate", "late",
    "missing",
    "cut off", "holes", "why skipped",
)  # fmt: skip
_LEFT = ("direction", "protocol", "why skipped")


def coverage_table(
    coverage: Coverage, files: Sequence[CaptureFile] = (), width: int | None = None
) -> Iterator[str]:
    """Yields lines: packets by class, packets dropped according to ``files``, then the bytes of
    each direction with payload.

    All connections of other protocols are in one line. ``width``: of lines; where a table does not
    fit, each direction has lines with what is not 0.
    """
    yield f"{coverage.packets_read:>12,} packets read"
    for name, count in coverage.packets.items():
        if count:
            yield f"{count:>12,} {name}"
    yield from drops(files)
    yield from _direction_table(
        [*coverage.where(lambda all_: all_.is_own & (all_.captured + all_.missing > 0))], width
    )
    other_sums = coverage.sums(lambda all_: ~all_.is_own)
    if other_sums["connection"]:
        connections = len(
            {connection for connection, _ in coverage.ways(lambda all_: ~all_.is_own)}
        )
        yield (
            f"{other_sums['captured']:>12,} bytes captured of "
            f"{counted(connections, 'connection')} of other protocols"
        )


def direction_cells(directions: Sequence[DirectionCoverage]) -> list[tuple[str, ...]]:
    """Returns the heading and a row for each direction; with a column for TLS if one has it."""
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for direction in directions:
        skipped = sum(direction.skipped.values())
        sizes = (
            direction.captured,
            direction.decoded,
            skipped,
            direction.unfinished,
            direction.not_decodable,
            direction.tls,
            direction.duplicate,
            direction.late,
            direction.missing,
            direction.cut,
        )
        reasons = ", ".join(
            f"{reason}: {counted(size, 'byte')}" for reason, size in direction.skipped.items()
        )
        numbers = (f"{size:,}" for size in (*sizes, direction.holes))
        ends = (
            f"{direction.sender} > {direction.receiver}"
            if direction.connection
            else f"{direction.sender}, {DIRECTIONS[direction.direction]}"
        )
        rows.append((str(direction.connection or ""), ends, direction.protocol, *numbers, reasons))
    if not any(direction.tls for direction in directions):
        tls_column = _COLUMNS.index("TLS")
        rows = [row[:tls_column] + row[tls_column + 1 :] for row in rows]
    return rows


def _direction_table(directions: Sequence[DirectionCoverage], width: int | None) -> Iterator[str]:
    if not directions:
        return
    rows = direction_cells(directions)
    lines = aligned(rows, _LEFT)
    yield ""
    if width is not None and max(map(cells, lines)) > width:
        for connection, ends, *facts in rows[1:]:
            begin = f"connection {connection}" if connection else "no connection"
            yield from wrap(f"{begin}  {ends}", width)
            named = zip(rows[0][2:], facts, strict=True)
            texts = [f"{name} {fact}" for name, fact in named if fact not in ("", "0")]
            yield from wrap(f"    {' · '.join(texts)}", width, "    ")
        return
    yield from lines


def interfaces(files: Sequence[CaptureFile]) -> Iterator[tuple[str, InterfaceCounts]]:
    """Yields place and counts of the interfaces that captures report; the place names the file if
    there are several.
    """
    for file in files:
        for counts in file.counts:
            yield f"{counts.name} of {file.name}" if len(files) > 1 else counts.name, counts


def drops(files: Sequence[CaptureFile], limit: int = 10) -> Iterator[str]:
    """Yields a line for each interface that dropped packets, at most ``limit`` lines."""
    lost = [(interface, counts.lost) for interface, counts in interfaces(files) if counts.lost]
    for interface, count in lost[:limit]:
        yield f"{count:>12,} dropped at {escape(interface)} before they were captured"
    if len(lost) > limit:
        yield (
            f"{sum(count for _, count in lost[limit:]):>12,} dropped at "
            f"{counted(len(lost) - limit, 'more interface')}"
        )


def foreign(protocol: str, coverage: Coverage, *connections: int) -> str:
    """Returns what these connections carry undecodable, and what to do; empty if nothing."""
    if protocol == TLS:
        return f"TLS, which is not decrypted: {coverage.tls_advice(connections)}"
    return _OTHERS.get(protocol, "")


def losses(
    coverage: Coverage, *, advises_elsewhere: bool = False, told: Collection[int] = ()
) -> Iterator[str]:
    """Yields a line for each direction with bytes that are missing or not in messages, without
    connections of other protocols; for several that have only as many bytes of another protocol,
    one. What to do about bytes of other protocols is said once, here or, if ``advises_elsewhere``,
    elsewhere. ``told``: connections whose losses are told elsewhere.
    """
    advice_given: set[str] = set()
    lossy = coverage.where(
        lambda all_: (
            all_.is_own
            & ~(all_.is_whole & (all_.late == 0))
            & ~np.isin(all_.connection, sorted(told))
        )
    )
    for _, (direction, *further) in groupby(lossy, _what_is_foreign):
        numbers = [direction.connection, *(alike.connection for alike in further)]
        where = (
            f"{direction.sender}, {DIRECTIONS[direction.direction]}"
            if not direction.connection
            else f"connection {direction.connection}, {_ends_text(direction)}"
            if len(numbers) == 1
            else f"connections {ranges(numbers)}, "
            + (
                f"to {direction.receiver}"
                if direction.direction == C2S
                else f"back from {direction.sender}"
            )
        )
        texts = _loss_texts(direction, coverage, advice_given, advises_elsewhere=advises_elsewhere)
        yield f"{where}: {'each ' if len(numbers) > 1 else ''}{'; '.join(texts)}"


def _what_is_foreign(direction: DirectionCoverage) -> object:
    """Returns what directions have in common that only lack bytes of another protocol; of others
    what no other one has.
    """
    server = direction.receiver if direction.direction == C2S else direction.sender
    is_only = not (direction.missing or direction.skipped or direction.unfinished or direction.late)
    key = direction.direction, server, direction.not_decodable, direction.protocol
    return key if is_only and direction.connection else (direction.connection, direction.direction)


def _ends_text(direction: DirectionCoverage) -> str:
    client, server = (
        (direction.sender, direction.receiver)
        if direction.direction == C2S
        else (direction.receiver, direction.sender)
    )
    return f"{client} to {server}" if direction.direction == C2S else f"{server} back to {client}"


def _loss_texts(
    direction: DirectionCoverage,
    coverage: Coverage,
    advice_given: set[str],
    *,
    advises_elsewhere: bool,
) -> Iterator[str]:
    cut = f", {direction.cut:,} of them cut off by the snapshot length" if direction.cut else ""
    where = (
        f"{counted(direction.holes, 'hole')}{_first_place(direction, direction.first_hole)}{cut}"
        if direction.packets
        else "nor is any packet of this direction"
    )
    if direction.lost:
        yield f"{direction.lost:,} bytes are not in the capture ({where})"
    if direction.filled:
        yield (
            f"{counted(direction.filled, 'byte')} came too late to be "
            f"read{f' ({where})' if not direction.lost else ''}"
        )
    if direction.skipped:
        size, reasons = sum(direction.skipped.values()), ", ".join(direction.skipped)
        yield (
            f"{size:,} bytes skipped up to the next message "
            f"({reasons}{_first_place(direction, direction.first_skipped, ';')})"
        )
    if direction.unfinished:
        yield f"{direction.unfinished:,} bytes of a message whose end is not in the capture"
    if direction.late > direction.filled:
        yield f"{counted(direction.late - direction.filled, 'byte')} {UNPLACED}"
    if direction.not_decodable:
        advice = foreign(direction.protocol, coverage, direction.connection)
        is_known = advises_elsewhere or advice in advice_given
        what = (advice.partition(",")[0] if is_known else advice) or direction.protocol
        advice_given.add(advice)
        yield f"{direction.not_decodable:,} bytes of {what}"


def _first_place(direction: DirectionCoverage, first: int | None, comma: str = ",") -> str:
    """Returns where the first of several places is; empty for several connections together, and
    where nobody knows, as at the end of TLS.
    """
    return f"{comma} first at byte {first:,}" if direction.connection and first is not None else ""


def nothing_found(reading: Reading, *, any_port: str = "", advises_elsewhere: bool = False) -> str:
    """Returns one line for captures without messages: their names, and ``why_nothing``."""
    names = ["standard input" if name == STDIN else escape(name) for name in reading.named]
    why = why_nothing(reading, any_port=any_port, advises_elsewhere=advises_elsewhere)
    return f"{listed(names, MAX_PORTS)}: {why}"


def why_nothing(reading: Reading, *, any_port: str = "", advises_elsewhere: bool = False) -> str:
    """Returns what captures without messages have instead, and what to try.

    ``any_port``: how to search all ports, if this should be mentioned beside a port number.
    ``advises_elsewhere``: what to do about bytes of other protocols is said elsewhere.
    """
    packets = reading.capture.packets
    if not packets:
        auto = "" if reading.options["find_ports"] else ", or --port auto"
        is_live = any(file.format == "live" for file in reading.capture.files)
        return "no packets" + (f" of the ports looked at; try -i any{auto}" if is_live else "")
    parser = reading.engine.transport.headers
    if used := int(parser.counts[USED]):
        none = f"no DCP message in {counted(used, 'packet')} of the ports looked at"
        return f"{none}; {_carried_instead(reading, advises_elsewhere=advises_elsewhere)}"
    ports = np.argsort(-parser.other_ports, kind="stable")[
        : np.count_nonzero(parser.other_ports)
    ].tolist()
    ports = [port for port in ports if port]  # no server has port 0
    unread = {
        packets_unread.named: packets_unread
        for file in reading.capture.files
        for packets_unread in file.unread
        if packets_unread.packets
    }
    if not ports and unread:
        is_etw = all(packets_unread.link_type == ETW for packets_unread in unread.values())
        return (
            f"no DCP beside packets with link type {', '.join(list(unread)[:MAX_PORTS])}; "
            f"{_OF_ETW if is_etw else _OTHER_LINK}"
        )
    if not ports:
        return f"no DCP, and no TCP in {counted(packets, 'packet')}"
    more = ", …" if len(ports) > MAX_PORTS else ""
    named = ", ".join(map(str, ports[:MAX_PORTS]))
    return (
        f"no DCP in {packets:,} packets; it has TCP ports {named}{more}; try --port "
        f"{ports[0]}{any_port}"
    )


def _carried_instead(reading: Reading, *, advises_elsewhere: bool) -> str:
    """Returns what packets carry that have no message of the protocol, and what to try."""
    coverage = reading.coverage
    carriers: dict[str, set[int]] = {}
    sums = coverage.sums(lambda all_: all_.connection > 0)
    undecodable = coverage.where(
        lambda all_: (all_.connection > 0) & all_.is_own & (all_.not_decodable > all_.http)
    )
    for direction in undecodable if sums["not_decodable"] > sums["http"] else ():
        carriers.setdefault(direction.protocol, set()).add(direction.connection)
    if sums["http"]:
        carriers[HTTP] = {1}  # their numbers do not matter
    for protocol in (TLS, MEMCACHED_TEXT, HTTP):
        if carrying := carriers.get(protocol):
            contents = foreign(protocol, coverage, *carrying)
            return f"they carry {contents.partition(':')[0] if advises_elsewhere else contents}"
    if coverage.tls:
        key_advice = (
            "which the key log does not open"
            if coverage.has_keys
            else "which --keylog decrypts with the client's key log"
        )
        return f"some carry TLS, {key_advice}"
    if sums["cut"] > sums["captured"]:
        return "their contents were cut off by the snapshot length: capture with -s 0"
    contents = "they may be encrypted or another protocol" if sums["captured"] else "they are empty"
    return contents if reading.options["find_ports"] else f"{contents}; try --port auto"
