"""Captures for the benchmarks: a consumer's connection with any number of messages, made with NumPy
in seconds.

A cycle of 20 messages repeats over 1,024 vbuckets: a snapshot marker, 12 mutations with JSON, 4
with snappy, 2 with xattrs, a deletion, and a seqno that none has. Keys, seqnos and CAS differ in
every message. Segments are 1,448 bytes, so that most messages straddle none and some straddle two;
the client acknowledges every tenth.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tests.encode import encode, encode_document

VBUCKETS = 1024
SEGMENT = 1448
ACK_EVERY = 10
CYCLES_A_BLOCK = 2000
SKIPPED = 10
"""Seqno of each snapshot's 20 that is de-duplicated."""
START_NS = 1_712_381_677_000_000_000
CLIENT, SERVER = b"\x0a\x00\x00\x09", b"\x0a\x00\x00\x07"
CLIENT_PORT, SERVER_PORT = 50312, 11210

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


def _document(number: int) -> str:
    items = '[{"sku":"A-17","n":2},{"sku":"B-4","n":1}]'
    return f'{{"id":{number},"type":"order","city":"Zürich","amount":129.95,"items":{items},"note":"gift"}}'


def _cycle() -> tuple[bytes, list[tuple[int, int, str]]]:
    """A cycle's bytes, and (offset, size, kind) of each message."""
    out = bytearray()
    places = []
    for number in range(20):
        if number == 0:
            message, kind = (
                encode("dcp_snapshot_marker", snapshot_type=["memory", "checkpoint"]),
                "marker",
            )
        elif number == 19:
            message, kind = (
                encode(
                    "dcp_deletion",
                    generation="v2",
                    collection=8,
                    key="order::00000000",
                    delete_time=1712381677,
                ),
                "event",
            )
        else:
            xattrs = {"_sync": '{"rev":"1-af"}'} if number in (7, 14) else None
            value, datatype = encode_document(
                _document(number), json=True, xattrs=xattrs, snappy=number % 5 == 3
            )
            message = encode(
                "dcp_mutation",
                collection=8,
                key="order::00000000",
                value=value,
                datatype=datatype,
                item_flags=0x02000006,
            )
            kind = "event"
        places.append((len(out), len(message), kind))
        out += message
    return bytes(out), places


def _session(vbuckets: int) -> tuple[bytes, bytes]:
    """What client and server say before the stream: HELLO with collections, open, one request a
    vbucket.
    """
    features: list[dict[str, Any]] = [{"feature": code} for code in (0x06, 0x0A, 0x0B, 0x12)]
    client = [
        encode("hello", key='{"a":"bench"}', features=features, opaque=1),
        encode(
            "dcp_open",
            key="bench:1",
            flags=["producer", "include-xattrs", "include-delete-times"],
            opaque=2,
        ),
    ]
    server = [
        encode("hello", "response", features=features, opaque=1),
        encode("dcp_open", "response", opaque=2),
    ]
    log = [{"uuid": 0xFEEDDECA, "seqno": 0}]
    for vbucket in range(vbuckets):
        client.append(
            encode("dcp_stream_req", vbucket=vbucket, opaque=0x1000 + vbucket, end_seqno=2**64 - 1)
        )
        server.append(
            encode("dcp_stream_req", "response", opaque=0x1000 + vbucket, failover_log=log)
        )
    return b"".join(client), b"".join(server)


def _put(cells: Bytes, offset: int, values: npt.NDArray[np.uint64], size: int) -> None:
    cells[:, offset : offset + size] = (
        values.astype(">u8").view(np.uint8).reshape(len(values), 8)[:, 8 - size :]
    )


def _block(
    first: int, cycles: int, vbuckets: int, template: Bytes, places: list[tuple[int, int, str]]
) -> Bytes:
    """The bytes of cycles first, first + 1, …"""
    cells = np.tile(template, (cycles, 1))
    cycle = np.arange(first, first + cycles, dtype=np.uint64)
    vbucket, round_ = cycle % np.uint64(vbuckets), cycle // np.uint64(vbuckets)
    for number, (offset, _, kind) in enumerate(places):
        _put(cells, offset + 6, vbucket, 2)
        _put(cells, offset + 12, vbucket + np.uint64(0x1000), 4)
        seqno = round_ * np.uint64(20) + np.uint64(max(number, 1) + (number >= SKIPPED))
        if kind == "marker":
            # the first marker of a stream starts where the request does, later ones with the first
            # seqno of their checkpoint
            _put(cells, offset + 24, np.where(round_ == 0, np.uint64(0), seqno), 8)
            _put(cells, offset + 32, seqno + np.uint64(19), 8)
            continue
        _put(
            cells,
            offset + 16,
            np.uint64(START_NS) + (cycle * np.uint64(20) + np.uint64(number)) * np.uint64(1 << 16),
            8,
        )
        _put(cells, offset + 24, seqno, 8)
        _put(cells, offset + 32, round_ + np.uint64(1), 8)
        key = offset + 24 + int(template[offset + 4]) + 1 + len("order::")
        document = cycle * np.uint64(20) + np.uint64(number)
        for digit in range(8):
            cells[:, key + 7 - digit] = (document // np.uint64(10**digit) % np.uint64(10)).astype(
                np.uint8
            ) + ord("0")
    return cells.reshape(-1)


class Writer:
    """A pcap file with one TCP connection, from SYN to FIN while entered."""

    def __init__(
        self,
        path: Path,
        port: int = CLIENT_PORT,
        server_port: int = SERVER_PORT,
        *,
        client: bytes = CLIENT,
        server: bytes = SERVER,
    ) -> None:
        """``port``: the client's; ``client`` and ``server``: addresses."""
        self.file = path.open("wb")
        self.port = port
        self.addresses = {CLIENT: client, SERVER: server}
        self.server_port = server_port
        self.file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        self.sequence = {CLIENT: 1000, SERVER: 2000}
        self.packets = 0
        self.rest = np.zeros(0, np.uint8)  # of the server's bytes, less than a segment

    def __enter__(self) -> Self:
        self.control(CLIENT, 0x02)
        self.control(SERVER, 0x12)
        self.control(CLIENT, 0x10)
        return self

    def __exit__(self, *_: object) -> None:
        self.send(SERVER, self.rest)
        self.control(SERVER, 0x11)
        self.control(CLIENT, 0x11)
        self.file.close()

    def stream(self, payload: Bytes) -> None:
        """What the server has to send goes out in full segments alone."""
        data = np.concatenate((self.rest, payload))
        whole = len(data) // SEGMENT * SEGMENT
        self.send(SERVER, data[:whole])
        self.rest = data[whole:]

    def control(self, source: bytes, flags: int) -> None:
        """A packet without payload."""
        peer = self.sequence[SERVER if source == CLIENT else CLIENT]
        number = np.array([self.packets])
        self.file.write(
            self._records(
                source,
                np.zeros((1, 0), np.uint8),
                flags,
                np.array([self.sequence[source]]),
                np.array([peer]),
                number,
            )
        )
        self.sequence[source] += 1 if flags & 0x03 else 0
        self.packets += 1

    def send(self, source: bytes, payload: Bytes) -> None:
        """Payload in full segments, every tenth acknowledged at once, then the rest in one."""
        group = SEGMENT * ACK_EVERY
        groups = len(payload) // group
        if groups:
            self._send_groups(source, payload[: groups * group], groups)
        for start in range(groups * group, len(payload), SEGMENT):
            self._send_one(source, payload[start : start + SEGMENT])

    def _send_groups(self, source: bytes, payload: Bytes, groups: int) -> None:
        peer = SERVER if source == CLIENT else CLIENT
        segments = groups * ACK_EVERY
        place = np.arange(segments)
        number = self.packets + place + place // ACK_EVERY
        sequence = self.sequence[source] + place * SEGMENT
        data = self._records(
            source,
            payload.reshape(segments, SEGMENT),
            0x18,
            sequence,
            np.full(segments, self.sequence[peer]),
            number,
        )
        end = self.sequence[source] + (np.arange(groups) + 1) * ACK_EVERY * SEGMENT
        ack_number = self.packets + (np.arange(groups) + 1) * (ACK_EVERY + 1) - 1
        acks = self._records(
            peer,
            np.zeros((groups, 0), np.uint8),
            0x10,
            np.full(groups, self.sequence[peer]),
            end,
            ack_number,
        )
        self.file.write(np.concatenate((data.reshape(groups, -1), acks), axis=1).tobytes())
        self.sequence[source] += len(payload)
        self.packets += groups * (ACK_EVERY + 1)

    def _send_one(self, source: bytes, payload: Bytes) -> None:
        peer = self.sequence[SERVER if source == CLIENT else CLIENT]
        number = np.array([self.packets])
        self.file.write(
            self._records(
                source,
                payload.reshape(1, -1),
                0x18,
                np.array([self.sequence[source]]),
                np.array([peer]),
                number,
            )
        )
        self.sequence[source] += len(payload)
        self.packets += 1

    def _records(self, source: bytes, *columns: Any) -> Bytes:
        ports = (self.port, self.server_port) if source == CLIENT else (self.server_port, self.port)
        target = SERVER if source == CLIENT else CLIENT
        return _records((self.addresses[source], self.addresses[target]), ports, *columns)


def _records(
    ends: tuple[bytes, bytes],
    ports: tuple[int, int],
    payload: Bytes,
    flags: int,
    sequence: Numbers,
    acknowledged: Numbers,
    number: Numbers,
) -> Bytes:
    """The pcap records of packets with equally long payloads, a row each."""
    count, size = payload.shape
    ip_size = 52 + size
    frame = (
        struct.pack("<IIII", 0, 0, 14 + ip_size, 14 + ip_size)
        + bytes.fromhex("0200000000020200000000010800")
        + struct.pack(">BBHHHBBH4s4s", 0x45, 0, ip_size, 0, 0x4000, 64, 6, 0, *ends)
        + struct.pack(">HHIIBBHHH", *ports, 0, 0, 0x80, flags, 4096, 0, 0)
        + bytes(12)
    )
    records = np.tile(np.frombuffer(frame + bytes(size), np.uint8), (count, 1))
    time = START_NS + number * 2_000
    for offset, values, form in (
        (0, time // 1_000_000_000, "<u4"),
        (4, time % 1_000_000_000, "<u4"),
        (54, sequence & 0xFFFFFFFF, ">u4"),
        (58, acknowledged & 0xFFFFFFFF, ">u4"),
    ):
        records[:, offset : offset + 4] = values.astype(form).view(np.uint8).reshape(count, 4)
    records[:, 82:] = payload
    return records


def opening(vbuckets: int = VBUCKETS) -> tuple[Bytes, Bytes]:
    """What client and server say before anything streams."""
    client, server = _session(vbuckets)
    return np.frombuffer(client, np.uint8), np.frombuffer(server, np.uint8)


def streaming(messages: int, vbuckets: int = VBUCKETS) -> tuple[int, Iterator[Bytes]]:
    """How many messages there are, the opening included, if about so many are wanted; and what the
    server streams, in blocks.
    """
    cycle, places = _cycle()
    template = np.frombuffer(cycle, np.uint8)
    total = max(1, (messages - 2 * (vbuckets + 2)) // len(places))
    blocks = (
        _block(first, min(CYCLES_A_BLOCK, total - first), vbuckets, template, places)
        for first in range(0, total, CYCLES_A_BLOCK)
    )
    return total * len(places) + 2 * (vbuckets + 2), blocks


def make(path: Path, messages: int, *, vbuckets: int = VBUCKETS, port: int = CLIENT_PORT) -> int:
    """Write a capture with about so many messages; returns how many it has."""
    count, blocks = streaming(messages, vbuckets)
    with Writer(path, port) as writer:
        for source, said in zip((CLIENT, SERVER), opening(vbuckets), strict=True):
            writer.send(source, said)
        for block in blocks:
            writer.stream(block)
    return count
