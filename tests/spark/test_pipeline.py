"""What a run makes of captures is what a reading of the uncut capture tells, however that was
cut.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

import dcpinspect.spark
from dcpinspect import temporary
from dcpinspect.errors import CaptureError, UsageError
from dcpinspect.reading import joining
from dcpinspect.spark import bundles, pipeline, plan, record_files, run_tables, scan, stretches
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.output_reading import read_results
from dcpinspect.spark.outputs import rows_of
from dcpinspect.spark.pipeline import Options, expire
from dcpinspect.spark.pipeline_info import pipeline_info
from dcpinspect.streams import state
from tests.builders import Conversation, Recorded, mutation, recorded
from tests.captures import real_server
from tests.catalogue import first_of
from tests.spark.cuts import cut, disturbed, faulty, packets_of, places, written
from tests.spark.outputs import here, ran, stored, told
from tests.transport import test_scapy_dissection
from tests.transport.test_clock_steps import without_timestamp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = Path(__file__).parents[2] / "sample_captures"
SMALL = sorted(
    path.name
    for path in SAMPLES.iterdir()
    if ".pcap" in path.name and path.name not in ("large.pcapng.gz", "any.pcap")
)


def equal(
    found: dict[str, list[dict[str, Any]]], expected: dict[str, list[dict[str, Any]]]
) -> None:
    assert found.keys() == expected.keys()
    for name, rows in expected.items():
        assert found[name] == rows, name


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks share a capture, and a part, however small; tasks look at all bytes."""
    monkeypatch.setattr(pipeline, "FEW", 0)
    monkeypatch.setattr(scan, "BATCH_BYTES", 16 << 10)
    monkeypatch.setattr(plan, "PART_BYTES", 8 << 10)
    monkeypatch.setattr(stretches, "BYTES", 4 << 10)


def compare(tmp_path: Path, packets: list[Recorded], at: list[int], **options: Any) -> None:
    whole = written(tmp_path / "whole.pcap", packets)
    cut(tmp_path / "ring", packets, at)
    ran(tmp_path / "out", tmp_path / "ring", **options)
    equal(stored(tmp_path / "out", cut=True), told(whole, cut=True, **options))


@pytest.mark.slow
@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("sample", [*SMALL, "any.pcap"])
def test_tables_of_a_sample_are_those_of_a_reading(sample: str, tmp_path: Path) -> None:
    ran(tmp_path / "out", SAMPLES / sample)
    equal(stored(tmp_path / "out", cut=False), told(SAMPLES / sample, cut=False))


@pytest.mark.slow
@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("sample", SMALL)
def test_tables_do_not_depend_on_where_captures_are_cut(sample: str, tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / sample)
    rng = random.Random(sample)
    compare(tmp_path, packets, places(rng, len(packets), 7))


@pytest.mark.slow
@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("seed", first_of(range(8), 4))
def test_nor_on_what_happens_around_the_cuts(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    packets = packets_of(SAMPLES / rng.choice(SMALL))
    at = places(rng, len(packets), 9)
    compare(tmp_path, disturbed(rng, packets, at), at)


@pytest.mark.slow
@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("seed", first_of(range(4), 2))
def test_nor_on_who_looks_at_messages(seed: int, tmp_path: Path) -> None:
    """Messages that are wrong by themselves, found by each of the tasks that share a part, in the
    first run and in one that goes on.
    """
    rng = random.Random(seed)
    packets = faulty(rng, packets_of(SAMPLES / "tour.pcapng"))
    files = cut(tmp_path / "ring", packets, places(rng, len(packets), 3))
    ran(tmp_path / "out", *files[:2])
    looks = {path for part in Manifest.newest(tmp_path / "out").parts for path in part.looks}
    assert looks
    ran(tmp_path / "out", tmp_path / "ring")
    now = Manifest.newest(tmp_path / "out")
    assert looks <= {path for part in now.parts for path in part.looks}
    equal(
        stored(tmp_path / "out", cut=True),
        told(written(tmp_path / "whole.pcap", packets), cut=True),
    )
    there = {
        path.relative_to(tmp_path / "out").as_posix()
        for path in (tmp_path / "out").rglob("*.looks")
    }
    assert there == {path for part in now.parts for path in part.looks}


@pytest.mark.usefixtures("shared")
def test_a_capture_that_cannot_be_divided_is_scanned_by_one_task(tmp_path: Path) -> None:
    """Packets that carry captures: stretches begin inside of one."""
    inner = written(tmp_path / "inner.pcap", packets_of(SAMPLES / "tour.pcapng")[:40]).read_bytes()[
        24:
    ]
    outer = written(
        tmp_path / "outer.pcap",
        [replace(one, data=inner) for one in packets_of(SAMPLES / "tour.pcapng")[:30]],
    )
    assert ran(tmp_path / "out", outer).packets == 30


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    first_of(
        [
            "fragments reversed",
            "fragments in VXLAN",
            "MPLS",
            "IPv6 fragments",
            "fragments twice",
            "fragments of VXLAN",
            "IPv6 in VXLAN",
        ],
        4,
    ),
)
def test_nor_in_tunnels_and_fragments(name: str, tmp_path: Path) -> None:
    packets = test_scapy_dissection.wrapped(name)
    compare(
        tmp_path, packets, list(range(1, len(packets), 3))
    )  # inside of pairs of fragments, and between them


@pytest.mark.slow
def test_nor_on_the_size_of_batches_and_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows of few packets, groups with bundles of their own, parts of one component each, tables
    in files and in pieces.
    """
    for module in (temporary, joining):
        monkeypatch.setattr(module, "LARGE", 1)
    monkeypatch.setattr(state, "_AT_ONCE", 2)
    monkeypatch.setattr(record_files, "ROWS", 3)
    monkeypatch.setattr(scan, "BATCH_BYTES", 4096)
    monkeypatch.setattr(bundles, "OWN", 1000)
    monkeypatch.setattr(plan, "PART_BYTES", 1)
    monkeypatch.setattr(plan, "PARTS_A_PROCESSOR", 100)
    packets = packets_of(SAMPLES / "tour.pcapng")
    compare(tmp_path, packets, [100, 101, 300])
    assert len(Manifest.newest(tmp_path / "out").parts) == 7


@pytest.mark.slow
def test_a_second_run_reads_what_is_new_and_what_that_touches(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "tour.pcapng")
    files = cut(tmp_path / "ring", packets, [150, 200, 320])
    later = tmp_path / "later"
    later.mkdir()
    for path in files[1:]:
        path.rename(later / path.name)
    for number, path in enumerate(files[1:], 2):
        ran(tmp_path / "out", tmp_path / "ring")
        (later / path.name).rename(path)
        done = ran(tmp_path / "out", tmp_path / "ring")
        assert (done.batch, done.captures, done.known) == (number, 1, number - 1)
    equal(
        stored(tmp_path / "out", cut=True),
        told(written(tmp_path / "whole.pcap", packets), cut=True),
    )
    assert not list((tmp_path / "out").rglob("*.tmp"))


@pytest.mark.slow
def test_parts_that_nothing_new_touches_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PART_BYTES", 1)
    monkeypatch.setattr(plan, "PARTS_A_PROCESSOR", 100)
    packets = packets_of(SAMPLES / "tour.pcapng")
    *first, last = cut(tmp_path / "ring", packets, [400])
    held = last.read_bytes()
    last.unlink()
    ran(tmp_path / "out", *first)
    before = {part.file for part in Manifest.newest(tmp_path / "out").parts}
    last.write_bytes(held)
    done = ran(tmp_path / "out", tmp_path / "ring")
    after = {part.file for part in Manifest.newest(tmp_path / "out").parts}
    assert done.kept_parts == len(before & after) > 0
    assert done.parts == len(after - before) > 0
    equal(
        stored(tmp_path / "out", cut=True),
        told(written(tmp_path / "whole.pcap", packets), cut=True),
    )


@pytest.mark.slow
def test_a_capture_that_comes_late_is_put_where_it_belongs(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "tour.pcapng")
    first, *others = cut(tmp_path / "ring", packets, [150, 320])
    ran(tmp_path / "out", *others)
    ran(tmp_path / "out", first)
    equal(
        stored(tmp_path / "out", cut=True),
        told(written(tmp_path / "whole.pcap", packets), cut=True),
    )


@pytest.mark.parametrize("names", [("a-cut", "b-whole"), ("b-cut", "a-whole")])
def test_a_cut_capture_beside_a_whole_one_takes_nothing_from_it(
    names: tuple[str, str], tmp_path: Path
) -> None:
    packets = packets_of(SAMPLES / "orphans.pcap")
    headers = [replace(packet, data=packet.data[:68]) for packet in packets]
    whole = written(tmp_path / f"{names[1]}.pcap", packets)
    short = written(tmp_path / f"{names[0]}.pcap", headers)
    expected = told(whole, cut=True)["messages"]
    ran(tmp_path / "at-once", short, whole)
    assert stored(tmp_path / "at-once", cut=True)["messages"] == expected
    for captures in ((short,), (short, whole)):
        ran(tmp_path / "later", *captures)
    assert stored(tmp_path / "later", cut=True)["messages"] == expected


@pytest.mark.slow
def test_a_file_that_is_being_written_is_read_again_when_it_has_grown(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "tour.pcapng")
    whole = written(tmp_path / "whole.pcap", packets)
    content = whole.read_bytes()
    growing = tmp_path / "ring" / "ring_1.pcap"
    growing.parent.mkdir()
    found = 0
    for size in (len(content) // 3 + 5, len(content) // 2 + 7, len(content)):
        growing.write_bytes(content[:size])
        done = ran(tmp_path / "out", growing.parent)
        assert (done.captures, done.quarantined, done.damaged) == (1, 0, 0)
        found += done.messages
        (tmp_path / "now.pcap").write_bytes(content[:size])
        equal(stored(tmp_path / "out", cut=False), told(tmp_path / "now.pcap", cut=False))
    assert [one["severity"] for one in done.problems] == []
    assert ran(tmp_path / "out", growing.parent).captures == 0
    assert found <= 1.2 * done.rows["messages"]
    ran(tmp_path / "at once", growing)
    captures, at_once = (
        Manifest.newest(tmp_path / name)
        .dataset("captures")
        .to_table()
        .select(["file", "state", "bytes", "packets", "used"])
        .to_pylist()
        for name in ("out", "at once")
    )
    assert captures == at_once
    assert [(row["state"], row["packets"]) for row in captures] == [("ok", len(packets))]
    assert (
        pipeline_info(Manifest.newest(tmp_path / "out"))["points"]
        == pipeline_info(Manifest.newest(tmp_path / "at once"))["points"]
    )
    assert expire(Options((), str(tmp_path / "out")), packets[-1].time_ns, here).expired == 0
    assert expire(Options((), str(tmp_path / "out")), packets[-1].time_ns + 1, here).expired == 1
    assert rows_of(Manifest.newest(tmp_path / "out"))["messages"] == 0


@pytest.mark.slow
def test_a_ring_that_uses_names_again_loses_nothing(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "tour.pcapng")
    one, _, three = cut(tmp_path / "ring", packets, [150, 320])
    newest = three.read_bytes()
    three.unlink()
    ran(tmp_path / "out", tmp_path / "ring")
    one.write_bytes(newest)  # the ring has begun again
    done = ran(tmp_path / "out", tmp_path / "ring")
    assert (done.captures, done.known) == (1, 1)
    equal(
        stored(tmp_path / "out", cut=True),
        told(written(tmp_path / "whole.pcap", packets), cut=True),
    )


@pytest.mark.slow
def test_a_file_that_was_renamed_and_a_copy_are_not_counted_twice(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    one, two = cut(tmp_path / "ring", packets, [50])
    shutil.copy(one, tmp_path / "ring" / "copy_of_it.pcap")
    done = ran(tmp_path / "out", one, two, tmp_path / "ring" / "copy_of_it.pcap")
    assert (done.captures, done.known, done.copies) == (2, 1, 1)
    (tmp_path / "ring" / "copy_of_it.pcap").unlink()
    one.rename(tmp_path / "ring" / "ring_00009.pcap")
    done = ran(tmp_path / "out", tmp_path / "ring")
    assert (done.captures, done.known, done.copies) == (0, 2, 0)
    equal(
        stored(tmp_path / "out", cut=True),
        told(written(tmp_path / "whole.pcap", packets), cut=True),
    )


@pytest.mark.slow
@pytest.mark.parametrize("size", first_of([24, 70_000, 5_000], 2))
@pytest.mark.parametrize("old", ["gone", "used again", "stays"])
def test_a_file_that_has_grown_and_has_another_name_now_counts_once(
    size: int, old: str, tmp_path: Path
) -> None:
    """As with a ring whose newest file has a name of its own."""
    packets = packets_of(SAMPLES / "loop.pcap")
    content = written(tmp_path / "whole.pcap", packets).read_bytes()
    current, ring = tmp_path / "ring" / "current.pcap", tmp_path / "ring"
    ring.mkdir()
    current.write_bytes(content[:size])
    ran(tmp_path / "out", ring)
    (ring / "ring_1.pcap").write_bytes(content)
    if old == "gone":
        current.unlink()
    elif old == "used again":
        current.write_bytes(content[:24])
    ran(tmp_path / "out", ring)
    assert ran(tmp_path / "out", ring).captures == 0
    captures = Manifest.newest(tmp_path / "out").dataset("captures").to_table()
    assert sum(captures["packets"].to_pylist()) == len(packets)
    equal(stored(tmp_path / "out", cut=True), told(tmp_path / "whole.pcap", cut=True))


@pytest.mark.slow
def test_captures_of_which_nothing_can_be_read_are_rows_and_the_rest_is_read(
    tmp_path: Path,
) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    ring = tmp_path / "ring"
    one, _ = cut(ring, packets, [50])
    (ring / "garbage.pcap").write_bytes(b"not a capture" * 100)
    (ring / "empty.pcap").touch()
    (ring / "cut.pcap.gz").write_bytes(gzip.compress(one.read_bytes())[:9])
    (ring / "folder.pcap").mkdir()
    (ring / "nowhere.pcap").symlink_to(ring / "gone")
    os.mkfifo(ring / "pipe.pcap")
    done = ran(tmp_path / "out", ring)
    assert done.quarantined == 5
    assert {one["file"].rpartition("/")[2]: one["what"] for one in done.problems} == {
        "garbage.pcap": "is not a capture (begins with 6e 6f 74 20)",
        "empty.pcap": "is empty",
        "cut.pcap.gz": "the compressed data is cut short",
        "nowhere.pcap": "there is no such file",
        "pipe.pcap": "is not a file that can be read more than once",
    }
    equal(
        stored(tmp_path / "out", cut=True),
        told(written(tmp_path / "whole.pcap", packets), cut=True),
    )
    (ring / "nowhere.pcap").unlink()
    (ring / "garbage.pcap").write_bytes(b"other garbage")
    done = ran(tmp_path / "out", ring)
    assert {one["file"].rpartition("/")[2] for one in done.problems} == {
        "garbage.pcap",
        "pipe.pcap",
    }
    with pytest.raises(CaptureError, match=r"pipe.pcap: is not a file"):
        ran(tmp_path / "out", ring, fails=True)
    assert Manifest.newest(tmp_path / "out").number == 2


def test_a_damaged_capture_is_read_around_the_damage(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    one, _ = cut(tmp_path / "ring", packets, [50])
    content = bytearray(one.read_bytes())
    content[24 + 8 : 24 + 12] = b"\xff\xff\xff\x7f"  # an absurd length
    one.write_bytes(content)
    done = ran(tmp_path / "out", tmp_path / "ring")
    assert (done.quarantined, done.damaged) == (0, 1)
    assert [(one["severity"], one["offset"]) for one in done.problems] == [("warning", 24)]
    assert done.packets == len(packets) - 1


@pytest.mark.slow
def test_a_run_that_is_interrupted_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    one, _ = cut(tmp_path / "ring", packets, [50])
    ran(tmp_path / "out", one)
    before = stored(tmp_path / "out", cut=True)
    for module, name in (
        (pipeline, "scan"),
        (pipeline, "analyse"),
        (run_tables, "write_tables"),
        (pipeline, "write_captures"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                ran(tmp_path / "out", tmp_path / "ring")
        equal(stored(tmp_path / "out", cut=True), before)
    ran(tmp_path / "out", tmp_path / "ring")
    equal(
        stored(tmp_path / "out", cut=True),
        told(written(tmp_path / "whole.pcap", packets), cut=True),
    )
    ran(tmp_path / "out", tmp_path / "ring")
    assert len(list((tmp_path / "out" / "_manifest").glob("*.json"))) == 1
    assert {path.parent.name for path in (tmp_path / "out" / "parts").rglob("*.part")} == {
        "batch=2"
    }


def interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_captures_and_outputs_may_be_written_as_uris_of_files(tmp_path: Path) -> None:
    done = pipeline.run(
        pipeline.Options([(SAMPLES / "rollback.pcap").as_uri()], (tmp_path / "an out").as_uri()),
        here,
    )
    assert done.captures == 1
    assert Manifest.newest((tmp_path / "an out").as_uri()).number == 1
    equal(stored(tmp_path / "an out", cut=False), told(SAMPLES / "rollback.pcap", cut=False))


@pytest.mark.slow
@pytest.mark.spark
def test_a_program_runs_it_in_its_own_session_and_reads_the_tables_of_the_newest_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    packets = packets_of(SAMPLES / "tour.pcapng")
    first, _ = cut(tmp_path / "ring", packets, [300])
    before = dict(spark.conf.getAll)
    assert dcpinspect.spark.run(spark, first, tmp_path / "out", capture_point="dir").captures == 1
    done = dcpinspect.spark.run(spark, [tmp_path / "ring"], tmp_path / "out", find_ports=False)
    assert (done.batch, done.captures, done.known, done.is_whole) == (2, 1, 1, True)
    assert dict(spark.conf.getAll) == before
    equal(
        stored(tmp_path / "out", cut=True),
        told(written(tmp_path / "whole.pcap", packets), cut=True),
    )
    messages = dcpinspect.spark.table(spark, tmp_path / "out")
    assert messages.count() == done.rows["messages"] == 450
    assert (
        messages.where(dcpinspect.spark.filter_sql("end_seqno = 18446744073709551615")).count() > 0
    )
    assert (
        dcpinspect.spark.table(spark, tmp_path / "out", "streams").count() == done.rows["streams"]
    )
    with pytest.raises(UsageError, match="table stream: there is none; did you mean streams"):
        dcpinspect.spark.table(spark, tmp_path / "out", "stream")


def test_what_a_program_asks_for_is_looked_at_first() -> None:
    asked = Options(["x"], "out")
    with pytest.raises(UsageError, match="on_error skip: is not known; write keep or fail"):
        pipeline.checked_options(asked, (), "skip")
    with pytest.raises(UsageError, match="ports: 70000 is no port"):
        pipeline.checked_options(replace(asked, extra_ports=(70_000,)), (), "keep")
    with pytest.raises(
        UsageError, match="keylog /nosuch: every process of Spark reads it; name a file or a folder"
    ):
        pipeline.checked_options(asked, "/nosuch", "keep")
    assert pipeline.checked_options(asked, (), "fail") == replace(asked, fails=True)
    assert pipeline.paths_of([Path("a"), "b"]) == ["a", "b"]
    assert pipeline.paths_of(Path("a")) == ["a"]


@pytest.mark.slow
def test_options_of_the_runs_before_are_kept(tmp_path: Path) -> None:
    ran(tmp_path / "out", SAMPLES / "rollback.pcap", extra_ports=(11999,), find_ports=False)
    assert ran(tmp_path / "out", SAMPLES / "tour.pcapng").captures == 1
    with pytest.raises(UsageError, match=r"--port: .* was made with another one"):
        ran(tmp_path / "out", SAMPLES / "loop.pcap", extra_ports=(12000,))
    with pytest.raises(UsageError, match=r"--capture-point: "):
        ran(tmp_path / "out", SAMPLES / "loop.pcap", point_rule="stem")


@pytest.mark.slow
def test_a_connection_captured_at_two_points_counts_where_there_is_more_of_it(
    tmp_path: Path,
) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    for point, lost in (("a", 40), ("b", 0)):
        (tmp_path / point).mkdir()
        written(tmp_path / point / "x.pcap", packets[: len(packets) - lost])
    ran(tmp_path / "out", tmp_path / "a")
    done = ran(tmp_path / "out", tmp_path / "b")
    assert done.captures == 1
    rows = Manifest.newest(tmp_path / "out").dataset("connections").to_table().to_pylist()
    ids = {row["connection_id"]: row for row in rows}
    copies = [row for row in rows if row["duplicate_of"] is not None]
    assert all(
        ids[row["duplicate_of"]]["capture_point"] != row["capture_point"]
        and row["connection"] is None
        for row in copies
    )
    assert all(
        ids[row["duplicate_of"]][name] == row[name]
        for row in copies
        for name in ("client", "server", "first_time_ns")
    )
    assert len(rows) == 2 * len(copies)
    equal(
        stored(tmp_path / "out", cut=True),
        told(written(tmp_path / "whole.pcap", packets), cut=True),
    )


def test_points_are_never_mixed(tmp_path: Path) -> None:
    """Halves of a connection at two points are no connection."""
    packets = packets_of(SAMPLES / "rollback.pcap")
    for point, some in (("a", packets[::2]), ("b", packets[1::2])):
        (tmp_path / point).mkdir()
        written(tmp_path / point / "x.pcap", some)
    ran(tmp_path / "out", tmp_path / "a", tmp_path / "b")
    manifest = Manifest.newest(tmp_path / "out")
    assert {part.point for part in manifest.parts} == {"a", "b"}
    for part in manifest.parts:
        alone = told(tmp_path / part.point / "x.pcap", cut=False)
        assert part.is_copy or part.rows == len(alone["messages"])


def test_captures_without_anything_of_the_protocol_make_empty_tables(tmp_path: Path) -> None:
    (tmp_path / "ring").mkdir()
    (tmp_path / "ring" / "a.pcap").write_bytes(b"garbage")
    assert ran(tmp_path / "out", tmp_path / "ring").quarantined == 1
    written(tmp_path / "ring" / "b.pcap", [])
    done = ran(tmp_path / "out", tmp_path / "ring")
    assert (done.captures, done.quarantined) == (1, 0)
    assert {name: count for name, count in done.rows.items() if count} == {"captures": 2, "bad": 1}


@pytest.mark.slow
def test_captures_that_are_too_old_leave_and_what_goes_on_begins_later(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "tour.pcapng")
    ring = cut(tmp_path / "ring", packets, [150, 320])
    ran(tmp_path / "out", tmp_path / "ring")
    raw = {path.name for path in (tmp_path / "out" / "raw").rglob("*.arrow")}
    assert expire(Options((), str(tmp_path / "out")), packets[149].time_ns, here).expired == 0
    done = expire(Options((), str(tmp_path / "out")), packets[149].time_ns + 1, here)
    assert (done.expired, done.batch) == (1, 2)
    equal(
        stored(tmp_path / "out", cut=True),
        told(written(tmp_path / "rest.pcap", packets[150:]), cut=True),
    )
    assert len(raw - {path.name for path in (tmp_path / "out" / "raw").rglob("*.arrow")}) == 1
    states = (
        Manifest.newest(tmp_path / "out")
        .dataset("captures")
        .to_table()
        .select(["path", "state"])
        .to_pylist()
    )
    assert {row["path"]: row["state"] for row in states} == dict(
        zip(map(str, ring), ("expired", "ok", "ok"), strict=True)
    )
    assert ran(tmp_path / "out", tmp_path / "ring").captures == 0
    assert expire(Options((), str(tmp_path / "out")), packets[-1].time_ns + 1, here).expired == 2
    assert {
        name: count for name, count in rows_of(Manifest.newest(tmp_path / "out")).items() if count
    } == {"captures": 3}


@pytest.mark.slow
def test_a_part_that_others_have_compacted_is_replaced_as_any(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "tour.pcapng")
    first, *_ = cut(tmp_path / "ring", packets, [150])
    ran(tmp_path / "out", first, SAMPLES / "rollback.pcap", point_rule="name:x")
    DeltaTable(tmp_path / "out" / "messages").optimize.z_order(["vbucket"])
    done = ran(tmp_path / "out", tmp_path / "ring")
    again = ran(
        tmp_path / "other", tmp_path / "ring", SAMPLES / "rollback.pcap", point_rule="name:x"
    )
    assert done.rows["messages"] == again.rows["messages"]
    outs = map(Manifest.newest, (tmp_path / "out", tmp_path / "other"))
    one, two = (sorted(out.dataset("messages").to_table()["time_ns"].to_pylist()) for out in outs)
    assert one == two


@pytest.mark.slow
def test_another_version_reads_the_packets_that_were_kept_again(tmp_path: Path) -> None:
    ran(tmp_path / "out", SAMPLES / "rollback.pcap")
    before = stored(tmp_path / "out", cut=False)
    manifest = Manifest.newest(tmp_path / "out")
    replace(manifest, program="0.0").commit()
    with pytest.raises(
        UsageError,
        match=(
            r"was written by another build of dcpinspect \(0.0; this is .*\); write 'dcpinspect "
            r"pipeline run"
        ),
    ):
        read_results(Manifest.newest(tmp_path / "out"))
    done = ran(tmp_path / "out", SAMPLES / "rollback.pcap")
    assert (done.captures, done.known, done.parts) == (0, 1, 1)
    equal(stored(tmp_path / "out", cut=False), before)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["no SYN", "late", "NAT", "loss at both ends"])
def test_both_ends_are_one_connection_by_what_is_said_on_it(kind: str, tmp_path: Path) -> None:
    """Without a SYN, from the middle on, with other addresses, with other packets lost."""
    rng = random.Random(kind)
    packets = talk(rng)[0 if kind == "NAT" else 3 :]
    for point, at in (("a", 0), ("b", 200 if kind == "late" else 0)):
        here = packets[at:]
        if kind == "loss at both ends":
            here = [one for one in here if rng.random() > 0.05]
        if kind == "NAT" and point == "b":
            here = [
                replace(one, data=one.data.replace(bytes([10, 0, 0, 1]), bytes([172, 16, 9, 9])))
                for one in here[:-5]
            ]
        (tmp_path / point).mkdir()
        written(tmp_path / point / "x.pcap", here)
    ran(tmp_path / "out", tmp_path / "a", tmp_path / "b")
    rows = Manifest.newest(tmp_path / "out").dataset("connections").to_table().to_pylist()
    assert [(row["connection"], row["duplicate_of"]) for row in rows] == [
        (1, None),
        (None, rows[0]["connection_id"]),
    ]
    assert rows[0]["capture_point"] != rows[1]["capture_point"]


def talk(rng: random.Random) -> list[Recorded]:
    """A connection with a handshake of three packets and 400 documents, no two alike."""
    going = Conversation()
    going.handshake()
    for seqno in range(1, 401):
        going.send(False, mutation(seqno, value=rng.randbytes(200)))
    return recorded(going.segments)


# -- a clock that is set while it captures
# --------------------------------------------------------------------------------------------------

SET = {
    "back inside": [(0.25, -5)],
    "back at a border": [(0.5, -5)],
    "back by more behind a border": [(0.52, -30)],
    "back by an hour before a border": [(0.49, -3600)],
    "back by an hour": [(0.5, -3600)],
    "forward": [(0.5, 3600)],
    "back and forward": [(0.25, -30), (0.87, 30)],
    "often": [(0.2, -5), (0.5, 7200), (0.7, -3600)],
}
RESUME = SAMPLES / "real-server" / "resume.pcap.gz"


def with_clock(packets: list[Recorded], steps: list[tuple[float, int]]) -> list[Recorded]:
    for place, seconds in steps:
        first = int(len(packets) * place)
        later = [
            replace(packet, time_ns=packet.time_ns + seconds * 10**9) for packet in packets[first:]
        ]
        packets = [*packets[:first], *later]
    return packets


def edges_of(packets: list[Recorded]) -> list[int]:
    return [int(len(packets) * place) for place in (0.3, 0.5, 0.9)]


def test_files_of_one_capture_are_as_one_where_its_clock_was_set(tmp_path: Path) -> None:
    packets = with_clock(packets_of(RESUME), SET["back inside"])
    expected = told(written(tmp_path / "whole.pcap", packets), cut=True)
    files = cut(tmp_path / "ring", packets, edges_of(packets))
    equal(told(*files, cut=True), expected)
    ran(tmp_path / "out", tmp_path / "ring")
    equal(stored(tmp_path / "out", cut=True), expected)
    units = Manifest.newest(tmp_path / "out").units
    assert [unit.unit.name.rpartition("_")[2] for unit in units] == [
        f"{number:05}.pcap" for number in range(4)
    ]
    assert all(unit.first_ns >= before.last_ns for before, unit in pairwise(units))  # type: ignore[operator] # they have packets


@pytest.mark.slow
@pytest.mark.parametrize("has_timestamps", [True, False])
@pytest.mark.parametrize("name", ["resume", "durability", "replication-60-66"])
@pytest.mark.parametrize("steps", SET.values(), ids=SET)
def test_files_that_come_later_go_on_by_the_clock_of_those_before(
    steps: list[tuple[float, int]], name: str, has_timestamps: bool, tmp_path: Path
) -> None:
    """All at once, one after the other, and one that comes last and belongs between."""
    packets = with_clock(packets_of(RESUME if name == "resume" else real_server(name)), steps)
    if not has_timestamps:
        packets = [without_timestamp(packet) for packet in packets]
    expected = told(written(tmp_path / "whole.pcap", packets), cut=True)
    first, second, *others = cut(tmp_path / "ring", packets, edges_of(packets))
    runs = ((first, second, *others),), ((first,), (second,), others), ((first, *others), (second,))
    for number, captures in enumerate(runs):
        out = tmp_path / f"out-{number}"
        for run in captures:
            ran(out, *run)
        equal(stored(out, cut=True), expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_of(range(8), 4))
def test_nor_does_it_depend_on_how_small_the_files_are(seed: int, tmp_path: Path) -> None:
    """They have fewer packets than it takes to see a step; some have none."""
    rng = random.Random(seed)
    steps = [(rng.random(), rng.choice((-7200, -30, -5, 5, 3600))) for _ in range(3)]
    packets = with_clock(packets_of(RESUME), sorted(steps))
    expected = told(written(tmp_path / "whole.pcap", packets), cut=True)
    files = cut(tmp_path / "ring", packets, places(rng, len(packets), 12))
    for file in (files[5], tmp_path / "ring"):
        ran(tmp_path / "out", file)
    equal(stored(tmp_path / "out", cut=True), expected)


@pytest.mark.slow
def test_a_file_that_grows_behind_a_step_of_the_clock_counts_once(tmp_path: Path) -> None:
    packets = with_clock(packets_of(RESUME), [(0.4, -30), (0.8, -5)])
    expected = told(written(tmp_path / "whole.pcap", packets), cut=True)
    first, second = cut(tmp_path / "ring", packets, [len(packets) // 2])
    content = second.read_bytes()
    for size in (len(content) // 2 + 7, len(content)):
        second.write_bytes(content[:size])
        ran(tmp_path / "out", first, second)
    equal(stored(tmp_path / "out", cut=True), expected)


@pytest.mark.slow
@pytest.mark.spark
def test_clocks_are_set_in_tasks_of_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    packets = with_clock(packets_of(RESUME), SET["often"])
    expected = told(written(tmp_path / "whole.pcap", packets), cut=True)
    files = cut(tmp_path / "ring", packets, edges_of(packets))
    for captures in (files[:2], files):
        dcpinspect.spark.run(spark, captures, tmp_path / "out", redact=False)
    equal(stored(tmp_path / "out", cut=True), expected)
