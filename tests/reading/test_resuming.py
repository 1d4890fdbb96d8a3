"""Readings that were put aside and gone on with tell what one that never stopped tells."""

from __future__ import annotations

import itertools
import pickle
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.open import CaptureFile, open_capture
from dcpinspect.findings.registry import RULES
from dcpinspect.reading.joining import packed, unpacked
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.resuming import NotResumableError, go_on, put_aside
from dcpinspect.transport import reassembly
from dcpinspect.transport.tls.connection import TlsConnection
from tests.builders import pcap
from tests.crowd import KINDS, crowd
from tests.damage import batches
from tests.model.dice import Dice
from tests.model.judge import conversation, damaged
from tests.model.play import play
from tests.parted import Given, Options, everything, gone_on, recut, whole
from tests.peers.truth import SAMPLES
from tests.streams.told import opened, packets
from tests.transport import test_scapy_dissection

pytestmark = pytest.mark.slow

OPTIONS = Options(list(RULES))


def check(
    given: list[PacketBatch],
    files: list[str],
    stops: int,
    rng: random.Random,
    options: Options = OPTIONS,
) -> None:
    """Holds a reading with so many stops against one without."""
    some = recut(given, rng)
    edges = [0, *sorted(rng.choices(range(len(some) + 1), k=stops)), len(some)]
    stretches = [some[start:end] for start, end in itertools.pairwise(edges)]
    found, one = (
        everything(gone_on(stretches, files, options)),
        everything(whole(given, files, options)),
    )
    for name, expected in one.items():
        assert found[name] == expected, name


def batches_of(path: Path) -> list[PacketBatch]:
    with open_capture(str(path), batch_bytes=1 << 16) as capture:
        return [replace(batch, data=batch.data.copy()) for batch in capture]


@pytest.mark.parametrize(
    "name", sorted(path.name for path in SAMPLES.glob("*.pcap*") if "large" not in path.name)
)
def test_a_sample(name: str) -> None:
    check(batches_of(SAMPLES / name), [name], 4, random.Random(name))


@pytest.mark.parametrize("damage", ["disordered", "cut", "begun", "lossy", "snaplen"])
@pytest.mark.parametrize("seed", range(2))
def test_a_conversation(damage: str, seed: int) -> None:
    dice, rng = Dice(seed), random.Random(seed)
    play(dice)
    left = damaged(conversation(damage, dice.choices), damage, rng)
    check(
        list(batches(left.packets, [rng.randrange(1, 400) for _ in range(3)])),
        ["model.pcap"],
        5,
        rng,
    )


def test_a_crowd_on_ports_that_have_to_prove_themselves(tmp_path: Path) -> None:
    (tmp_path / "crowd.pcap").write_bytes(
        b"".join(
            crowd(
                [kind for kind in KINDS if "tls" not in kind.__name__], 60, closed=False, port=9_999
            )
        )
    )
    check(
        batches_of(tmp_path / "crowd.pcap"),
        ["crowd.pcap"],
        4,
        random.Random(1),
        replace(OPTIONS, find_ports=True),
    )


def test_a_crowd_whose_flows_are_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassembly, "MANY_FLOWS", 0)
    (tmp_path / "crowd.pcap").write_bytes(b"".join(crowd(KINDS, 60, closed=True)))
    check(batches_of(tmp_path / "crowd.pcap"), ["crowd.pcap"], 4, random.Random(1))


def test_fragments_in_tunnels(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_bytes(pcap(test_scapy_dissection.wrapped("fragments in VXLAN")))
    check(batches_of(tmp_path / "x.pcap"), ["x.pcap"], 5, random.Random(2))


def test_what_is_replaced() -> None:
    check(batches_of(SAMPLES / "tour.pcapng"), ["x"], 3, random.Random(3), Options(salt=b"salt"))


def test_a_key_that_comes_twice_is_known_again_by_another_process() -> None:
    """Each reading hashes keys in a way of its own, as each process does."""
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 20, "memory")
    stream.mutation(1, "k")
    stream.mutation(2, "k")
    found = everything(gone_on([[one] for one in batches(packets(talk), [1] * 30)], ["x"], OPTIONS))
    assert "duplicate-key-in-snapshot" in [one["rule"] for one in found["findings"]]


def aside(reading: Reading) -> bytes:
    """What is put aside at the end of the packets."""
    found: list[bytes] = []
    reading.on_end = lambda: found.append(put_aside(reading))
    for _ in reading:
        pass
    return found[0]


def tour() -> Reading:
    return OPTIONS.reading(Given([CaptureFile("x")], batches_of(SAMPLES / "tour.pcapng")))


class _Touches:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_bytes_that_were_not_put_aside_bring_nothing_to_life(tmp_path: Path) -> None:
    state = aside(tour())
    pickles = [
        b"no pickle",
        *map(pickle.dumps, (_Touches(tmp_path / "touched"), {"format": "x"}, Options())),
    ]
    for data in (b"", state[:-9], *(packed([plain]) for plain in pickles)):
        with pytest.raises(NotResumableError):
            go_on(tour(), data)
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_rows_that_are_none_are_not_taken() -> None:
    reading = tour()
    for _ in reading:
        pass
    state = reading.tracker.state
    state.check()
    for wrong in (-2, len(state.snapshots)):
        state.streams.snapshot[0] = wrong
        with pytest.raises(ValueError, match=r"State\.streams: snapshot is no row of snapshots"):
            state.check()


def test_tables_that_are_too_short_are_not_taken() -> None:
    plain, *tables = unpacked(aside(tour()))
    sizes = [len(table) for table in tables]
    tables[int(np.argmax(sizes))] = memoryview(bytearray(8))
    with pytest.raises(NotResumableError):
        go_on(tour(), packed([plain, *tables]))


def test_keys_of_tls_are_not_put_aside() -> None:
    reading = tour()
    reading.engine.tls.connections[1] = TlsConnection(is_open=True)
    with pytest.raises(NotResumableError, match="keys of TLS are not kept"):
        put_aside(reading)
    with pytest.raises(NotResumableError, match="do not check"):
        put_aside(Reading(Given([CaptureFile("x")], []), is_part=True))


@pytest.mark.parametrize("name", ["loop.pcap", "lossy.pcap", "tour.pcapng"])
def test_no_memory_that_was_not_cleared_is_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    empty, old = np.empty, b"\xa7" * 16

    def uncleared(*arguments: Any, **options: Any) -> Any:
        array = empty(*arguments, **options)
        array.reshape(-1).view(np.uint8)[:] = old[0]
        return array

    monkeypatch.setattr(np, "empty", uncleared)
    reading = OPTIONS.reading(Given([CaptureFile("x")], batches_of(SAMPLES / name)))
    assert not any(old in bytes(table) for table in unpacked(aside(reading)))
