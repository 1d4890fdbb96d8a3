from __future__ import annotations

from dataclasses import fields

from dcpinspect.export.table_schema import table_schema
from dcpinspect.logs.events import EVENTS, LOG_EVENTS, LogEvent, event_records
from tests.schemas import validate


def test_fields_of_an_event_are_the_columns_of_the_table() -> None:
    assert {one.name for one in fields(LogEvent)} == {column.name for column in LOG_EVENTS.columns}


def test_records_keep_the_contract() -> None:
    records = event_records([LogEvent("a.log", 1, event, vbucket_uuid=2**64 - 1, failover_log=[(1, 2)]) for event in EVENTS])
    for record in records.records():
        validate(record, table_schema(LOG_EVENTS))
    assert records.arrow().num_rows == len(EVENTS)


def test_what_comes_from_the_log_is_escaped() -> None:
    (record,) = event_records([LogEvent("a\x1b.log", 1, "rollback", name="\x1b[31m\udcff", reason="<b>\n")]).records()
    assert (record["file"], record["name"], record["reason"]) == ("a\\x1b.log", "\\x1b[31m\\xff", "<b>\\x0a")


def test_of_many_events_the_first_are_kept() -> None:
    assert len(event_records((LogEvent("a.log", number, "rollback") for number in range(10)), most=3)) == 3
