"""Packets that the header kernel does not understand: Scapy dissects them down to the TCP segment
that they carry.

These are IP fragments, IPv6 extension headers, VXLAN, Geneve, GRE (ERSPAN too, and in UDP), GTP-U,
IP in IP, MPLS, PPPoE and rare link types. The segment found becomes a plain IP packet with plain
TCP in it, which goes through the same kernel as all others. So one place knows what a TCP packet
is.

One such packet costs a quarter of a millisecond, a thousand times what others do; plain VXLAN alone
takes a shorter way. Scapy is loaded when it is first needed.
"""

from __future__ import annotations

import importlib
import struct
from dataclasses import replace
from typing import Any

import numpy as np

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.encapsulations import GRE_PORT, GTP_PORT, READ, VXLAN_PORTS
from dcpinspect.kernels.kernel import be16, be32
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import words_of
from dcpinspect.transport.fragments import Fragment, Fragments
from dcpinspect.transport.headers import (
    CUT,
    FRAGMENT,
    INCOMPLETE,
    MALFORMED,
    NETWORK,
    NOT_TCP,
    PAYLOAD,
    UNUSUAL,
    HeaderParser,
    Headers,
    network_of,
    network_start,
    within,
)

_MODULES = words_of(
    "layers.inet6 layers.vxlan layers.ppp layers.ipsec contrib.geneve contrib.mpls contrib.erspan"
)
_LINK_MODULES = {105: "layers.dot11", 119: "layers.dot11", 127: "layers.dot11"}
"""Modules for Wi-Fi, which nothing else needs."""
_COOKED = {104: (2, 4), 113: (14, 16), 276: (0, 20)}
"""For Cisco HDLC and Linux's cooked headers: where they say what follows, and where it begins.
Scapy knows only some of what follows, but all of it over Ethernet.
"""
_PKTAP = 258
"""What macOS puts before packets of all interfaces: its own size, and the link type behind."""
_ETHERNET, _RAW_IP = 1, 101
_GTP_VERSION, _GTP_PACKET = 0x30, 255
"""Version 1 of GTP, and its message that carries a packet."""
_TCP = 6
_NO_ORIGINS: IntArray = np.empty((0, 2), np.int64)
_TENANTS = ("vlan", "vni", "key", "label", "sessionid", "session_id")
"""Fields of headers that name a network: of VLAN, VXLAN and Geneve, GRE, MPLS, PPPoE, ERSPAN. That
of GTP-U is no field of Scapy's.
"""
_MAX_NESTED = 8
"""Greatest depth of fragments within fragments that is followed."""


@dataclass(frozen=True, slots=True)
class _Inner:
    """An IP packet, from its header on, with TCP right after the header."""

    data: bytes
    wire: int
    at: int = -1
    """Where it begins in the batch's bytes; -1 where they do not hold it in one piece."""
    network: int = 0
    """Its network, as ``headers.network_of`` has it, with what its tunnels name."""


class UnusualPackets:
    """Dissects unusual packets in order; keeps the fragments that wait for others."""

    def __init__(self, parser: HeaderParser) -> None:
        self.companions: list[tuple[int, int]] = []
        """(packet that completed a datagram, another packet with a fragment of it), by number over
        the whole reading; kept until cleared.
        """
        self._parser = parser
        self._fragments = Fragments()
        self._lost = 0
        self._layers = _Layers()

    def resolve(self, batch: PacketBatch, headers: Headers) -> tuple[Headers, ByteArray, IntArray]:
        """Returns ``headers`` with the unusual packets of ``batch`` added, the bytes that
        ``PAYLOAD`` points into, and the origin of added bytes.

        The bytes are those of the batch, then those of the added packets. The origin is a table [n,
        2] of places, ascending. From the first place on, the bytes repeat those of the batch from
        the second place on, or nothing if that is -1. A segment that came in fragments is at the
        packet that completed it.
        """
        unusual_packets = headers.unusual
        if not len(unusual_packets):
            return headers, batch.data, _NO_ORIGINS
        classes = headers.classes.copy()
        inner_packets: list[tuple[int, _Inner]] = []
        for packet in unusual_packets.tolist():
            inner = self._inner(batch, packet)
            if isinstance(inner, _Inner):
                inner_packets.append((packet, inner))
            else:
                classes[packet] = inner
        data = np.frombuffer(b"".join(inner.data for _, inner in inner_packets), np.uint8)
        packet_index = np.array([packet for packet, _ in inner_packets], np.int64)
        captured = np.array([len(inner.data) for _, inner in inner_packets], np.int64)
        parsed = self._parser.columns(
            PacketBatch(
                data=data,
                columns=np.stack(
                    (
                        np.cumsum(captured) - captured,
                        captured,
                        np.array([inner.wire for _, inner in inner_packets], np.int64),
                        batch.time_ns[packet_index],
                        np.full(len(inner_packets), _RAW_IP, np.int64),
                    )
                ),
                file=batch.file,
                first_frame=batch.first_frame,
                first_packet=batch.first_packet,
                file_offset=batch.file_offset,
            )
        )
        classes[packet_index] = parsed.classes
        parsed.tcp[:, NETWORK] = np.array([inner.network for _, inner in inner_packets], np.int64)[
            parsed.index
        ]
        self._parser.count(headers.classes[unusual_packets], -1)
        self._parser.count(classes[unusual_packets], 1)
        self._count_lost()
        origins = np.stack(
            (
                np.cumsum(captured) - captured + len(batch.data),
                np.array([inner.at for _, inner in inner_packets], np.int64),
            ),
            axis=1,
        )
        if not len(parsed.index):
            return Headers(classes, headers.index, headers.tcp), batch.data, origins
        parsed.tcp[:, PAYLOAD] += len(batch.data)
        index = np.concatenate((headers.index, packet_index[parsed.index]))
        order = np.argsort(index)
        tcp = np.concatenate((headers.tcp, parsed.tcp))[order]
        return Headers(classes, index[order], tcp), np.concatenate((batch.data, data)), origins

    def finish(self) -> None:
        """Counts fragments that still wait: no more packets come."""
        self._fragments.finish()
        self._count_lost()

    def _count_lost(self) -> None:
        lost = self._fragments.lost - self._lost
        self._lost += lost
        self._parser.counts[FRAGMENT] -= lost
        self._parser.counts[INCOMPLETE] += lost

    def _inner(self, batch: PacketBatch, packet_index: int) -> _Inner | int:
        """Returns the packet inside packet ``packet_index``, or its class if there is none."""
        start = int(batch.offset[packet_index])
        end = start + int(batch.captured[packet_index])
        wire_end = start + int(batch.wire[packet_index])
        link_type = int(batch.link_type[packet_index])
        view = batch.data.data  # an element costs 25 ns that way, 100 ns through NumPy
        if link_type == _PKTAP and start + 12 <= end:
            size, _, link_type = struct.unpack_from("<III", view, start)
            start = min(start + size, end)
        network_offset = network_start(view, start, end, link_type)  # type: ignore[arg-type] # see above
        try:
            network = network_of(view, start, network_offset, link_type)  # type: ignore[arg-type] # see above
            if network_offset >= 0 and (inside := _in_vxlan(view, network_offset, end)) >= 0:
                frame = network_offset + 4 * (view[network_offset] & 15) + 16
                network = _within(
                    network,
                    be32(view, frame - 4) >> 8,
                    network_of(view, frame, inside, _ETHERNET),  # type: ignore[arg-type] # see above
                )
                return _Inner(view[inside:end].tobytes(), wire_end - inside, inside, network)
            layer = (
                self._layers.ip(batch.data[network_offset:end].tobytes())
                if network_offset >= 0
                else self._link_layer(batch.data[start:end].tobytes(), link_type)
            )
            if layer is None:
                return UNUSUAL
            inner = self._walk(
                layer, max(0, int(batch.wire[packet_index] - batch.captured[packet_index])), network
            )
            for _ in range(_MAX_NESTED):
                if isinstance(inner, _Inner):
                    network_offset = start + batch.data[start:end].tobytes().find(inner.data)
                    if network_offset < start:
                        return inner
                    if inner.data[0] >> 4 == 4 and be16(view, network_offset + 2) == 0:
                        return replace(inner, at=network_offset)
                    return _Inner(
                        view[network_offset:end].tobytes(),
                        wire_end - network_offset,
                        network_offset,
                        inner.network,
                    )  # what is behind its end may be of it: segmentation in hardware
                if not isinstance(inner, Fragment):
                    return inner
                number = batch.packet_at(packet_index)
                datagram = self._fragments.add(inner, int(batch.time_ns[packet_index]), number)
                if datagram is None:
                    return FRAGMENT
                self.companions += [
                    (number, other_packet)
                    for other_packet in datagram.packets
                    if other_packet != number
                ]
                layer = self._layers.ip(_sized(datagram.head, datagram.length) + datagram.data)
                inner = self._walk(layer, datagram.length - len(datagram.data), inner.network)
        except Exception:  # whatever the bytes made Scapy do, the packet is at fault
            return MALFORMED
        return MALFORMED

    def _link_layer(self, packet: bytes, link_type: int) -> Any | None:
        """Returns the layers of a packet from its link on; None if Scapy has no such link type."""
        if link_type in _COOKED:
            kind, above = _COOKED[link_type]
            packet = bytes(12) + packet[kind : kind + 2] + packet[above:]
            link_type = _ETHERNET
        first = self._layers.link(link_type)
        return None if first is None else self._layers.dissected(first, packet)

    def _walk(self, layer: Any, cut: int, network: int) -> _Inner | Fragment | int:
        """Follows the layers inwards. ``cut``: bytes that snaplen took from the end. ``network``:
        the one around them. ``Any``: Scapy's packets have no types.
        """
        names = self._layers
        ip = above = None
        while not isinstance(layer, names.NoPayload):
            if isinstance(layer, names.errors):
                return NOT_TCP  # a packet quoted by ICMP was not sent here
            if isinstance(layer, (names.IP, names.IPv6)):
                ip = layer
                if isinstance(layer, names.IP) and (layer.frag or layer.flags.MF):
                    return _fragment(ip, layer, cut, network)
                if (layer.proto if isinstance(layer, names.IP) else layer.nh) == _TCP:
                    return _Inner(layer.original, len(layer.original) + cut, network=network)
            elif isinstance(layer, names.UDP) and layer.dport == GTP_PORT:
                tunnelled = _payload(layer)
                inside = _in_gtp(tunnelled)
                if inside is None:
                    return NOT_TCP
                if not inside:
                    return CUT if cut else MALFORMED
                network = _within(network, int.from_bytes(tunnelled[4:8], "big"))
                layer = names.ip(inside)
                continue
            elif ip is not None and isinstance(layer, names.Fragment) and (layer.offset or layer.m):
                return _fragment(ip, layer, cut, network)
            elif ip is not None and isinstance(layer, names.extensions) and layer.nh == _TCP:
                data, length = _carried(ip, layer, cut)
                head = _sized(_head(ip, _TCP), length)
                return _Inner(head + data, len(head) + length, network=network)
            network = _within(network, *(layer.fields.get(name) or 0 for name in _TENANTS))
            above, layer = layer, layer.payload
        if above is None or not isinstance(above, names.Raw):
            return CUT if cut else NOT_TCP
        under = above.underlayer  # bytes at the end may be the rest of a header that was cut
        if under is None or issubclass(under.guess_payload_class(above.load), names.Raw):
            return NOT_TCP
        return CUT if cut else MALFORMED


def _in_vxlan(view: memoryview, at: int, end: int) -> int:
    """Returns where the IP header of plain TCP in plain VXLAN begins, for an IP header at ``at``;
    -1 for anything else.

    This is only a short cut: mirrored cloud networks give captures of nothing but VXLAN, and Scapy
    takes thirty times as long.
    """
    udp = at + 4 * (view[at] & 15)
    frame = udp + 16
    if view[at] >> 4 != 4 or view[at + 9] != 17 or be16(view, at + 6) & 0x3FFF or end < frame + 34:
        return -1
    if be16(view, udp + 2) not in VXLAN_PORTS or view[udp + 8] != 8:
        return -1
    inside = network_start(view, frame, end, _ETHERNET)  # type: ignore[arg-type] # a memoryview
    is_plain = (
        0 <= inside <= end - 20
        and view[inside] >> 4 == 4
        and view[inside + 9] == _TCP
        and not be16(view, inside + 6) & 0x3FFF
    )
    return inside if is_plain else -1


def _in_gtp(data: bytes) -> bytes | None:
    """Returns the packet in a message of GTP-U; empty if it is cut off, None if the message carries
    none (3GPP TS 29.281).
    """
    if len(data) >= 2 and (data[0] & 0xF0 != _GTP_VERSION or data[1] != _GTP_PACKET):
        return None
    offset = 8
    if data and data[0] & 7:  # a number, or headers that follow
        offset = 12
        while data[0] & 4 and offset < len(data) and data[offset - 1]:
            size = 4 * data[offset]
            if not size:
                return None
            offset += size
    return data[offset:]


def _within(network: int, *names: int) -> int:
    """Returns the number of the network inside one that these numbers of headers name, one after
    the other; 0 names none.
    """
    for name in filter(None, names):
        for shift in (24, 12, 0) if name >> 24 else (12, 0) if name >> 12 else (0,):
            network = within(network, name >> shift & 0xFFF)
    return network


def _fragment(ip: Any, layer: Any, cut: int, network: int) -> Fragment:
    """Returns the fragment whose header is ``layer``; IPv4 has it in ``ip`` itself."""
    protocol, units, more = (
        (layer.proto, layer.frag, layer.flags.MF)
        if layer is ip
        else (layer.nh, layer.offset, layer.m)
    )
    data, length = _carried(ip, layer, cut)
    key = (network, ip.version, ip.src, ip.dst, layer.id, protocol if ip.version == 4 else 0)
    return Fragment(key, 8 * units, length, data, bool(more), _head(ip, protocol), network)


def _carried(ip: Any, layer: Any, cut: int) -> tuple[bytes, int]:
    """Returns what ``layer``, in ``ip``, carries: its bytes, and their number on the wire."""
    within, data = _payload(ip), _payload(layer)
    declared = (ip.len and ip.len - 4 * ip.ihl) if ip.version == 4 else ip.plen
    if not declared:  # a large-send frame
        declared = len(within) + cut
    return data, declared - (len(within) - len(data))


def _payload(layer: Any) -> bytes:
    inside: bytes | None = getattr(layer.payload, "original", None)
    return inside if inside is not None and layer.payload.name != "Padding" else b""


def _head(ip: Any, protocol: int) -> bytes:
    """Returns the header of ``ip``, changed for ``protocol`` in one piece."""
    if ip.version == 6:
        head: bytes = ip.original[:40]
        return head[:6] + bytes((protocol,)) + head[7:]
    head = ip.original[: 4 * ip.ihl]
    return head[:6] + struct.pack(">HBB", 0, head[8], protocol) + head[10:]


def _sized(head: bytes, length: int) -> bytes:
    """Returns ``head`` with the length of so many bytes, or with 0, which the kernel reads as "to
    the end", if the field cannot hold it.
    """
    length_offset, total = (4, length) if head[0] >> 4 == 6 else (2, len(head) + length)
    return (
        head[:length_offset]
        + struct.pack(">H", total if total <= 0xFFFF else 0)
        + head[length_offset + 2 :]
    )


class _Layers:
    """Scapy's classes, loaded when the first packet needs them (0.4 s)."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._load()
        return self.__dict__[name]

    def _load(self) -> None:
        modules = [importlib.import_module(f"scapy.{name}") for name in _MODULES]
        inet6, ipsec = modules[0], modules[3]
        inet = importlib.import_module("scapy.layers.inet")
        packet = importlib.import_module("scapy.packet")
        packet.bind_bottom_up(ipsec.AH, inet.IP, nh=4)  # Scapy has 0 there
        packet.bind_bottom_up(inet.UDP, inet.GRE, dport=GRE_PORT)
        self.types = importlib.import_module("scapy.config").conf.l2types
        self.IP, self.IPv6, self.TCP, self.UDP = inet.IP, inet6.IPv6, inet.TCP, inet.UDP
        self.Raw, self.NoPayload = packet.Raw, packet.NoPayload
        self.Fragment = inet6.IPv6ExtHdrFragment
        self.extensions = (inet6._IPv6ExtHdr, ipsec.AH)
        self.errors = (inet.ICMP, inet.IPerror, inet6.IPerror6, inet6._ICMPv6)

    def dissected(self, kind: Any, data: bytes) -> Any:
        """Returns ``data`` as layers; TCP is the last one that matters."""
        return kind(data, stop_dissection_after=self.TCP)

    def ip(self, data: bytes) -> Any:
        """Returns ``data`` as layers, from an IP header on."""
        return self.dissected(self.IPv6 if data[0] >> 4 == 6 else self.IP, data)

    def link(self, link_type: int) -> Any:
        """Returns the outermost layer of packets of a link type; ``None`` if it is not read."""
        if link_type not in READ:
            return None
        self._load()
        if link_type in _LINK_MODULES:
            importlib.import_module(f"scapy.{_LINK_MODULES[link_type]}")
        return self.types.num2layer.get(link_type)
