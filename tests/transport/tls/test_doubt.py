"""Whether it is TLS depends on bytes and packets, not on the batches in which they come."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.reading.engine import Engine
from dcpinspect.transport.tls import stage
from dcpinspect.transport.tls.doubt import Doubt
from dcpinspect.transport.tls.keylog import KeyLog
from tests import builders, damage
from tests.tls.invented import Invented, Piece, chunks

NOOP = bytes.fromhex("805c0000 00000000 00000000") + bytes(12)
RECORD = b"\x17\x03\x03\x00\x20" + bytes(range(32))
HELLO = b"\x16\x03\x01\x00\x20\x01"


def judged(pieces: list[Piece], size: int, *, is_start: bool) -> list[bool | None]:
    doubt = Doubt(
        lambda data, _: (
            data.tobytes().find(NOOP[:2]) + 24 if NOOP[:2] in data.tobytes()[:-22] else 0
        )
    )
    told: list[bool | None] = [None, None]
    for at in range(0, len(pieces), size):
        for chunk in chunks(pieces[at : at + size], is_start=is_start, is_end=False):
            doubt.add(chunk)
        told = doubt.judge()
        if True in told:
            break
    return told


@pytest.mark.parametrize("is_start", [True, False])
def test_what_is_told_does_not_depend_on_batches(is_start: bool) -> None:
    rng = random.Random(1)
    seen = set()
    for _ in range(150):
        parts = (HELLO, RECORD, RECORD[:3], NOOP, b"\x16", b"\x16\x03", b"x", rng.randbytes(9))
        whole = [b"".join(rng.choice(parts) for _ in range(8)) for _ in range(2)]
        pieces, at = [], [0, 0]
        for place in range(12):
            side, size = rng.randrange(2), rng.choice((1, 2, 5, 37))
            pieces.append(
                Piece(side, at[side], whole[side][at[side] : at[side] + size], packet=place)
            )
            at[side] += len(pieces[-1].data)
        ways = [judged(pieces, size, is_start=is_start) for size in (12, 1, 2, 5)]
        assert all(way == ways[0] for way in ways), (ways, pieces)
        seen.add(str(ways[0]))
    assert len(seen) > 3


@pytest.mark.parametrize(
    "start", [b"\x16", b"\x16\x03", b"\x16\x03\x03\xff", RECORD[:37], b"\x16\x03\x01\x40\x00\x50"]
)
@pytest.mark.parametrize("secrets", [b"", Invented().lines])
def test_rows_are_the_same_in_batches_of_any_size(
    start: bytes, secrets: bytes, tmp_path: Path
) -> None:
    segments = builders.conversation(start + 6 * NOOP, 5 * NOOP, sizes=[len(start), 24, 24])
    other = [
        replace(one, client=("10.0.0.1", 50_001))
        for one in builders.conversation(6 * NOOP, 5 * NOOP, sizes=[24, 24])
    ]
    path = tmp_path / "x.pcap"
    path.write_bytes(
        builders.pcap(builders.recorded(chain.from_iterable(zip(segments, other, strict=False))))
    )

    def rows(size: int) -> list[tuple[object, ...]]:
        keys = KeyLog()
        keys.add(secrets)
        engine = Engine([str(path)], keys=keys)
        with open_capture(str(path), batch_bytes=size) as packets:
            found = [row for batch in packets for row in damage.rows_in(engine.feed(batch))]
        return found + damage.rows_in(engine.finish())

    assert len(rows(1 << 20)) > 4
    assert rows(1 << 20) == rows(100) == rows(300)


@pytest.mark.parametrize("secrets", [b"", Invented().lines])
def test_many_connections_in_doubt_take_little_and_pass_as_they_are(
    secrets: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each begins a record that never ends."""
    monkeypatch.setattr(stage, "MOST_IN_DOUBT", 20_000)
    keys = KeyLog()
    keys.add(secrets)
    tls, passed, most = stage.TlsStage(keys), 0, 0
    piece = Piece(0, 0, b"\x17\x03\x03\x40\x00" + bytes(1000), packet=1)
    for number in range(1, 101):
        given = [
            replace(one, connection=number) for one in chunks([piece], is_start=False, is_end=False)
        ]
        passed += sum(len(one.data) for one in tls.plain(given))
        most = max(most, 1005 * number - passed)
    passed += sum(len(one.data) for one in tls.plain([], is_last=True))
    assert passed == 100 * 1005
    assert most < 20_000
    assert not tls.connections


def test_of_bytes_that_begin_no_record_nothing_is_kept() -> None:
    doubt = Doubt(is_watched=True)
    for at in range(0, 20_000, 100):
        for chunk in chunks([Piece(0, at, b"x" * 100, packet=at)], is_start=False, is_end=False):
            doubt.add(chunk)
        assert doubt.judge() == [None, None]
    assert doubt.held < 100
