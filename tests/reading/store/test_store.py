"""Every row of a store is what the reading gave, whatever the input was and whenever one looks."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.errors import ChangedCaptureError, NotKeptError
from dcpinspect.output.export.json import dump, message_object
from dcpinspect.protocol import first_bytes
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store import store as module
from dcpinspect.reading.store.store import Store
from dcpinspect.streams.message_columns import kinds
from dcpinspect.tables.arrow import arrow_schema, record_batch
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.schema import COLUMNS
from tests import builders
from tests.peers.truth import SAMPLES
from tests.protocol.test_first_bytes import flood
from tests.protocol.test_framing_evidence import (
    ANSWER,
    ASK,
    GRANT,
    HELLO,
    STREAM,
    conversation,
    written,
)
from tests.transport.test_scapy_dissection import wrapped
from tests.transport.test_scapy_dissection import written as written_packets

NAMES = [column.name for column in COLUMNS]
SMALL = sorted(path for path in SAMPLES.glob("*.pcap*") if path.stat().st_size < 70_000)


class Filled:
    """A store that was filled, and what the reading gave."""

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        batch_bytes: int = 1 << 24,
        keep: int = module.KEEP,
        find_ports: bool = False,
    ) -> None:
        self.store = Store(keep=keep, spool=paths[0].parent)
        with reading(paths, self.store, batch_bytes, find_ports=find_ports) as opened:
            self.counts = [self.store.rows for _ in self.store.fill(opened)]


def reading(
    paths: Sequence[Path], store: Store, batch_bytes: int, *, find_ports: bool = False
) -> Reading:
    """A reading in batches of that size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "dcpinspect.reading.reading.open_capture",
            partial(open_capture, batch_bytes=batch_bytes),
        )
        return Reading([str(path) for path in paths], keeper=store, find_ports=find_ports)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert not list(tmp_path.glob("dcpinspect-spool-*")), "a store was not closed"


def text(batch: MessageBatch, index: int) -> bytes:
    return dump(message_object(batch, index))


def expected(paths: Sequence[Path], *, find_ports: bool = False) -> tuple[list[bytes], Any]:
    """The JSON of every message, and the table."""
    with Reading([str(path) for path in paths], find_ports=find_ports) as opened:
        batches = list(opened)
    tables = [record_batch(batch, np.arange(len(batch)), NAMES) for batch in batches]
    return [
        text(batch, index) for batch in batches for index in range(len(batch))
    ], pa.Table.from_batches(tables, arrow_schema(NAMES))


def check(
    paths: Sequence[Path],
    *,
    rename: tuple[Path, Path] | None = None,
    find_ports: bool = False,
    **options: int,
) -> None:
    """A store of these captures has what reading them gives; ``rename``: its name in the one for
    that in the other.
    """
    texts, table = expected(paths if rename is None else [rename[1]], find_ports=find_ports)
    filled = Filled(paths, find_ports=find_ports, **options)
    with filled.store as store:
        assert store.rows == len(texts)
        found = [text(batch, index) for batch in pages(store, 1) for index in range(len(batch))]
        assert found == (
            texts
            if rename is None
            else [one.replace(str(rename[1]).encode(), str(rename[0]).encode()) for one in texts]
        )
        names = [name for name in NAMES if rename is None or name != "file"]
        assert (
            pa.Table.from_batches(store.batches(names), arrow_schema(names))
            .combine_chunks()
            .equals(table.select(names).combine_chunks())
        )


def pages(store: Store, first: int) -> Iterator[MessageBatch]:
    """All messages from a row on, some at a time."""
    for row in range(first, store.rows + 1, 17):
        yield store.messages(range(row, min(row + 17, store.rows + 1)))


def link(path: Path, folder: Path) -> Path:
    return Path(shutil.copy(path, folder))


@pytest.mark.slow
@pytest.mark.parametrize("batch_bytes", [1 << 24, 2000])
@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name)
def test_a_store_gives_every_message_as_reading_does(
    path: Path, batch_bytes: int, folder: Path
) -> None:
    check([link(path, folder)], batch_bytes=batch_bytes)


def damaged(path: Path, rng: random.Random) -> list[builders.Recorded]:
    """The packets of a capture: some lost, doubled, out of order, all cut, some bits wrong."""
    packets = []
    with open_capture(path) as opened:
        for batch in opened:
            columns = (batch.offset, batch.captured, batch.wire, batch.time_ns, batch.link_type)
            for start, size, wire, time_ns, link_type in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                packets.append(
                    builders.Recorded(
                        batch.data[start : start + size].tobytes(), wire, time_ns, link_type
                    )
                )
    packets = [packet for packet in packets for _ in range(rng.choices([0, 1, 2], [4, 88, 8])[0])]
    for index in range(len(packets) - 8):
        if rng.random() < 0.15:
            other = index + rng.randrange(8)
            packets[index], packets[other] = packets[other], packets[index]
    snaplen = rng.choice([150, 700, 1 << 18])
    for index, packet in enumerate(packets):
        data = bytearray(packet.data[:snaplen])
        if rng.random() < 0.02:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        packets[index] = replace(packet, data=bytes(data))
    return packets


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_damaged_captures_give_what_reading_them_does(
    seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(module, "PART_ROWS", rng.choice([20, 100]))
    monkeypatch.setattr(module, "PART_PLACES", rng.choice([15, 1 << 17]))
    path = folder / "a.pcapng"
    path.write_bytes(builders.pcapng(damaged(rng.choice(SMALL), rng)))
    check([path], batch_bytes=rng.choice([1500, 6000]))


@pytest.mark.slow
def test_compressed_captures_are_unpacked_once(folder: Path) -> None:
    path = folder / "tour.pcapng.gz"
    path.write_bytes(gzip.compress((SAMPLES / "tour.pcapng").read_bytes()))
    check([path])
    check([path], batch_bytes=3000)
    with Filled([path]).store as store:
        path.unlink()
        assert (
            len(store.messages([1]).bytes_of(0))
            == store.batch_of([1], ["length"]).column(0)[0].as_py()
        )


def test_a_pipe_is_kept_as_it_comes(folder: Path) -> None:
    path, pipe = link(SAMPLES / "tour.pcapng", folder), folder / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(path.read_bytes()))
    writer.start()
    check([pipe], rename=(pipe, path), batch_bytes=3000)
    writer.join()


@pytest.mark.slow
def test_several_files_are_one_store(folder: Path) -> None:
    check(
        [link(SAMPLES / name, folder) for name in ("tour.pcapng", "lossy.pcap", "rollback.pcap")],
        batch_bytes=5000,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["VXLAN", "fragments", "hop by hop", "fragments in VXLAN"])
def test_tunnels_and_fragments_lead_to_their_bytes(name: str, folder: Path) -> None:
    path = written_packets(folder / "a.pcap", wrapped(name))
    check([path])
    check([path], batch_bytes=4096)


@pytest.mark.slow
@pytest.mark.parametrize("batch_bytes", [1 << 24, 2000])
def test_many_connections_that_say_little_have_their_bytes(
    batch_bytes: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_bytes, "MANY", 1)
    path = folder / "a.pcap"
    path.write_bytes(flood(random.Random(6), 120, 11_210))
    check([path], batch_bytes=batch_bytes)


def test_a_connection_whose_server_was_seen_first_has_its_bytes(folder: Path) -> None:
    made = conversation(
        (False, GRANT), (True, HELLO + ASK), (False, ANSWER + STREAM), handshake=False
    )
    check([written(folder / "a.pcap", made)], find_ports=True)


@pytest.mark.slow
def test_small_parts_are_joined_and_large_ones_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_ROWS", 100)
    path = builders.capture(folder / "a.pcap", server=b"".join(builders.mutations(500)))
    check([path], batch_bytes=2000)
    filled = Filled([path], batch_bytes=2000)
    with filled.store as store:
        assert len(filled.counts) > 15
        written_files = sorted(
            path.suffix for path in next(folder.glob("dcpinspect-spool-*")).iterdir()
        )
        assert written_files.count(".messages") == written_files.count(".places")
        assert 3 <= written_files.count(".messages") <= 10
        assert store.rows == 500


def test_places_without_messages_do_not_wait_in_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message as long as many parts, after others: its bytes are found in all of them."""
    monkeypatch.setattr(module, "PART_PLACES", 10)
    messages = [
        *builders.mutations(20),
        builders.message(value=bytes(range(256)) * 400),
        *builders.mutations(20),
    ]
    path = builders.capture(folder / "a.pcap", server=b"".join(messages))
    check([path], batch_bytes=4096)
    with Filled([path], batch_bytes=4096).store as store:
        assert store.messages([21]).bytes_of(0) == messages[20]
        assert len(list(next(folder.glob("dcpinspect-spool-*")).glob("*.places"))) > 5


@pytest.fixture
def large(folder: Path) -> Iterator[tuple[Path, Store]]:
    path = builders.capture(folder / "a.pcap", server=b"".join(builders.mutations(300)))
    os.utime(path, ns=(10**18, 10**18))
    filled = Filled([path])
    yield path, filled.store
    filled.store.close()


def test_any_rows_in_any_order_also_twice(
    large: tuple[Path, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = large
    monkeypatch.setattr(module, "PART_ROWS", 50)
    with Filled([path], batch_bytes=3000).store as store:
        rows = [300, 1, 150, 150, 2, 299]
        table = store.batch_of(rows, ["row", "by_seqno", "key", "datatype", "cas"])
        assert table.column("row").to_pylist() == rows
        whole = pa.Table.from_batches(store.batches(["row", "by_seqno", "key", "datatype", "cas"]))
        assert pa.Table.from_batches([table]).equals(
            whole.take([row - 1 for row in rows]).combine_chunks()
        )
        found = store.messages(np.array(rows))
        assert found.row.tolist() == rows
        assert [found.bytes_of(index) for index in range(6)] == [
            store.messages([row]).bytes_of(0) for row in rows
        ]


def test_no_rows_are_a_table_and_a_batch(large: tuple[Path, Store]) -> None:
    _, store = large
    assert store.batch_of([], ["row", "datatype"]).num_rows == 0
    assert len(store.messages([])) == 0


@pytest.mark.parametrize("row", [0, -1, 301, 10**12])
def test_a_row_that_does_not_exist_is_an_index_error(large: tuple[Path, Store], row: int) -> None:
    _, store = large
    with pytest.raises(IndexError, match=rf"row {row}: rows are 1 to 300"):
        store.messages([row]).annotate(0)
    with pytest.raises(IndexError, match=rf"row {row}: rows are 1 to 300"):
        store.batch_of([5, row], ["name"])


def test_an_empty_store_says_so(folder: Path) -> None:
    with Filled([builders.capture(folder / "a.pcap")]).store as store:
        assert (store.rows, store.first_row, list(store.batches(["row"]))) == (0, 1, [])
        with pytest.raises(IndexError, match="row 1: there are no messages"):
            store.messages([1]).bytes_of(0)


def test_batches_after_a_row_begin_with_the_next(
    large: tuple[Path, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = large
    monkeypatch.setattr(module, "PART_ROWS", 64)
    with Filled([path], batch_bytes=3000).store as store:
        for after in (0, 63, 64, 100, 299, 300, 1000):
            rows = [
                row
                for batch in store.batches(["row"], after=after)
                for row in batch.column("row").to_pylist()
            ]
            assert rows == list(range(after + 1, 301))


@pytest.mark.slow
@pytest.mark.parametrize(
    "condition",
    [
        "name = 'dcp_mutation' and vbucket in (1, 417)",
        "not (side = 'request' or status_name <> 'success')",
        "layout is null or vbucket_from is not null",
        "problem is not null or snapshot_type = 'disk' or name like 'dcp_m%'",
        "cas > '0x0000000000000000' and datatype = 'json'",
        "key like '%7'",
        "true",
        "opcode = 1",
    ],
)
def test_the_rows_of_a_filter_are_those_that_reading_with_it_gives(
    condition: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_ROWS", 50)
    path = link(SAMPLES / "tour.pcapng", folder)
    filter_ = FilterRows(parse_filter(condition))
    with Reading([str(path)]) as opened:
        expected_rows = [
            row
            for batch in opened
            for row in batch.row[filter_.rows(batch, np.arange(len(batch)))].tolist()
        ]
    with Filled([path], batch_bytes=3000).store as store:
        found = store.matching(filter_)
        assert found.tolist() == expected_rows
        assert found.dtype == np.dtype(np.uint32)
        for after in (60, 100, store.rows):
            assert store.matching(filter_, after=after).tolist() == [
                row for row in expected_rows if row > after
            ]


def test_looking_for_the_rows_of_a_filter_can_be_stopped(large: tuple[Path, Store]) -> None:
    with pytest.raises(InterruptedError):
        large[1].matching(FilterRows(parse_filter("opcode = 1")), goes_on=lambda share: share > 0)


def test_the_columns_of_a_vbucket_are_those_that_reading_gives(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_ROWS", 50)
    path = link(SAMPLES / "tour.pcapng", folder)
    with Reading([str(path)]) as opened, Filled([path], batch_bytes=3000).store as store:
        batches = list(opened)
        for vbucket in (0, 417, 1000):
            rows = store.of_vbucket(vbucket)
            assert (
                rows.tolist()
                == store.matching(FilterRows(parse_filter(f"vbucket = {vbucket}"))).tolist()
            )
            kind, time_ns = store.numbers(rows, ("_kind", "time_ns"))
            assert (
                kind.values.tolist()
                == np.concatenate(
                    [kinds(one)[0][np.isin(one.row, rows)] for one in batches]
                ).tolist()
            )
            assert (
                time_ns.values.tolist()
                == np.concatenate([one.time_ns[np.isin(one.row, rows)] for one in batches]).tolist()
            )


def test_a_capture_that_shrinks_says_so_and_columns_stay(large: tuple[Path, Store]) -> None:
    path, store = large
    os.truncate(path, 1000)
    with pytest.raises(
        ChangedCaptureError,
        match=rf"{path}.*: has shrunk from .* to 1,000 bytes since it was read; open it again",
    ):
        store.messages([300]).annotate(0)
    assert store.batch_of([300], ["row"]).column("row").to_pylist() == [300]


def test_other_bytes_in_a_capture_are_no_messages_of_it(large: tuple[Path, Store]) -> None:
    """Whatever the times of the file say."""
    path, store = large
    path.write_bytes(path.read_bytes()[:64] + bytes(path.stat().st_size - 64))
    os.utime(path, ns=(10**18, 10**18))
    with pytest.raises(
        ChangedCaptureError, match=r"frame \d+ has other bytes than when it was read; open it again"
    ):
        store.messages([7]).annotate(0)


def piped(folder: Path, data: bytes) -> Path:
    """A pipe that has these bytes written to it."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_bytes(data), daemon=True).start()
    return pipe


@pytest.mark.slow
def test_of_a_stream_whole_parts_are_dropped_from_the_front(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_ROWS", 64)
    path = builders.capture(
        folder / "a.pcap",
        server=b"".join(builders.mutations(3000, value=lambda n: bytes([n % 256]) * 200)),
    )
    texts, _ = expected([path])
    pipe = piped(folder, path.read_bytes())
    with Filled([pipe], batch_bytes=8000, keep=200_000).store as store:
        spool = next(folder.glob("dcpinspect-spool-*"))
        assert store.rows == 3000
        assert 1000 < store.first_row < 2900
        assert sum(file.stat().st_size for file in spool.glob("*.bytes")) <= 200_000
        assert len(list(spool.iterdir())) < 60
        found = [
            text(batch, index)
            for batch in pages(store, store.first_row + 1)
            for index in range(len(batch))
        ]
        assert found == [
            one.replace(str(path).encode(), str(pipe).encode()) for one in texts[store.first_row :]
        ]
        assert next(iter(store.batches(["row"]))).column("row")[0].as_py() == store.first_row
        with pytest.raises(
            NotKeptError,
            match=(
                rf"row 5 was dropped; rows from {store.first_row:,} on are kept; keep more, or "
                r"read a file"
            ),
        ):
            store.messages([5]).annotate(0)


@pytest.mark.slow
def test_readers_see_whole_rows_while_the_store_fills(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_ROWS", 50)
    path = builders.capture(folder / "a.pcap", server=b"".join(builders.mutations(600)))
    texts, _ = expected([path])
    faults: list[object] = []
    done = threading.Event()
    looked = [0]

    def look(store: Store) -> None:
        rng = np.random.default_rng(7)
        while not done.is_set():
            rows = store.rows
            try:
                seen = [
                    row
                    for batch in store.batches(["row"])
                    for row in batch.column("row").to_pylist()
                ]
                assert seen[:rows] == list(range(1, rows + 1))
                assert seen == list(range(1, len(seen) + 1))
                if rows:
                    row = int(rng.integers(1, rows + 1))
                    assert text(store.messages([row]), 0) == texts[row - 1]
                    assert store.batch_of([1, rows], ["row"]).column("row").to_pylist() == [1, rows]
                    looked[0] += 1
            except BaseException as error:
                faults.append(error)
                return

    with Store(spool=folder) as store:
        readers = [threading.Thread(target=look, args=(store,)) for _ in range(2)]
        for reader in readers:
            reader.start()
        with reading([path], store, 1500) as opened:
            for _ in store.fill(opened):
                pass
        done.set()
        for reader in readers:
            reader.join()
        assert faults == []
        assert looked[0] > 5
        assert store.rows == 600


def test_a_closed_store_has_no_rows(folder: Path) -> None:
    filled = Filled([builders.capture(folder / "a.pcap", server=builders.mutation())])
    filled.store.close()
    assert filled.store.rows == 0
