"""Who talks to whom: address pairs, the connections they carried one after the other, and which end is the server."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from random import SystemRandom

import numpy as np
import numpy.typing as npt

from dcpinspect.capture.batch import Column
from dcpinspect.growing import grown
from dcpinspect.kernel import Ints, inline, kernel
from dcpinspect.transport.headers import ADDRESSES, PORTS

DEFAULT_PORTS = (11210, 11207)
TLS_PORT = 11207

KEY = 5
"""Numbers in a pair's key, each of two words of 32 bits: the lower end's address (4 words) and the higher end's, then the two ports in that
order."""
_HALF = 1 << 31
_MAPPED = bytes(10) + b"\xff\xff"
"""How IPv4 addresses begin among those of IPv6."""
_PRIME = (1 << 31) - 1
_MIX = 0x45D9F3B


@dataclass(frozen=True, slots=True)
class Connection:
    """One TCP connection of the reading."""

    number: int
    """From 1, in order of first packet."""
    client: str
    """``10.0.0.9:50312`` or ``[::1]:50312``."""
    server: str
    server_port: int
    first_packet: int
    """Number over the whole reading of its first packet."""
    starts: str
    """``handshake`` when its SYN was captured, ``mid-stream`` otherwise."""


class AddressPairs:
    """Numbers address pairs from 0 on. Exact keys in a hash table whose hash a sender of packets cannot know."""

    def __init__(self) -> None:
        self.count = 0
        self.keys: Column = np.zeros((64, KEY), np.int64)
        self._table: Column = np.full(256, -1, np.int32)
        self._secret = SystemRandom().randrange(1 << 16, _PRIME)

    def find(self, tcp: Column) -> tuple[Column, Column]:
        """The pair of each packet, new ones numbered in order, and which end sent it: 0 the lower, 1 the higher."""
        packets = len(tcp)
        pair = np.empty(packets, np.int64)
        side = np.empty(packets, np.int64)
        done = 0
        while done < packets:
            room = min(packets - done, max(4096, self.count))  # so that the tables grow with the pairs there are, not with the packets
            self._grow(self.count + room + 1)
            self.count = int(
                find_pairs(room, tcp[done : done + room], self._secret, self._table, self.keys, self.count, pair[done:], side[done:])
            )
            done += room
        return pair, side

    def keep(self, staying: npt.NDArray[np.bool_]) -> Column:
        """Only these pairs are known from now on; the numbers that pairs have then, -1 for those that left."""
        known = self.keys[: self.count][staying]
        self.count = len(known)
        self.keys = grown(known, self.count + 64)
        self._table = np.full(1 << (2 * len(self.keys) - 1).bit_length(), -1, np.int32)
        refill_table(self.count, self._secret, self._table, self.keys, self.count)
        return np.where(staying, np.cumsum(staying) - 1, -1)

    def _grow(self, pairs: int) -> None:
        if pairs > len(self.keys):
            self.keys = grown(self.keys, pairs)
        if 3 * pairs > 2 * len(self._table):  # at most two thirds full: a few steps to find one still
            size = 1 << (3 * pairs // 2).bit_length()
            self._table = np.full(size, -1, np.int32)
            refill_table(self.count, self._secret, self._table, self.keys, self.count)

    def words(self, pair: int) -> Column:
        """Four words of 32 bits for the address of each end, then both ports."""
        return _words(self.keys[pair])

    def address(self, pair: int, end: int) -> str:
        """One end as text."""
        key = self.keys[pair].tolist()  # one at a time arrays cost more than numbers
        words = [word for two in key for word in ((two >> 32) + _HALF, two & 0xFFFF_FFFF)]
        return endpoint_text(words[4 * end : 4 * end + 4], words[8 + end])

    def ports(self, pairs: Column, ends: Column) -> Column:
        """Of each pair the port of one end."""
        found: Column = _words(self.keys[pairs, 4:])[np.arange(len(pairs)), ends]
        return found


def _words(keys: Column) -> Column:
    """The words of a key, or of several."""
    found: Column = np.stack(((keys >> 32) + _HALF, keys & 0xFFFF_FFFF), axis=-1).reshape(*keys.shape[:-1], 2 * keys.shape[-1])
    return found


def endpoint_text(words: Iterable[int], port: int) -> str:
    """An address of four 32-bit words, and a port, as JSON.md writes them."""
    data = struct.pack(">4I", *words)
    if data[:12] == _MAPPED:
        return f"{data[12]}.{data[13]}.{data[14]}.{data[15]}:{port}"
    return f"[{ipaddress.IPv6Address(data)}]:{port}"


@inline
def put_key(keys: Ints, row: int, tcp: Ints, i: int, swap: int) -> None:
    """Makes the key of a packet, whose sender is the lower end unless ``swap`` is 1."""
    for half in range(4):
        word = 2 * half ^ 4 * swap
        keys[row, half] = (tcp[i, ADDRESSES + word] - _HALF) << 32 | tcp[i, ADDRESSES + word + 1]
    keys[row, 4] = (tcp[i, PORTS + swap] - _HALF) << 32 | tcp[i, PORTS + 1 - swap]


@inline
def slot_of(keys: Ints, row: int, secret: int, slots: int) -> int:
    """Polynomial hash over the prime 2**31 - 1 at a secret point.

    The bits are mixed in the end (as MurmurHash3 does): ports that follow each other, as in a scan, make steps of equal width, and their
    low bits alone may be few.
    """
    value = 0
    for half in range(KEY):
        words = keys[row, half]
        value = (value * secret + (words >> 32) + _HALF) % _PRIME
        value = (value * secret + (words & 0xFFFF_FFFF)) % _PRIME
    value = ((value ^ (value >> 16)) * _MIX) & 0xFFFF_FFFF
    value = ((value ^ (value >> 13)) * _MIX) & 0xFFFF_FFFF
    return int((value ^ (value >> 16)) & (slots - 1))


@kernel("int64(int64[:,::1], int64, int32[::1], int64[:,::1], int64, int64[::1], int64[::1])")
def find_pairs(tcp: Ints, secret: int, table: Ints, keys: Ints, count: int, pair: Ints, side: Ints) -> int:
    """Looks every packet's pair up, adding new ones; returns how many pairs there are. A few steps a packet.

    ``keys`` has room for one more than there can be: the key of the packet at hand.
    """
    slots = len(table)
    last = -1  # packets come in runs of one connection
    for i in range(len(tcp)):
        swap = 0
        for word in range(4):
            a, b = tcp[i, ADDRESSES + word], tcp[i, ADDRESSES + 4 + word]
            if a != b:
                swap = 1 if a > b else 0
                break
        else:
            swap = 1 if tcp[i, PORTS] > tcp[i, PORTS + 1] else 0
        put_key(keys, count, tcp, i, swap)
        found = last
        slot = -1
        while True:
            if found >= 0:
                half = KEY - 1
                while half >= 0 and keys[found, half] == keys[count, half]:
                    half -= 1
                if half < 0:
                    break
            slot = slot_of(keys, count, secret, slots) if slot < 0 else (slot + 1) & (slots - 1)
            found = table[slot]
            if found < 0:
                found = count
                count += 1
                table[slot] = found
                break
        last = found
        pair[i] = found
        side[i] = swap
    return count


@kernel("void(int64, int32[::1], int64[:,::1], int64)")
def refill_table(secret: int, table: Ints, keys: Ints, count: int) -> None:
    """Enters the first ``count`` keys into an empty table. A few steps a pair."""
    slots = len(table)
    for i in range(count):
        slot = slot_of(keys, i, secret, slots)
        while table[slot] >= 0:
            slot = (slot + 1) & (slots - 1)
        table[slot] = i
