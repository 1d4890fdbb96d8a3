"""Programs are made for so many kinds and no more; what they write is in test_json_programs and
test_table_rows.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.output.export import row_programs
from tests.encode import encode
from tests.output.export.test_json_programs import both_ways, conversation


def test_a_capture_made_to_waste_memory_goes_the_ordinary_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_programs, "MAX_REMEMBERED", 3)
    messages = [encode("dcp_stream_end", end_reason=reason) for reason in range(20)]
    (batch,) = conversation(tmp_path / "kinds.pcap", messages)
    fast, ordinary = both_ways(batch, fields=True)
    assert fast == ordinary
