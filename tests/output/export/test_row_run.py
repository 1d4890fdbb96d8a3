"""Rows come whole and in order; that they are right is in test_json_programs and
test_table_rows.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.output.export import row_run
from tests.encode import encode
from tests.output.export.test_json_programs import both_ways, conversation


def test_rows_longer_than_a_piece_are_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_run, "OUT_BYTES", 1000)
    messages = [
        encode("dcp_mutation", collection=0, key="k", value="x" * size)
        for size in (0, 100, 5000, 10)
    ]
    (batch,) = conversation(tmp_path / "long.pcap", messages)
    fast, ordinary = both_ways(batch, fields=True)
    assert fast == ordinary
