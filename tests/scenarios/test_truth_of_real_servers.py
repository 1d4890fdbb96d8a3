"""Every message of the recordings of real servers is what the client itself sent and received."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict, deque
from typing import Any

import pytest

import dcpinspect
from dcpinspect.protocol.opcodes import Opcode
from tests.captures import REAL_SERVER, real_server
from tests.catalogue import each

RECORDINGS = sorted(
    path.name.removesuffix(".truth.jsonl.gz") for path in REAL_SERVER.glob("*.truth.jsonl.gz")
)
CUT = {"resume-lost": 66 + 65 + 66, "replication-66-66-hello-lost": 42}
"""Copies of a recording without some of its packets, and the bytes of the messages that were in
these.
"""

COLUMNS = (
    "client",
    "direction",
    "magic",
    "opcode",
    "opaque",
    "vbucket",
    "status",
    "length",
    "by_seqno",
    "key_bytes",
    "collection_id",
)

Message = tuple[object, ...]
Directions = dict[tuple[str, str], list[Message]]


def leb128(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 0x7F | 0x80]) + leb128(number >> 7)


def what_was_sent(name: str) -> Directions:
    """The messages of the client's own record, by client address and direction, in order."""
    directions: Directions = defaultdict(list)
    with gzip.open(REAL_SERVER / f"{name}.truth.jsonl.gz", "rt") as lines:
        for line in map(json.loads, lines):
            if "op" in line:
                number = line.get("vb", line.get("status"))
                message = (
                    line["magic"],
                    int(line["op"], 16),
                    line["opaque"],
                    number,
                    line["len"],
                    line.get("seqno"),
                    line.get("key"),
                )
                directions[line["conn"], line["dir"]].append(message)
    return directions


def what_is_read(name: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    keylog = [path for path in [REAL_SERVER / f"{name}.keys.log"] if path.exists()]
    directions: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in (
        dcpinspect.open(real_server(name), keylog=keylog).messages(COLUMNS).read_all().to_pylist()
    ):
        directions[row["client"], row["direction"]].append(row)
    return directions


def as_recorded(row: dict[str, Any], sent: Message) -> Message:
    """What the client's record has of the message: seqnos of events alone, keys with the collection
    in front as on the wire.
    """
    number = row["vbucket"] if row["magic"] in (0x80, 0x08) else row["status"]
    seqno = row["by_seqno"] if sent[5] is not None else None
    prefix = (
        b""
        if row["collection_id"] is None or row["opcode"] == Opcode.DCP_SYSTEM_EVENT
        else leb128(row["collection_id"])
    )
    key = (
        (prefix + row["key_bytes"]).decode("utf-8", "backslashreplace")
        if sent[6] is not None
        else None
    )
    return (row["magic"], row["opcode"], row["opaque"], number, row["length"], seqno, key)


@pytest.mark.slow
@each("name", RECORDINGS)
def test_every_message_is_what_the_client_sent_or_received(name: str) -> None:
    sent, read = what_was_sent(name), what_is_read(name)
    assert read.keys() == sent.keys()
    lost_bytes = 0
    for direction, messages in sent.items():
        rows = deque(read[direction])
        for message in messages:
            if rows and as_recorded(rows[0], message) == message:
                rows.popleft()
            else:
                lost_bytes += int(str(message[4]))
        assert not rows, "what was never sent"
    assert lost_bytes == CUT.get(name, 0)


@pytest.mark.parametrize(
    ("name", "messages"), [("6.0.5-dcp1", 2_096), ("6.0.5-dcp2", 13_026), ("6.6.5-dcp", 758)]
)
def test_recordings_without_a_record_of_the_client_lose_nothing(name: str, messages: int) -> None:
    recording = dcpinspect.open(real_server(name))
    assert len(recording) == messages
    assert recording.messages(["problem"], filter="problem is not null").read_all().num_rows == 0


@pytest.mark.parametrize(
    ("sample", "name"),
    [("stuck", "v85-stuck-disconnect"), ("resume", "resume"), ("durability", "durability")],
)
def test_samples_of_a_real_server_are_these_recordings(sample: str, name: str) -> None:
    folder = REAL_SERVER.parents[2] / "sample_captures" / "real-server"
    assert (folder / f"{sample}.pcap.gz").read_bytes() == real_server(name).read_bytes()
