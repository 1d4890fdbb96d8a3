"""Both ends of a connection in an output tell what two captures of it tell."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.secrets import secrets_at
from tests import builders
from tests.builders import pcap, recorded
from tests.diff.taps import conversation, taps, written
from tests.diff.test_network_paths import found
from tests.spark.cuts import cut, packets_of
from tests.spark.outputs import ran
from tests.tls.forged import Forged

pytestmark = pytest.mark.slow


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
    expected = found(
        *reversed(captures)
    )  # there is more of it at b, from where segments were sent again
    out = tmp_path / "out"
    near, far = (
        ring(tmp_path / path.stem, path, segments, 3)
        for path, segments in zip(captures, both, strict=True)
    )
    ran(out, *near, far[0])
    assert [row["a_missed_bytes"] for row in paths_in(out)] == [0, 0]
    ran(out, near[0].parent, far[0].parent, redacts=False)
    connections = Manifest.newest(out).dataset("connections").to_table().to_pylist()
    counts, copy = sorted(connections, key=lambda row: row["duplicate_of"] or 0)
    rows = paths_in(out)
    for row, told in zip(rows, expected, strict=True):
        assert (row["a_connection_id"], row["b_connection_id"]) == (
            counts["connection_id"],
            copy["connection_id"],
        )
        assert (row["a_capture_point"], row["b_capture_point"]) == ("b", "a")
        times = {"first_time", "last_time"}
        assert {
            name: row[name]
            for name in told.keys() - times - {"schema", "a_connection", "b_connection"}
        } == {name: value for name, value in told.items() if name in row and name not in times}
    assert ran(out, near[0].parent, far[0].parent).captures == 0
    shutil.rmtree(out)
    ran(out, *(path.parent for path in (near[0], far[0])), redacts=True)
    assert Salt.read_or_make(str(out), None).mark == Manifest.newest(out).options["redacted"]
    assert paths_in(out) == rows


def test_what_was_captured_once_has_no_path(tmp_path: Path) -> None:
    ran(tmp_path / "out", written(tmp_path, *taps(conversation()))[0])
    assert paths_in(tmp_path / "out") == []


@pytest.mark.parametrize("first", ["a", "b", ""])
def test_answers_inside_tls_are_compared_once_both_points_have_secrets(
    first: str, tmp_path: Path
) -> None:
    forged = Forged(tmp_path / "tls")
    for opaque in range(1, 11):
        forged.send(1, builders.message(magic=0x80, opcode=0x5C, opaque=opaque))
        forged.send(0, builders.message(magic=0x81, opcode=0x5C, opaque=opaque))
    tls = forged.finish()
    packets = packets_of(tls.path)
    keys = tmp_path / "keys"
    for name, seen in (
        ("a", packets[:40] + packets[41:]),
        ("b", [replace(one, time_ns=one.time_ns + 3000) for one in packets]),
    ):
        cut(tmp_path / name, seen, [])
        (keys / name).mkdir(parents=True)
        (keys / name / "keys.log").write_text(
            tls.keylog.read_text() if name == first else "# none\n"
        )
    points = [tmp_path / name for name in ("a", "b")]
    ran(tmp_path / "out", *points, secrets=secrets_at([str(keys)]))
    assert [row["answers"] for row in paths_in(tmp_path / "out")] == [0, 0]
    for name in ("a", "b"):
        (keys / name / "keys.log").write_text(tls.keylog.read_text())
    ran(tmp_path / "out", *points, secrets=secrets_at([str(keys)]))
    ran(tmp_path / "at once", *points, secrets=secrets_at([str(keys)]))
    assert paths_in(tmp_path / "out") == paths_in(tmp_path / "at once")
    assert sum(row["answers"] for row in paths_in(tmp_path / "out")) == 10
