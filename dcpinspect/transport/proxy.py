"""The PROXY protocol: a header by which a proxy says, before the first byte of a client, whose
connection it hands on.

Version 1 is a line of text, version 2 is binary (HAProxy, ``doc/proxy-protocol.txt``). What follows
is read as if it began the stream.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dcpinspect.transport.chunk import C2S, StreamChunk, StreamEntries
from dcpinspect.transport.connections import endpoint_text

_LINE = re.compile(
    rb"PROXY (?:TCP[46] ([0-9a-fA-F.:]{2,39}) [0-9a-fA-F.:]{2,39} (\d{1,5}) \d{1,5}|UNKNOWN[ "
    rb"-~]*)\r\n"
)
_MOST_LINE = 107
_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_HEADER = len(_SIGNATURE) + 4
MOST = 4096
"""A longer header of version 2 is not believed: addresses and certificates take less."""
_PROXIED = 1
_IPV4, _IPV6 = 1, 2
_FIRST = (ord("P"), ord("\r"))


class ProxyHeader(NamedTuple):
    """What a proxy said of a connection."""

    version: int
    client: str
    """Address and port of the client; empty if the header names none."""
    size: int


def proxy_header(data: bytes) -> ProxyHeader | None:
    """Returns the header that a stream begins with; None if it does not begin with one, or only
    with a part of one.
    """
    if data.startswith(b"PROXY "):
        line = _LINE.match(data, 0, _MOST_LINE)
        if line is None:
            return None
        host = (line[1] or b"").decode()
        port = (line[2] or b"").decode()
        return ProxyHeader(
            1,
            "" if not host else f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            line.end(),
        )
    if not data.startswith(_SIGNATURE) or len(data) < _HEADER or data[12] >> 4 != 2:
        return None
    size = _HEADER + int.from_bytes(data[14:16], "big")
    if len(data) < size or size > MOST:
        return None
    family, client = data[13] >> 4, ""
    if data[12] & 15 == _PROXIED and family == _IPV4 and size >= _HEADER + 12:
        client = endpoint_text(
            (0, 0, 0xFFFF, int.from_bytes(data[16:20], "big")), int.from_bytes(data[24:26], "big")
        )
    elif data[12] & 15 == _PROXIED and family == _IPV6 and size >= _HEADER + 36:
        client = endpoint_text(
            struct.unpack(">4I", data[16:32]), int.from_bytes(data[48:50], "big")
        )
    return ProxyHeader(2, client, size)


def may_go_on(data: bytes) -> bool:
    """Returns whether more bytes may make a header of these."""
    if data.startswith(_SIGNATURE):
        return len(data) < _HEADER or (
            data[12] >> 4 == 2 and len(data) < _HEADER + int.from_bytes(data[14:16], "big") <= MOST
        )
    if b"PROXY ".startswith(data[:6]):
        return len(data) < _MOST_LINE and b"\n" not in data
    return _SIGNATURE.startswith(data)


class ProxyHeaders:
    """Takes the headers away from the chunks of a reading."""

    def __init__(self, on_header: Callable[[int, int], None]) -> None:
        """``on_header``: is told the connection and the size of each header."""
        self._found = on_header
        self.of: dict[int, ProxyHeader] = {}
        """By connection."""
        self._held: dict[int, StreamChunk] = {}
        self._begins: set[int] = set()  # connections of which nothing but the header has come

    def strip(self, chunks: Iterable[StreamChunk]) -> Iterator[StreamChunk]:
        """Yields the chunks without headers; offsets count from behind them."""
        for chunk in chunks:
            number = chunk.connection
            if chunk.direction != C2S:
                yield chunk
            elif number in self.of:
                yield self._behind(chunk, self.of[number].size)
            elif number in self._held or (
                chunk.is_start and len(chunk.data) and chunk.data[0] in _FIRST
            ):
                yield from self._chunks_after_header(chunk)
            else:
                yield chunk

    def leave(self, connections: Collection[int]) -> None:
        """Drops connections on which nothing comes any more."""
        for number in connections:
            self.of.pop(number, None)
            self._held.pop(number, None)
        self._begins.difference_update(connections)

    def _chunks_after_header(self, chunk: StreamChunk) -> Iterator[StreamChunk]:
        number = chunk.connection
        held = self._held.pop(number, None)
        joined_chunk = (
            chunk
            if held is None or chunk.offset != held.offset + len(held.data)
            else _joined(held, chunk)
        )
        data = joined_chunk.data[:MOST].tobytes()
        header = None if joined_chunk.holes else proxy_header(data)
        if header is not None:
            self.of[number] = header
            self._found(number, header.size)
            behind_header = self._behind(joined_chunk.since(header.size), header.size)
            if len(behind_header.data) or behind_header.is_end:
                yield replace(behind_header, is_start=True)
            else:
                self._begins.add(number)
        elif joined_chunk is chunk and held is not None:
            yield from (held, chunk)  # bytes are missing between them
        elif may_go_on(data) and not joined_chunk.is_end and not joined_chunk.holes:
            self._held[number] = joined_chunk
        else:
            yield joined_chunk

    def _behind(self, chunk: StreamChunk, size: int) -> StreamChunk:
        segments = StreamEntries.joined([chunk.segments])
        segments.offset -= size
        is_start = chunk.is_start or chunk.connection in self._begins
        self._begins.discard(chunk.connection)
        holes = tuple((start - size, end - size) for start, end in chunk.holes)
        return replace(
            chunk,
            offset=chunk.offset - size,
            segments=segments,
            holes=holes,
            is_start=is_start,
        )


def _joined(first: StreamChunk, second: StreamChunk) -> StreamChunk:
    """Returns two chunks that follow each other as one."""
    return replace(
        first,
        data=np.concatenate((first.data, second.data)),
        segments=StreamEntries.joined([first.segments, second.segments]),
        holes=(*first.holes, *second.holes),
        is_end=second.is_end,
    )
