"""Every column has one meaning, wherever it is shown."""

from __future__ import annotations

from pathlib import Path

import dcpinspect
from dcpinspect.output.export.json import message_object
from dcpinspect.output.export.table_schema import message_schema
from dcpinspect.protocol.fields import Field
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.tables.schema import BASE, BY_NAME, COLUMNS, ON_REQUEST, SPECIFIC
from tests import builders
from tests.protocol.vectors import ALL, BY_ID
from tests.tables.build import batch

_TABLE_ONLY = {
    "time_ns",
    "key_bytes",
    "status_name",
    "value_size",
    "missing_bytes",
    "problem",
    "relative_ns",
    "request_key",
}
"""Columns beside a JSON key that says the same with its parts, and what other messages, or the
first packet, say.
"""


def test_no_two_columns_have_one_name() -> None:
    assert len(BY_NAME) == len(COLUMNS) + len(ON_REQUEST)


def test_every_column_is_documented() -> None:
    assert [column.name for column in COLUMNS if not column.doc] == []


def test_every_column_is_a_key_of_the_json() -> None:
    assert {column.name for column in COLUMNS} - _TABLE_ONLY <= set(message_schema()["properties"])


def test_base_columns_come_in_the_order_of_the_json() -> None:
    keys = [key for key in message_object(batch(BY_ID["seed004-09"].data), 0) if key in BY_NAME]
    base = [column.name for column in BASE]
    shared = [key for key in keys if key in base and key not in ("vbucket_from",)]
    assert shared == [name for name in base if name in shared]


def test_a_field_of_the_layouts_is_a_column_unless_its_name_is_a_base_columns() -> None:
    names = {
        item.name
        for layout in LAYOUTS
        if layout.columns
        for item in (*layout.extras, *layout.value)
        if isinstance(item, Field)
        and item.kind.size
        and not item.reserved
        and item.kind.text not in ("i64", "feature", "command")
    }
    assert names <= set(BY_NAME)


def test_a_column_of_the_layouts_knows_its_field() -> None:
    assert [
        column.name for column in SPECIFIC if column.spec is None and column.records is None
    ] == []


def test_a_column_that_differs_between_a_request_and_its_response_says_which() -> None:
    doc = BY_NAME["vbucket_uuid"].doc
    assert (
        "; observe_seqno request: branch of the history asked about; observe_seqno response: "
        "branch of the history; "
    ) in doc


def test_a_column_that_many_commands_have_names_some_of_them() -> None:
    assert BY_NAME["expiration"].doc.startswith(
        "dcp_mutation, dcp_prepare, gat, gatq, …: when the document expires; "
    )


def test_a_column_is_as_wide_as_the_widest_field() -> None:
    assert (BY_NAME["version"].kind, BY_NAME["deleted"].kind) == ("u16", "u32")


def test_no_column_is_empty_in_a_capture_of_all_published_messages(tmp_path: Path) -> None:
    messages = [vector.data for vector in ALL if vector.consistent or vector.corrected]
    requests, responses = (
        b"".join(data for data in messages if data[0] in magics)
        for magics in ((0x80, 0x08), (0x81, 0x18))
    )
    path = builders.capture(tmp_path / "x.pcap", client=requests, server=responses)
    names = [column.name for column in (*COLUMNS, *ON_REQUEST)]
    with dcpinspect.open(path) as recording:
        table = recording.messages(names).read_all()
    assert [name for name in names if table[name].null_count == len(table)] == []
