"""Redacted messages are written the same by the kernel as the ordinary way; all others in test_json_programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpinspect.export.json import dump, message_object
from dcpinspect.export.json_run import JsonRows
from dcpinspect.protocol.encode import encode
from dcpinspect.protocol.redact import Redactor
from dcpinspect.tables.messages import MessageBatch
from tests.export.forms import CAPTURES, in_both_forms, sample
from tests.export.test_json_programs import both_ways, conversation, messages_of_events

REDACTOR = Redactor(b"salt")


@pytest.mark.slow
@pytest.mark.parametrize("fields", [True, False])
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_samples_are_written_alike(path: Path, fields: bool) -> None:
    for batch in sample(path):
        fast, ordinary = both_ways(batch.redacted(REDACTOR), fields=fields)
        assert fast == ordinary


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(messages=st.lists(messages_of_events(), min_size=1, max_size=12))
def test_documents_and_keys_of_any_kind_are_written_alike(messages: list[bytes], tmp_path: Path) -> None:
    for batch in conversation(tmp_path / "any.pcap", messages):
        fast, ordinary = both_ways(batch.redacted(REDACTOR), fields=True)
        assert fast == ordinary


def test_commands_around_dcp_are_written_alike(tmp_path: Path) -> None:
    messages = [encode(name, key="k") for name in ("get", "increment", "select_bucket", "dcp_control")]
    for batch in conversation(tmp_path / "x.pcap", [*messages, encode("dcp_noop")]):
        fast, ordinary = both_ways(batch.redacted(REDACTOR), fields=True)
        assert fast == ordinary


def test_the_plain_ones_go_the_fast_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [encode("dcp_mutation", collection=0, key=f"k{n}", value="plain") for n in range(50)]
    (batch,) = conversation(tmp_path / "x.pcap", messages)
    slow: list[int] = []

    def ordinary(_: JsonRows, batch: MessageBatch, index: int) -> bytes:
        slow.append(index)
        return dump(message_object(batch, index))

    monkeypatch.setattr(JsonRows, "_ordinary", ordinary)
    redacted = batch.redacted(REDACTOR)
    assert in_both_forms(lambda: b"".join(JsonRows(fields=True, values="full").pieces(redacted, np.arange(len(batch)))))
    assert len(slow) <= 2 * 2
