"""One side: what its tables say of its streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dcpinspect.diff.events_on_disk import GREATEST, SHELVES
from dcpinspect.diff.reading_side import ComparisonSide
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.spool import Spool
from dcpinspect.tables.select import Selection
from tests.diff.pairs import LOG, streaming
from tests.streams.told import capture

EVERYTHING = Selection()


@contextmanager
def read(folder: Path, wanted: Selection = EVERYTHING) -> Iterator[ComparisonSide]:
    talk, stream = streaming(value={"collections": ["8", "9"]})
    stream.snapshot(0, 9, "disk", "checkpoint")
    for seqno in (1, 2, 5):
        stream.mutation(seqno, f"k{seqno}", collection=8)
    path = folder / "one.pcap"
    path.write_bytes(capture(talk))
    with closing(Spool(folder)) as spool:
        side = ComparisonSide("a", Reading([str(path)], track=True), spool)
        side.read(wanted)
        yield side


def test_events_have_their_branches_and_how_they_are_shown(tmp_path: Path) -> None:
    with read(tmp_path) as side:
        _, batch = side.event_batches([LOG], range(SHELVES))
        assert (sum(side.events.counts), batch.num_rows) == (3, 3)
        assert batch.column("uuid").to_pylist() == [0xABCD] * 3
        assert batch.column("state").to_pylist() == [1] * 3
        assert batch.column("shows").to_pylist() == [0x1_0000] * 3  # JSON alone
        assert [
            one["key_text"] for found in side.keys(range(SHELVES)) for one in found.to_pylist()
        ] == ["k1", "k2", "k5"]


def test_streams_tell_what_they_account_for_and_what_they_ask_for(tmp_path: Path) -> None:
    with read(tmp_path) as side:
        (stream,) = side.stream_table().to_pylist()
        assert (stream["began"], stream["reached"], stream["asked_end"], stream["is_asked"]) == (
            0,
            5,
            GREATEST,
            True,
        )
        assert (stream["collections"], stream["has_all"]) == ([8, 9], False)
        assert stream["asks"] == "collections 8 9 (opened with producer)"
        (branch,) = side.branch_table([LOG]).to_pylist()
        assert branch == {"stream": 0, "vbucket": 7, "uuid": 0xABCD, "above": 0, "upto": GREATEST}


def test_gaps_and_snapshots_belong_together(tmp_path: Path) -> None:
    with read(tmp_path) as side:
        (gap,), (snapshot,) = side.gap_table().to_pylist(), side.snapshot_table().to_pylist()
        assert (gap["after"], gap["before"], gap["snapshot"]) == (2, 5, 0)
        assert (snapshot["low"], snapshot["high"], snapshot["is_complete"]) == (0, 9, False)
        assert (snapshot["is_disk"], snapshot["purge"]) == (True, None)


def test_streams_of_other_vbuckets_and_connections_are_left_out(tmp_path: Path) -> None:
    for wanted in (Selection(vbuckets=(range(8, 9),)), Selection(connections=(range(2, 3),))):
        with read(tmp_path, wanted) as side:
            assert (
                sum(side.events.counts),
                len(side.stream_table()),
                len(side.branch_table([LOG])),
            ) == (0, 0, 0)
