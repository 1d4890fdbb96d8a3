from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.spark import bundles
from dcpinspect.spark.bundles import (
    INDEX,
    BundleWriter,
    UnitBundles,
    group_marks,
    group_sizes,
    read_index,
    read_keys,
    write_keys,
)


def batch(first: int, count: int, seed: int) -> PacketBatch:
    """Packets of 0 to 99 bytes, with other bytes between them."""
    rng = np.random.default_rng(seed)
    captured = rng.integers(0, 100, count)
    offset = np.cumsum(captured + 16) - captured
    return PacketBatch(
        data=rng.integers(0, 256, int(captured.sum() + 16 * count), np.uint8),
        columns=np.stack(
            (
                offset,
                captured,
                captured + rng.integers(0, 1 << 31, count),
                rng.integers(0, 1 << 62, count),
                rng.integers(0, 300, count),
            )
        ),
        file=0,
        first_frame=first + 1,
        first_packet=first,
        file_offset=0,
    )


@pytest.mark.parametrize("own", [0, 1500, 1 << 20])
def test_packets_of_any_groups_come_back_as_they_were(
    own: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "OWN", own)
    path = os.fspath(tmp_path / "x")
    writer = BundleWriter(path)
    keys = [b"a", b"b", b"c", b""]
    rng = np.random.default_rng(own)
    expected: dict[bytes, list[tuple[int, int, int, int, bytes]]] = {key: [] for key in keys}
    for window in range(4):
        packets = batch(200 * window, 200, window)
        rows = np.sort(rng.choice(200, 150, replace=False))
        of_row = rng.integers(0, window + 1, 150)
        writer.add(
            packets, rows, np.array([writer.number(keys[number]) for number in of_row.tolist()])
        )
        for row, number in zip(rows.tolist(), of_row.tolist(), strict=True):
            data = packets.data[
                packets.offset[row] : packets.offset[row] + packets.captured[row]
            ].tobytes()
            numbers = (
                200 * window + row,
                *(
                    int(column[row])
                    for column in (packets.wire, packets.time_ns, packets.link_type)
                ),
            )
            expected[keys[number]].append((*numbers, data))
    writer.close()
    for chosen in (keys, keys[:1], keys[1:3], [b"gone"]):
        found = []
        for one in UnitBundles(path, 3, 1000, chosen).batches():
            assert one.file == 3
            assert (one.packets - 1000 + 1 == one.frames).all()
            assert (np.diff(one.packets) > 0).all()
            columns = (
                one.packets - 1000,
                one.wire,
                one.time_ns,
                one.link_type,
                one.offset,
                one.captured,
            )
            found += [
                (*row[:4], one.data[row[4] : row[4] + row[5]].tobytes())
                for row in zip(*map(np.ndarray.tolist, columns), strict=True)
            ]
        assert found == sorted(packet for key in chosen for packet in expected.get(key, []))
    sizes = group_sizes(read_index(path))
    assert sizes == {
        key: sum(len(packet[4]) for packet in packets)
        for key, packets in expected.items()
        if packets
    }


def test_an_abandoned_file_leaves_nothing(tmp_path: Path) -> None:
    writer = BundleWriter(os.fspath(tmp_path / "x"))
    writer.add(batch(0, 5, 1), np.arange(5), np.full(5, writer.number(b"a")))
    writer.abandon()
    assert not list(tmp_path.iterdir())


def test_a_capture_without_packets_has_no_bundles(tmp_path: Path) -> None:
    BundleWriter(os.fspath(tmp_path / "x")).close()
    assert list(UnitBundles(os.fspath(tmp_path / "x"), 0, 0, [b"a"]).batches()) == []
    assert group_sizes(read_index(os.fspath(tmp_path / "x"))) == {}


def test_the_groups_of_a_part_are_kept_beside_it(tmp_path: Path) -> None:
    write_keys(str(tmp_path / "x.part"), [b"", b"\x00\xff", b"a"])
    assert read_keys(str(tmp_path / "x.part")) == [b"", b"\x00\xff", b"a"]


def test_an_index_from_before_there_were_marks_has_none() -> None:
    assert group_marks(INDEX.empty_table().drop_columns(["marks"])) == {}
