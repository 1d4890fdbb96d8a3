"""``dcpinspect info``: ten lines that say what is in a capture, and the same as a record."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

import dcpinspect
from dcpinspect.cli.main import main
from dcpinspect.output.export.table_schema import table_schema
from dcpinspect.streams.table_columns import INFO
from tests import builders
from tests.captures import field
from tests.encode import encode
from tests.peers.truth import SAMPLES
from tests.schemas import validate
from tests.streams.told import opened, packets

ALL_SAMPLES = sorted(path.name for path in SAMPLES.glob("*.pcap*"))


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, str]:
    assert main(["info", *arguments]) == 0
    found: dict[str, str] = {}
    label = ""
    for line in capsys.readouterr().out.splitlines():
        label = line[:10].strip() or label
        found[label] = f"{found[label]} {line[10:]}" if label in found else line[10:]
    return found


@pytest.mark.parametrize("sample", ALL_SAMPLES)
def test_a_sample_is_told_in_about_ten_lines_of_80_columns_and_fits_the_schema(
    sample: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(SAMPLES / sample)
    assert main(["info", path]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 16
    monkeypatch.chdir(SAMPLES)
    with dcpinspect.open(sample) as recording:
        told = str(recording.info()).splitlines()
    assert len(told) <= 16
    assert max(map(len, told)) <= 80
    assert main(["info", path, "--format", "ndjson"]) == 0
    record = json.loads(capsys.readouterr().out)
    validate(record, table_schema(INFO))
    assert record["next"] == f"dcpinspect check {path}"


def test_streams_of_which_no_answer_is_known_are_said_to_be_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    traffic = lines(capsys, str(SAMPLES / "midstream.pcap"))["traffic"]
    assert traffic.endswith("4 streams (4 of unknown answer)")


def test_who_when_what_and_the_next_command_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(SAMPLES / "rollback.pcap")
    assert lines(capsys, path) == {
        "files": f"{path} (pcap, 147 packets)",
        "time": "2024-04-06 12:01:00 UTC, 15 ms long",
        "traffic": "147 packets, 2 connections, 161 messages, 11 streams (8 accepted, 3 rollback)",
        "clients": "10.11.0.1 mirror:1, agent mirror/7.6: connections 1–2; 4 vbuckets",
        "servers": (
            "10.11.0.2:11210  version not in the capture: connection 1 10.11.0.3:11210  "
            "version not in the capture: connection 2"
        ),
        "buckets": "travel",
        "vbuckets": "4: 7–10",
        "complete": "yes, all bytes come after a handshake; 100 % of 24,384 bytes decoded",
        "TLS": "none seen",
        "next": f"dcpinspect check {path}",
    }


def test_the_version_that_a_server_told_is_beside_its_address(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        "10.11.0.2:11210  version 8.0.0-3777-enterprise: 6 connections"
        in lines(capsys, str(SAMPLES / "tour.pcapng"))["servers"]
    )


@pytest.mark.parametrize(
    ("sample", "complete"),
    [
        (
            "capture-loss.pcap",
            (
                "no: 3,067 bytes lost (5 holes); of what is there, 99.7 % of 46,457 bytes decoded "
                "(117 bytes in no whole message)"
            ),
        ),
        (
            "midstream.pcap",
            (
                "no: no handshake of connection 1; of what is there, 96.2 % of 21,346 bytes "
                "decoded (794 bytes in no whole message)"
            ),
        ),
    ],
)
def test_what_a_capture_lacks_is_told(
    sample: str, complete: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(capsys, str(SAMPLES / sample))["complete"] == complete


def test_in_a_pipe_no_line_is_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(field("p06-zero-window"))]) == 0
    lines_ = capsys.readouterr().out.splitlines()
    assert all(line[:10].strip() for line in lines_)
    assert max(map(len, lines_)) > 80


@pytest.mark.parametrize(
    ("name", "complete", "below"),
    [
        (
            "q01-syn-unanswered",
            "yes, all bytes come after a handshake; 100 % of 42,773 bytes decoded",
            "6 connections to 10.20.0.8:11210 could not be opened (unanswered)",
        ),
        (
            "q02-syn-refused",
            "yes, all bytes come after a handshake; 100 % of 49,151 bytes decoded",
            "6 connections to 10.20.0.8:11210 could not be opened (refused)",
        ),
        (
            "p06-zero-window",
            (
                "yes, all bytes come after a handshake; 99.8 % of 56,832 bytes decoded (100 bytes in no whole "
                "message)"
            ),
            "the client of connection 1 takes no bytes for 65.4 s: its TCP window is 0",
        ),
        (
            "q06b-http-probe",
            "nothing to decode (385 bytes of another protocol)",
            "HTTP on 5 connections, as health probes send it",
        ),
    ],
)
def test_what_the_network_does_is_not_said_to_be_missing_from_the_capture(
    name: str, complete: str, below: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = lines(capsys, str(field(name)))
    assert (told["complete"], told["below DCP"]) == (complete, below)


def test_packets_cut_by_the_snapshot_length_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = builders.capture(
        tmp_path / "x.pcap",
        server=builders.mutation(value=b"x" * 500) * 3,
        sizes=(560, 560, 560),
        snaplen=200,
    )
    assert "3 packets cut by the snapshot length" in lines(capsys, str(path))["complete"]


def test_a_name_that_was_cut_off_is_not_taken_for_a_missing_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = opened("connector:1")
    talk.stream(7)
    path = tmp_path / "cut.pcap"
    path.write_bytes(
        builders.pcap(
            builders.Recorded(packet.data[:96], packet.wire, packet.time_ns)
            for packet in packets(talk)
        )
    )
    assert "name of the DCP open not captured" in lines(capsys, str(path))["clients"]


def test_tls_is_named_with_what_to_record_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hello = bytes.fromhex("160301002f0100002b0303") + bytes(41)
    path = builders.capture(
        tmp_path / "tls.pcap",
        client=hello,
        server=bytes.fromhex("16030300310200002d0303") + bytes(43),
    )
    told = lines(capsys, str(path))
    assert told["TLS"].endswith(
        "on connection 1, not decrypted: give the client's key log with --keylog, "
        "or capture between the server and what ends TLS, where it is plain"
    )
    assert "next" not in told, "no command of ours finds more in it"


def test_traffic_of_other_ports_alone_asks_to_look_at_all_ports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = builders.Conversation(server=("10.0.0.2", 12_000))
    segments.handshake()
    segments.stream(
        True,
        encode("dcp_open", key=b"x", flags=["producer"], opaque=1)
        + encode("dcp_noop", side="response", opaque=2),
    )
    segments.stream(
        False,
        encode("dcp_open", side="response", opaque=1)
        + encode("dcp_noop", opaque=2)
        + builders.mutation() * 9,
    )
    path = tmp_path / "a b.pcap"
    path.write_bytes(builders.pcap(builders.recorded(segments.segments)))
    assert lines(capsys, str(path))["next"] == f"dcpinspect info '{path}' --port auto"
    assert (
        lines(capsys, str(path), "--port", "auto")["next"]
        == f"dcpinspect check '{path}' --port auto"
    )


def test_the_local_time_stands_below_utc_where_the_two_differ(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        told = lines(capsys, str(SAMPLES / "rollback.pcap"))["time"]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert told == (
        "2024-04-06 12:01:00 UTC, 15 ms long 2024-04-06 17:31:00 IST where this runs (UTC+0530)"
    )


def test_names_from_the_wire_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client = encode("hello", key=b'{"a":"\\u001b[31mred"}') + encode(
        "dcp_open", key=b"x\x1b[2J", flags=["producer"]
    )
    path = str(
        builders.capture(
            tmp_path / "x.pcap", client=client, server=encode("dcp_open", side="response")
        )
    )
    assert main(["info", path]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_a_directory_is_read_without_its_empty_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r_1.pcap").write_bytes((SAMPLES / "rollback.pcap").read_bytes())
    empty = tmp_path / "r_2.pcap"
    empty.write_bytes(b"")
    assert main(["info", str(tmp_path)]) == 3
    said = capsys.readouterr()
    assert said.out.splitlines()[0].startswith(f"files     {tmp_path / 'r_1.pcap'}")
    assert "complete  no: 1 file left out; of what is there" in said.out
    assert (
        said.err
        == f"dcpinspect: {empty}: left out, for it is empty; record again, or name another file\n"
    )
    assert main(["info", str(tmp_path / "r_1.pcap"), str(empty)]) == 2


def test_what_to_run_next_has_the_names_that_were_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / f"{number}.pcap" for number in range(5)]
    for path in paths:
        path.write_bytes((SAMPLES / "rollback.pcap").read_bytes())
    for names, named in (
        ([tmp_path], str(tmp_path)),
        (paths[:2], f"{paths[0]} {paths[1]}"),
        (paths, "FILE…"),
    ):
        assert main(["info", *map(str, names)]) == 0
        assert f"next      dcpinspect check {named}" in capsys.readouterr().out.splitlines()


def test_a_conversation_that_is_played_again_counts_once_and_a_keepalive_before_it_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = builders.Conversation()
    made.handshake()
    made.segments.append(replace(made.segments[-1], seq=1000, payload=b"\0"))
    made.stream(True, builders.message(opcode=0x0A))
    made.stream(False, builders.message(magic=0x81, opcode=0x0A))
    made.close()
    path = str(tmp_path / "a.pcap")
    again = [
        replace(segment, time_ns=segment.time_ns + 3_600_000_000_000) for segment in made.segments
    ]
    Path(path).write_bytes(builders.pcap(builders.recorded([*made.segments, *again])))
    for paths, packets_read in (([path], 22), ([path, path], 44)):
        found = lines(capsys, *paths)
        assert found["traffic"] == (
            f"{packets_read} packets, 1 connection, 2 messages, 0 streams; 1 connection seen twice, "
            "4 rows with copies"
        )
        assert (
            found["complete"] == "yes, all bytes come after a handshake; 100 % of 48 bytes decoded"
        )


def test_what_has_no_whole_message_is_not_called_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = builders.Conversation()
    made.handshake()
    made.stream(True, encode("dcp_stream_req")[:-1])
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap(builders.recorded(made.segments)))
    assert lines(capsys, str(path))["complete"].startswith(
        "not known, because nothing can be read: 0 % of 71 bytes decoded"
    )
