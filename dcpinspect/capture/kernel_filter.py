"""What the kernel leaves out of a live capture: packets that can hold nothing of the ports asked
for.

libpcap, through Scapy, translates the expression. The program is then attached by hand, because
Scapy's would cut frames at 65,535 bytes, which is less than a loopback interface carries. Packets
pass that might hold TCP which only a dissector can see (IP fragments, extension headers, tunnels,
VLAN tags), and ICMP errors, which quote packets that did not arrive: the engine decides.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence

from dcpinspect.capture.encapsulations import TUNNEL_PORTS
from dcpinspect.capture.packet_walk import MAX_PACKET

ETHERNET, RAW_IP = 1, 101

Instruction = tuple[int, int, int, int]
"""Operation, jump if true, jump if false, operand."""

_WITHIN_IP = (4, 41, 47, 51, 137)
"""Protocols: IP in IP, IPv6 in IP, GRE, authentication header, MPLS."""
_IPV6_HEADERS = (0, 43, 44, 60)
"""Headers: hop by hop, routing, fragment, destination."""
_TAGGED = (0x8100, 0x88A8, 0x9100, 0x8847, 0x8848, 0x8864, 0x6558)
"""Ethernet types: VLAN, MPLS, PPPoE, transparent bridging."""

_LOAD_HALF, _JUMP_EQUAL, _RETURN = 0x28, 0x15, 0x06
_PROTOCOL = 0xFFFF_F000
"""Where the kernel shows the Ethernet type of a packet, even if its bytes begin with the IP header
(SKF_AD_PROTOCOL).
"""
_SO_ATTACH_FILTER = 26


def expression(ports: Sequence[int]) -> str:
    """Returns a libpcap expression for packets that may hold TCP of these ports."""
    conditions = [f"tcp port {port}" for port in ports]
    conditions.append("ip[6:2] & 0x3fff != 0")
    conditions += [f"ip proto {number}" for number in _WITHIN_IP]
    conditions += [f"ip6[6] == {number}" for number in (*_WITHIN_IP, *_IPV6_HEADERS)]
    conditions += [f"udp dst port {port}" for port in TUNNEL_PORTS]
    conditions += [
        "icmp[0] == 3",
        "icmp[0] == 11",
        "(ip6[6] == 58 and (ip6[40] == 1 or ip6[40] == 3))",
    ]  # a destination was not reached
    return " or ".join(conditions)


def everything(snaplen: int) -> list[Instruction]:
    """Returns a program that lets all packets pass, cut to their first ``snaplen`` bytes."""
    return [(_RETURN, 0, 0, snaplen)]


def program(
    ports: Sequence[int], link_type: int, snaplen: int = MAX_PACKET
) -> list[Instruction] | None:
    """Returns the expression as instructions for frames of a link type, ``ETHERNET`` or ``RAW_IP``;
    None if there is no libpcap.

    Packets that pass are cut to ``snaplen`` bytes.
    """
    from scapy.arch.common import compile_filter, free_filter  # deferred, as all of Scapy

    try:
        compiled = compile_filter(expression(ports), linktype=link_type)
    except ImportError:
        return None
    compiled_instructions = [compiled.bf_insns[index] for index in range(compiled.bf_len)]
    instructions = [
        (
            instruction.code,
            instruction.jt,
            instruction.jf,
            snaplen if instruction.code == _RETURN and instruction.k else instruction.k,
        )
        for instruction in compiled_instructions
    ]
    free_filter(compiled)
    tagged: list[Instruction] = [(_LOAD_HALF, 0, 0, _PROTOCOL)]
    for number in _TAGGED:
        tagged += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, snaplen)]
    return tagged + instructions


def attach(sock: socket.socket, instructions: Sequence[Instruction]) -> None:
    """Lets the socket receive only what the program lets pass, from now on."""
    code = ctypes.create_string_buffer(
        b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    )
    sock.setsockopt(
        socket.SOL_SOCKET,
        _SO_ATTACH_FILTER,
        struct.pack("HP", len(instructions), ctypes.addressof(code)),
    )
