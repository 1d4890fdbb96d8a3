from __future__ import annotations

from dcpinspect.findings.logs.forms import (
    END_REASONS,
    JSON_FORMS,
    KIND_COLUMNS,
    KIND_REASONS,
    KINDS,
    SAYING,
    TEXT_FORMS,
)
from dcpinspect.findings.logs.log_events import EVENTS, LogEvent
from dcpinspect.protocol.flags import STREAM_END_REASONS

OF_STATISTICS = {"failover-log", "vbucket-seqnos"}


def test_every_event_of_the_log_has_a_form() -> None:
    of_kinds = {kind.event for kind in KINDS}
    assert {form.event for form in TEXT_FORMS} | {
        form.event for form in JSON_FORMS.values()
    } | of_kinds == {*EVENTS} - OF_STATISTICS
    assert {*KIND_REASONS} <= of_kinds
    assert of_kinds >= SAYING


def test_forms_fill_columns_that_there_are() -> None:
    patterns = [*(form.pattern for form in TEXT_FORMS), *(kind.pattern for kind in KINDS)]
    names = {name for pattern in patterns for name in pattern.groupindex} | {
        name for form in JSON_FORMS.values() for name in form.columns.values()
    }
    assert names | {*KIND_COLUMNS.values()} <= set(LogEvent.__slots__)


def test_every_reason_of_a_stream_end_has_its_sentence() -> None:
    assert list(END_REASONS.values()) == list(STREAM_END_REASONS.values())
