"""Arrow columns hold what the annotated JSON of the same messages says, under the same names."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from dcpinspect.output.export.json import message_object
from dcpinspect.output.export.json_programs import JsonRows
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.arrow import arrow_schema, plain, record_batch, short, type_of
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import BY_NAME, COLUMNS
from tests import builders
from tests.encode import encode
from tests.peers.truth import SAMPLES
from tests.protocol.every import COLLECTIONS_ON, cut_messages, whole_messages
from tests.tables.build import batch as made_of

CAPTURES = [
    pytest.param(path, marks=[pytest.mark.deep] if "large" in path.name else [])
    for path in sorted(SAMPLES.glob("*.pcap*"))
]
NAMES = [column.name for column in COLUMNS]
ITEM = [field.name for field in type_of("items").value_type]
OF_OTHERS = {"relative_ns", "request_key"}
"""Columns that are made of other messages."""


def batches(path: Path) -> list[MessageBatch]:
    with Reading([str(path)]) as reading:
        return list(reading)


def expected(record: dict[str, Any]) -> dict[str, Any]:
    """What the columns have to say, by an object of JSON; docs/formats.md explains what has another
    form.
    """
    seconds = int(datetime.fromisoformat(record["time"][:19] + "Z").timestamp())
    key, value, items, status = (
        record["key"],
        record["value"],
        record.get("items"),
        record["status"] or {"code": None, "name": None},
    )
    return record | {
        "time": record["time"][:26],
        "time_ns": seconds * 10**9 + int(record["time"][20:29]),
        "status": status["code"],
        "status_name": status["name"],
        "key": _text(key),
        "key_bytes": bytes.fromhex(key["hex"]) if isinstance(key, dict) else key and key.encode(),
        "items": items and [{part: _text(one.get(part)) for part in ITEM} for one in items],
        "value": value and _value(value),
        "value_size": value["size"] if value else 0,
        "missing_bytes": sum(end - start for start, end in record["missing"]),
        "problem": {
            None,
            *(problem["rule"] for problem in record["problems"]),
            *(["truncated"] if record["missing"] else []),
        },
    }


def _text(key: Any) -> Any:
    return None if isinstance(key, dict) else key


def _value(value: dict[str, Any]) -> Any:
    """A value as text; JSON as an object with what it says."""
    if "hex" not in value:
        return {"json": value["json"]} if "json" in value else value.get("text") or None
    raw = bytes.fromhex(value["hex"])
    try:
        return raw.decode() or None
    except UnicodeDecodeError:
        return f"0x{value['hex']}"


def differences(batch: MessageBatch) -> list[tuple[Any, ...]]:
    """(column, row, command, what it is, what JSON says) where columns are not what the JSON says,
    of each column the first ones.
    """
    rows = np.arange(len(batch))
    text = b"".join(JsonRows(fields=False, values="full", after=b"\n").pieces(batch, rows))
    records = [expected(orjson.loads(one)) for one in text.splitlines()]
    found = []
    for name, column in zip(BY_NAME, record_batch(batch, rows, list(BY_NAME)).columns, strict=True):
        own: list[Any] = column.to_pylist()
        said: list[Any] = [record.get(name) for record in records]
        if name == "time":
            own = [f"{time:%Y-%m-%dT%H:%M:%S.%f}" for time in own]
        elif name == "end_seqno":
            own = ["no end" if seqno == 2**64 - 1 else seqno for seqno in own]
        elif name == "value":
            own = [
                {"json": orjson.loads(one)} if isinstance(wanted, dict) else one
                for one, wanted in zip(own, said, strict=True)
            ]
        elif name == "problem":
            said = [one if one in rules else rules for one, rules in zip(own, said, strict=True)]
        if own != said and name not in OF_OTHERS:
            wrong = (row for row in rows.tolist() if own[row] != said[row])
            found += [
                (name, row, records[row]["name"], own[row], said[row]) for row in islice(wrong, 3)
            ]
    return found


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_columns_are_what_the_json_says(path: Path) -> None:
    assert [one for batch in batches(path) for one in differences(batch)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "before", [(), COLLECTIONS_ON], ids=["without collections", "with collections"]
)
def test_columns_of_every_command_are_what_the_json_says(before: tuple[bytes, ...]) -> None:
    assert differences(made_of(*before, *whole_messages())) == []


@pytest.mark.slow
def test_columns_of_messages_that_lack_bytes_are_what_the_json_says() -> None:
    messages, missing = zip(*cut_messages(), strict=True)
    spans = {len(COLLECTIONS_ON) + row: part for row, part in enumerate(missing)}
    assert differences(made_of(*COLLECTIONS_ON, *messages, missing=spans)) == []


@pytest.mark.slow
def test_columns_of_redacted_messages_are_what_the_json_says() -> None:
    redacted = made_of(*COLLECTIONS_ON, *whole_messages()).redacted(Redactor(b"salt"))
    assert differences(redacted) == []


def test_every_column_has_its_type_also_without_rows(tmp_path: Path) -> None:
    (batch,) = batches(builders.capture(tmp_path / "one.pcap", client=encode("dcp_noop")))
    empty = record_batch(batch, np.zeros(0, np.int64), NAMES)
    assert empty.schema == arrow_schema(NAMES)
    assert [field.type for field in empty.schema] == [type_of(column.name) for column in COLUMNS]


def test_keys_that_are_not_text_are_bytes_and_no_text(tmp_path: Path) -> None:
    messages = [encode("dcp_mutation", key=key) for key in (b"plain", b"\xff\xfe", "é".encode())]
    (batch,) = batches(builders.capture(tmp_path / "keys.pcap", server=b"".join(messages)))
    table = record_batch(batch, np.arange(3), ["key", "key_bytes"]).to_pydict()
    assert table == {
        "key": ["plain", None, "é"],
        "key_bytes": [b"plain", b"\xff\xfe", "é".encode()],
    }


def test_rows_come_in_the_order_asked_for(tmp_path: Path) -> None:
    messages = [encode("dcp_mutation", key=f"k{n}", by_seqno=2**64 - 1 - n) for n in range(5)]
    (batch,) = batches(builders.capture(tmp_path / "order.pcap", server=b"".join(messages)))
    table = record_batch(batch, np.array([3, 1]), ["key", "by_seqno"])
    assert table.to_pydict() == {"key": ["k3", "k1"], "by_seqno": [2**64 - 4, 2**64 - 2]}
    assert table.schema.field("by_seqno").type == pa.uint64()


def test_a_session_token_is_no_cas(tmp_path: Path) -> None:
    (batch,) = batches(
        builders.capture(
            tmp_path / "token.pcap", client=encode("get_ctrl_token", cas=7) + encode("noop", cas=7)
        )
    )
    assert record_batch(batch, np.arange(2), ["cas"]).to_pydict() == {
        "cas": [None, "0x0000000000000007"]
    }


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


@pytest.mark.slow
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
            assert (table["snapshot_type"][index], table["flags"][index]) == (
                record.get("snapshot_type"),
                record.get("flags"),
            )
