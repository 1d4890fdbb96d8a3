"""Programs are made for so many kinds and no more; what they write is in test_json_programs and test_table_rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcpinspect.export import row_programs
from dcpinspect.export.json_run import JsonRows
from dcpinspect.kernel import Kernel
from dcpinspect.protocol.encode import encode
from tests.export.test_json_programs import both_ways, conversation


@pytest.fixture(params=["interpreted", "compiled"], autouse=True)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both forms of the kernels, each for any number of rows."""
    monkeypatch.setenv("DCPINSPECT_KERNELS", request.param)
    monkeypatch.setattr(Kernel, "runs_compiled", lambda *_: True)


def test_a_capture_made_to_waste_memory_goes_the_ordinary_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_programs, "MAX_REMEMBERED", 3)
    messages = [encode("dcp_stream_end", end_reason=reason) for reason in range(20)]
    (batch,) = conversation(tmp_path / "kinds.pcap", messages)
    rows = JsonRows(fields=True, values="full", after=b"\n")
    assert b"".join(rows.pieces(batch, np.arange(len(batch)))).splitlines() == both_ways(batch, fields=True)[1]
