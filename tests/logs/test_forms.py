from __future__ import annotations

from dcpinspect.logs.events import EVENTS, LogEvent
from dcpinspect.logs.forms import END_REASONS, JSON_FORMS, TEXT_FORMS
from dcpinspect.protocol.flags import STREAM_END_REASONS

OF_STATISTICS = {"failover-log", "stream-state", "vbucket-seqnos"}


def test_every_event_of_the_log_has_a_form() -> None:
    assert {form.event for form in TEXT_FORMS} | {form.event for form in JSON_FORMS.values()} == {*EVENTS} - OF_STATISTICS


def test_forms_fill_columns_that_there_are() -> None:
    names = {name for form in TEXT_FORMS for name in form.pattern.groupindex} | {
        name for form in JSON_FORMS.values() for name in form.columns.values()
    }
    assert names <= set(LogEvent.__slots__)


def test_every_reason_of_a_stream_end_has_its_sentence() -> None:
    assert list(END_REASONS.values()) == list(STREAM_END_REASONS.values())
