"""Streams of one history are compared by tasks, and the one that puts together is told in what they
differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dcpinspect.spark import plan, run_tables
from dcpinspect.streams.events import FoundEvents
from tests.spark.outputs import ran, stored, told
from tests.streams.told import Told, capture, opened


def streaming(number: int, others: dict[int, str]) -> Told:
    """Vbuckets 7 and 8 of one history; ``others``: by seqno, keys that differ from those of other
    clients.
    """
    talk = opened(f"c{number}:1", port=50_000 + number)
    for vbucket in (7, 8):
        stream = talk.stream(vbucket, log=[(0xABCD, 0)])
        stream.snapshot(0, 20, "memory", "checkpoint")
        for seqno in range(1, 21):
            stream.mutation(seqno, others.get(seqno, f"k{seqno}"))
    return talk


def test_contradictions_of_connections_in_several_parts_are_those_of_a_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PART_BYTES", 1)
    monkeypatch.setattr(plan, "PARTS_A_PROCESSOR", 100)
    given: list[FoundEvents] = []
    look = run_tables._find_events

    def watched(*one: Any) -> FoundEvents:
        given.append(look(*one))
        return given[-1]

    monkeypatch.setattr(run_tables, "_find_events", watched)
    path = tmp_path / "three.pcap"
    path.write_bytes(
        capture(
            streaming(0, {}),
            streaming(1, dict.fromkeys(range(3, 15), "other")),
            streaming(2, {5: "third"}),
        )
    )
    done = ran(tmp_path / "out", path)
    assert done.parts == 3
    found = stored(tmp_path / "out", cut=False)
    assert found == told(path, cut=False)
    assert sum(row["rule"] == "diverging-history" for row in found["findings"]) > 0
    assert [max(len(one.stream_events(stream)) for stream in range(6)) for one in given] == [
        4
    ]  # those that findings show
    assert not list((tmp_path / "out").rglob("*.changes"))
