"""The lines of an overview, from records made to order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dcpinspect.output.overview import overview
from dcpinspect.output.render.info_text import MOST, info_facts, info_lines
from dcpinspect.reading.reading import Reading
from tests import builders
from tests.peers.truth import SAMPLES


@pytest.fixture
def found() -> dict[str, Any]:
    with Reading([str(SAMPLES / "rollback.pcap")], track=True) as reading:
        list(reading)
        return overview(reading)


def test_many_clients_are_a_few_lines_and_a_number(found: dict[str, Any]) -> None:
    client = found["clients"][0]
    found["clients"] = [{**client, "address": f"10.0.0.{number}"} for number in range(64)]
    lines = list(info_lines(found))
    assert len([line for line in lines if "mirror" in line]) == MOST
    assert any(
        line.strip() == f"and {64 - MOST} more clients; 'dcpinspect info --format json' has all"
        for line in lines
    )


def test_a_file_to_hand_over_has_every_client(found: dict[str, Any]) -> None:
    client = found["clients"][0]
    found["clients"] = [{**client, "address": f"10.0.0.{number}"} for number in range(64)]
    assert len([*dict(info_facts(found))["clients"]]) == 64


def test_a_connection_without_bytes_has_no_say_in_what_is_complete(tmp_path: Path) -> None:
    """Of its TCP connection only the end was captured."""
    talk = builders.Conversation()
    talk.close()
    other = builders.Conversation(client=("10.0.0.1", 50_001))
    other.handshake()
    other.stream(True, builders.message(opcode=0x0A))
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap(builders.recorded([*talk.segments, *other.segments])))
    with Reading([str(path)], track=True) as reading:
        list(reading)
        told = " ".join(map(str.strip, info_lines(overview(reading))))
    assert "yes, all bytes come after a handshake; 100 % of 24 bytes decoded" in told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(59.9, "59.9 s long"), (150, "2 min long"), (965 * 86_400, "965 days long")],
)
def test_lengths_of_time_are_told_in_the_units_of_a_clock(
    seconds: float, told: str, found: dict[str, Any]
) -> None:
    found["last_time"] = found["first_time"] + int(seconds * 1e9)
    assert next(line for line in info_lines(found) if line.startswith("time")).endswith(told)


def test_bytes_that_came_late_are_not_called_lost(tmp_path: Path) -> None:
    path = builders.capture(
        tmp_path / "a.pcap", server=b"".join(builders.mutations(400)), delay={4: 90}
    )
    with Reading([str(path)], track=True) as reading:
        list(reading)
        found = overview(reading)
    told = " ".join(map(str.strip, info_lines(found)))
    assert (
        "no: 1,448 bytes not there when needed (1 hole), 1,448 bytes came too late to be read; of"
    ) in told


def test_a_share_is_100_percent_only_where_nothing_is_left_out(found: dict[str, Any]) -> None:
    found["captured_bytes"], found["decoded_bytes"], found["skipped_bytes"] = 10**9, 10**9 - 1, 1
    assert any(
        "99.9 % of 1,000,000,000 bytes decoded (1 byte in no whole message)" in line
        for line in info_lines(found, None)
    )
