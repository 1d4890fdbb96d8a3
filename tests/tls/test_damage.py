"""The damage to TLS captures is what it says, counted byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from tests import damage as packets
from tests.damage import Packet
from tests.peers.network import NEEDS_ROOT
from tests.peers.stories.busy import busy
from tests.tls import damage
from tests.tls.damage import Tape, untouched
from tests.tls.endpoint import Habits
from tests.tls.peers import Tls, record

pytestmark = [pytest.mark.requires("tcpdump"), NEEDS_ROOT]

Damage = Callable[[list[Packet]], list[Packet]]

DAMAGES: dict[str, Damage] = {
    "none": list,
    **{
        f"0.1 % lost, seed {seed}": partial(packets.lost, share=0.001, seed=seed)
        for seed in range(2)
    },
    **{f"1 % lost, seed {seed}": partial(packets.lost, share=0.01, seed=seed) for seed in range(3)},
    "10 % lost": partial(packets.lost, share=0.1, seed=1),
    "bursts": partial(packets.bursts, count=5, longest=9, seed=2),
    "swapped": partial(packets.swapped, share=0.05, seed=3, by=3),
    "doubled": packets.doubled,
    "snaplen": partial(damage.cut, snaplen=600),
    "client alone": partial(damage.one_way, direction=0),
    "server alone": partial(damage.one_way, direction=1),
    "midstream": partial(damage.midstream, share=0.4),
}


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Tape:
    tls = Tls(server=Habits((1400, 90, 1, 16_384)))
    return damage.taped(record(tmp_path_factory.mktemp("tls"), busy(60, mtu=1500), tls))


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_untouched_is_counted_byte_by_byte(name: str, tape: Tape) -> None:
    left = DAMAGES[name](tape.packets)
    result = untouched(tape, left)
    assert result.keys() == tape.records.keys()
    for flow, records in tape.records.items():
        cipher = bytearray(records[-1].end)
        for packet in left:
            if packet.flow == flow:
                start, end = packet.held
                cipher[start:end] = b"\1" * (end - start)
        whole = [
            number
            for number, record in enumerate(records)
            if all(cipher[record.start : record.end])
        ]
        plain = bytearray(records[-1].plain_end)
        for number in whole:
            start, end = records[number].plain_start, records[number].plain_end
            plain[start:end] = b"\1" * (end - start)
        at, messages = 0, []
        for number, data in enumerate(tape.messages[flow]):
            if all(plain[at : at + len(data)]):
                messages.append(number)
            at += len(data)
        assert (result[flow].records, result[flow].messages) == (whole, messages)
        assert sum(end - start for start, end in result[flow].plain) == sum(plain)
        assert sum(end - start for start, end in result[flow].cipher) == sum(cipher)


@pytest.mark.parametrize("name", ["none", "swapped", "doubled"])
def test_what_loses_no_byte_leaves_every_message(name: str, tape: Tape) -> None:
    for flow, left in untouched(tape, DAMAGES[name](tape.packets)).items():
        assert len(left.records) == len(tape.records[flow])
        assert len(left.messages) == len(tape.messages[flow])


@pytest.mark.parametrize("name", ["10 % lost", "bursts", "snaplen", "midstream"])
def test_what_loses_bytes_leaves_some_messages_and_not_others(name: str, tape: Tape) -> None:
    for flow, left in untouched(tape, DAMAGES[name](tape.packets)).items():
        if flow[2]:
            assert 0 < len(left.messages) < len(tape.messages[flow])


def _saved(path: Path) -> list[bytes]:
    with open_capture(path) as opened:
        return [
            batch.data[at : at + size].tobytes()
            for batch in opened
            for at, size in zip(batch.offset.tolist(), batch.captured.tolist(), strict=True)
        ]


@pytest.mark.parametrize("name", DAMAGES)
def test_a_saved_capture_holds_these_packets(name: str, tape: Tape, tmp_path: Path) -> None:
    left = DAMAGES[name](tape.packets)
    assert _saved(damage.save(tmp_path / "damaged.pcap", left)) == [packet.data for packet in left]


@pytest.mark.parametrize("share", [0, 0.3, 0.7, 0.99])
def test_a_cut_file_holds_the_packets_before_the_cut(
    share: float, tape: Tape, tmp_path: Path
) -> None:
    path = tmp_path / "cut.pcap"
    left = damage.save_cut(path, tape.packets, share)
    assert left == tape.packets[: len(left)]
    assert path.stat().st_size > 24 + sum(16 + len(packet.data) for packet in left)
