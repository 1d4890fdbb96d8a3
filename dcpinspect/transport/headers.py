"""Link, IP and TCP headers of whole batches: which packets carry TCP of our ports, and their fields
as columns.

What the kernel does not understand (fragments, IPv6 extension headers, tunnels, rare link types) is
``UNUSUAL``. A dissector that is slower and knows more (scapy_dissection.py) finds another class for
it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dcpinspect.arrays import BoolArray, ByteArray, IntArray
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.encapsulations import TUNNEL_PORTS
from dcpinspect.kernels.kernel import be16, be32, inlined, kernel, kernel_function, le32
from dcpinspect.lazy_dataclass import dataclass

USED, NOT_TCP, OTHER_PORT, CUT, MALFORMED, UNUSUAL, FRAGMENT, INCOMPLETE, COPY = range(9)
CLASS_NAMES = (
    "used",
    "not TCP",
    "not our port",
    "cut",
    "malformed",
    "unusual",
    "fragment",
    "incomplete fragment",
    "cut copy",
)
"""Names of the classes; every packet is in one class.

The classes are: used; another protocol; TCP of other ports; cut inside its headers; contradicting
itself; not understood here. The last three are: IP fragment of a datagram that another packet
completed; IP fragment of a datagram that was never completed; of a capture that cut packets that another one
has whole.
"""

FIN, SYN, RST, ACK = 1, 2, 4, 16
UNREACHED = 256
"""In place of all flags, times 1 and more: the row is of a TCP packet that an ICMP error quotes. It
did not arrive; the factor less 1 is the code of the error.
"""
OF_IPV6 = 64
"""Added to the code of an error of ICMPv6."""
TIME_EXCEEDED = 32
"""Stands for the code of "time exceeded in transit", which is a type of its own."""

ADDRESSES = 0
PORTS = 4
SEQ = 6
ACKED = 7
FLAGS = 8
PAYLOAD = 9
CAPTURED = 10
WIRE = 11
TAKES = 12
EXTRA = 13
EXTRA_WIRE = 14
NETWORK = 15
COLUMNS = 16

HALF = 1 << 31
FIRST_OF_IPV4 = -HALF << 32
"""First number of an IPv4 address, as ``Headers.tcp`` has it."""
_MAPPED = 0xFFFF - HALF << 32
"""Second number of the IPv4 address 0.0.0.0."""

_PADDED = 50
"""Ethernet fills an IP packet up to 46 bytes; 4 more may be a checksum."""
_MAX_FRAME = 1 << 20
"""Size of the longest frame without an IP length that is believed (a large-send frame has total
length 0): twice Linux's BIG TCP.
"""
_ETHERNET, _LOOP_NULL, _LOOP, _COOKED, _COOKED_2, _NFLOG, _IPNET = 1, 0, 108, 113, 276, 239, 226
_NFLOG_PAYLOAD = 9
_RAW = (101, 12, 14, 228, 229)
"""Link types of packets without a link header."""
_MOST_TAGS = 8
_CARRIERS = (6, 17, 4, 41, 47, 51, 137)
"""IP protocols that may have TCP inside, with TCP: of their fragments the whole datagram is wanted.
"""
_IPV4, _IPV6, _VLAN, _QINQ, _QINQ_OLD, _MPLS, _MPLS_MULTICAST, _PPPOE, _TRANSPARENT = (
    0x0800, 0x86DD, 0x8100, 0x88A8, 0x9100, 0x8847, 0x8848, 0x8864, 0x6558,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Headers:
    """A batch's TCP packets that may matter, a row each in ``tcp``, and each packet's class."""

    classes: ByteArray
    """Class of every packet of the batch."""
    index: IntArray
    """Place in the batch of each used packet."""
    tcp: IntArray
    """[used, COLUMNS]: source and destination address as two numbers each, and source and
    destination port. Then: sequence and acknowledgement number, flags, place of the payload in
    ``PacketBatch.data``, payload bytes captured, payload bytes on the wire, and the receive window,
    as the header has it. Then: bytes behind the end that the IP header tells, captured and on the
    wire, and the network, as ``network_of`` has it. A packet that an ICMP error quotes has a row,
    too, and the class "not TCP".

    The two numbers of an address are its 128 bits, minus 2**63 each (IPv4 is mapped into IPv6).
    """

    def only(self, rows: BoolArray) -> Headers:
        """Returns the headers with these rows of the used packets."""
        return replace(self, index=self.index[rows], tcp=self.tcp[rows])

    @property
    def unusual(self) -> IntArray:
        """Places of the packets that another dissector should look at."""
        return np.flatnonzero(self.classes == UNUSUAL)


class HeaderParser:
    """Parses batches; counts every packet, and the ports of packets that are not ours."""

    def __init__(self, ports: tuple[int, ...] | None) -> None:
        self.wanted = np.zeros(65_536, np.uint8)
        if ports is None:
            self.wanted[:] = 1
        else:
            self.wanted[list(ports)] = 1
        self.counts = np.zeros(len(CLASS_NAMES), np.int64)
        """Number of packets of each class."""
        self.cut_copies = 0
        """Number of packets of ``COPY`` that were cut."""
        self.other_ports = np.zeros(65_536, np.int64)
        """Number of TCP packets not used, by the lower of their ports (nearly always the server's).
        """

    def parse(self, batch: PacketBatch) -> Headers:
        """Returns the TCP columns of ``batch``, and counts its packets."""
        headers = self.columns(batch)
        self.count(headers.classes, 1)
        return headers

    def count(self, classes: ByteArray, sign: int) -> None:
        """Counts packets of these classes, or takes their count back."""
        self.counts += sign * np.bincount(classes, minlength=len(CLASS_NAMES))

    def without(self, batch: PacketBatch, headers: Headers, are_copies: BoolArray) -> Headers:
        """Returns headers without these rows, and counts their packets as copies."""
        places = headers.index[are_copies]
        self.counts[USED] -= len(places)
        self.counts[COPY] += len(places)
        self.cut_copies += int(np.count_nonzero(batch.captured[places] < batch.wire[places]))
        return headers.only(~are_copies)

    def columns(self, batch: PacketBatch) -> Headers:
        """Returns the TCP columns of ``batch``; of packets that are not ours only counts ports."""
        classes = np.empty(len(batch), np.uint8)
        return Headers(classes, *self._parse(batch, classes, self.other_ports))

    def _parse(
        self, batch: PacketBatch, classes: ByteArray, other_ports: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Fills ``classes`` and ``other_ports``; returns index and columns of used packets."""
        count = len(batch)
        index = np.empty(count, np.int64)
        tcp = np.empty((count, COLUMNS), np.int64)
        used = int(
            parse_headers(
                batch.data,
                batch.offset,
                batch.captured,
                batch.wire,
                batch.link_type,
                self.wanted,
                classes,
                index,
                tcp,
                other_ports,
            )
        )
        return index[:used], tcp[:used]


@kernel_function
def nflog_payload(data: ByteArray, offset: int, end: int) -> int:
    """Returns where the packet in a record of NFLOG begins, or the negated class of a record that
    holds none.

    Behind four bytes stand attributes: size, kind and value, in byte order of the capturing
    machine. No kind has more than eight bits.
    """
    offset += 4
    while offset + 4 < end:
        is_little = data[offset + 2] != 0
        size = data[offset + 1] << 8 | data[offset] if is_little else be16(data, offset)
        if (data[offset + 2] if is_little else data[offset + 3]) == _NFLOG_PAYLOAD:
            return offset + 4
        if size < 4:
            return -MALFORMED
        offset += (size + 3) & ~3
    return -CUT


@kernel_function
def kind_of_family(data: ByteArray, at: int) -> int:
    """Returns the EtherType of the packet behind an address family, which is in byte order of the
    capturing machine; 0 for others.
    """
    family = be32(data, at)
    if family > 0xFFFF:
        family = le32(data, at)
    if family == 2:
        return _IPV4
    return _IPV6 if family in (10, 24, 28, 30) else 0  # AF_INET6 of Linux, NetBSD, FreeBSD, macOS


@kernel_function
def kind_of_ip(data: ByteArray, at: int) -> int:
    """Returns the EtherType of a packet by its IP version, 0 for others."""
    version = data[at] >> 4
    return _IPV6 if version == 6 else _IPV4 if version == 4 else 0


@kernel_function
def link_size(link_type: int) -> int:
    """Returns the size of a link header; -1 if it has no fixed size or is not understood."""
    if link_type == _ETHERNET:
        return 14
    if link_type == _COOKED:
        return 16
    if link_type == _COOKED_2:
        return 20
    if link_type == _IPNET:
        return 24
    if link_type in (_LOOP_NULL, _LOOP):
        return 4
    return 0 if link_type in _RAW else -1


@kernel_function
def kind_behind(data: ByteArray, at: int, link_type: int) -> int:
    """Returns the EtherType of the packet behind the link header at ``at``, 0 if it names none."""
    if link_type == _ETHERNET:
        return int(be16(data, at + 12))
    if link_type == _COOKED:
        return int(be16(data, at + 14))
    if link_type == _COOKED_2:
        return int(be16(data, at))
    if link_type == _IPNET:
        return _IPV4 if data[at + 1] == 2 else _IPV6 if data[at + 1] == 26 else 0
    return int(kind_of_family(data, at))


@kernel_function
def network_start(data: ByteArray, offset: int, end: int, link_type: int) -> int:
    """Returns where the IP header begins, or the negated class of a packet that shows none."""
    size = link_size(link_type)
    if link_type == _NFLOG:
        offset = nflog_payload(data, offset, end)
        if offset < 0:
            return offset
        kind = kind_of_ip(data, offset)
    elif size < 0:
        return -UNUSUAL
    elif offset + max(size, 1) > end:
        return -CUT
    elif size == 0:
        kind = _IPV6 if data[offset] >> 4 == 6 else _IPV4
    else:
        kind = kind_behind(data, offset, link_type)
        offset += size
    for _ in range(_MOST_TAGS):
        if kind not in (_VLAN, _QINQ, _QINQ_OLD):
            break
        if offset + 4 > end:
            return -CUT
        kind = be16(data, offset + 2)
        offset += 4
    if kind in (_IPV4, _IPV6):
        return offset
    if kind in (_VLAN, _QINQ, _QINQ_OLD, _MPLS, _MPLS_MULTICAST, _PPPOE, _TRANSPARENT):
        return -UNUSUAL
    return -NOT_TCP


@kernel_function
def within(network: int, tag: int) -> int:
    """Returns the number of a network that a tag of 12 bits names within another one; two tags are
    told apart for certain.
    """
    return (network << 12 ^ network >> 19 ^ tag) & 0x7FFFFFFF


@kernel_function
def network_of(data: ByteArray, start: int, at: int, link_type: int) -> int:
    """Returns a number for the network of a packet whose IP header begins at ``at``: by its VLAN
    tags, and by the interface that SLL2 names; 0 if it has neither.
    """
    network = 0
    if link_type == _COOKED_2:
        network = within(be16(data, start + 4) & 0xFFF, be16(data, start + 6) >> 12)
        network = within(network, be16(data, start + 6) & 0xFFF)
    tag = start + (14 if link_type == _ETHERNET else 16 if link_type == _COOKED else 20)
    if link_type in (_ETHERNET, _COOKED, _COOKED_2):
        while tag < at:
            network = within(network, be16(data, tag) & 0xFFF)
            tag += 4
    return network


@kernel_function
def take_addresses(data: ByteArray, at: int, version: int, tcp: IntArray, row: int) -> None:
    """Writes the two addresses of an IP header, which begin at ``at``, into a row."""
    if version == 4:
        for side in range(2):
            tcp[row, 2 * side] = FIRST_OF_IPV4
            tcp[row, 2 * side + 1] = _MAPPED + be32(data, at + 4 * side)
    else:
        for half in range(4):
            tcp[row, half] = (be32(data, at + 8 * half) - HALF) << 32 | be32(
                data, at + 8 * half + 4
            )


@kernel_function
def unreached(
    data: ByteArray, at: int, end: int, wanted_ports: ByteArray, tcp: IntArray, row: int
) -> bool:
    """Writes the row of the TCP packet that an ICMP error at ``at`` quotes. Returns whether there
    is one that did not reach its goal.

    An error quotes the IP header and 8 bytes at least: the ports and the sequence number.
    """
    inner = at + 8
    if inner + 28 > end:
        return False
    kind, code, version = data[at], data[at + 1], data[inner] >> 4
    if version == 4:
        ports, protocol, addresses = inner + (data[inner] & 15) * 4, data[inner + 9], inner + 12
        # 4: the packet was too long
        is_error = (kind == 3 and code != 4) or (kind == 11 and code == 0)
        code = TIME_EXCEEDED if kind == 11 else min(code, TIME_EXCEEDED - 1)
    else:
        ports, protocol, addresses = inner + 40, data[inner + 6], inner + 8
        is_error = kind == 1 or (kind == 3 and code == 0)
        code = OF_IPV6 + (TIME_EXCEEDED if kind == 3 else min(code, TIME_EXCEEDED - 1))
    if (
        not is_error
        or (version != 4 and version != 6)
        or protocol != 6
        or ports < inner + 20
        or ports + 8 > end
    ):
        return False
    if version == 4 and be16(data, inner + 6) & 0x1FFF:
        return False  # a later fragment has no ports
    if wanted_ports[be16(data, ports)] == 0 and wanted_ports[be16(data, ports + 2)] == 0:
        return False
    take_addresses(data, addresses, version, tcp, row)
    tcp[row, PORTS] = be16(data, ports)
    tcp[row, PORTS + 1] = be16(data, ports + 2)
    tcp[row, SEQ] = be32(data, ports + 4)
    tcp[row, ACKED] = 0
    tcp[row, FLAGS] = UNREACHED * (1 + code)
    tcp[row, PAYLOAD] = ports
    tcp[row, CAPTURED] = 0
    tcp[row, WIRE] = 0
    tcp[row, TAKES] = 1
    tcp[row, EXTRA] = 0
    tcp[row, EXTRA_WIRE] = 0
    return True


@inlined
def transport_start(data: ByteArray, at: int, end: int) -> int:
    """Returns where the header behind the IP header at ``at`` begins, or the negated class of a
    packet that shows none.
    """
    if at + 20 > end:
        return -CUT
    version = data[at] >> 4
    if version == 6:
        return at + 40 if at + 40 <= end else -CUT
    inner = at + (data[at] & 15) * 4
    if version != 4 or inner < at + 20:
        return -MALFORMED
    if be16(data, at + 6) & 0x3FFF:  # more fragments follow, or this is not the first
        return -UNUSUAL if data[at + 9] in _CARRIERS else -NOT_TCP
    return int(inner)


@kernel_function
def class_of_other(data: ByteArray, at: int, inner: int, end: int, protocol: int) -> int:
    """Returns the class of a packet that is not of TCP: it may be a tunnel, or there is more before
    its TCP header.
    """
    is_extended = data[at] >> 4 == 6 and protocol in (0, 43, 44, 60)
    is_tunnel = protocol in (4, 41, 47, 51, 137)  # IP in IP, GRE, authentication header, MPLS
    if protocol == 17 and inner + 4 <= end:
        is_tunnel = be16(data, inner + 2) in TUNNEL_PORTS
    return UNUSUAL if is_extended or is_tunnel else NOT_TCP


@kernel_function
def ip_end_of(data: ByteArray, at: int, wire_end: int) -> int:
    """Returns where the IP packet at ``at`` ends on the wire; -MALFORMED if not believed."""
    if data[at] >> 4 == 4:
        total = be16(data, at + 2)
    else:
        total = be16(data, at + 4)
        total += 40 if total != 0 else 0
    if total != 0:
        return int(at + total)
    # a large-send frame: longer than the length field can say, or the field is not filled in yet
    return wire_end if wire_end - at <= _MAX_FRAME else -MALFORMED


@kernel_function
def payload_start(data: ByteArray, inner: int, end: int, ip_end: int, is_alone: bool) -> int:
    """Returns where the payload behind the TCP header at ``inner`` begins, or the negated class of
    a packet that shows none.

    ``is_alone``: segmentation in hardware left only the size of the IP header in its length;
    ``ip_end`` is then that of the packet.
    """
    if ip_end < 0:
        return ip_end
    if inner + 14 > end:
        return -MALFORMED if inner + 20 > ip_end and not is_alone else -CUT
    payload = inner + (data[inner + 12] >> 4) * 4
    return -MALFORMED if payload < inner + 20 or payload > ip_end else int(payload)


@inlined
def take_header(data: ByteArray, at: int, inner: int, end: int, tcp: IntArray, row: int) -> None:
    """Writes what the IP header at ``at`` and the TCP header at ``inner`` say into a row."""
    version = data[at] >> 4
    take_addresses(data, at + (12 if version == 4 else 8), version, tcp, row)
    tcp[row, PORTS] = be16(data, inner)
    tcp[row, PORTS + 1] = be16(data, inner + 2)
    tcp[row, SEQ] = be32(data, inner + 4)
    tcp[row, ACKED] = be32(data, inner + 8)
    tcp[row, FLAGS] = data[inner + 13]
    tcp[row, TAKES] = be16(data, inner + 14) if inner + 16 <= end else 1


@inlined
def take_sizes(
    at: int, payload: int, end: int, ip_end: int, wire_end: int, tcp: IntArray, row: int
) -> None:
    """Writes where the payload of the packet at ``at`` is, and what is behind it, into a row."""
    is_longer = wire_end - at > _PADDED and ip_end < wire_end <= at + _MAX_FRAME
    tcp[row, PAYLOAD] = payload
    tcp[row, CAPTURED] = max(0, min(end, ip_end) - payload)
    tcp[row, WIRE] = ip_end - payload
    tcp[row, EXTRA] = max(0, end - ip_end) if is_longer else 0
    tcp[row, EXTRA_WIRE] = wire_end - ip_end if is_longer else 0


@kernel(
    "int64(octets, int64[::1], int64[::1], int64[::1], int64[::1], octets, uint8[::1], "
    "int64[::1], int64[:,::1], int64[::1])"
)
def parse_headers(
    data: ByteArray,
    offset: IntArray,
    captured: IntArray,
    wire: IntArray,
    link_type: IntArray,
    wanted_ports: ByteArray,
    classes: ByteArray,
    index: IntArray,
    tcp: IntArray,
    other_ports: IntArray,
) -> int:
    """Fills ``classes`` for every packet, ``index`` and ``tcp`` for the used ones; returns the
    number of used packets. One step for each packet.
    """
    used = 0
    for i in range(len(offset)):
        start, end, wire_end = offset[i], offset[i] + captured[i], offset[i] + wire[i]
        ip_start = network_start(data, start, end, link_type[i])
        inner = transport_start(data, ip_start, end) if ip_start >= 0 else ip_start
        if inner < 0:
            classes[i] = -inner
            continue
        protocol = data[ip_start + 9] if data[ip_start] >> 4 == 4 else data[ip_start + 6]
        if protocol != 6:
            classes[i] = class_of_other(data, ip_start, inner, end, protocol)
            if (protocol == 1 or protocol == 58) and unreached(
                data, inner, end, wanted_ports, tcp, used
            ):
                tcp[used, NETWORK] = network_of(data, start, ip_start, link_type[i])
                index[used] = i
                used += 1
            continue
        ip_end = ip_end_of(data, ip_start, wire_end)
        is_alone = ip_end == inner and wire_end - ip_start > _PADDED
        payload = payload_start(data, inner, end, wire_end if is_alone else ip_end, is_alone)
        if payload < 0:
            classes[i] = -payload
            continue
        source, target = be16(data, inner), be16(data, inner + 2)
        if wanted_ports[source] == 0 and wanted_ports[target] == 0:
            classes[i] = OTHER_PORT
            other_ports[min(source, target) or max(source, target)] += 1  # no server has port 0
            continue
        classes[i] = USED
        index[used] = i
        take_header(data, ip_start, inner, end, tcp, used)
        take_sizes(ip_start, payload, end, payload if is_alone else ip_end, wire_end, tcp, used)
        tcp[used, NETWORK] = network_of(data, start, ip_start, link_type[i])
        used += 1
    return used
