"""``dcpinspect follow``: one connection's conversation, and why there may be none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dcpinspect.cli.main import main
from tests import builders
from tests.captures import field, real_server
from tests.peers.truth import SAMPLES

ROLLBACK = str(SAMPLES / "rollback.pcap")


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["follow", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_both_sides_speak_in_turn_under_who_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    heading, first, second, *_ = lines(capsys, ROLLBACK, "2")
    assert heading == (
        "client 10.11.0.1:50001 → server 10.11.0.3:11210  name mirror:1  agent mirror/7.6  "
        "bucket travel"
    )
    assert first.split()[:3] == ["0.008636", "→", "hello"]
    assert second.startswith("     0.011249          ← hello ok  ")


def test_many_messages_of_one_kind_are_one_line_unless_all_are_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folded, everything = lines(capsys, ROLLBACK, "1"), lines(capsys, ROLLBACK, "1", "--all")
    assert "27 × mutation" not in "".join(everything)
    assert main(["read", ROLLBACK, "--connection", "1", "--format", "csv", "--columns", "row"]) == 0
    assert len(everything) - 1 == len(capsys.readouterr().out.splitlines())
    assert everything[-1] == folded[-1] == "     0.007978          ← reset by the server; frame 75"
    runs = [line for line in folded if " × " in line]
    counted = sum(int(line.split(" × ")[0].split()[-1]) for line in runs)
    assert counted + len(folded) - len(runs) == len(everything)
    assert runs[0].endswith("bytes")
    assert "vb 7–9, seqnos 2–40" in runs[0]


def test_a_side_that_takes_no_bytes_to_the_end_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    main(["follow", str(field("p06-zero-window")), "1"])
    assert capsys.readouterr().out.splitlines()[-1] == (
        "     0.811392  → TCP window 0: takes no bytes for 65.4 s, to the end; frame 117"
    )


def test_lines_have_the_colours_of_read(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(real_server("resume"))
    coloured = lines(capsys, path, "4", "--color", "always")
    plain = lines(capsys, path, "4", "--color", "never")
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured] == plain

    def colours(text: str) -> set[str]:
        return {line.partition("m")[0] for line in coloured if text in line}

    assert colours("stream_req erange") == {"\x1b[91"}
    assert colours("stream_req rollback") == {"\x1b[35"}
    folded = lines(capsys, str(SAMPLES / "tour.pcapng"), "2", "--color", "always")
    (events,) = [line for line in folded if "4 × system_event" in line]
    assert events.startswith("\x1b[32m")
    closed = lines(capsys, str(real_server("noop-timeout")), "1", "--color", "always")[-1]
    assert closed.startswith("\x1b[1m")
    assert "closed by the server" in closed


def test_a_connection_that_there_is_not_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["follow", ROLLBACK, "9"]) == 2
    assert (
        capsys.readouterr().err
        == "dcpinspect: connection 9: there are 2; 'dcpinspect connections' lists them\n"
    )


def test_a_connection_without_messages_says_who_closed_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its client begins TLS on the plain port."""
    talk = builders.Conversation()
    talk.handshake()
    talk.stream(True, bytes.fromhex("160301002f0100002b0303") + bytes(41))
    talk.send(False, flags=0x14)  # RST and ACK
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(builders.recorded(talk.segments)))
    assert main(["follow", str(path), "1"]) == 0
    assert "← reset by the server; frame " in capsys.readouterr().out


def test_a_connection_of_tls_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = builders.Conversation()
    one.handshake()
    one.stream(True, bytes.fromhex("160301002f0100002b0303") + bytes(41))
    other = builders.Conversation(client=("10.0.0.1", 50_001))
    other.handshake()
    other.stream(True, builders.message(opcode=0x0A))
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap(builders.recorded([*one.segments, *other.segments])))
    assert main(["follow", str(path), "1"]) == 2
    assert (
        "connection 1 has no message: it carries TLS, which is not decrypted"
        in capsys.readouterr().err
    )


def test_what_is_private_can_be_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    assert "order::8-31" in "".join(lines(capsys, ROLLBACK, "2"))
    assert "order::8-31" not in "".join(lines(capsys, ROLLBACK, "2", "--redact"))


def test_a_forgotten_connection_is_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["follow", "x.pcap"]) == 2
    assert "'dcpinspect connections CAPTURE' lists them" in capsys.readouterr().err


def test_a_proxy_header_is_told_and_the_client_behind_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    heading, header, hello, _ = lines(capsys, str(field("t06c-proxy-v1-server-closes")), "1")
    assert heading.startswith(
        "client 10.1.1.1:56324 behind the proxy 10.20.0.9:43300 → server 10.20.0.7:11210"
    )
    assert header == "               → PROXY header: the client is 10.1.1.1:56324"
    assert "hello" in hello
    main(["read", str(field("t06a-proxy-v1")), "-V", "--row", "1"])
    out = capsys.readouterr().out
    assert "10.1.1.1:56324 behind the proxy 10.20.0.9:43210 > 10.20.0.7:11210, frame 6" in out
    main(["timeline", str(field("t06a-proxy-v1")), "--vbucket", "22"])
    assert "connection 1  10.1.1.1:56324 behind the proxy" in capsys.readouterr().out


def test_a_syn_without_an_answer_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, str(field("q01-syn-unanswered")), "4") == [
        "client 10.20.0.9:44002 → server 10.20.0.8:11210",
        "    31.464086  → SYN: no answer to 4 SYNs in 7.0 s",
    ]


@pytest.mark.parametrize("name", ["q05-tls-to-plain-port", "t06c-proxy-v1-server-closes"])
def test_check_and_follow_have_one_word_for_a_reset(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["follow", str(field(name)), "1"])
    assert "reset by the server" in capsys.readouterr().out
    main(["check", str(field(name))])
    printed = capsys.readouterr()
    assert "the server resets the connection" in printed.out
    assert "among 1 messages" not in printed.err
