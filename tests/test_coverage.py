"""Every packet and every byte is counted once, whatever the capture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpinspect.coverage import Coverage, DirectionCoverage, Sizes
from dcpinspect.reading.reading import Reading
from dcpinspect.transport.headers import CLASS_NAMES
from dcpinspect.transport.tls.connection import (
    MISMATCHES,
    PLAIN_TO_TLS,
    TLS_TO_PLAIN,
    TlsConnection,
)
from tests import builders
from tests.builders import Conversation, Recorded

SAMPLES = sorted((Path(__file__).parents[1] / "sample_captures").glob("*.pcap*"))


def read(
    *paths: Path, extra_ports: Sequence[int] = (), find_ports: bool = False
) -> tuple[Coverage, int, int]:
    """Coverage, packets, and captured bytes in messages."""
    decoded = 0
    with Reading(
        [str(path) for path in paths], extra_ports=extra_ports, find_ports=find_ports
    ) as reading:
        for batch in reading:
            decoded += int(batch.length.sum()) - int(
                (batch.missing.end - batch.missing.start).sum()
            )
        return reading.coverage, reading.capture.packets, decoded


def holds(coverage: Coverage, packets: int, decoded: int) -> None:
    """The equations of coverage.py."""
    assert set(coverage.packets) == set(CLASS_NAMES)
    assert coverage.packets_read == packets
    for one in coverage.directions:
        assert one.captured == one.unique + one.duplicate + one.late
        assert (
            one.unique
            == one.decoded + sum(one.skipped.values()) + one.unfinished + one.not_decodable
        )
        assert 0 <= one.cut <= one.missing
        assert (one.first_hole is None) == (one.holes == 0)
        assert (one.first_skipped is None) <= (not one.skipped)
        assert (
            min(
                one.captured,
                one.duplicate,
                one.late,
                one.decoded,
                one.unfinished,
                one.not_decodable,
                one.packets,
            )
            >= 0
        )
    assert sum(one.decoded for one in coverage.directions) == decoded
    for some, sizes in coverage.sizes:
        for column, of_each in zip(sizes, Sizes.from_directions(list(some)), strict=True):
            assert column.tolist() == of_each.tolist()


def test_advice_on_tls_is_none_for_all_where_the_reasons_differ() -> None:
    kinds = {1: TLS_TO_PLAIN, 2: PLAIN_TO_TLS}
    tls = {number: TlsConnection(mismatch=mismatch) for number, mismatch in kinds.items()}
    advice = [Coverage({}, (), tls=tls).tls_advice(numbers) for numbers in ([1], [2], [1, 2])]
    assert advice == [
        MISMATCHES[TLS_TO_PLAIN],
        MISMATCHES[PLAIN_TO_TLS],
        "the reasons differ; the findings say what to do for each",
    ]


@pytest.mark.parametrize("find_ports", [False, True])
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_the_sums_hold_for_every_sample(path: Path, find_ports: bool) -> None:
    holds(*read(path, find_ports=find_ports))


@st.composite
def damaged_captures(draw: st.DrawFn) -> list[Recorded]:
    """One or two conversations, some of them of another protocol, with packets lost, swapped,
    doubled, cut, wrapped and broken.
    """
    packets: list[Recorded] = []
    for number in range(draw(st.integers(1, 2))):
        port = draw(st.sampled_from([11_210, 11_207, 9_999]))
        made = Conversation(
            client=(f"10.0.0.{number + 3}", 40_000),
            server=("10.0.0.2", port),
            mss=draw(st.sampled_from([60, 500, 1448])),
        )
        if draw(st.booleans()):
            made.handshake()
        server = b"".join(builders.mutations(draw(st.integers(0, 12))))
        noise = draw(
            st.sampled_from(
                [
                    b"",
                    b"\x17\x03\x03\x00\x40" + b"x" * 64,
                    b"get k\r\n" * 5,
                    b"\x80garbage" * 20,
                    bytes(300),
                ]
            )
        )
        made.stream(False, draw(st.permutations([server, noise]).map(b"".join)))
        made.stream(
            True,
            draw(st.sampled_from([b"", noise, builders.message(opcode=0x5D, extras=bytes(4))])),
        )
        if draw(st.booleans()):
            made.close()
        indices = st.sets(st.integers(0, max(0, len(made.segments) - 1)), max_size=3)
        segments = builders.damaged(
            made.segments, loss=draw(indices), duplicates=draw(indices), swaps=draw(indices)
        )
        packets += builders.recorded(
            segments, snaplen=draw(st.sampled_from([262_144, 262_144, 300, 90]))
        )
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(packets) - 1)) if packets else 0
        if packets:
            data = bytearray(packets[place].data)
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
            packets[place] = Recorded(bytes(data), packets[place].wire, packets[place].time_ns)
    return packets


@pytest.mark.slow
@given(damaged_captures(), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_sums_hold_for_damaged_captures(
    tmp_path: Path, packets: list[Recorded], find_ports: bool
) -> None:
    path = tmp_path / "damaged.pcap"
    path.write_bytes(builders.pcap(packets))
    holds(*read(path, find_ports=find_ports))


def only(coverage: Coverage, direction: int = 1) -> DirectionCoverage:
    (one,) = [one for one in coverage.directions if one.direction == direction]
    return one


def test_a_whole_capture_is_whole(tmp_path: Path) -> None:
    coverage, _, _ = read(
        builders.capture(tmp_path / "a.pcap", server=b"".join(builders.mutations(9)))
    )
    assert all(one.is_whole for one in coverage.directions)
    assert (only(coverage).protocol, only(coverage, 0).protocol) == ("dcp", "")
    assert (only(coverage).sender, only(coverage).receiver) == ("10.0.0.2:11210", "10.0.0.1:50000")


def test_what_is_lost_is_named_with_its_place(tmp_path: Path) -> None:
    data = b"".join(builders.mutations(60))
    coverage, _, _ = read(builders.capture(tmp_path / "a.pcap", server=data, loss={4}))
    one = only(coverage)
    assert (one.missing, one.holes, one.first_hole) == (1448, 1, 1448)
    assert not one.is_whole


@pytest.mark.parametrize(
    ("server", "protocol"),
    [
        (b"\x16\x03\x03\x00\x50\x02" + bytes(79), "tls"),
        (b"VALUE k 0 5\r\nhello\r\nEND\r\n", "memcached-text"),
    ],
)
def test_another_protocol_is_named_and_its_bytes_are_not_skipped(
    server: bytes, protocol: str, tmp_path: Path
) -> None:
    coverage, _, _ = read(builders.capture(tmp_path / "a.pcap", server=server))
    one = only(coverage)
    assert (one.protocol, one.not_decodable, one.skipped, one.decoded) == (
        protocol,
        len(server),
        {},
        0,
    )


def test_a_connection_that_does_not_prove_to_be_dcp_is_another_protocol(tmp_path: Path) -> None:
    made = Conversation(server=("10.0.0.2", 80))
    made.handshake()
    made.stream(True, b"GET / HTTP/1.1\r\n\r\n")
    made.stream(False, b"".join(builders.mutations(40)))  # a download of a stream is no stream
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap(builders.recorded(made.segments)))
    coverage, packets, decoded = read(path, find_ports=True)
    holds(coverage, packets, decoded)
    assert (decoded, only(coverage).protocol, only(coverage).not_decodable) == (
        0,
        "other",
        only(coverage).captured,
    )
