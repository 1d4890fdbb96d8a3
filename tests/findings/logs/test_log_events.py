from __future__ import annotations

from dataclasses import fields

import pytest

from dcpinspect.findings.logs.log_events import (
    EVENTS,
    LOG_EVENTS,
    LogEvent,
    event_records,
    redacted,
)
from dcpinspect.output.export.table_schema import table_schema
from dcpinspect.protocol.redact import Redactor
from tests.schemas import validate


def test_fields_of_an_event_are_the_columns_of_the_table() -> None:
    assert {one.name for one in fields(LogEvent)} == {column.name for column in LOG_EVENTS.columns}


def test_records_keep_the_contract() -> None:
    records = event_records(
        [
            LogEvent("a.log", 1, event, vbucket_uuid=2**64 - 1, failover_log=[(1, 2)])
            for event in EVENTS
        ]
    )
    for record in records.records():
        validate(record, table_schema(LOG_EVENTS))
    assert records.arrow().num_rows == len(EVENTS)


def test_what_comes_from_the_log_is_escaped() -> None:
    (record,) = event_records(
        [LogEvent("a\x1b.log", 1, "rollback", name="\x1b[31m\udcff", reason="<b>\n")]
    ).records()
    assert (record["file"], record["name"], record["reason"]) == (
        "a\\x1b.log",
        "\\x1b[31m\\xff",
        "<b>\\x0a",
    )


def test_of_many_events_the_first_are_kept() -> None:
    assert (
        len(event_records((LogEvent("a.log", number, "rollback") for number in range(10)), limit=3))
        == 3
    )


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (
            "consumer ahead of producer - producer upper at 900",
            "consumer ahead of producer - producer upper at 900",
        ),
        (
            "purge seqno (45) is greater than start seqno - user:7",
            "purge seqno (45) is greater than start seqno - <user:7>",
        ),
        ("a message has not been received for 360s.", "a message has not been received for 360s."),
        (
            "the vbucket of (beer), {10.0.0.1:4000}; too-slow",
            "the vbucket of (<beer>), {<10.0.0.1:4000>}; too-slow",
        ),
        ("61 s", "61 s"),
    ],
)
def test_of_a_reason_the_words_of_the_server_and_numbers_stay(
    reason: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    redactor = Redactor()
    monkeypatch.setattr(redactor, "text", lambda name: f"<{name}>")
    found = redacted(LogEvent("a.log", 1, "rollback", reason=reason, state="beer"), redactor)
    assert (found.reason, found.state) == (shown, "<beer>")
