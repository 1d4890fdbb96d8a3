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

KEY = 2
"""Number of integers in the key of a pair, and in an IPv6 address."""
_HALF = 1 << 31
_MAPPED = bytes(10) + b"\xff\xff"
"""First bytes of IPv4 addresses mapped into IPv6."""
_WIDE = 1 << 32
"""Bit in the second number of a pair's key, set unless both addresses are IPv4."""
_PRIME = (1 << 31) - 1
_MIX = 0x45D9F3B


@dataclass(frozen=True, slots=True)
class Connection:
    """One TCP connection of the reading."""

    number: int
    """Counted from 1, in order of first packet."""
    client: str
    """Address and port: ``10.0.0.9:50312`` or ``[::1]:50312``."""
    server: str
    server_port: int
    first_packet: int
    """Number of its first packet, over the whole reading."""
    starts: str
    """``handshake`` if its SYN was captured, ``mid-stream`` otherwise."""


class AddressPairs:
    """Numbers address pairs from 0 on, with exact keys in hash tables whose hash a sender of packets cannot know.

    A scan or a flood has millions of pairs, so a key is only two numbers. They hold two words of 32 bits, for the lower end and the higher
    one, and their ports of 16 bits. The word of an IPv4 address is the address itself. The word of an IPv6 address is its number in a table
    of addresses.
    """

    def __init__(self) -> None:
        self.keys: Column = np.zeros((256, KEY), np.int64)
        self._table: Column = np.full(512, -1, np.int32)
        self._addresses: Column = np.zeros((256, KEY), np.int64)
        self._address_table: Column = np.full(512, -1, np.int32)
        self._counts: Column = np.zeros(2, np.int64)  # numbers of pairs and of IPv6 addresses
        self._secret = SystemRandom().randrange(1 << 16, _PRIME)

    @property
    def count(self) -> int:
        """Number of pairs."""
        return int(self._counts[0])

    def find(self, tcp: Column) -> tuple[Column, Column]:
        """Returns the pair of each packet, new pairs numbered in order, and the end that sent it: 0 the lower, 1 the higher."""
        packets = len(tcp)
        pair = np.empty(packets, np.int64)
        side = np.empty(packets, np.int64)
        done = 0
        while done < packets:
            pairs, addresses = self._counts.tolist()
            self.keys, self._table = self._with_room(self.keys, self._table, pairs)
            self._addresses, self._address_table = self._with_room(self._addresses, self._address_table, addresses)
            tables = self._table, self.keys, self._address_table, self._addresses, self._counts
            done += int(find_pairs(packets - done, tcp[done:], self._secret, *tables, pair[done:], side[done:]))
        return pair, side

    def keep(self, staying: npt.NDArray[np.bool_]) -> Column:
        """Keeps only these pairs; returns the new number of each pair, -1 for those that left."""
        known = self.keys[: self.count][staying]
        is_wide = known[:, 1] >= _WIDE
        used, numbers = np.unique(np.stack(_halves(known[is_wide, 0]), axis=-1), return_inverse=True)
        low, high = numbers.reshape(-1, 2).T
        known[is_wide, 0] = (low - _HALF) << 32 | high
        self._counts[:] = len(known), len(used)
        self.keys, self._table = self._refilled(known)
        self._addresses, self._address_table = self._refilled(self._addresses[used])
        return np.where(staying, np.cumsum(staying) - 1, -1)

    def _with_room(self, keys: Column, table: Column, count: int) -> tuple[Column, Column]:
        """Returns larger tables if there is no room for the next packet."""
        return (keys, table) if has_room(keys, table, count) else self._refilled(keys[:count])

    def _refilled(self, known: Column) -> tuple[Column, Column]:
        rows = 1 << (len(known) + 64).bit_length()
        keys = grown(known, rows)
        table: Column = np.full(2 * rows, -1, np.int32)  # half full at most, so that finding a key takes few steps
        refill_table(len(known), self._secret, table, keys, len(known))
        return keys, table

    def words(self, pairs: Column) -> Column:
        """Returns, for each pair, four words of 32 bits for the address of each end, then both ports."""
        keys = self.keys[pairs]
        is_wide = keys[:, 1] >= _WIDE
        found = np.zeros((len(keys), 10), np.int64)
        for end, numbers in enumerate(_halves(keys[:, 0])):
            own = found[:, 4 * end : 4 * end + 4]
            own[:, 2], own[:, 3] = 0xFFFF, numbers
            own[is_wide] = np.stack(_halves(self._addresses[numbers[is_wide]]), axis=-1).reshape(-1, 4)
        found[:, 8], found[:, 9] = _ports(keys[:, 1])
        return found

    def address(self, pair: int, end: int) -> str:
        """Returns one end of a pair as text."""
        ends, ports = self.keys[pair].tolist()  # for one value, arrays cost more than numbers
        number = ends & 0xFFFF_FFFF if end else (ends >> 32) + _HALF
        words = [0, 0, 0xFFFF, number]
        if ports >= _WIDE:
            words = [word for two in self._addresses[number].tolist() for word in ((two >> 32) + _HALF, two & 0xFFFF_FFFF)]
        return endpoint_text(words, ports >> 16 * (1 - end) & 0xFFFF)

    def ports(self, pairs: Column, ends: Column) -> Column:
        """Returns the port of one end for each pair."""
        found: Column = _ports(self.keys[pairs, 1])[ends, np.arange(len(pairs))]
        return found


def _halves(numbers: Column) -> tuple[Column, Column]:
    """Returns the two words of 32 bits that make up each number."""
    return (numbers >> 32) + _HALF, numbers & 0xFFFF_FFFF


def _ports(numbers: Column) -> Column:
    """Returns the ports in the second numbers of keys: ports of the lower ends, then ports of the higher ends."""
    return np.stack((numbers >> 16 & 0xFFFF, numbers & 0xFFFF))


def endpoint_text(words: Iterable[int], port: int) -> str:
    """Returns an address, given as four 32-bit words, and a port as text, in the form that records have."""
    data = struct.pack(">4I", *words)
    if data[:12] == _MAPPED:
        return f"{data[12]}.{data[13]}.{data[14]}.{data[15]}:{port}"
    return f"[{ipaddress.IPv6Address(data)}]:{port}"


@inline
def put_address(addresses: Ints, row: int, tcp: Ints, i: int, word: int) -> None:
    """Writes an address of a packet, given as four words, as two numbers."""
    for half in range(KEY):
        addresses[row, half] = (tcp[i, word + 2 * half] - _HALF) << 32 | tcp[i, word + 2 * half + 1]


@inline
def slot_of(keys: Ints, row: int, secret: int, slots: int) -> int:
    """Returns the slot of a key: a polynomial hash over the prime 2**31 - 1 at a secret point.

    The bits are mixed at the end (as MurmurHash3 does): successive ports, as in a scan, make steps of equal width, whose low bits alone may
    be few.
    """
    value = 0
    for half in range(KEY):
        words = keys[row, half]
        value = (value * secret + (words >> 32) + _HALF) % _PRIME
        value = (value * secret + (words & 0xFFFF_FFFF)) % _PRIME
    value = ((value ^ (value >> 16)) * _MIX) & 0xFFFF_FFFF
    value = ((value ^ (value >> 13)) * _MIX) & 0xFFFF_FFFF
    return int((value ^ (value >> 16)) & (slots - 1))


@inline
def find_row(secret: int, table: Ints, keys: Ints, count: int, guess: int) -> int:
    """Returns the row that has the key of row ``count``, or ``count`` itself, which is then entered, if no other row has it.

    ``guess``: a row that may have the key, or -1.
    """
    if guess >= 0 and keys[guess, 0] == keys[count, 0] and keys[guess, 1] == keys[count, 1]:
        return guess
    slot = slot_of(keys, count, secret, len(table))
    found = table[slot]
    while found >= 0 and (keys[found, 0] != keys[count, 0] or keys[found, 1] != keys[count, 1]):
        slot = (slot + 1) & (len(table) - 1)
        found = table[slot]
    if found < 0:
        found = count
        table[slot] = count
    return int(found)


@inline
def has_room(keys: Ints, table: Ints, count: int) -> bool:
    """Returns whether there is room for a packet, which may have two new addresses, and a row for the key that is looked for."""
    return bool(count + 3 <= len(keys) and 2 * count < len(table))


@kernel("int64(int64[:,::1], int64, int32[::1], int64[:,::1], int32[::1], int64[:,::1], int64[::1], int64[::1], int64[::1])")
def find_pairs(
    tcp: Ints, secret: int, table: Ints, keys: Ints, address_table: Ints, addresses: Ints, counts: Ints, pair: Ints, side: Ints
) -> int:
    """Looks up the pair of every packet and adds new pairs. Returns the number of packets done before room ran out. A few steps for each
    packet."""
    count, known = counts[0], counts[1]
    last = -1  # successive packets are often of one connection
    for i in range(len(tcp)):
        if not (has_room(keys, table, count) and has_room(addresses, address_table, known)):
            counts[0], counts[1] = count, known
            return i
        swap = 0
        for word in range(4):
            a, b = tcp[i, ADDRESSES + word], tcp[i, ADDRESSES + 4 + word]
            if a != b:
                swap = 1 if a > b else 0
                break
        else:
            swap = 1 if tcp[i, PORTS] > tcp[i, PORTS + 1] else 0
        is_wide = 0
        for word in range(3):
            mapped = 0xFFFF if word == 2 else 0
            if tcp[i, ADDRESSES + word] != mapped or tcp[i, ADDRESSES + 4 + word] != mapped:
                is_wide = 1
        low, high = ADDRESSES + 4 * swap, ADDRESSES + 4 - 4 * swap
        first, second = tcp[i, low + 3], tcp[i, high + 3]
        if is_wide:
            was_wide = last >= 0 and keys[last, 1] >= _WIDE
            put_address(addresses, known, tcp, i, low)
            first = find_row(secret, address_table, addresses, known, (keys[last, 0] >> 32) + _HALF if was_wide else -1)
            known = max(known, first + 1)
            put_address(addresses, known, tcp, i, high)
            second = find_row(secret, address_table, addresses, known, keys[last, 0] & 0xFFFF_FFFF if was_wide else -1)
            known = max(known, second + 1)
        keys[count, 0] = (first - _HALF) << 32 | second
        keys[count, 1] = is_wide << 32 | tcp[i, PORTS + swap] << 16 | tcp[i, PORTS + 1 - swap]
        last = find_row(secret, table, keys, count, last)
        count = max(count, last + 1)
        pair[i] = last
        side[i] = swap
    counts[0], counts[1] = count, known
    return len(tcp)


@kernel("void(int64, int32[::1], int64[:,::1], int64)")
def refill_table(secret: int, table: Ints, keys: Ints, count: int) -> None:
    """Enters the first ``count`` keys into an empty table. A few steps for each pair."""
    slots = len(table)
    for i in range(count):
        slot = slot_of(keys, i, secret, slots)
        while table[slot] >= 0:
            slot = (slot + 1) & (slots - 1)
        table[slot] = i
