"""What a reading is said to contain, against what is known to be in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.output.overview import overview, overview_records
from dcpinspect.output.render.info_text import info_lines
from dcpinspect.output.render.message_lines import share_of
from dcpinspect.output.render.verdict import LookedAt
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.table_columns import INFO
from tests.peers.truth import SAMPLES
from tests.streams.told import capture, opened


def of(*samples: str) -> dict[str, object]:
    with Reading([str(SAMPLES / sample) for sample in samples], track=True) as reading:
        list(reading)
        return overview(reading)


def test_clients_are_told_apart_by_address_name_and_agent() -> None:
    clients = of("tour.pcapng")["clients"]
    assert isinstance(clients, list)
    assert {(one["address"], one["name"]) for one in clients} >= {
        ("10.11.0.1", "secidx:orders-1"),
        ("[fd11::1]", "eq_dcpq:backup-17"),
        ("10.11.0.1", "cbas:market"),
    }
    assert sorted(number for one in clients for number in one["connections"]) == list(range(1, 8))


def test_a_client_has_its_whole_name_if_its_connections_share_it(tmp_path: Path) -> None:
    names = [f"orders_cd613e30-d8f1-4adf-91b7-584a2265b1f{digit}" for digit in "01"]
    for last, expected in ((names[0], names[0]), (names[1], "orders")):
        path = tmp_path / "names.pcap"
        talks = [opened(name, port=50_001 + number) for number, name in enumerate((names[0], last))]
        path.write_bytes(capture(*talks))
        with Reading([str(path)], track=True) as reading:
            list(reading)
            (client,) = overview(reading)["clients"]
        assert client["name"] == expected


@pytest.mark.parametrize("sample", ["orphans.pcap", "tour.pcapng", "rollback.pcap"])
def test_a_redacted_client_has_the_replacement_of_the_name_that_it_has_else(sample: str) -> None:
    redactor = Redactor(b"salt")
    with Reading([str(SAMPLES / sample)]) as reading:
        reading.track(redactor)
        list(reading)
        redacted = [client["name"] for client in overview(reading)["clients"]]
    clients = of(sample)["clients"]
    assert isinstance(clients, list)
    assert redacted == [client["name"] and redactor.text(client["name"]) for client in clients]


def test_several_captures_are_one_overview() -> None:
    both, loop, orphans = of("loop.pcap", "orphans.pcap"), of("loop.pcap"), of("orphans.pcap")
    for name in (
        "packets",
        "messages",
        "connections",
        "streams",
        "captured_bytes",
        "decoded_bytes",
    ):
        assert both[name] == loop[name] + orphans[name]  # type: ignore[operator] # numbers


@pytest.mark.parametrize(
    "sample", ["rollback.pcap", "capture-loss.pcap", "midstream.pcap", "any.pcap"]
)
def test_every_captured_byte_is_decoded_skipped_or_of_another_protocol(sample: str) -> None:
    found = of(sample)
    assert (
        found["captured_bytes"]
        == found["decoded_bytes"]  # type: ignore[operator] # numbers
        + found["skipped_bytes"]
        + found["late_bytes"]
        + found["tls_bytes"]
    )


@pytest.mark.parametrize("sample", ["capture-loss.pcap", "midstream.pcap"])
def test_a_verdict_and_an_overview_have_one_share_of_decoded_bytes(sample: str) -> None:
    with Reading([str(SAMPLES / sample)], track=True) as reading:
        list(reading)
        looked, found = LookedAt.from_reading(reading), overview(reading)
    assert (looked.decoded, looked.captured) == (
        found["decoded_bytes"],
        found["captured_bytes"] - found["tls_overhead_bytes"],
    )
    share = f"{share_of(looked.decoded, looked.captured)} of "
    assert share in str(looked)
    assert share in " ".join(map(str.strip, info_lines(found)))


def test_the_record_has_the_columns_of_the_contract() -> None:
    (record,) = overview_records(of("rollback.pcap")).records()
    assert list(record) == ["schema", *(column.name for column in INFO.columns)]
