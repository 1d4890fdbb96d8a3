"""Both ends of a connection in an output tell what two captures of it tell."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.salt import Salt
from tests.builders import pcap, recorded
from tests.comparison.taps import conversation, taps, written
from tests.comparison.test_paths import found
from tests.spark.outputs import ran


def paths_in(out: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = Manifest.newest(out).dataset("paths").to_table().to_pylist()
    return rows


def ring(folder: Path, capture: Path, segments: list[Any], parts: int) -> list[Path]:
    """A capture point: the segments in so many files."""
    folder.mkdir()
    ordered = sorted(segments, key=lambda one: one.time_ns)
    size = -(-len(ordered) // parts)
    paths = [folder / f"{capture.stem}_{part}.pcap" for part in range(parts)]
    for part, path in enumerate(paths):
        path.write_bytes(pcap(recorded(ordered[part * size : (part + 1) * size]), magic=0xA1B23C4D))
    return paths


def test_paths_are_those_of_diff_however_captures_are_cut_and_come(tmp_path: Path) -> None:
    a, b = taps(conversation(), lost={20, 30}, missed={25})
    both = a, [replace(one, client=a[0].client) for one in b]
    captures = written(tmp_path, *both)
    expected = found(*reversed(captures))  # there is more of it at b, from where segments were sent again
    out = tmp_path / "out"
    near, far = (ring(tmp_path / path.stem, path, segments, 3) for path, segments in zip(captures, both, strict=True))
    ran(out, *near, far[0])
    assert [row["a_missed_bytes"] for row in paths_in(out)] == [0, 0]
    ran(out, near[0].parent, far[0].parent, redacts=False)
    connections = Manifest.newest(out).dataset("connections").to_table().to_pylist()
    counts, copy = sorted(connections, key=lambda row: row["duplicate_of"] or 0)
    rows = paths_in(out)
    for row, told in zip(rows, expected, strict=True):
        assert (row["a_connection_id"], row["b_connection_id"]) == (counts["connection_id"], copy["connection_id"])
        assert (row["a_capture_point"], row["b_capture_point"]) == ("b", "a")
        times = {"first_time", "last_time"}
        assert {name: row[name] for name in told.keys() - times - {"schema", "a_connection", "b_connection"}} == {
            name: value for name, value in told.items() if name in row and name not in times
        }
    assert ran(out, near[0].parent, far[0].parent).captures == 0
    shutil.rmtree(out)
    ran(out, *(path.parent for path in (near[0], far[0])), redacts=True)
    assert Salt.of(str(out), None).mark == Manifest.newest(out).options["redacted"]
    assert paths_in(out) == rows


def test_what_was_captured_once_has_no_path(tmp_path: Path) -> None:
    ran(tmp_path / "out", written(tmp_path, *taps(conversation()))[0])
    assert paths_in(tmp_path / "out") == []
