"""Bundles: the packets of some connections from one stretch of one capture, stored so that each
bundle can be read without the others.

A scan divides a capture into *windows*; each is one batch of the engine. The packets of a window go
into bundles: one bundle for each *group* with many packets there, and some bundles that small
groups share. A group contains packets that may belong together: those between two ends. The file of
a unit is an Arrow file with a record batch for each bundle. Its index says which groups are in
which bundle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dcpinspect.arrays import ByteArray, IntArray
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.kernels.gathering import gathered
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.spark import files
from dcpinspect.spark.data_marks import GroupMarks, Marker, together
from dcpinspect.spark.salt import Salt
from dcpinspect.transport.clock_steps import Edges

OWN = 1 << 16
"""Number of bytes of a group in a window from which the group has a bundle of its own there."""
SHARES = 16
"""Number of bundles of a window that smaller groups share."""

PACKETS = pa.schema(
    [
        pa.field("packet", pa.uint32()),  # number in the unit, from 0
        pa.field("group", pa.uint32()),  # number in the index
        pa.field("wire", pa.uint32()),
        pa.field("time_ns", pa.int64()),
        pa.field("link_type", pa.uint16()),
        pa.field("data", pa.large_binary()),
    ]
)
INDEX = pa.schema(
    [
        pa.field("bundle", pa.int32()),
        pa.field("window", pa.int32()),
        pa.field("key", pa.binary()),  # key of the group
        pa.field("group", pa.uint32()),
        pa.field("packets", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field(
            "marks", pa.list_(pa.uint64())
        ),  # marks of the group, in its first row of the index
    ]
)
KEYS = pa.schema([pa.field("key", pa.binary())])
"""Schema of the file beside a part that lists the groups in it."""


class BundleWriter:
    """Writes the bundles of a unit. Its files count only when a manifest names them, so readers may
    see them half written.
    """

    def __init__(self, path: str, salt: Salt | None = None) -> None:
        """Opens the files. ``path``: of the Arrow file; its index has ``.index`` added. ``salt``:
        encrypts both files.
        """
        self.path = path
        self._salt = salt
        self.groups: dict[bytes, int] = {}
        """Number of each group, by key."""
        self.marker = Marker()
        """Receives the payload of the groups, and makes their marks."""
        self._stream = files.created(path, salt)
        options = pa.ipc.IpcWriteOptions(
            compression=pa.Codec("zstd", compression_level=1), use_threads=False
        )
        self._file = pa.ipc.new_file(self._stream, PACKETS, options=options)
        self._bundles = self._windows = 0
        self._index: list[tuple[int, int, int, int, int]] = []

    def number(self, key: bytes) -> int:
        """Returns the number of a group."""
        return self.groups.setdefault(key, len(self.groups))

    def add(self, batch: PacketBatch, rows: IntArray, groups: IntArray) -> None:
        """Writes a window: the packets ``rows`` of a batch, in order; ``groups``: the number of the
        group of each packet.
        """
        if not len(rows):
            return
        size = batch.captured[rows]
        count = len(self.groups)
        of_group = np.bincount(groups, size, count).astype(np.int64)
        packets = np.bincount(groups, minlength=count)
        present = np.flatnonzero(packets)
        share = np.where(of_group >= OWN, SHARES + np.arange(count), np.arange(count) % SHARES)
        order = np.lexsort((rows, share[groups])) if len(present) > 1 else np.arange(len(rows))
        rows, groups, size = rows[order], groups[order], size[order]
        data, begins = gathered(batch.data, batch.offset[rows], size)
        ends = np.append(begins, len(data))
        packet = batch.first_packet + rows
        edges = np.concatenate(([0], np.flatnonzero(np.diff(share[groups])) + 1, [len(rows)]))
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            group_slice = slice(start, end)
            columns = np.stack((packet[group_slice], groups[group_slice]))
            self._write(
                np.concatenate((columns, batch.columns[2:, rows[group_slice]])),
                ends[start : end + 1] - ends[start],
                data[ends[start] : ends[end]],
            )
            for group in np.unique(groups[group_slice]).tolist():
                self._index.append(
                    (self._bundles, self._windows, group, int(packets[group]), int(of_group[group]))
                )
            self._bundles += 1
        self._windows += 1

    def _write(self, columns: IntArray, offsets: IntArray, data: ByteArray) -> None:
        """Writes packets: their columns before the data, and where the data of each begin."""
        arrays = [
            pa.array(column.astype(field.type.to_pandas_dtype()))
            for column, field in zip(columns, PACKETS, strict=False)
        ]
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        arrays.append(
            pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
        )
        self._file.write_batch(pa.RecordBatch.from_arrays(arrays, schema=PACKETS))

    def index(self) -> Any:
        """Returns the index so far, as a table."""
        keys = list(self.groups)
        columns = list(zip(*self._index, strict=True)) or [()] * 5
        bundle, window, group, packets, size = columns
        key = [keys[number] for number in group]
        first = {number: row for row, number in reversed([*enumerate(group)])}
        marks = [
            self.marker.marks_of(number) if first[number] == row else ()
            for row, number in enumerate(group)
        ]
        return pa.table([bundle, window, key, group, packets, size, marks], schema=INDEX)

    def close(self, edges: Edges | None = None) -> None:
        """Closes both files. ``edges``: of the packets of the scan; they are in no bundle."""
        index = self.index()
        for heads in (edges.first, edges.last) if edges is not None else ():
            columns = np.concatenate((np.zeros((2, len(heads)), np.int64), heads.columns[2:]))
            columns[0] = heads.packets
            self._write(columns, np.append(heads.offset, len(heads.data)), heads.data)
        self._file.close()
        self._stream.close()
        with (
            files.created(f"{self.path}.index", self._salt) as stream,
            pa.ipc.new_file(stream, INDEX) as file,
        ):
            file.write_table(index)

    def abandon(self) -> None:
        """Removes both files."""
        with suppress(pa.ArrowException, OSError):
            self._file.close()
        with suppress(OSError):
            self._stream.close()
        files.remove(self.path)


def read_index(path: str, salt: Salt | None = None) -> Any:
    """Reads the index of the bundles in a file. Raises UsageError if it is missing or damaged."""
    with files.reading_known_file(f"{path}.index"), files.source(f"{path}.index", salt) as source:
        return pa.ipc.open_file(source).read_all()


def group_sizes(index: Any) -> dict[bytes, int]:
    """Returns the number of bytes of each group in an index."""
    sizes: dict[bytes, int] = {}
    for key, size in zip(index["key"].to_pylist(), index["bytes"].to_pylist(), strict=True):
        sizes[key] = sizes.get(key, 0) + size
    return sizes


def group_marks(index: Any) -> dict[bytes, GroupMarks]:
    """Returns the marks of an index's groups; empty for versions that had no marks."""
    if "marks" not in index.column_names:
        return {}
    first = index.filter(pc.greater(pc.list_value_length(index["marks"]), 0))
    marks_of_group: dict[bytes, list[GroupMarks]] = {}
    for key, marks in zip(first["key"].to_pylist(), first["marks"].to_pylist(), strict=True):
        marks_of_group.setdefault(key, []).append(np.array(marks, np.uint64))
    return {key: together(marks) for key, marks in marks_of_group.items()}


def write_keys(part: str, keys: Sequence[bytes]) -> str:
    """Writes the keys of the groups in a part to a file beside it, and returns its path."""
    path = f"{part}.keys"
    with files.created(path) as stream, pa.ipc.new_file(stream, KEYS) as file:
        file.write_table(pa.table([keys], schema=KEYS))
    return path


def read_keys(part: str) -> list[bytes]:
    """Reads the keys of the groups in a part. Raises UsageError if they are missing or damaged."""
    with files.reading_known_file(f"{part}.keys"), files.source(f"{part}.keys") as source:
        keys: list[bytes] = pa.ipc.open_file(source).read_all()["key"].to_pylist()
    return keys


@dataclass(frozen=True, slots=True)
class UnitBundles:
    """The bundles of a unit, and where its packets stand among those of all units."""

    path: str
    """Path of the Arrow file."""
    file: int
    """Number of the unit."""
    base: int
    """Number of the unit's first packet, over all units."""
    keys: Sequence[bytes]
    """Keys of the wanted groups."""
    first: int = 0
    """Number, in the unit, of the file's first packet, if several files have bundles of the unit.
    """
    salt: Salt | None = None
    """Salt with which the files are encrypted."""
    is_cut: bool = False
    """Whether the snapshot length cut packets of the unit."""
    ahead: Sequence[tuple[int, int]] = ()
    """As ``ReadUnit.ahead``."""

    @property
    def packets(self) -> int:
        """Number of packets in the groups."""
        return int(pc.sum(self._index_rows()["packets"]).as_py() or 0)

    def _index_rows(self) -> Any:
        """Returns the rows of the index about the wanted groups."""
        index = read_index(self.path, self.salt)
        return index.filter(pc.is_in(index["key"], value_set=pa.array(self.keys, pa.binary())))

    def batches(self) -> Iterator[PacketBatch]:
        """Yields the packets of the groups in order, one window at a time. Raises UsageError if the
        file is missing or damaged.
        """
        index_rows = self._index_rows()
        groups = np.unique(index_rows["group"].to_numpy())
        window, bundle = index_rows["window"].to_numpy(), index_rows["bundle"].to_numpy()
        with files.reading_known_file(self.path), files.source(self.path, self.salt) as source:
            file = pa.ipc.open_file(source)
            for number in np.unique(window).tolist():
                bundles = [
                    file.get_batch(bundle_number)
                    for bundle_number in np.unique(bundle[window == number]).tolist()
                ]
                yield self._batch(bundles, groups)

    def edges(self) -> tuple[PacketBatch, PacketBatch]:
        """Returns the first and the last packets of the scan, as ``BundleWriter.close`` got them.
        Raises UsageError.
        """
        with files.reading_known_file(self.path), files.source(self.path, self.salt) as source:
            file = pa.ipc.open_file(source)
            first, last = (
                self._batch(
                    [file.get_batch(file.num_record_batches - number)], np.zeros(1, np.int64)
                )
                for number in (2, 1)
            )
        return first, last

    def _batch(self, bundles: Sequence[Any], groups: IntArray) -> PacketBatch:
        """Returns the packets of ``groups`` in some bundles of a window."""
        data, starts, data_offset = [], [], 0
        for bundle in bundles:
            blob = bundle.column("data")
            _, offsets, octets = blob.buffers()
            ends = np.frombuffer(offsets, np.int64, len(blob) + 1, 8 * blob.offset)
            octets = (
                np.frombuffer(octets, np.uint8) if octets is not None else np.empty(0, np.uint8)
            )
            starts.append(np.stack((ends[:-1] + data_offset, np.diff(ends))))
            data.append(octets)
            data_offset += len(octets)
        offset, captured = np.concatenate(starts, axis=1)
        columns = {
            name: np.concatenate([bundle.column(name).to_numpy() for bundle in bundles]).astype(
                np.int64
            )
            for name in ("packet", "group", "wire", "time_ns", "link_type")
        }
        order = (
            np.argsort(columns["packet"], kind="stable")
            if len(bundles) > 1
            else np.arange(len(offset))
        )
        is_wanted = np.isin(columns["group"][order], groups)
        order = order if is_wanted.all() else order[is_wanted]
        packet = self.first + columns["packet"][order]
        if self.ahead:
            begins, ahead_ns = np.array([(0, 0), *self.ahead]).T
            columns["time_ns"][order] -= ahead_ns[np.searchsorted(begins, packet, "right") - 1]
        return PacketBatch(
            data=data[0] if len(data) == 1 else np.concatenate(data),
            columns=np.stack(
                (offset, captured, columns["wire"], columns["time_ns"], columns["link_type"])
            ).take(order, axis=1),
            file=self.file,
            first_frame=int(packet[0]) + 1,
            first_packet=self.base + int(packet[0]),
            file_offset=0,
            packet=self.base + packet,
            frame=packet + 1,
        )
