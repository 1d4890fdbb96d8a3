"""Packets of several files as one batch, in order of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.capture.batch import FilePieces, PacketBatch


def consecutive(batch: PacketBatch, rows: slice) -> PacketBatch:
    """Returns consecutive packets of a batch."""
    files, frames = batch.files[rows], batch.frames[rows]
    return replace(
        batch,
        columns=batch.columns[:, rows],
        file=int(files[-1]),
        first_frame=int(frames[0]),
        frame=None if batch.frame is None else frames,
        options=None if batch.options is None else batch.options[rows],
        snaplen=None if batch.snaplen is None else batch.snaplen[rows],
    )


def merged_batches(
    stretches: Sequence[tuple[PacketBatch, IntArray]], most: int
) -> Iterator[PacketBatch]:
    """Yields packets of several files in their order, at most so many in a batch.

    ``stretches``: consecutive packets of each file, and their order in nanoseconds; of packets with
    the same number, those of the first file come first.
    """
    if not stretches:
        return
    batch = stretches[0][0]
    if len(stretches) > 1:
        order = np.argsort(np.concatenate([order_ns for _, order_ns in stretches]), kind="stable")
        batch = joined([packets for packets, _ in stretches], order)
    for start in range(0, len(batch), most):
        yield consecutive(batch, slice(start, min(start + most, len(batch))))


def joined(batches: Sequence[PacketBatch], order: IntArray) -> PacketBatch:
    """Returns packets of several files as one batch, in this order."""
    starts = np.array([batch.offset.min() for batch in batches])
    ends = [
        int((batch.offset + batch.captured).max())
        + (0 if batch.options is None else 3 + int(np.abs(batch.options).max()))
        for batch in batches
    ]
    pieces = [
        batch.data[start:end] for start, end, batch in zip(starts, ends, batches, strict=True)
    ]
    begin = np.cumsum([0, *map(len, pieces[:-1])])
    number = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches])[order]
    columns = np.concatenate([batch.columns for batch in batches], axis=1).take(order, axis=1)
    columns[0] += (begin - starts)[number]
    options, snaplens = (
        [
            np.zeros(len(batch), np.int64) if column is None else column
            for batch, column in zip(batches, columns_of_batches, strict=True)
        ]
        for columns_of_batches in (
            [batch.options for batch in batches],
            [batch.snaplen for batch in batches],
        )
    )
    has_snaplens = any(batch.snaplen is not None for batch in batches)
    return replace(
        batches[0],
        data=np.concatenate(pieces),
        columns=columns,
        packet=None,
        frame=np.concatenate([batch.frames for batch in batches])[order],
        options=np.concatenate(options)[order],
        snaplen=np.concatenate(snaplens)[order] if has_snaplens else None,
        pieces=FilePieces(
            begin,
            np.array([batch.file for batch in batches]),
            np.array([batch.file_offset for batch in batches]) + starts,
            np.array([batch.lane for batch in batches]),
        ),
    )
