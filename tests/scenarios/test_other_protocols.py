"""Other protocols on the port of messages: nothing of them is a message, and what is no DCP costs
no true message.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from dcpinspect.reading.reading import Reading
from tests import builders
from tests.builders import Conversation, recorded

RPC_CALL = struct.pack(">11I", 0x80000028, 0x72FE1D13, 0, 2, 100_000, 2, 4, 0, 0, 0, 0)
RPC_REPLY = struct.pack(">8I", 0x8000001C, 0x72FE1D13, 1, 0, 0, 0, 0, 0)
QUERY = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\7example\3com\0\0\1\0\1"


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


TALKS = {
    "ONC RPC": (RPC_CALL, RPC_REPLY),
    "ONC RPC without an answer": (RPC_CALL, b""),
    "a scan of 24 bytes": (b"\x80" + bytes(23), b""),
    "a scan that says something": (b"\x80" + noise(1, 23), b""),
    "Redis": (b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"),
    "MySQL": (noise(3, 80), b"\x4a\0\0\0\x0a8.0.33\0" + noise(2, 60)),
    "SSH": (
        b"SSH-2.0-OpenSSH_9.0\r\n" + noise(5, 1500),
        b"SSH-2.0-OpenSSH_9.0\r\n" + noise(6, 1500),
    ),
    "Kafka": (
        struct.pack(">IHHIH", 26, 18, 3, 1, 10) + b"consumer-1\0\6apache",
        struct.pack(">II", 300, 1) + bytes(296),
    ),
    "DNS": (struct.pack(">H", len(QUERY)) + QUERY, struct.pack(">H", len(QUERY)) + QUERY),
    "memcached ASCII": (b"get key\r\n", b"VALUE key 0 3\r\nabc\r\nEND\r\n"),
    "HTTP": (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"),
    "TLS": (
        b"\x16\x03\x01\0\x10\x01" + noise(8, 15) + b"\x17\x03\x03\x0f\xa0" + noise(9, 4000),
        b"\x16\x03\x03\0\x10\x02" + noise(8, 15),
    ),
    **{
        f"noise {seed}": (noise(100 + seed, 30_000), noise(200 + seed, 30_000)) for seed in range(4)
    },
    **{
        f"noise {seed} after a magic": (
            b"\x80" + noise(500 + seed, 3000),
            b"\x81" + noise(600 + seed, 30_000),
        )
        for seed in range(4)
    },
}


def told(
    tmp_path: Path, client: bytes, server: bytes, sizes: Sequence[int] = ()
) -> tuple[int, set[tuple[str, str]], list[tuple[int, int]]]:
    """Number of messages, findings, and of each direction the bytes that are there and those that
    are accounted for.
    """
    talk = Conversation()
    talk.handshake()
    talk.stream(True, client, sizes)
    talk.stream(False, server, sizes)
    talk.close()
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(recorded(talk.segments)))
    with Reading([str(path)], track=True) as reading:
        reading.check()
        count = sum(len(batch) for batch in reading)
        ways = reading.coverage.directions
        sums = [
            (
                one.unique,
                one.decoded + sum(one.skipped.values()) + one.unfinished + one.not_decodable,
            )
            for one in ways
        ]
        return count, {(one.severity, one.rule) for one in reading.findings()}, sums


@pytest.mark.parametrize("sizes", [(), (24,) * 3000])
@pytest.mark.parametrize("name", TALKS)
def test_no_byte_of_another_protocol_is_a_message_and_none_is_lost(
    name: str, sizes: tuple[int, ...], tmp_path: Path
) -> None:
    count, findings, sums = told(tmp_path, *TALKS[name], sizes)
    assert count == 0
    assert [one for one in findings if one[0] != "note"] == []
    assert [there for there, _ in sums] == [counted for _, counted in sums]


BROKEN = builders.message(magic=0x80, opcode=0x50, key=b"name", extras=b"\0", opaque=5)
"""An open with one byte of extras: no server takes it."""


def test_a_first_message_that_no_server_takes_is_believed_where_the_server_answers_it(
    tmp_path: Path,
) -> None:
    count, findings, sums = told(
        tmp_path,
        BROKEN,
        builders.message(magic=0x81, opcode=0x50, opaque=5, specific=4, value=b"no"),
    )
    assert count == 2
    assert [rule for severity, rule in findings if severity != "note"] != []
    assert [there for there, _ in sums] == [counted for _, counted in sums]


def test_messages_behind_a_broken_one_are_believed(tmp_path: Path) -> None:
    count, _, _ = told(tmp_path, BROKEN + builders.message(magic=0x80, opcode=0x0A, opaque=7), b"")
    assert count == 2


def test_a_stream_that_begins_with_other_bytes_is_read_once_messages_follow_one_another(
    tmp_path: Path,
) -> None:
    count, _, _ = told(
        tmp_path,
        b"hello, " * 9,
        b"hello, " * 9 + b"".join(builders.mutation(seqno) for seqno in range(1, 20)),
    )
    assert count == 19
