"""Arrow columns hold what the annotated JSON of the same messages says, under the same names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dcpinspect.export.json import message_object
from dcpinspect.protocol.encode import encode
from dcpinspect.reading import Reading
from dcpinspect.tables.arrow import arrow_schema, plain, record_batch, short, type_of
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import COLUMNS, SPECIFIC
from tests import builders
from tests.peers.truth import SAMPLES

CAPTURES = sorted(path for path in SAMPLES.glob("*.pcap*") if "large" not in path.name)
NAMES = [column.name for column in COLUMNS]
NOT_IN_JSON = {"time_ns", "key_bytes", "value_size", "status_name", "missing_bytes", "problem", "relative_ns", "request_key"}
"""Columns that JSON has in another shape."""
BULK_ONLY = {"sid"}
"""JSON also has the stream-id that a stream request's value names."""


def batches(path: Path) -> list[MessageBatch]:
    with Reading([str(path)]) as reading:
        return list(reading)


def expected(record: dict[str, Any], name: str) -> Any:
    value = record.get(name)
    if name == "status":
        return value and value["code"]
    if name == "key" and isinstance(value, dict):
        return None
    if name == "items" and value is not None:
        return [{part: item[part] for part in item if part != "value"} for item in value]
    return value


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_columns_are_what_the_json_says(path: Path) -> None:
    for batch in batches(path):
        rows = np.arange(len(batch))
        table = record_batch(batch, rows, NAMES).to_pydict()
        specific = {column.name for column in SPECIFIC}
        for index in rows.tolist():
            record = message_object(batch, index, fields=False)
            layout = batch.layout_of(index)
            for name in set(NAMES) - NOT_IN_JSON - {"time"} - BULK_ONLY:
                if name in specific and (layout is None or not layout.columns or table[name][index] is None):
                    continue  # numbers of other families, and those inside FlatBuffers, are in the JSON only
                assert table[name][index] == expected(record, name), (index, name)
            assert table["time"][index].isoformat(timespec="microseconds").replace("+00:00", "") == record["time"][:26]
            assert table["time_ns"][index] // 1000 % 10**6 == int(record["time"][20:26])
            assert table["missing_bytes"][index] == sum(end - start for start, end in record["missing"])
            assert (table["status_name"][index] or "") == (record["status"] or {"name": ""})["name"]


def test_every_column_has_its_type_also_without_rows(tmp_path: Path) -> None:
    (batch,) = batches(builders.capture(tmp_path / "one.pcap", client=encode("dcp_noop")))
    empty = record_batch(batch, np.zeros(0, np.int64), NAMES)
    assert empty.schema == arrow_schema(NAMES)
    assert [field.type for field in empty.schema] == [type_of(column.name) for column in COLUMNS]


def test_keys_that_are_not_text_are_bytes_and_no_text(tmp_path: Path) -> None:
    messages = [encode("dcp_mutation", key=key) for key in (b"plain", b"\xff\xfe", "é".encode())]
    (batch,) = batches(builders.capture(tmp_path / "keys.pcap", server=b"".join(messages)))
    table = record_batch(batch, np.arange(3), ["key", "key_bytes"]).to_pydict()
    assert table == {"key": ["plain", None, "é"], "key_bytes": [b"plain", b"\xff\xfe", "é".encode()]}


def test_rows_come_in_the_order_asked_for(tmp_path: Path) -> None:
    messages = [encode("dcp_mutation", key=f"k{n}", by_seqno=2**64 - 1 - n) for n in range(5)]
    (batch,) = batches(builders.capture(tmp_path / "order.pcap", server=b"".join(messages)))
    table = record_batch(batch, np.array([3, 1]), ["key", "by_seqno"])
    assert table.to_pydict() == {"key": ["k3", "k1"], "by_seqno": [2**64 - 4, 2**64 - 2]}
    assert table.schema.field("by_seqno").type == pa.uint64()


def test_a_session_token_is_no_cas(tmp_path: Path) -> None:
    (batch,) = batches(builders.capture(tmp_path / "token.pcap", client=encode("get_ctrl_token", cas=7) + encode("noop", cas=7)))
    assert record_batch(batch, np.arange(2), ["cas"]).to_pydict() == {"cas": [None, "0x0000000000000007"]}


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_the_short_form_holds_all_that_the_column_does(path: Path) -> None:
    for batch in batches(path):
        rows = np.arange(len(batch))
        for name in NAMES:
            kept = short(batch, rows, name)
            column = plain(kept, name)
            assert column.equals(record_batch(batch, rows, [name]).column(0))
            assert not pa.types.is_string(kept.type) or name in ("key", "request_key")


def test_narrow_numbers_are_as_good() -> None:
    narrow = pa.array([1, None, 255], pa.uint8())
    assert plain(narrow, "by_seqno").equals(pa.array([1, None, 255], pa.uint64()))
    assert plain(narrow, "cas").to_pylist() == ["0x0000000000000001", None, "0x00000000000000ff"]


def test_a_column_without_any_value_is_null_in_its_type() -> None:
    assert plain(pa.nulls(2), "snapshot_type").equals(pa.nulls(2, pa.list_(pa.string())))


def test_many_different_flags_are_told_apart(tmp_path: Path) -> None:
    """More different numbers than are looked up in a table."""
    messages = [encode("dcp_snapshot_marker", snapshot_type=n) for n in range(5000)] + [
        encode("dcp_open", key="n", flags=n) for n in range(9)
    ]
    for batch in batches(builders.capture(tmp_path / "flags.pcap", client=b"".join(messages))):
        rows = np.arange(len(batch))
        table = record_batch(batch, rows, ["snapshot_type", "flags"]).to_pydict()
        for index in rows.tolist():
            record = message_object(batch, index, fields=False)
            assert (table["snapshot_type"][index], table["flags"][index]) == (record.get("snapshot_type"), record.get("flags"))
