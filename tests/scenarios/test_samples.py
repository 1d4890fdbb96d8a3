"""The sample captures, read whole: what the peers said they sent, and what tshark reads where it is
not wrong.
"""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from dcpinspect.reading.reading import Reading
from dcpinspect.tables.messages import DIRECTIONS, MessageBatch
from tests.agreement import complaints
from tests.peers import truth

SAMPLES = truth.SAMPLES
CAPTURES = {path.name.split(".")[0]: path for path in sorted(SAMPLES.glob("*.pcap*"))}
DAMAGED = {"capture-loss", "midstream"}
"""Samples whose captures do not hold everything that was sent."""
UNDAMAGED = sorted(CAPTURES.keys() - DAMAGED)
SMALL = sorted(set(UNDAMAGED) - {"large"})

Direction = tuple[str, str, str]
"""Client, server, direction."""


@dataclass(frozen=True, slots=True)
class Read:
    """A message as we read it."""

    batch: MessageBatch
    index: int

    @property
    def data(self) -> bytes:
        return self.batch.bytes_of(self.index)


@cache
def read(name: str) -> dict[Direction, list[Read]]:
    found: dict[Direction, list[tuple[int, Read]]] = defaultdict(list)
    with Reading([str(CAPTURES[name])]) as reading:
        for batch in reading:
            for index in range(len(batch)):
                connection = int(batch.connection[index]) - 1
                direction = DIRECTIONS[int(batch.direction[index])]
                key = (
                    batch.endpoints.client[connection],
                    batch.endpoints.server[connection],
                    direction,
                )
                found[key].append((int(batch.stream_offset[index]), Read(batch, index)))
    return {
        key: [message for _, message in sorted(messages, key=lambda item: item[0])]
        for key, messages in found.items()
    }


@pytest.mark.parametrize(
    "name", [*SMALL, *sorted(DAMAGED), pytest.param("large", marks=pytest.mark.deep)]
)
def test_nothing_contradicts_itself_in_what_is_said_of_a_sample(name: str) -> None:
    with Reading([str(CAPTURES[name])], track=True) as reading:
        reading.check()
        for _ in reading:
            pass
        tables = {table: records.records() for table, records in reading.by_name().items()}
        assert complaints(tables, reading.findings()) == []


def said(name: str) -> dict[Direction, list[truth.Message]]:
    out: dict[Direction, list[truth.Message]] = {}
    for connection in truth.load(name):
        client, server = (_address(*address) for address in (connection.client, connection.server))
        for direction, messages in (("c2s", connection.c2s), ("s2c", connection.s2c)):
            if messages:
                out[client, server, direction] = messages
    return out


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@pytest.mark.parametrize("name", UNDAMAGED)
def test_every_message_that_was_sent_is_read_byte_for_byte(name: str) -> None:
    ours, theirs = read(name), said(name)
    assert ours.keys() == theirs.keys()
    for key, messages in theirs.items():
        assert len(ours[key]) == len(messages), key
        assert all(
            message.is_data(mine.data) for message, mine in zip(messages, ours[key], strict=True)
        ), key


@pytest.mark.parametrize("name", sorted(DAMAGED & CAPTURES.keys()))
def test_every_message_that_no_hole_touches_is_read_and_none_is_invented(name: str) -> None:
    ours, theirs = read(name), said(name)
    for key, messages in theirs.items():
        whole = [message.data for message in messages if message.is_whole]
        complete = [
            mine.data for mine in ours.get(key, []) if not mine.batch.missing.ranges_of(mine.index)
        ]
        assert complete == whole, key
        partial = [mine for mine in ours.get(key, []) if mine.batch.missing.ranges_of(mine.index)]
        touched = [
            message for message in messages if not message.is_whole and not message.is_absent
        ]
        possible = {(message.length, message.missing) for message in touched}
        assert {
            (int(mine.batch.length[mine.index]), mine.batch.missing.ranges_of(mine.index))
            for mine in partial
        } <= possible, key


@pytest.mark.parametrize("name", sorted(CAPTURES))
def test_fields_tile_every_message(name: str) -> None:
    for messages in read(name).values():
        for mine in messages[:2000]:
            message = mine.batch.annotate(mine.index)
            at = 0
            for field in message.fields:
                assert field.offset == at
                at += field.size
            assert at == message.size


@pytest.mark.parametrize("name", SMALL)
def test_no_undamaged_message_breaks_a_rule_that_makes_it_unreadable(name: str) -> None:
    unreadable = {
        "bad-magic",
        "length-mismatch",
        "extras-length",
        "value-length",
        "unexpected-section",
        "bad-collection-prefix",
        "bad-snappy",
        "bad-xattr-section",
    }
    for messages in read(name).values():
        for mine in messages:
            assert (
                not {problem.rule for problem in mine.batch.annotate(mine.index).problems}
                & unreadable
            )


# tshark 4.0.17 shows these wrongly or not at all (its faults are listed in test_tshark_faults.py),
# so they are not compared.
_FAULTY_SEQNOS = {0x66, 0x67, 0x5F}
_COMPARED = {
    "couchbase.extras.by_seqno": "by_seqno",
    "couchbase.extras.rev_seqno": "rev_seqno",
    "couchbase.extras.expiration": "expiration",
    "couchbase.extras.nmeta": "nmeta",
    "couchbase.extras.nru": "nru",
    "couchbase.extras.delete_time": "delete_time",
    "couchbase.extras.start_seqno": "start_seqno",
    "couchbase.extras.end_seqno": "end_seqno",
    "couchbase.extras.snap_start_seqno": "snapshot_start_seqno",
    "couchbase.extras.snap_end_seqno": "snapshot_end_seqno",
    "couchbase.extras.bytes_to_ack": "ack_bytes",
    "couchbase.extras.by_seqno_prepared": "prepared_seqno",
    "couchbase.extras.by_seqno_commit": "commit_seqno",
    "couchbase.extras.by_seqno_abort": "abort_seqno",
    "couchbase.extras.max_visible_seqno": "max_visible_seqno",
    "couchbase.extras.high_completed_seqno": "high_completed_seqno",
}


def tshark_messages(path: Path) -> Iterator[tuple[str, str, dict[str, ET.Element]]]:
    """(source, destination, fields) of every message that tshark finds, in its order."""
    command = [
        "tshark",
        "-r",
        str(path),
        "-o",
        "tcp.reassemble_out_of_order:TRUE",
        "-Y",
        "couchbase",
        "-T",
        "pdml",
    ]
    output = subprocess.run(command, check=True, capture_output=True).stdout
    for packet in ET.fromstring(output).iter("packet"):  # noqa: S314 - of our own capture
        addresses: dict[str, str] = {}
        for proto in packet.iter("proto"):
            if proto.get("name") in ("ip", "ipv6", "tcp"):
                for field in proto.iter("field"):
                    name = (field.get("name") or "").split(".")[-1]
                    if name in ("src", "dst", "srcport", "dstport"):
                        addresses[name] = field.get("show") or ""
        for proto in packet.findall("proto[@name='couchbase']"):
            fields: dict[str, ET.Element] = {}
            for field in proto.iter("field"):
                fields.setdefault(field.get("name") or "", field)
            if "couchbase.magic" in fields:
                source, target = (
                    _address(addresses[host], int(addresses[port]))
                    for host, port in (("src", "srcport"), ("dst", "dstport"))
                )
                yield source, target, fields


@pytest.mark.slow
@pytest.mark.requires("tshark")
@pytest.mark.parametrize("name", SMALL)
def test_tshark_reads_the_same_where_it_reads_rightly(name: str) -> None:
    ours = read(name)
    turn: dict[Direction, int] = defaultdict(int)
    for source, target, fields in tshark_messages(CAPTURES[name]):
        key: Direction = (
            (source, target, "c2s") if (source, target, "c2s") in ours else (target, source, "s2c")
        )
        mine = ours[key][turn[key]]
        turn[key] += 1
        decoded, index = mine.batch.decoded, mine.index
        opcode = int(decoded.opcode[index])
        header = {
            "magic": int(decoded.magic[index]),
            "datatype": int(decoded.datatype[index]),
            "total_bodylength": int(decoded.body_size[index]),
            "opaque": int(decoded.opaque[index]),
            "cas": int(decoded.cas[index]),
            "extras.length": int(decoded.extras_size[index]),
        }
        theirs = {key: int(fields[f"couchbase.{key}"].get("value") or "", 16) for key in header}
        assert theirs == header
        place = "status" if decoded.is_response[index] else "vbucket"
        if f"couchbase.{place}" in fields:
            assert int(fields[f"couchbase.{place}"].get("value") or "", 16) == int(
                decoded.specific[index]
            )
        is_shifted = (
            mine.batch.problem_of(index) == "undeclared-stream-id"
        )  # read literally by tshark
        if (
            opcode in _FAULTY_SEQNOS
            or decoded.is_server[index]
            or decoded.is_response[index]
            or is_shifted
        ):
            continue
        for theirs_name, ours_name in _COMPARED.items():
            number = mine.batch.number(ours_name, index)
            if theirs_name in fields and number is not None:
                assert int(fields[theirs_name].get("value") or "", 16) == number, ours_name
    assert turn == {key: len(messages) for key, messages in ours.items()}


@pytest.mark.slow
@pytest.mark.requires("tshark")
def test_tshark_reads_the_same_headers_of_the_large_sample() -> None:
    ours = read("large")
    names = (
        "ip.src",
        "tcp.srcport",
        "ip.dst",
        "tcp.dstport",
        "couchbase.opcode",
        "couchbase.opaque",
        "couchbase.total_bodylength",
        "couchbase.cas",
    )
    command = [
        "tshark",
        "-r",
        str(CAPTURES["large"]),
        "-Y",
        "couchbase",
        "-T",
        "fields",
        *(part for name in names for part in ("-e", name)),
    ]
    theirs: dict[Direction, list[tuple[int, ...]]] = defaultdict(list)
    for line in subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.splitlines():
        source, source_port, target, target_port, *columns = line.split("\t")
        ends = _address(source, int(source_port)), _address(target, int(target_port))
        key: Direction = (*ends, "c2s") if (*ends, "c2s") in ours else (ends[1], ends[0], "s2c")
        for opcode, opaque, size, cas in zip(
            *(column.split(",") for column in columns), strict=True
        ):
            wire = int.from_bytes(
                bytes.fromhex(opaque.removeprefix("0x")), "little"
            )  # tshark swaps it
            theirs[key].append((int(opcode, 16), wire, int(size), int(cas, 16)))
    mine = {
        key: [
            (
                int(message.batch.decoded.opcode[i]),
                int(message.batch.decoded.opaque[i]),
                int(message.batch.decoded.body_size[i]),
                int(message.batch.decoded.cas[i]),
            )
            for message in messages
            for i in (message.index,)
        ]
        for key, messages in ours.items()
    }
    assert mine == theirs
