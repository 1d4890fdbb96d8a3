from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dcpinspect.output.export.json import message_object
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.arrow import record_batch, type_of
from dcpinspect.tables.messages import MessageBatch
from tests import builders
from tests.encode import encode
from tests.peers.truth import SAMPLES

LOG = [{"uuid": 2**64 - 1, "seqno": 2**63}, {"uuid": 1, "seqno": 0}]
ENTRIES = [
    {"uuid": "0xffffffffffffffff", "seqno": 2**63},
    {"uuid": "0x0000000000000001", "seqno": 0},
]


def batch_of(path: Path, *messages: bytes, **options: Any) -> MessageBatch:
    builders.capture(path, server=b"".join(messages), **options)
    with Reading([str(path)]) as reading:
        (batch,) = reading
    return batch


def column(batch: MessageBatch, name: str) -> list[Any]:
    found: list[Any] = record_batch(batch, np.arange(len(batch)), [name]).column(name).to_pylist()
    return found


def log(opaque: int, entries: list[dict[str, int]]) -> bytes:
    return encode("dcp_stream_req", "response", opaque=opaque, failover_log=entries)


def test_a_failover_log_is_a_list_of_structs(tmp_path: Path) -> None:
    batch = batch_of(
        tmp_path / "x.pcap", builders.mutation(), log(1, LOG), log(2, LOG[1:]), builders.mutation()
    )
    assert column(batch, "failover_log") == [None, ENTRIES, ENTRIES[1:], None]
    assert str(type_of("failover_log")) == "list<item: struct<uuid: string, seqno: uint64>>"


def test_rows_may_come_in_any_order(tmp_path: Path) -> None:
    batch = batch_of(tmp_path / "x.pcap", log(1, LOG), builders.mutation(), log(2, LOG[1:]))
    table = record_batch(batch, np.array([2, 1, 0]), ["failover_log"])
    assert table.column(0).to_pylist() == [ENTRIES[1:], None, ENTRIES]


@pytest.mark.parametrize("name", ["failover_log", "seqnos", "items"])
def test_no_message_that_has_some_is_a_column_of_nulls(name: str, tmp_path: Path) -> None:
    table = record_batch(batch_of(tmp_path / "x.pcap", builders.mutation()), np.arange(1), [name])
    assert (table.column(0).type, table.column(0).to_pylist()) == (type_of(name), [None])


def test_what_does_not_divide_leaves_the_rest_out(tmp_path: Path) -> None:
    cut = builders.message(magic=0x81, opcode=0x54, value=struct.pack(">QQ", 1, 2) + b"rest")
    assert column(batch_of(tmp_path / "x.pcap", cut), "failover_log") == [
        [{"uuid": "0x0000000000000001", "seqno": 2}]
    ]


def test_a_list_that_the_capture_lacks_a_part_of_has_nulls_there(tmp_path: Path) -> None:
    builders.capture(
        tmp_path / "x.pcap",
        server=log(1, LOG * 200) + b"".join(builders.mutations(80)),
        loss=[4],
        mss=1000,
    )
    with Reading([str(tmp_path / "x.pcap")]) as reading:
        first = next(batch for batch in reading if len(batch.missing.row))
    assert first.missing.row.tolist() == [0]
    found, entries = (
        column(first, "failover_log")[0],
        column(batch_of(tmp_path / "y.pcap", log(1, LOG * 200)), "failover_log")[0],
    )
    assert len(found) == len(entries) == 200 * len(LOG)
    lacking = [one for one in found if None in one.values()]
    assert len(lacking) == 1000 // 16 + 1
    assert [one for one in found if one not in lacking] == [
        one for one, own in zip(entries, found, strict=True) if own not in lacking
    ]


def test_records_of_any_size_are_structs_too_their_documents_left_out(tmp_path: Path) -> None:
    records = b"".join(
        struct.pack(">QQQIIIHBB", 1, seqno, 3, 7, 4, 5, 4, 1, 9) + b"\0key" + b'{"a":1}'
        for seqno in (2, 3)
    )
    hello = encode("hello", "response", opaque=1, features=[{"feature": 0x12}])
    batch = batch_of(tmp_path / "x.pcap", hello, encode("dcp_cache_transfer", value=records))
    none, items = column(batch, "items")
    assert none is None
    assert [item["by_seqno"] for item in items] == [2, 3]
    assert items[0] == {
        "cas": "0x0000000000000001",
        "by_seqno": 2,
        "rev_seqno": 3,
        "value_length": 7,
        "item_flags": 4,
        "expiration": 5,
        "key_length": 4,
        "datatype": ["json"],
        "cache_hint": 9,
        "key": "key",
    }
    (_, redacted) = column(batch.redacted(Redactor(b"salt")), "items")
    assert redacted[0]["key"] == Redactor(b"salt").replacement(b"key").decode()


@pytest.mark.parametrize("name", ["tour.pcapng", "rollback.pcap"])
def test_lists_say_what_the_json_says(name: str) -> None:
    seen = 0
    with Reading([str(SAMPLES / name)]) as reading:
        for batch in reading:
            found = {one: column(batch, one) for one in ("failover_log", "seqnos")}
            for index in range(len(batch)):
                record = message_object(batch, index, fields=False)
                for one, values in found.items():
                    assert values[index] == record.get(one)
                    seen += values[index] is not None
    assert seen > 5


def test_type_names_are_those_of_arrow() -> None:
    assert type_of("seqnos") == pa.list_(
        pa.struct([("vbucket", pa.uint16()), ("seqno", pa.uint64())])
    )
