"""Connections that go on in new captures are gone on with; what they tell is what one reading of
everything tells.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.spark import plan, scan, states
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.pipeline import Options, expire
from dcpinspect.spark.salt import is_sealed
from tests.catalogue import first_of
from tests.spark.cuts import cut, disturbed, packets_of, places, written
from tests.spark.outputs import here, ran, stored, told
from tests.transport import test_scapy_dissection

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parents[2] / "sample_captures"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks share a part, however small."""
    monkeypatch.setattr(scan, "BATCH_BYTES", 16 << 10)
    monkeypatch.setattr(plan, "PART_BYTES", 8 << 10)


def messages(out: Path) -> int:
    """Rows of the table, each of them once."""
    rows = Manifest.newest(out).dataset("messages").to_table(columns=["row"])["row"].to_pylist()
    assert len(rows) == len(set(rows))
    return len(rows)


def added(out: Path, ring: Sequence[Path], edges: Sequence[int]) -> Iterator[int]:
    """Runs, each with some more files of the ring; how many messages each has found."""
    for start, end in pairwise(edges):
        if end > start:
            yield ran(out, *ring[:end]).messages


def states_of(out: Path) -> list[str]:
    return [part.state for part in Manifest.newest(out).parts if part.state]


@pytest.mark.parametrize(("sample", "files"), [("tour.pcapng", 10), ("lossy.pcap", 3)])
def test_files_added_singly_tell_what_one_reading_tells_and_each_message_is_found_once(
    sample: str, files: int, tmp_path: Path
) -> None:
    packets = packets_of(SAMPLES / sample)
    ring = cut(
        tmp_path / "ring", packets, [len(packets) * number // files for number in range(1, files)]
    )
    found = list(added(tmp_path / "out", ring, range(files + 1)))
    assert stored(tmp_path / "out", cut=True) == told(
        written(tmp_path / "whole.pcap", packets), cut=True
    )
    assert sum(found) <= 1.2 * messages(tmp_path / "out")


@pytest.mark.parametrize("seed", first_of(range(4), 2))
def test_cut_anywhere_and_disturbed_and_added_in_any_portions(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    packets = packets_of(
        SAMPLES
        / rng.choice(["capture-loss.pcap", "rollback.pcap", "snapshots.pcap", "tour.pcapng"])
    )
    at = places(rng, len(packets), 9)
    packets = disturbed(rng, packets, at)
    ring = cut(tmp_path / "ring", packets, at)
    list(added(tmp_path / "out", ring, [0, *sorted(rng.sample(range(1, 10), 3)), 10]))
    assert stored(tmp_path / "out", cut=True) == told(
        written(tmp_path / "whole.pcap", packets), cut=True
    )


def test_files_that_grow_between_runs_and_one_that_comes_late(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "tour.pcapng")
    whole = written(tmp_path / "whole.pcap", packets)
    late, *ring = cut(tmp_path / "ring", packets, [90, 250])
    out, found = tmp_path / "out", 0
    for number, path in enumerate(ring, 1):
        content = path.read_bytes()
        for size in (len(content) // 3, len(content)):
            path.write_bytes(content[:size])
            found += ran(out, *ring[:number]).messages
    assert found <= 1.2 * messages(out)
    assert stored(out, cut=True) == told(written(tmp_path / "rest.pcap", packets[90:]), cut=True)
    ran(out, late)
    assert stored(out, cut=True) == told(whole, cut=True)


def test_fragments_that_a_later_capture_puts_together(tmp_path: Path) -> None:
    packets = test_scapy_dissection.wrapped("fragments of VXLAN")
    ring = cut(tmp_path / "ring", packets, [len(packets) * number // 4 for number in range(1, 4)])
    list(added(tmp_path / "out", ring, range(5)))
    assert stored(tmp_path / "out", cut=True) == told(
        written(tmp_path / "whole.pcap", packets), cut=True
    )


def test_what_comes_late_or_leaves_is_followed_from_the_first_packet(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "tour.pcapng")
    one, two, three, four = cut(tmp_path / "ring", packets, [100, 200, 300])
    out = tmp_path / "out"
    ran(out, one, two)
    assert states_of(out)
    assert ran(out, four).messages < messages(out)
    assert {str(path.relative_to(out)) for path in (out / "parts").rglob("*.state")} >= {
        *states_of(out)
    }
    assert ran(out, three).messages == messages(out)  # it belongs before the last one
    assert stored(out, cut=True) == told(written(tmp_path / "whole.pcap", packets), cut=True)
    expire(Options((), str(out)), packets[99].time_ns + 1, here)
    assert stored(out, cut=True) == told(written(tmp_path / "rest.pcap", packets[100:]), cut=True)
    assert {str(path.relative_to(out)) for path in (out / "parts").rglob("*.state")} == {
        *states_of(out)
    }


@pytest.mark.parametrize("kind", ["damaged", "of others", "gone", "whole"])
def test_a_state_that_cannot_be_trusted_is_not_used(kind: str, tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    one, two = cut(tmp_path / "ring", packets, [60])
    out = tmp_path / "out"
    ran(out, one)
    for name in states_of(out):
        path = out / name
        if kind == "damaged":
            path.write_bytes(path.read_bytes()[:-1] + b"x")
        elif kind == "of others":
            path.chmod(0o666)
        elif kind == "gone":
            path.unlink()
    found = ran(out, one, two).messages
    assert (found < messages(out)) is (kind == "whole")
    assert stored(out, cut=True) == told(written(tmp_path / "whole.pcap", packets), cut=True)


def test_states_of_redacted_outputs_are_encrypted(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    one, two = cut(tmp_path / "ring", packets, [60])
    salted: dict[str, Any] = {"redacts": True, "salt_file": str(tmp_path / "salt")}
    ran(tmp_path / "out", one, **salted)
    assert all(
        is_sealed(io.BytesIO((tmp_path / "out" / name).read_bytes()))
        for name in states_of(tmp_path / "out")
    )
    assert ran(tmp_path / "out", one, two, **salted).messages < messages(tmp_path / "out")
    ran(tmp_path / "at once", one, two, **salted)
    assert stored(tmp_path / "out", cut=True) == stored(tmp_path / "at once", cut=True)


def test_a_run_that_fails_leaves_the_state_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    one, two = cut(tmp_path / "ring", packets, [60])
    out = tmp_path / "out"
    ran(out, one)
    before = states_of(out)
    with monkeypatch.context() as patch:
        patch.setattr(states, "mark_of", lambda _: 1 / 0)
        patch.setattr(
            "dcpinspect.spark.analysis.mark_of", lambda _: 1 / 0
        )  # after its files are written
        with pytest.raises(ZeroDivisionError):
            ran(out, one, two)
    assert states_of(out) == before
    assert ran(out, one, two).messages < messages(out)
    assert stored(out, cut=True) == told(written(tmp_path / "whole.pcap", packets), cut=True)


def test_nothing_is_kept_of_connections_that_are_closed(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "rollback.pcap")
    for name, some in (("open", packets[:-20]), ("closed", packets)):
        ran(tmp_path / name, written(tmp_path / f"{name}.pcap", some))
    assert states_of(tmp_path / "open")
    assert not states_of(tmp_path / "closed")
