"""Copies packets out of the kernel's ring (TPACKET_V3), straight into pcapng blocks."""

from __future__ import annotations

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.capture.packet_walk import MAX_PACKET
from dcpinspect.kernels.kernel import copy, inlined, kernel, kernel_function, octet

COOKED_BYTES = 20
"""Bytes of a LINKTYPE_LINUX_SLL2 header."""
TAG_BYTES = 4
EPB_BYTES = 32
"""Bytes of an enhanced packet block in addition to the packet and its padding."""
MOST_GROWN = COOKED_BYTES + TAG_BYTES + EPB_BYTES + 3
"""Greatest number of bytes that a packet may need in addition to its own."""

OFFSET, LEFT, WRITTEN, PACKETS, LAST_NS = range(5)
"""Places in ``state`` of ``write_packets``. OFFSET: where the next packet of the block begins.
LEFT: how many packets are left there. WRITTEN, PACKETS, LAST_NS: bytes and packets that the last
call wrote, and the time of its last packet.
"""

_ADDRESS = 48
"""Where the socket address of a packet is, behind its ``tpacket3_hdr``."""
_VLAN_VALID, _VLAN_TPID_VALID = 1 << 4, 1 << 6
_VLAN = 0x8100
_OUTGOING, _LOOPBACK = 4, 772


@kernel_function
def le16(data: ByteArray, at: int) -> int:
    """Returns a little-endian number of 16 bits."""
    return octet(data, at + 1) << 8 | octet(data, at)


@kernel_function
def le32(data: ByteArray, at: int) -> int:
    """Returns a little-endian number of 32 bits, as a signed number: from unsigned and signed
    numbers together, machine code makes fractions.
    """
    return le16(data, at + 2) << 16 | le16(data, at)


@kernel_function
def be16(data: ByteArray, at: int) -> int:
    """Returns a big-endian number of 16 bits."""
    return octet(data, at) << 8 | octet(data, at + 1)


@kernel_function
def put32(target: ByteArray, at: int, value: int) -> None:
    """Writes a little-endian number of 32 bits."""
    target[at] = value & 0xFF
    target[at + 1] = (value >> 8) & 0xFF
    target[at + 2] = (value >> 16) & 0xFF
    target[at + 3] = (value >> 24) & 0xFF


@kernel_function
def put16(target: ByteArray, at: int, value: int) -> None:
    """Writes a big-endian number of 16 bits."""
    target[at] = (value >> 8) & 0xFF
    target[at + 1] = value & 0xFF


@kernel_function
def hidden_tag(block: ByteArray, at: int, size: int, protocol: int) -> bool:
    """Returns whether a VLAN tag is before the IP header: a second tag, which newer kernels leave
    there and do not mention.
    """
    version = 4 if protocol == 0x0800 else 6 if protocol == 0x86DD else 0
    if version == 0 or size <= 4 or be16(block, at + 2) != protocol:
        return False
    return octet(block, at + 4) >> 4 == version and octet(block, at) >> 4 != version


@kernel_function
def put_cooked(block: ByteArray, offset: int, protocol: int, target: ByteArray, to: int) -> None:
    """Writes the header that says where the packet at ``offset`` came from, and its protocol."""
    address = offset + _ADDRESS
    put16(target, to, protocol)
    put16(target, to + 2, 0)
    for i in range(4):
        target[to + 4 + i] = block[address + 7 - i]
    put16(target, to + 8, le16(block, address + 8))
    target[to + 10] = block[address + 10]
    target[to + 11] = min(octet(block, address + 11), 8)
    for i in range(8):
        target[to + 12 + i] = block[address + 12 + i]


@inlined
def put_packet(
    block: ByteArray, offset: int, is_cooked: bool, size: int, target: ByteArray, to: int
) -> int:
    """Writes ``size`` bytes of the packet at ``offset``, with the VLAN tag that the kernel has
    taken out. Returns by how many bytes it is longer then.
    """
    status, body = le32(block, offset + 20), offset + le16(block, offset + 24)
    has_tag = (status & _VLAN_VALID) != 0
    tag = le16(block, offset + 36) if has_tag and (status & _VLAN_TPID_VALID) != 0 else _VLAN
    tci = le32(block, offset + 32)
    if is_cooked:
        protocol = be16(block, offset + _ADDRESS + 2)
        if hidden_tag(block, body, size, protocol):
            protocol = _VLAN
        grown = COOKED_BYTES
        if has_tag:
            put16(target, to + COOKED_BYTES, tci)
            put16(target, to + COOKED_BYTES + 2, protocol)
            protocol = tag
            grown += TAG_BYTES
        put_cooked(block, offset, protocol, target, to)
        copy(target, to + grown, block, body, size)
        return grown
    if not has_tag or size < 14:
        copy(target, to, block, body, size)
        return 0
    copy(target, to, block, body, 12)
    put16(target, to + 12, tag)
    put16(target, to + 14, tci)
    copy(target, to + 16, block, body + 12, size - 12)
    return TAG_BYTES


@kernel("void(octets, boolean, int64, int64, uint8[::1], int64, int64[::1])")
def write_packets(
    block: ByteArray,
    is_cooked: bool,
    interface: int,
    limit: int,
    target: ByteArray,
    block_start: int,
    state: IntArray,
) -> None:
    """Writes packets of a block of the ring to ``target`` from ``block_start`` on, each as an
    enhanced packet block of an ``interface``.

    It writes at most ``limit`` packets, and as many as there is room for. One step for each packet.

    Frames get back the VLAN tag that the kernel has taken out. If the socket is cooked, they get a
    header that says where they came from.
    """
    start = block_start
    state[PACKETS] = 0
    while state[LEFT] > 0 and state[PACKETS] < limit:
        offset = state[OFFSET]
        size = min(le32(block, offset + 12), MAX_PACKET - COOKED_BYTES - TAG_BYTES)
        if block_start + size + MOST_GROWN > len(target):
            break
        kind, hardware = octet(block, offset + _ADDRESS + 10), le16(block, offset + _ADDRESS + 8)
        # an outgoing loopback packet comes back at once
        if not (is_cooked and kind == _OUTGOING and hardware == _LOOPBACK):
            time_ns = le32(block, offset + 4) * 1_000_000_000 + le32(block, offset + 8)
            grown = put_packet(block, offset, is_cooked, size, target, block_start + 28)
            packet_end = block_start + 28 + size + grown
            while (packet_end - block_start) & 3:
                target[packet_end] = 0
                packet_end += 1
            length = packet_end + 4 - block_start
            put32(target, block_start, 6)
            put32(target, block_start + 4, length)
            put32(target, block_start + 8, interface)
            put32(target, block_start + 12, time_ns >> 32)
            put32(target, block_start + 16, time_ns & 0xFFFF_FFFF)
            put32(target, block_start + 20, size + grown)
            put32(target, block_start + 24, max(le32(block, offset + 16), size) + grown)
            put32(target, packet_end, length)
            block_start += length
            state[PACKETS] += 1
            state[LAST_NS] = time_ns
        state[OFFSET] += le32(block, offset)
        state[LEFT] -= 1
    state[WRITTEN] = block_start - start
