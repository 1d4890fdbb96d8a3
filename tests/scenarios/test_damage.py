"""Damaged captures: what no hole touches is read, byte for byte; nothing is invented; every byte
and every hole is accounted for.

What may stay unread, and nothing else (``exempt``):

- The message that the capture ends in, if nothing shows where it ends.
- After sync was lost: messages up to the first of a stream that the connection has already shown
  (on its own side, or by a request of the client). Nothing tells those from the contents of a
  value.

What may be invented: messages in a value that is itself a recording of four or more, where nothing
that the connection showed speaks against them: at a mid-stream start, or after a hole where the
client's side is not there or lacks 72 bytes in a row.
"""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from dcpinspect.protocol.resync import OF_STREAMS
from dcpinspect.transport import reassembly
from tests import damage
from tests.builders import ACK, Recorded, pcap
from tests.damage import Comparison, Flow, Packet, Reading, Tape

SAMPLES = ("tour", "rollback", "snapshots", "lossy", "upr")
Damage = Callable[[Sequence[Packet], int], list[Packet]]


def stream_of(data: bytes) -> bytes | None:
    """(vbucket, opaque) of a message that names a stream."""
    return data[6:8] + data[12:16] if data[0] in (0x80, 0x08) and OF_STREAMS[data[1]] else None


def asked(tape: Tape, packets: Sequence[Packet], client: Flow) -> set[bytes]:
    """The streams in those of the client's messages that the capture has."""
    base, ranges = damage.held(packets).get(client, (0, []))
    starts = accumulate((len(data) for data in tape.messages[client]), initial=0)
    there = [
        data
        for start, data in zip(starts, tape.messages[client], strict=False)
        if start >= base and not damage.missing_of(start, start + 24, ranges)
    ]
    return {key for data in there if (key := stream_of(data))}


def exempt(tape: Tape, packets: Sequence[Packet], flow: Flow) -> set[int]:
    """Numbers of the messages of ``flow`` that may stay unread; see the top of the file."""
    base, ranges = damage.held(packets)[flow]
    known = asked(tape, packets, (flow[0], flow[1], 0)) if flow[2] else set()
    found: set[int] = set()
    in_sync = base == 0
    at = 0
    for number, data in enumerate(tape.messages[flow]):
        start, at = at, at + len(data)
        missing = damage.missing_of(start, at, ranges)
        if not ranges or at > ranges[-1][1]:
            found.add(number)
        if start < base or (missing and missing[0][0] < 12):
            in_sync = False
        elif not in_sync:
            in_sync = stream_of(data) in known
            if not in_sync:
                found.add(number)
        if in_sync and not (missing and missing[0][0] < 24):
            known.add(stream_of(data) or b"")
    return found


def assert_read(
    tape: Tape, packets: Sequence[Packet], *, strict: bool = False, lies: bool = False
) -> tuple[Comparison, Reading]:
    """``strict``: nothing is exempt. ``lies``: messages may be invented."""
    reading = damage.read(damage.batches(packets))
    result = damage.compare(tape, packets, reading)
    unread = result.unread
    if not strict:
        allowed = {flow: exempt(tape, packets, flow) for flow in {flow for flow, _, _ in unread}}
        unread = [one for one in unread if one[1] not in allowed[one[0]]]
    assert unread == []
    assert lies or result.invented == []
    return result, reading


LOSSES: dict[str, Damage] = {
    "0.1 %": lambda packets, seed: damage.lost(packets, 0.001, seed),
    "1 %": lambda packets, seed: damage.lost(packets, 0.01, seed),
    "bursts": lambda packets, seed: damage.bursts(packets, 8, 30, seed),
}
REORDERINGS: dict[str, Damage] = {
    "0.1 % swapped": lambda packets, seed: damage.swapped(packets, 0.001, seed),
    "5 % up to 30 places later": lambda packets, seed: damage.swapped(packets, 0.05, seed, by=30),
    "every packet twice": lambda packets, _: damage.doubled(packets),
    "every packet again 30 packets later": lambda packets, seed: damage.doubled(
        packets, 30 + seed % 2
    ),
}
CUT_BEFORE: dict[str, Damage] = {
    "every packet cut, and whole behind it": lambda packets, seed: damage.doubled(
        packets, snaplen=68 + 32 * seed
    ),
    "every packet cut, and whole 100 packets later": lambda packets, seed: damage.doubled(
        packets, 100 + seed % 2, snaplen=68 + 32 * seed
    ),
}
COPIES = REORDERINGS | CUT_BEFORE
VALUES = {"plain": damage.plain, "recordings": damage.nested}
DEEP_SEEDS = [pytest.param(seed, marks=pytest.mark.deep) for seed in range(2, 60)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, *DEEP_SEEDS])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_message_that_no_loss_touches_is_read(loss: str, values: str, seed: int) -> None:
    tape = damage.generated(values=VALUES[values])
    result, reading = assert_read(
        tape, LOSSES[loss](tape.packets, seed), lies=values == "recordings" and loss == "bursts"
    )
    assert result.whole > 2500
    assert reading.late == reading.duplicate == 0


@pytest.mark.parametrize("seed", [0, 1, *DEEP_SEEDS])
@pytest.mark.parametrize("values", VALUES)
def test_of_a_server_that_loses_a_packet_in_ten_everything_is_read_and_no_value_believed(
    values: str, seed: int
) -> None:
    tape = damage.generated(values=VALUES[values])
    kept = set(map(id, damage.lost(tape.packets, 0.1, seed)))
    assert_read(
        tape,
        [
            packet
            for packet in tape.packets
            if packet.flow[2] == 0 or packet.begins or id(packet) in kept
        ],
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *DEEP_SEEDS])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("reordering", COPIES)
def test_reordering_and_duplicates_lose_nothing(reordering: str, values: str, seed: int) -> None:
    tape = damage.generated(values=VALUES[values])
    packets = COPIES[reordering](tape.packets, seed)
    result, reading = assert_read(tape, packets, strict=True)
    assert result.whole == sum(map(len, tape.messages.values()))
    assert not any(reading.skipped.values())


def test_bytes_that_come_after_their_hole_was_decided_are_late_and_cost_no_other_message() -> None:
    tape = damage.generated()
    rng = random.Random(4)
    chosen = set(
        rng.sample(
            [
                place
                for place, packet in enumerate(tape.packets)
                if packet.flow[2] and packet.size and 100 < place < 1700
            ],
            12,
        )
    )
    early = [packet for place, packet in enumerate(tape.packets) if place not in chosen]
    reading = damage.read(
        damage.batches(damage.retimed([*early, *(tape.packets[place] for place in sorted(chosen))]))
    )
    result = damage.compare(tape, early, reading)
    assert (result.unread, result.invented) == ([], [])
    assert reading.late == sum(tape.packets[place].size for place in chosen)


def test_a_retransmission_with_other_bytes_changes_nothing() -> None:
    tape = damage.generated(600)
    packets: list[Packet] = []
    for place, packet in enumerate(tape.packets):
        packets.append(packet)
        if packet.size and place % 3 == 0:
            packets.append(
                replace(
                    packet,
                    data=packet.data[: packet.payload] + bytes(len(packet.data) - packet.payload),
                )
            )
    result, reading = assert_read(tape, damage.retimed(packets), strict=True)
    assert result.whole == sum(map(len, tape.messages.values()))
    assert reading.duplicate == sum(
        packet.size for place, packet in enumerate(tape.packets) if place % 3 == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("step", [37, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("values", VALUES)
def test_a_capture_that_begins_anywhere_is_read_from_its_first_whole_message_on(
    values: str, step: int
) -> None:
    tape = damage.generated(values=VALUES[values])
    for start in range(0, len(tape.packets), step):
        assert_read(tape, tape.packets[start:], lies=values == "recordings")


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.deep)])
def test_a_sample_that_begins_anywhere_is_read_from_its_first_whole_message_on(
    name: str, step: int
) -> None:
    tape = damage.sample(name)
    for start in range(0, len(tape.packets), step):
        assert_read(tape, tape.packets[start:])


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.deep)])
def test_a_sample_that_lacks_any_one_packet_lacks_only_what_it_carried(
    name: str, step: int
) -> None:
    tape = damage.sample(name)
    for place in range(0, len(tape.packets), step):
        assert_read(tape, tape.packets[:place] + tape.packets[place + 1 :])


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.deep)])
def test_a_sample_cut_at_any_snaplen_is_read_as_far_as_it_is_there(name: str, step: int) -> None:
    tape = damage.sample(name)
    for snaplen in range(60, 301, step):
        assert_read(tape, [packet.cut(snaplen) for packet in tape.packets])


@pytest.mark.parametrize("direction", [0, 1])
def test_one_direction_alone_is_read(direction: int) -> None:
    tape = damage.generated()
    packets = [packet for packet in tape.packets if packet.flow[2] == direction]
    assert_read(tape, packets, strict=True)
    assert_read(tape, damage.lost(packets, 0.01, 1))


def test_a_capture_that_begins_inside_a_huge_value_reads_what_follows_it() -> None:
    tape = damage.generated(
        40, values=lambda rng, seqno: rng.randbytes(20 << 20 if seqno == 20 else 100), mss=60_000
    )
    places = [
        place
        for place, packet in enumerate(tape.packets)
        if packet.flow[2] and packet.size == 60_000
    ]
    for start in (places[1], places[100], places[-2]):
        result, _ = assert_read(tape, tape.packets[start:])
        assert result.read >= 20


@pytest.mark.slow
def test_long_holes_cost_the_same_whether_they_are_filled_or_stepped_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tape = damage.generated(values=damage.nested)
    readings = []
    for longest in (0, 100, 8 << 10, 32 << 20):
        monkeypatch.setattr(reassembly, "MAX_FILLED_HOLE", longest)
        readings.append(
            [
                damage.engine_rows(damage.batches(damage.bursts(tape.packets, 12, 40, seed)))
                for seed in range(4)
            ]
        )
    assert all(reading == readings[0] for reading in readings)


def test_address_pairs_used_again_are_connections_of_their_own() -> None:
    first = damage.generated(300, seed=5)
    talk = damage.Talk(isn=(77_000, 5))
    talk.handshake()
    asked, granted = damage.opening()
    talk.stream(0, b"".join(asked))
    talk.stream(1, b"".join(granted))
    again = [replace(packet, time_ns=packet.time_ns + 10**10) for packet in talk.packets]
    reading = damage.read(damage.batches([*first.packets, *again]))
    assert reading.connections == 2
    for flow, messages in first.messages.items():
        assert [row.data for row in reading.rows[flow]] == messages + (asked, granted)[flow[2]]


def test_keep_alives_are_duplicates() -> None:
    talk = damage.Talk()
    talk.handshake()
    asked, granted = damage.opening()
    talk.stream(0, b"".join(asked))
    talk.stream(1, b"".join(granted))
    at = talk._at[1]
    for _ in range(20):
        talk._at[1] = at - 1
        talk.send(1, b"\0")
        talk.send(0)
    talk.stream(1, damage.event(1, 3, b"after"))
    reading = damage.read(damage.batches(talk.packets))
    assert [row.data for row in reading.rows[talk._flows[1]]] == [
        *granted,
        damage.event(1, 3, b"after"),
    ]
    assert reading.duplicate == 20


def test_stream_offsets_go_on_where_sequence_numbers_wrap_again_and_again() -> None:
    talk = damage.Talk(isn=(9, 100))
    talk.handshake()
    asked, granted = damage.opening()
    talk.stream(0, b"".join(asked))
    talk.stream(1, b"".join(granted))
    step = 1 << 29  # a hole of half a gigabyte, acknowledged
    for number in range(20):
        talk._at[1] += step
        talk.stream(1, b"".join(damage.event(5 * number + i, 3, b"far") for i in range(5)))
        for _ in range(70):
            talk.send(0, flags=ACK)
    rows = damage.read(damage.batches(talk.packets)).rows[talk._flows[1]]
    assert [row.data for row in rows[len(granted) :]] == [
        damage.event(number, 3, b"far") for number in range(100)
    ]
    assert rows[-1].stream_offset > 20 * step > 2 * damage.MODULUS


SHAPES: dict[str, Damage] = {
    **LOSSES,
    **REORDERINGS,
    "snaplen": lambda packets, seed: [packet.cut(90 + seed) for packet in packets],
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *DEEP_SEEDS[:10]])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["generated", pytest.param("replication", marks=pytest.mark.deep)])
def test_batches_files_and_kernels_change_no_column_of_any_row(
    name: str, shape: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = (
        damage.generated(300, values=damage.nested)
        if name == "generated"
        else damage.sample("tour")
    )
    packets = SHAPES[shape](tape.packets, seed)
    monkeypatch.setattr("dcpinspect.kernels.kernel.IS_INTERPRETED", False)
    whole = damage.engine_rows(damage.batches(packets))
    rng = random.Random(seed)
    assert damage.engine_rows(damage.batches(packets, [1] * len(packets))) == whole
    assert (
        damage.engine_rows(damage.batches(packets, [rng.randrange(1, 90) for _ in packets]))
        == whole
    )
    in_files = damage.engine_rows(damage.batches(packets, files=3), files=3)
    assert [row[5:] for row in in_files] == [
        row[5:] for row in whole
    ]  # but for file and frame numbers
    monkeypatch.setattr("dcpinspect.kernels.kernel.IS_INTERPRETED", True)
    assert damage.engine_rows(damage.batches(packets, [50] * len(packets))) == whole


def tshark_count(
    packets: Sequence[Packet], folder: Path, *options: str
) -> Counter[tuple[str, str]]:
    """(opcode, opaque) of every message that tshark finds; it shows opaques with their bytes in
    reverse.
    """
    path = folder / "x.pcap"
    path.write_bytes(
        pcap(
            [
                Recorded(packet.data, packet.wire, packet.time_ns, packet.link_type)
                for packet in packets
            ]
        )
    )
    command = [
        "tshark",
        "-r",
        str(path),
        *options,
        "-Y",
        "couchbase",
        "-T",
        "fields",
        "-e",
        "couchbase.opcode",
        "-e",
        "couchbase.opaque",
    ]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found: Counter[tuple[str, str]] = Counter()
    for line in lines:
        opcodes, opaques = (column.split(",") for column in line.split("\t"))
        found.update(zip(opcodes, opaques, strict=False))
    return found


@pytest.mark.slow
@pytest.mark.requires("tshark")
@pytest.mark.parametrize("shape", ["undamaged", "0.1 % swapped", "0.1 %", "1 %"])
def test_tshark_reads_no_message_that_we_do_not(shape: str, tmp_path: Path) -> None:
    tape = damage.generated(8_000)
    packets = SHAPES[shape](tape.packets, 1) if shape in SHAPES else tape.packets
    result, reading = assert_read(tape, packets)
    ours = Counter(
        (f"0x{row.data[1]:02x}", f"0x{row.data[15:11:-1].hex()}")
        for rows in reading.rows.values()
        for row in rows
    )
    said = Counter(
        (f"0x{data[1]:02x}", f"0x{data[15:11:-1].hex()}")
        for messages in tape.messages.values()
        for data in messages
    )
    total = said.total()
    for options in ((), ("-o", "tcp.reassemble_out_of_order:TRUE")):
        theirs = tshark_count(packets, tmp_path, *options) & said  # what it reads rightly
        print(  # noqa: T201 - shown by pytest -s
            f"{shape}, tshark {options}: {theirs.total() / total:.1%}, here "
            f"{ours.total() / total:.1%} of {total}"
        )
        assert not theirs - ours
    assert ours.total() >= result.whole


def test_a_message_whose_values_are_messages_is_one_message() -> None:
    tape = damage.generated(200, values=lambda rng, _: damage.stranger(rng.randrange(1, 60)))
    result, _ = assert_read(tape, tape.packets, strict=True)
    assert result.read == sum(map(len, tape.messages.values()))
