"""Lines with bytes below that the kernel writes are those that Python writes one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpinspect.output.export.dump_rows import DumpRows
from dcpinspect.output.export.line_rows import LineRows
from dcpinspect.output.render.byte_grid import hex_dump
from dcpinspect.output.render.message_lines import Lines
from dcpinspect.protocol.redact import Redactor
from dcpinspect.tables.messages import MessageBatch
from tests.encode import encode
from tests.output.export.forms import CAPTURES, in_both_forms, sample
from tests.output.export.test_json_programs import messages_of_events
from tests.protocol.vectors import ALL
from tests.tables.build import batch


def both_ways(made: MessageBatch, limit: int | None = 256) -> tuple[str, str, int]:
    """(what the kernel writes, the same one by one, how many of the first were made one by one
    after all).
    """
    left: list[int] = []

    def details(of: MessageBatch, index: int) -> str:
        left.append(index)
        connection, is_to_client = int(of.connection[index]) - 1, bool(of.direction[index])
        ends = (of.endpoints.client[connection], of.endpoints.server[connection])[
            :: -1 if is_to_client else 1
        ]
        file = f" of {of.files[int(of.last_file[index])]}" if len(of.files) > 1 else ""
        place = (
            f"frame {int(of.last_frame[index])}{file}, stream offset {int(of.stream_offset[index])}"
        )
        lines = [" > ".join(ends) + ", " + place, *hex_dump(of.annotate(index), limit=limit), ""]
        return "".join(f"    {line}".rstrip() + "\n" for line in lines)

    def at_once() -> tuple[str, int]:
        left.clear()
        return b"".join(
            DumpRows(LineRows(Lines(), lambda *_: ("", ""), details=details), limit).pieces(
                made, rows
            )
        ).decode(), len(left)

    rows, slow = np.arange(len(made)), Lines()
    text, by_python = in_both_forms(at_once)
    return (
        text,
        "".join(f"{slow.line(made, index)}\n{details(made, index)}" for index in rows.tolist()),
        by_python,
    )


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, 0, 16, 256])
def test_a_sample_is_written_alike(limit: int | None) -> None:
    for path in CAPTURES:
        for made in sample(path):
            fast, expected, _ = both_ways(made, limit)
            assert fast == expected


def test_vectors_of_the_protocol_and_redacted_ones_are_written_alike() -> None:
    made = batch(*(vector.data for vector in ALL), files=("one.pcap", "two.pcap"))
    for one in (made, made.redacted(Redactor(b"salt"))):
        fast, expected, _ = both_ways(one)
        assert fast == expected


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(
    messages=st.lists(messages_of_events(), min_size=1, max_size=12),
    limit=st.sampled_from([None, 8, 256]),
)
def test_documents_and_keys_of_any_kind_are_written_alike(
    messages: list[bytes], limit: int | None
) -> None:
    fast, expected, _ = both_ways(batch(*messages), limit)
    assert fast == expected


def test_a_damaged_message_is_written_alike() -> None:
    whole = encode("dcp_mutation", key="key", value="x" * 40)
    fast, expected, _ = both_ways(batch(whole, whole, missing={1: [(60, 75)]}))
    assert fast == expected


def test_events_are_for_the_kernel_and_credentials_are_not() -> None:
    events = [
        encode("dcp_mutation", key="k", value="x" * 900),
        encode("dcp_deletion", key="k"),
        encode("dcp_stream_end", end_reason="ok"),
    ]
    assert both_ways(batch(*events))[2] == 0
    secret = encode("sasl_auth", key="PLAIN", value=b"\0user\0hunter2")
    fast, expected, left = both_ways(batch(*events, secret))
    assert fast == expected
    assert left == 1
    assert "hunter2" not in fast
    assert "68 75 6e 74" not in fast
