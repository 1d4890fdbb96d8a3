"""One row of the table of opcodes and one layout are all that a new DCP command needs: 0x68, whose
first field is not its seqno.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROW = 'DCP_TOUCHED = (0x68, "A document was touched.", KEYED | CHANGE | STREAM_ID)'
LAYOUT = (
    'Layout(0x68, "request", "v1", "none", key=Field("key", 0, FieldKind.KEY, "key"),'
    ' extras=(Field("rev_seqno", 0, FieldKind.U64, "revision"), Field("by_seqno", 8, '
    'FieldKind.SEQNO, "seqno", "by_seqno"))),'
)


@pytest.fixture(
    scope="module", params=["interpreted", pytest.param("compiled", marks=pytest.mark.deep)]
)
def told(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What becomes of the conversations of ``added``."""
    command = [sys.executable, "-m", "tests.scenarios.added", ROW, LAYOUT]
    folder = Path(__file__).parents[2]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | {"DCPINSPECT_KERNELS": request.param},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_its_events_are_followed(told: dict[str, Any]) -> None:
    (stream,) = told["streams"]
    assert [stream[name] for name in ("items", "first_seqno", "last_seqno", "gaps", "verdict")] == [
        4,
        1,
        4,
        0,
        "caught-up",
    ]


def test_its_seqnos_leave_no_gap(told: dict[str, Any]) -> None:
    assert (told["gaps"], told["anomalies"]) == ([], [])


def test_flow_control_counts_it(told: dict[str, Any]) -> None:
    (connection,) = told["connections"]
    assert connection["outstanding_bytes"] == connection["counted_bytes"] == told["outstanding"]


def test_nobody_is_accused(told: dict[str, Any]) -> None:
    assert told["findings"] == []


def test_it_needs_no_answer(told: dict[str, Any]) -> None:
    assert told["after the answer"] == ["unexpected-reply"]


def test_it_needs_a_stream_id_where_those_are_on(told: dict[str, Any]) -> None:
    assert told["with stream-ids"] == [["sid-missing", 1]]


def test_it_is_found_again_after_a_hole(told: dict[str, Any]) -> None:
    (gap,), (stream,) = told["gaps with a hole"], told["streams with a hole"]
    assert (gap["after_seqno"], gap["before_seqno"], gap["cause"]) == (1, 3, "capture-loss")
    assert (stream["items"], stream["last_seqno"]) == (4, 5)


def test_a_client_that_counts_it_owes_nothing(told: dict[str, Any]) -> None:
    assert told["outstanding when acknowledged"] == 0
