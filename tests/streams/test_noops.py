"""What is known of noops between batches; what is said of them has its tests with the rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dcpinspect.reading.engine import Engine
from dcpinspect.streams import noops
from dcpinspect.streams.noop_peers import OPAQUE, ROOM, SILENT
from dcpinspect.streams.noops import Noops
from dcpinspect.streams.tracker import Tracker
from tests.damage import PORT, batches
from tests.encode import encode
from tests.streams.told import Told, opened, packets


def followed(*talks: Told, sizes: tuple[int, ...] = ()) -> Noops:
    engine, tracker = Engine(["told.pcap"], ports=(PORT,)), Tracker()
    tracker.noops = Noops()
    for batch in [
        *(engine.feed(part) for part in batches(packets(*talks), list(sizes))),
        engine.finish(),
    ]:
        if batch is not None:
            tracker.feed(batch)
    return tracker.noops


@pytest.mark.parametrize(
    ("controls", "limit", "silence"),
    [
        ({}, 5.0, None),
        ({"enable_noop": "true"}, 5.0, None),
        ({"enable_noop": "true", "set_noop_interval": "20"}, 5.0, 40.0),
        ({"enable_noop": "true", "set_noop_interval": "3"}, 3.0, 6.0),
        ({"enable_noop": "true", "set_noop_interval": "0.1"}, 2.0, 2.0),
        ({"enable_noop": "true", "set_noop_interval": "never"}, 5.0, None),
    ],
)
def test_how_long_each_side_may_take(
    controls: dict[str, Any], limit: float, silence: float | None
) -> None:
    peer = followed(opened(**controls)).peers[1]
    assert peer.limit == limit * 1e9
    assert peer.silence == (noops.NEVER if silence is None else silence * 1e9)


def test_a_noop_is_open_until_its_answer() -> None:
    talk = opened(enable_noop="true")
    talk.send("server", encode("dcp_noop", opaque=9))
    peer = followed(talk).peers[1]
    assert (peer.open.opaque, peer.older.place.row) == (9, 0)
    assert peer.open.place.row > 0
    talk.wait(0.5)
    talk.answer("dcp_noop", 9, by="client")
    found = followed(talk)
    assert (found.peers[1].open.place.row, dict(found.kept)) == (0, {})
    assert 0.5e9 <= found.peers[1].slowest < 0.6e9


def test_a_noop_that_was_held_back_behind_its_answer_is_not_open() -> None:
    """A segment before it came late: the consumer's answer had been read by then."""
    talk = opened(enable_noop="true")
    stream = talk.stream(7)
    before = len(packets(talk))
    stream.snapshot(0, 9, "memory")
    talk.send("server", encode("dcp_noop", opaque=9))
    talk.answer("dcp_noop", 9, by="client")
    captured = packets(talk)
    data = [place for place in range(before, len(captured)) if len(captured[place].data) > 70]
    marker = captured.pop(data[0])
    captured.append(marker)
    engine, tracker = Engine(["told.pcap"], ports=(PORT,)), Tracker()
    tracker.noops = Noops()
    for batch in [*(engine.feed(part) for part in batches(captured, [])), engine.finish()]:
        if batch is not None:
            tracker.feed(batch)
    assert tracker.noops.peers[1].open.place.row == 0


def test_a_hole_of_the_consumer_may_hide_the_answer() -> None:
    talk = opened(enable_noop="true")
    talk.send("server", encode("dcp_noop", opaque=9))
    with talk.lost():
        talk.answer("dcp_noop", 9, by="client")
    talk.failover_log(7, [(1, 0)])
    peer = followed(talk).peers[1]
    assert (peer.open.place.row, peer.unseen) == (0, 1)


def test_connections_are_told_apart() -> None:
    talks = [opened(f"test:{port}", port=port) for port in (50_000, 50_001)]
    talks[0].send("server", encode("dcp_noop", opaque=9))
    talks[1].noop()
    assert (np.flatnonzero(followed(*talks).peers.open.place.row) == [1]).all()


@pytest.mark.parametrize("sizes", [(), (5,) * 20])
def test_what_is_noticed_is_kept_however_much_there_is_room_for(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = opened(enable_noop="true", set_noop_interval="1")
    for opaque in range(20, 30):
        talk.wait(7)
        talk.send("server", encode("dcp_noop", opaque=opaque))
        talk.answer("dcp_noop", opaque + 100, by="client")
        talk.noop()
    whole = followed(talk, sizes=sizes).kept
    assert (whole[1, SILENT].count, whole[1, OPAQUE].count) == (10, 10)
    monkeypatch.setattr(noops, "_EVENTS", ROOM)
    assert followed(talk, sizes=sizes).kept == whole
