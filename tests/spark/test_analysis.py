from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dcpinspect.reading.joining import ReadingPart
from dcpinspect.reading.reading import Reading
from dcpinspect.spark import plan, scan
from dcpinspect.spark import scan as scanning
from dcpinspect.spark.analysis import (
    MOST_SHARES,
    SHARINGS,
    PartTask,
    UnitPackets,
    analyse,
    ids,
)
from dcpinspect.spark.attempts import verify
from dcpinspect.spark.bundles import UnitBundles, group_sizes, read_index
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.pipeline import Options, run
from tests.builders import Recorded
from tests.catalogue import first_of
from tests.spark.cuts import cut, packets_of, written
from tests.spark.outputs import Here, stored, told
from tests.spark.test_pipeline import equal
from tests.streams.told import Told, opened, packets

SAMPLE = Path(__file__).parents[2] / "sample_captures" / "tour.pcapng"


def bundled(tmp_path: Path, base: int) -> UnitBundles:
    path = os.fspath(tmp_path / "x")
    scanning.scan(os.fspath(SAMPLE), path)
    return UnitBundles(path, 0, base, sorted(group_sizes(read_index(path))))


def test_bundles_give_a_reading_all_packets_with_their_numbers(tmp_path: Path) -> None:
    packets = UnitPackets(["x"], [bundled(tmp_path, 5000)])
    numbers = np.concatenate([batch.packets for batch in packets])
    assert numbers.tolist() == list(range(5000, 5000 + packets.packets))
    assert [file.name for file in packets.files] == ["x"]
    packets.stop()
    packets.close()


def test_a_part_is_what_a_reading_of_its_packets_knows(tmp_path: Path) -> None:
    work = PartTask(
        "p",
        ["x"],
        [bundled(tmp_path, 0)],
        part=os.fspath(tmp_path / "a/0"),
        messages=os.fspath(tmp_path / "b/0"),
    )
    done = analyse(work)
    part = ReadingPart.from_bytes(Path(done.part.file).read_bytes())
    with Reading([str(SAMPLE)]) as reading:
        for _ in reading:
            pass
        assert part.messages == done.part.rows == reading.messages
        first = reading.engine.transport.first_packets.tolist()
        assert ids(reading).tolist() == [0, *first]
    assert part.opened_by.tolist() == first
    assert [Path(path).parent for path in done.part.messages] == [tmp_path / "b"]
    assert {one.path for one in done.written} == {
        done.part.file,
        f"{done.part.file}.few",
        f"{done.part.file}.gaps",
        f"{done.part.file}.keys",
        *done.part.messages,
    }
    verify(done.written)


def test_tasks_that_share_a_part_write_each_message_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "BATCH_BYTES", 8 << 10)
    whole = PartTask(
        "p",
        ["x"],
        [bundled(tmp_path, 0)],
        part=os.fspath(tmp_path / "a/0"),
        messages=os.fspath(tmp_path / "b/0"),
        shares=3,
    )
    done = [analyse(replace(whole, share=share)) for share in range(3)]
    assert [bool(one.part.file) for one in done] == [False, False, True]
    assert min(done[0].part.rows, done[1].part.rows) > done[2].part.rows > 0
    rows = [
        row
        for one in done
        for path in one.part.messages
        for row in pq.read_table(path)["row"].to_pylist()
    ]
    assert (
        len(rows)
        == len(set(rows))
        == ReadingPart.from_bytes(Path(done[-1].part.file).read_bytes()).messages
    )


pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parents[2] / "sample_captures"
KEY_RULES = {
    "duplicate-key-in-snapshot",
    "cas-regress",
    "commit-without-prepare",
    "collection-outside-filter",
}


READ, WRITE = 3.0, 12.0
"""Cost of a message in tenths of a microsecond: to find and decode it; to check and write it."""
STREAMS, KEYS, CONNECTIONS = 2.0, 3.3, 1.5
"""The same for following streams, the keys of events, and what needs the whole connection."""
FOLLOWER = 0.25
"""One more task that follows keys has to save so much: it reads the part to its end."""


@pytest.mark.parametrize("tasks", range(1, MOST_SHARES + 1))
def test_the_stretches_of_all_tasks_are_everything_and_each_vbucket_has_one_task(
    tasks: int,
) -> None:
    edges, _ = SHARINGS[tasks]
    assert len(edges) == tasks
    assert edges[-1] == 1
    assert all(0 <= one <= two for one, two in pairwise((0.0, *edges)))
    shares = [PartTask("", (), (), share=task, shares=tasks).keys for task in range(tasks)]
    own = [share.has(np.arange(1024)) for share in shares if share is not None]
    assert np.sum(own, axis=0).tolist() == [1] * 1024
    assert shares[-1] is not None


def costs(edges: Sequence[float], followers: int) -> list[float]:
    """What each task does for each message of the part, in tenths of a microsecond, by what it
    reads, writes and follows.
    """
    found = []
    for task, (begin, end) in enumerate(pairwise((0.0, *edges))):
        if task < len(edges) - followers:
            found.append(READ * end + WRITE * (end - begin))
        else:
            whole = CONNECTIONS if task == len(edges) - 1 else 0.0
            found.append(READ + STREAMS + KEYS / followers + whole + WRITE * (end - begin))
    return found


def edges_at(cost: float, tasks: int, followers: int) -> list[float]:
    """Where stretches end if each task may cost so much; the last can be beyond 1."""
    edges, edge = [], 0.0
    for task in range(tasks):
        if task < tasks - followers:
            edge = (cost + WRITE * edge) / (READ + WRITE)
        else:
            fixed = READ + STREAMS + KEYS / followers + (CONNECTIONS if task == tasks - 1 else 0)
            edge += max(0.0, cost - fixed) / WRITE
        edges.append(edge if task == tasks - 1 else min(1.0, edge))
    return edges


def least_cost(tasks: int, followers: int) -> float:
    """The cost of the slowest task if all have as much to do, or those that follow keys write
    nothing.
    """
    low, high = 0.0, READ + WRITE + STREAMS + KEYS + CONNECTIONS
    while high - low > 1e-6:
        cost = (low + high) / 2
        fits = edges_at(cost, tasks, followers)[-1] >= 1
        if fits and cost >= READ + STREAMS + KEYS / followers + CONNECTIONS:
            high = cost
        else:
            low = cost
    return high


@pytest.mark.parametrize("tasks", range(1, MOST_SHARES + 1))
def test_no_other_sharing_gives_the_slowest_task_less(tasks: int) -> None:
    edges, followers = SHARINGS[tasks]
    slowest = max(costs(edges, followers))
    assert slowest == pytest.approx(least_cost(tasks, followers), rel=1e-3)
    for others in range(1, tasks + 1):
        assert slowest + FOLLOWER * followers <= 1.001 * (
            least_cost(tasks, others) + FOLLOWER * others
        )
    assert tasks == 1 or slowest < max(costs(*SHARINGS[tasks - 1]))


def ran_by(processors: int, out: Path, *captures: Path) -> None:
    """A run whose tasks are those of so many processors."""

    @contextmanager
    def tasks() -> Iterator[Here]:
        found = Here()
        found.processors = processors
        yield found

    run(Options([str(one) for one in captures], str(out)), tasks)


def full_of_faults(name: str, port: int) -> Told:
    """A connection whose events contradict each other in all ways that only keys show."""
    rng = random.Random(name)
    talk = opened(name, port=port, enable_sync_writes="true")
    streams = [
        talk.stream(vbucket, start=0, value={"collections": ["9"]} if vbucket % 2 else None)
        for vbucket in range(20, 32)
    ]
    for stream in streams:
        stream.snapshot(0, 60, "memory")
    for seqno in range(1, 61):
        for stream in streams:
            key = f"k{rng.randrange(60)}"
            kind = rng.choice(("mutation", "mutation", "deletion", "prepare", "commit", "other"))
            if kind == "mutation":
                cas = rng.randrange(1, 1 << 40)
                stream.send(
                    "dcp_mutation",
                    cas=cas,
                    datatype=0,
                    collection=0,
                    key=key,
                    value=b"",
                    by_seqno=seqno,
                    rev_seqno=1,
                )
            elif kind == "deletion":
                stream.deletion(seqno, key)
            elif kind == "prepare":
                stream.prepare(seqno, key, b"")
            elif kind == "commit":
                stream.commit(max(1, seqno - rng.randrange(1, 9)), seqno, key)
            else:
                stream.mutation(seqno, key, collection=rng.choice((9, 10)))
    return talk


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks share a part, however small."""
    monkeypatch.setattr(scan, "BATCH_BYTES", 4 << 10)
    monkeypatch.setattr(plan, "PART_BYTES", 1 << 10)


@pytest.mark.parametrize(
    "processors", first_of([[12, 1, 3, 12], [6, 6, 6, 6], [1, 12, 2, 12], [4, 5, 1, 12]], 1)
)
def test_faults_of_keys_are_found_whoever_remembers_the_keys(
    processors: list[int], tmp_path: Path
) -> None:
    talks = [full_of_faults("one:1", 50_000), full_of_faults("two:1", 50_001)]
    given = [
        Recorded(one.data, one.wire, one.time_ns) for one in packets(*talks) if len(one.data) > 60
    ]  # without acknowledgements
    at = [len(given) * number // 4 for number in (1, 2, 3)]
    # a packet comes late: until then messages behind it are complete only because the captures end
    for place in at:
        given.insert(place + 1, given.pop(place - 12))
    whole = written(tmp_path / "whole.pcap", given)
    files = cut(tmp_path / "ring", given, at)
    out, tasks, ending = tmp_path / "out", set[int](), set[str]()
    for number, count in enumerate(processors, 1):
        ran_by(count, out, *files[:number])
        tasks |= {len(part.keys) for part in Manifest.newest(out).parts}
        ending |= {name for part in Manifest.newest(out).parts for name in part.ending_looks}
    expected = told(whole, cut=True)
    assert {one["rule"] for one in expected["findings"]} >= KEY_RULES
    equal(stored(out, cut=True), expected)
    assert max(tasks) > 0
    assert ending or processors[0] < 6
    Manifest.newest(out).clean()
    there = {path.relative_to(out).as_posix() for path in (out / "parts").rglob("*.state")}
    assert there == {
        name for part in Manifest.newest(out).parts for name in (part.state, *part.keys) if name
    }


@pytest.mark.parametrize(
    "sample", ["tour.pcapng", "snapshots.pcap", "rollback.pcap", "lossy.pcap", "capture-loss.pcap"]
)
def test_many_tasks_tell_of_a_sample_what_one_tells(sample: str, tmp_path: Path) -> None:
    given = packets_of(SAMPLES / sample)
    files = cut(tmp_path / "ring", given, [len(given) // 2])
    ran_by(6, tmp_path / "out", files[0])
    ran_by(5, tmp_path / "out", *files)
    equal(
        stored(tmp_path / "out", cut=True), told(written(tmp_path / "whole.pcap", given), cut=True)
    )


@pytest.mark.parametrize("kind", ["damaged", "gone"])
def test_without_what_one_task_knew_of_keys_everything_is_read_again(
    kind: str, tmp_path: Path
) -> None:
    given = [
        Recorded(one.data, one.wire, one.time_ns)
        for one in packets(full_of_faults("one:1", 50_000))
    ]
    files = cut(tmp_path / "ring", given, [len(given) // 2])
    out = tmp_path / "out"
    ran_by(6, out, files[0])
    (part,) = Manifest.newest(out).parts
    path = out / part.keys[0]
    if kind == "damaged":
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    else:
        path.unlink()
    ran_by(6, out, *files)
    equal(stored(out, cut=True), told(written(tmp_path / "whole.pcap", given), cut=True))
