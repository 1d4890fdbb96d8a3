"""Only transitions of the tables happen, whatever a capture holds; and each of them does happen."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.reading.reading import Reading
from dcpinspect.streams import transitions as t
from tests.encode import encode
from tests.model.judge import COMPLETE, DAMAGED, conversation, damaged
from tests.model.reading import read
from tests.streams.test_follow import babble
from tests.streams.test_markers import REFUSED, refused
from tests.streams.told import Seen, Told, opened, packets

SAMPLES = sorted((Path(__file__).parents[2] / "sample_captures").glob("*.pcap*"))
Change = tuple[int, int]


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> tuple[set[Change], set[Change]]:
    """What the interpreted kernels do to (streams, snapshots): state before and after."""
    streams: set[Change] = set()
    snapshots: set[Change] = set()

    def spied(change: Callable[[Any, int], None], seen: set[Change]) -> Callable[[Any, int], None]:
        def spy(record: Any, state: int) -> None:
            seen.add((record.state, state))
            change(record, state)

        return spy

    monkeypatch.setattr("dcpinspect.kernels.kernel.IS_INTERPRETED", True)
    monkeypatch.setattr(t, "set_state", spied(t.set_state, streams))
    monkeypatch.setattr(t, "set_snapshot_state", spied(t.set_snapshot_state, snapshots))
    return streams, snapshots


def allowed(table: Any) -> set[Change]:
    return {(before, after) for before, states in table.items() for after in states}


def named(changes: Iterable[Change], words: tuple[str, ...]) -> list[str]:
    return sorted(f"{words[before]} -> {words[after]}" for before, after in changes)


def closed_before_its_turn() -> Told:
    """A close right behind a second request is of that, and its answer is of the stream that still
    runs.
    """
    talk = opened()
    stream = talk.stream(7, opaque=9)
    talk.send("client", encode("dcp_stream_req", vbucket=7, opaque=9))
    stream.close()
    return talk


def test_every_state_is_in_the_tables() -> None:
    assert [*t.STREAM_TRANSITIONS] == list(range(len(t.STREAM_STATES)))
    assert [*t.SNAPSHOT_TRANSITIONS] == list(range(len(t.SNAPSHOT_STATES)))


@pytest.mark.slow
def test_only_transitions_of_the_tables_happen(changes: tuple[set[Change], set[Change]]) -> None:
    for path in SAMPLES:
        with Reading([str(path)], track=True) as reading:
            list(reading)
    for damage in (*COMPLETE, *DAMAGED):
        for seed in range(6):
            rng = random.Random(f"{damage} {seed}")
            read(
                damaged(
                    conversation(damage, [rng.randrange(1 << 16) for _ in range(400)]), damage, rng
                )
            )
    Seen(packets(closed_before_its_turn()))
    for fault in REFUSED:
        Seen(packets(refused(fault)[0]))
    for seed in range(12):
        Seen(packets(*babble(seed)))
    streams, snapshots = changes
    assert named(streams - allowed(t.STREAM_TRANSITIONS), t.STREAM_STATES) == []
    assert named(snapshots - allowed(t.SNAPSHOT_TRANSITIONS), t.SNAPSHOT_STATES) == []
    assert named(allowed(t.STREAM_TRANSITIONS) - streams, t.STREAM_STATES) == []
    assert named(allowed(t.SNAPSHOT_TRANSITIONS) - snapshots, t.SNAPSHOT_STATES) == []
