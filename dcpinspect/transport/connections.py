"""Who talks to whom: address pairs, the connections they carried one after the other, and which end
is the server.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.errors import UsageError
from dcpinspect.kernels.kernel import kernel, kernel_function
from dcpinspect.text import escape
from dcpinspect.transport.headers import ADDRESSES, FIRST_OF_IPV4, HALF, PORTS
from dcpinspect.transport.key_numbers import KEY, KeyNumbers

PLAIN_PORT, TLS_PORT = 11210, 11207
DEFAULT_PORTS = (PLAIN_PORT, TLS_PORT)

_MAPPED = bytes(10) + b"\xff\xff"
"""First bytes of IPv4 addresses mapped into IPv6."""
_WIDE = 1 << 32
"""Bit in the second number of a pair's key, set unless both addresses are IPv4."""


def listed_ports(ports: Any, *, words: Sequence[str] = ()) -> list[Any]:
    """Returns server ports, of which a caller gave none, one or several. ``words``: what may stand
    for a number. Raises UsageError.
    """
    is_one = isinstance(ports, str | bytes) or not isinstance(ports, Iterable)
    listed = [] if ports is None else [ports] if is_one else list(ports)
    for port in listed:
        if port not in words and not (type(port) is int and 0 < port < 65_536):
            or_word = "".join(f", or {word!r}" for word in words)
            raise UsageError(f"port {escape(str(port))}: give a number from 1 to 65535{or_word}")
    return listed


class AddressPairs:
    """Numbers address pairs from 0 on.

    A scan or a flood has millions of pairs, so the key of a pair is only two numbers. They hold two
    words of 32 bits, for the lower end and the higher one, and their ports of 16 bits. The word of
    an IPv4 address is the address itself. The word of an IPv6 address is its number among those
    addresses.
    """

    def __init__(self) -> None:
        self._pairs = KeyNumbers()
        self._addresses = KeyNumbers()

    @property
    def count(self) -> int:
        """Number of pairs."""
        return self._pairs.count

    @property
    def keys(self) -> IntArray:
        """[count or more, KEY]: the key of each pair."""
        return self._pairs.keys

    def find(self, tcp: IntArray) -> tuple[IntArray, IntArray]:
        """Returns the pair of each packet, new pairs numbered in order, and the end that sent it: 0
        the lower, 1 the higher.
        """
        keys, side = np.empty((len(tcp), KEY), np.int64), np.empty(len(tcp), np.int64)
        if pair_keys(tcp, keys, side):
            wide = np.flatnonzero(keys[:, 1] >= _WIDE)
            addresses = tcp[wide, ADDRESSES : ADDRESSES + 2 * KEY].reshape(-1, KEY)
            numbers = self._addresses.find(addresses).reshape(-1, 2)
            rows = np.arange(len(wide))
            keys[wide, 0] = (numbers[rows, side[wide]] - HALF) << 32 | numbers[rows, 1 - side[wide]]
        return self._pairs.find(keys), side

    def keep(self, staying: BoolArray) -> IntArray:
        """Keeps only these pairs; returns the new number of each pair, -1 for those that left."""
        kept_keys = self.keys[: self.count][staying]
        is_wide = kept_keys[:, 1] >= _WIDE
        used, numbers = np.unique(
            np.stack(halves(kept_keys[is_wide, 0]), axis=-1), return_inverse=True
        )
        low, high = numbers.reshape(-1, 2).T
        kept_keys[is_wide, 0] = (low - HALF) << 32 | high
        self._pairs.reset(kept_keys)
        self._addresses.reset(self._addresses.keys[used])
        return np.where(staying, np.cumsum(staying) - 1, -1)

    def words(self, pairs: IntArray) -> IntArray:
        """Returns, for each pair, four words of 32 bits for the address of each end, then both
        ports.
        """
        keys = self.keys[pairs]
        is_wide = keys[:, 1] >= _WIDE
        words = np.zeros((len(keys), 10), np.int64)
        for end, numbers in enumerate(halves(keys[:, 0])):
            address_words = words[:, 4 * end : 4 * end + 4]
            address_words[:, 2], address_words[:, 3] = 0xFFFF, numbers
            address_words[is_wide] = np.stack(
                halves(self._addresses.keys[numbers[is_wide]]), axis=-1
            ).reshape(-1, 4)
        words[:, 8], words[:, 9] = _ports(keys[:, 1])
        return words

    def address(self, pair: int, end: int) -> str:
        """Returns one end of a pair as text."""
        ends, ports = self.keys[pair].tolist()  # for one value, arrays cost more than numbers
        number = ends & 0xFFFF_FFFF if end else (ends >> 32) + HALF
        words = [0, 0, 0xFFFF, number]
        if ports >= _WIDE:
            words = [
                word
                for two in self._addresses.keys[number].tolist()
                for word in ((two >> 32) + HALF, two & 0xFFFF_FFFF)
            ]
        return endpoint_text(words, ports >> 16 * (1 - end) & 0xFFFF)

    def ports(self, pairs: IntArray, ends: IntArray) -> IntArray:
        """Returns the port of one end for each pair."""
        return _ports(self.keys[pairs, 1])[ends, np.arange(len(pairs))]


def halves(numbers: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the two words of 32 bits that make up each number."""
    return (numbers >> 32) + HALF, numbers & 0xFFFF_FFFF


def _ports(numbers: IntArray) -> IntArray:
    """Returns the ports in the second numbers of keys: of lower ends, then of higher ends."""
    return np.stack((numbers >> 16 & 0xFFFF, numbers & 0xFFFF))


def endpoint_text(words: Iterable[int], port: int) -> str:
    """Returns an address, given as four 32-bit words, and a port as text, in the records' form."""
    data = struct.pack(">4I", *words)
    if data[:12] == _MAPPED:
        return f"{data[12]}.{data[13]}.{data[14]}.{data[15]}:{port}"
    return f"[{ipaddress.IPv6Address(data)}]:{port}"


@kernel_function
def is_narrow(tcp: IntArray, i: int, at: int) -> bool:
    """Returns whether an address of a packet is one of IPv4."""
    return bool(tcp[i, at] == FIRST_OF_IPV4 and tcp[i, at + 1] >> 32 == 0xFFFF - HALF)


@kernel("int64(int64[:,::1], int64[:,::1], int64[::1])")
def pair_keys(tcp: IntArray, keys: IntArray, side: IntArray) -> int:
    """Writes the key of the pair of each packet, and the end that sent it; the first number of keys
    with IPv6 addresses is left open. Returns how many those are.
    """
    wide = 0
    for i in range(len(tcp)):
        low, high, swap = ADDRESSES, ADDRESSES + KEY, 0
        if tcp[i, low] != tcp[i, high]:
            swap = 1 if tcp[i, low] > tcp[i, high] else 0
        elif tcp[i, low + 1] != tcp[i, high + 1]:
            swap = 1 if tcp[i, low + 1] > tcp[i, high + 1] else 0
        else:
            swap = 1 if tcp[i, PORTS] > tcp[i, PORTS + 1] else 0
        is_wide = 0 if is_narrow(tcp, i, low) and is_narrow(tcp, i, high) else 1
        if swap:
            low, high = high, low
        keys[i, 0] = ((tcp[i, low + 1] & 0xFFFF_FFFF) - HALF) << 32 | (
            tcp[i, high + 1] & 0xFFFF_FFFF
        )
        keys[i, 1] = is_wide << 32 | tcp[i, PORTS + swap] << 16 | tcp[i, PORTS + 1 - swap]
        side[i] = swap
        wide += is_wide
    return wide
