"""The segments of a connection, read again."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from dcpinspect.diff.reading_side import ComparisonSide
from dcpinspect.diff.tcp_segments import segments_of
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.spool import Spool
from dcpinspect.tables.select import Selection
from tests.diff.taps import conversation, taps, written


def test_places_do_not_wrap_and_count_every_byte(tmp_path: Path) -> None:
    sent = conversation(80)  # the server's sequence numbers wrap on the way
    path, _ = written(tmp_path, *taps(sent))
    with closing(Spool(tmp_path)) as spool:
        side = ComparisonSide("a", Reading([str(path)], track=True), spool)
        side.read(Selection())
        origins = {1: side.reading.engine.transport.first_seq(1)}
        found = segments_of(side, origins)
    for direction in (0, 1):
        way = found[1, direction]
        own = [
            one
            for one in sent
            if one.to_server == (direction == 0) and (one.payload or one.flags & 2)
        ]
        assert way.start[0] == -1  # the SYN
        assert (way.end - way.start).tolist() == [len(one.payload) or 1 for one in own]
        assert (way.start[1:] == way.end[:-1]).all()
        assert way.is_syn.tolist() == [True] + [False] * (len(own) - 1)


def test_connections_that_nobody_wants_are_left_out(tmp_path: Path) -> None:
    path, _ = written(tmp_path, *taps(conversation(2)))
    with closing(Spool(tmp_path)) as spool:
        side = ComparisonSide("a", Reading([str(path)], track=True), spool)
        side.read(Selection())
        assert segments_of(side, {}) == {}
