"""What one command says of recordings of troubles that public reports describe:
``tests/captures/field/NAME.pcap``.

To add a recording, put its row into the table of its kind below: ``NAME: Case(findings, info=…,
info_without=…)``.

- ``findings`` are *all* findings of ``check``, notes too, in any order. None: nothing is wrong.
- ``Expected(rule, severity, whose, words, without)`` is one of them. ``words`` and ``without`` must
  and must not be in its text, which has its message, its advice, client, server and vbuckets in one
  line.
- ``info`` and ``info_without`` must and must not be in what ``info`` prints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from scapy.layers import inet
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap

from dcpinspect.cli.main import main
from dcpinspect.findings.finding import Whose
from dcpinspect.protocol.message import Severity

FIELD = Path(__file__).parents[1] / "captures" / "field"


class Expected(NamedTuple):
    """One finding."""

    rule: str
    severity: Severity
    whose: Whose
    words: Sequence[str] = ()
    """What its text must have."""
    without: Sequence[str] = ()
    """What its text must not have."""


class Case(NamedTuple):
    """What is said of one recording."""

    findings: Sequence[Expected] = ()
    info: Sequence[str] = ()
    info_without: Sequence[str] = ()


CLOSED = Expected("connection-closed", "note", "unknown")
"""The client is done, and closes."""

# -- one healthy conversation, and the same under all that is no trouble of DCP
# -------------------------------------------------------

HEALTHY: dict[str, Case] = {
    "t00-base": Case(
        [CLOSED], info=["111 packets, 1 connection, 345 messages, 5 streams", "complete  yes"]
    ),
}

# -- the same conversation seen more than once
# ----------------------------------------------------------------------------------------

ONCE = ["1 connection, 345 messages, 5 streams", "complete  yes"]

COPIES: dict[str, Case] = {
    "t04-k8s-clusterip-dnat-any": Case(
        [
            CLOSED,
            Expected(
                "seen-twice",
                "note",
                "normal",
                ["connection 1 again, after address translation", "messages have both"],
            ),
        ],
        info=["222 packets", "1 connection seen twice", "345 messages, 5 streams"],
    ),
    "t05-sidecar-two-legs": Case(
        [
            Expected(
                "connection-closed", "note", "unknown", ["reset by the server with 4 streams open"]
            ),
            Expected(
                "seen-twice",
                "note",
                "normal",
                [
                    "the leg behind a proxy of connection 1 (0.180 ms later); "
                    "connection 2 was reset first, by the server, 0.150 ms before connection 1"
                ],
            ),
        ],
        info=["1 connection seen twice, 382 rows with copies", "191 messages, 4 streams"],
    ),
    "z-dnat-p05-one-rollback-reopens-all": Case(
        [
            Expected(
                *("connection-closed", "note", "unknown"),
                ["closed by the client with 63 streams open, 51 ms after the rollback in row 319"],
            ),
            Expected("rollback", "note", "normal", ["asked for seqno 50, rolled back to 31"]),
            Expected(
                "seen-twice",
                "note",
                "normal",
                ["after address translation on 2 connections in "],
            ),
        ],
        info=["2 connections seen twice", "683 messages, 128 streams"],
    ),
    "z-legs-k17-opaques-and-kv-traffic": Case(
        [Expected("seen-twice", "note", "normal", ["behind a proxy on 2 connections in "])],
        info=["2 connections seen twice", "167 messages, 2 streams"],
    ),
}

# -- what endpoints of TCP ignore, and what a capture lacks
# ---------------------------------------------------------------------------

WHOLE = ["1 connection, 345 messages, 5 streams", "complete  yes"]
TCP: dict[str, Case] = {
    "y02-rst-out-of-window": Case([CLOSED], info=WHOLE),
    "y03-rst-injected-ignored": Case([CLOSED], info=WHOLE),
    "y04-stray-syn-challenge-ack": Case([CLOSED], info=WHOLE),
    "t08e-tso-total-length-20": Case(
        info=[
            "425 messages, 1 stream",
            "complete  yes, all bytes come after a handshake; 100 % of 391,070 bytes",
        ]
    ),
    "t09-gso-partial-geneve": Case(
        info=[
            "145 messages, 1 stream",
            "complete  yes, all bytes come after a handshake; 100 % of 118,069 bytes",
        ]
    ),
    "q09-only-dst-port": Case(
        [
            Expected(
                "capture-hole",
                "note",
                "capture",
                ["nothing of the server", "48,988 bytes", "without src or dst"],
                ["larger buffer", "as -w writes"],
            )
        ],
        info=["48,988 bytes lost", "only one direction of connection 1"],
    ),
    "q09b-only-src-port": Case(
        [
            Expected(
                "capture-hole",
                "note",
                "capture",
                ["nothing of the client", "1,143 bytes", "without src or dst"],
                ["larger buffer", "as -w writes"],
            ),
            CLOSED,
        ],
        info=["1,143 bytes lost", "only one direction of connection 1"],
    ),
}

# -- trouble below DCP
# --------------------------------------------------------------------------------------------------

BELOW: dict[str, Case] = {
    "q01-syn-unanswered": Case(
        [
            Expected(
                *("server-not-reached", "warning", "unknown"),
                [
                    "10.20.0.9 does not reach 10.20.0.8:11210: no answer to 4 SYNs in 7.0 s on each of 6 connections",
                    "firewall",
                ],
            )
        ],
        info=[
            "complete yes, all bytes come after a handshake; 100 % of",
            "below DCP 6 connections to 10.20.0.8:11210 could not be opened (unanswered)",
            "not connected (unanswered): connections 2–7",
        ],
    ),
    "q02-syn-refused": Case(
        [
            Expected(
                "server-not-reached",
                "warning",
                "unknown",
                ["10.20.0.9 does not reach 10.20.0.8:11210: refused", "11207"],
                ["firewall"],
            )
        ],
        info=[
            "complete yes, all bytes come after a handshake; 100 % of",
            "below DCP 6 connections to 10.20.0.8:11210 could not be opened (refused)",
        ],
    ),
    "p06-zero-window": Case(
        [
            Expected(
                *("tcp-window-zero", "error", "client"),
                ["for 65.4 s: it takes no bytes; the server's last message is of vbucket 900"],
            )
        ]
    ),
    "q06-health-probes": Case(
        [Expected("health-probe", "note", "normal", ["3 clients (10.20.0.200–202)"])],
        info=["as health probes do"],
    ),
    "q04-istio-mtls-on-11210": Case(
        [
            Expected(
                *("tls-without-key", "note", "capture"),
                [
                    "sidecars of a service mesh (ALPN istio)",
                    "outbound_.11210_._.cb-node.svc",
                    "inside the pod",
                ],
                ["plain port"],
            )
        ],
        info=["sidecars have the keys"],
        info_without=["record the plain port"],
    ),
    "q05-tls-to-plain-port": Case(
        [
            Expected(
                "wrong-port",
                "error",
                "client",
                ["begins TLS", "connect to the TLS port of this node (11207"],
                ["key log"],
            )
        ],
        info=["connect to the TLS port of this node (11207"],
        info_without=["record the plain port"],
    ),
    "q05b-plain-to-tls-port": Case(
        [
            Expected(
                "wrong-port",
                "error",
                "client",
                ["speaks in clear", "connect to the plain port of this node (11210"],
                ["key log"],
            )
        ],
        info=["connect to the plain port of this node (11210"],
    ),
    "q06b-http-probe": Case(
        [Expected("health-probe", "note", "client", ["speaks HTTP", "8091"])],
        info=[
            "(385 bytes of another protocol)",
            "HTTP on 5 connections, as health probes send it",
        ],
    ),
    "t06a-proxy-v1": Case(
        [
            Expected(
                "proxy-header",
                "note",
                "normal",
                ["the client is 10.1.1.1 behind the proxy 10.20.0.9"],
            ),
            CLOSED,
        ],
        info=[
            "clients 10.1.1.1 kafka",
            "214 messages",
            "the proxy 10.20.0.9 sends PROXY headers on 1 connection",
        ],
    ),
    "t06c-proxy-v1-server-closes": Case(
        [
            Expected(
                "proxy-header",
                "error",
                "unknown",
                ["the server resets the connection for it", "10.1.1.1", "send-proxy"],
            )
        ],
        info=["the proxy 10.20.0.9 sends PROXY headers on 6 connections"],
    ),
    "t06d-proxy-v2-before-tls": Case(
        [
            Expected(
                "proxy-header",
                "note",
                "normal",
                ["the client is 10.1.1.1 behind the proxy 10.20.0.9"],
            ),
            Expected("tls-without-key", "note", "capture", ["server name cb-node-01"]),
        ],
        info=["complete not known, because nothing can be read"],
    ),
}

# -- link types, tunnels, and files that are nearly captures
# --------------------------------------------------------------------------

FILES: dict[str, Case] = {}

# -- trouble of DCP
# --------------------------------------------------------------------------------------------------

DCP: dict[str, Case] = {
    "p01-bucket-missing-loop": Case(
        [
            Expected(
                "bucket-refused",
                "error",
                "client",
                ["select_bucket orderz", "asks again every 1.1 s", "10.20.0.7:11210"],
            )
        ]
    ),
    "p02-select-bucket-one-node": Case(
        [
            Expected(
                "bucket-refused",
                "note",
                "normal",
                ["select_bucket orders", "10.20.0.8:11210 did not have the bucket yet"],
            )
        ]
    ),
    "p03-no-bucket-selected": Case(
        [
            Expected(
                "bucket-refused",
                "error",
                "client",
                ["no bucket is selected", "send SELECT_BUCKET"],
                ["privileges"],
            ),
            Expected("open-refused", "warning", "client", ["reader:1"], ["privileges"]),
        ]
    ),
    "p07-cas-in-the-future": Case(
        [
            Expected(
                "cas-ahead",
                "warning",
                "server",
                [
                    "CAS 0x29893e2fe0820000 of seqno 3",
                    "40 years ahead of the capture's clock",
                    "vb [55]",
                ],
            ),
            Expected(
                "cas-ahead",
                "warning",
                "unknown",
                ["CAS 0x7fffffffffff0000 of seqno 4", "impossible time", "vb [55]"],
            ),
        ]
    ),
    "r01-tmpfail-not-retried": Case(
        [
            Expected(
                "orphaned-vbucket",
                "error",
                "client",
                [
                    "refused with etmpfail, never asked again in 8.2 s",
                    "1 other vbucket was",
                    "vb [77]",
                ],
            ),
            Expected("stream-refused", "warning", "client", ["vb [77]"]),
            Expected("stream-refused", "note", "server", ["vb [78]"]),
        ]
    ),
    "r02-duplicate-collection-ids": Case(
        [
            Expected(
                "stream-refused",
                "error",
                "client",
                ["its filter names collection 0x8 more than once", "vb [80]"],
                ["flags"],
            )
        ]
    ),
    "r04-hello-key-not-json": Case(
        [
            Expected(
                "hello-key-not-json",
                "note",
                "client",
                ["no JSON object; the agent is java-dcp/0.49.0 (OpenJDK 17)"],
            )
        ],
        info=["agent java-dcp/0.49.0 (OpenJDK 17):"],
    ),
    "r05-nmvb-not-retried": Case(
        [
            Expected(
                "orphaned-vbucket",
                "error",
                "client",
                ["never asked at 10.20.0.8:11210", "1 other vbucket was", "vb [500]"],
            ),
            Expected("stream-refused", "warning", "client", ["vb [500]"]),
            Expected(
                "stream-refused",
                "note",
                "normal",
                ["vb [501]", "nothing is left to do, a later request was granted"],
            ),
            Expected("vbuckets-not-requested", "note", "client"),
        ]
    ),
    "r06-now-missing-vbucket": Case(
        [
            Expected(
                "start-not-listed",
                "warning",
                "client",
                [
                    "no list of high seqnos had it; 9 other vbuckets started at their high seqnos",
                    "vb [44]",
                ],
            )
        ]
    ),
    "r07-end-lost-on-reopen": Case(
        [
            Expected(
                "end-lost",
                "warning",
                "client",
                ["asked up to 100, then again from 40 without an end, and is at 110", "vb [11]"],
            ),
            Expected("stream-end-reason", "note", "client"),
        ]
    ),
}

CASES = HEALTHY | COPIES | TCP | BELOW | FILES | DCP


def told(
    name: str, capsys: pytest.CaptureFixture[str], *options: str
) -> list[tuple[tuple[str, str, str], str]]:
    """Rule, severity and side of each finding of a recording, and its text."""
    main(["check", str(FIELD / f"{name}.pcap"), "--format", "json", *options])
    found = json.loads(capsys.readouterr().out)
    texts = [
        f"{one['message']} | {one['next']} | {one['who']} | {one['server']} | vb {one['vbuckets']}"
        for one in found
    ]
    return [
        ((one["rule"], one["severity"], one["whose"]), text)
        for one, text in zip(found, texts, strict=True)
    ]


@pytest.mark.parametrize("name", CASES)
def test_one_command_tells_the_trouble_of_a_recording_and_nothing_else(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = sorted(CASES[name].findings)
    found = sorted(told(name, capsys))
    assert [one[:3] for one in expected] == [kind for kind, _ in found], found
    for one, (_, text) in zip(expected, found, strict=True):
        assert [word for word in one.words if word not in text] == [], text
        assert [word for word in one.without if word in text] == [], text


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if case.info or case.info_without]
)
def test_info_says_what_a_recording_holds(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["info", str(FIELD / f"{name}.pcap")])
    text = " ".join(capsys.readouterr().out.split())
    assert [word for word in CASES[name].info if " ".join(word.split()) not in text] == [], text
    assert [word for word in CASES[name].info_without if " ".join(word.split()) in text] == [], text


@pytest.mark.slow
@pytest.mark.parametrize("name", COPIES)
def test_two_legs_of_one_packet_are_no_repetition_to_any_rule(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables and counts have both legs with --copies; findings are the same without it."""
    assert told(name, capsys, "--copies") == told(name, capsys)


@pytest.mark.parametrize(
    ("name", "vbuckets", "verdict"),
    [
        ("p06-zero-window", [6, 677, 723, 900, 952], "stalled"),
        ("r01-tmpfail-not-retried", [77], "orphaned"),
    ],
)
def test_a_vbucket_with_a_finding_is_not_called_healthy(
    name: str, vbuckets: list[int], verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(FIELD / f"{name}.pcap")
    assert main(["vbuckets", path, "--format", "ndjson"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["vbucket"]: row["verdict"] for row in rows if row["findings"]["error"]} == (
        dict.fromkeys(vbuckets, verdict)
    )


def test_a_stream_whose_client_takes_nothing_is_stalled_in_every_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(FIELD / "p06-zero-window.pcap")
    for command, more in (("streams", ()), ("connections", ()), ("timeline", ("--vbucket", "900"))):
        assert main([command, path, *more]) == 0
        assert "stalled" in capsys.readouterr().out


def test_no_stream_whose_client_takes_nothing_is_called_caught_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["streams", str(FIELD / "p06-zero-window.pcap"), "--format", "ndjson"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["verdict"] for row in rows] == ["stalled"] * 5


@pytest.mark.parametrize(
    ("name", "rule", "frames"),
    [
        ("q01-syn-unanswered", "server-not-reached", [68, 84, 92, 100, 110, 119]),
        ("q02-syn-refused", "server-not-reached", [66, 67, 80, 81]),
        ("q05-tls-to-plain-port", "wrong-port", [1, 5, 6, 11]),
        ("q06-health-probes", "health-probe", [79, 82, 97, 100]),
        ("t06a-proxy-v1", "proxy-header", [1]),
        ("t06c-proxy-v1-server-closes", "proxy-header", [1, 6, 7, 12]),
    ],
)
def test_what_no_message_shows_has_the_frames_that_begin_and_end_its_connections(
    name: str, rule: str, frames: Sequence[int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(FIELD / f"{name}.pcap")
    main(["check", path, "--rule", rule, "--format", "json"])
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["frames"][: len(frames)], one["rows"]) == (frames, [])
    main(["check", path, "--rule", rule, "--all"])
    pattern = rf"\n    Wireshark.*: frame\.number (== |in {{){frames[0]}\b"
    assert re.search(pattern, capsys.readouterr().out)


def test_the_frame_of_a_window_of_0_is_the_one_that_announces_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = FIELD / "p06-zero-window.pcap"
    main(["check", str(path), "--format", "json"])
    [finding] = json.loads(capsys.readouterr().out)
    [_], [before, frame] = finding["rows"], finding["frames"]
    assert frame > before
    announcing = Ether(bytes(rdpcap(str(path))[frame - 1]))[inet.TCP]
    assert (announcing.window, announcing.dport) == (0, 11210)


def test_totals_say_how_many_rows_there_are_with_copies(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", str(FIELD / "t05-sidecar-two-legs.pcap")])
    told = " ".join(capsys.readouterr().out.split())
    assert "191 messages (382 rows with copies), 4 streams" in told


def test_what_led_to_a_lost_end_is_told_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", str(FIELD / "r07-end-lost-on-reopen.pcap")])
    told = capsys.readouterr().out
    assert "explains 1 other finding: 1 stream-end-reason" in told
    assert "the client asked again" not in told


def test_a_row_that_is_asked_for_shows_all_of_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    read = ["read", "-V", str(FIELD / "r05-nmvb-not-retried.pcap")]
    assert main([*read, "--row", "142"]) == 0
    value = next(line for line in capsys.readouterr().out.splitlines() if "Value " in line)
    assert '"vBucketMap": [[' in value
    assert value.endswith("}}")
    assert main([*read, "--filter", "row = 142"]) == 0
    assert "… (5446 bytes)" in capsys.readouterr().out


def test_what_to_do_about_bytes_of_another_protocol_is_said_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["check", str(FIELD / "q05b-plain-to-tls-port.pcap")])
    printed = capsys.readouterr()
    assert printed.err.count("7 bytes of TLS") == 1
    assert "connections 1–5, back from 10.20.0.7:11207: each 7 bytes of TLS" in printed.err
    told = " ".join(f"{printed.out} {printed.err}".split())
    assert "client java-dcp/0.54.0 (10.20.0.9), server" in told, "from one host, without a name"
    assert told.count("turn TLS on in the client's settings") == 1
    for name in ("q05-tls-to-plain-port", "q05b-plain-to-tls-port"):
        main(["info", str(FIELD / f"{name}.pcap")])
        printed = capsys.readouterr()
        told = " ".join(f"{printed.out} {printed.err}".split())
        assert told.count("a client should tell its user that the port is wrong") == 1


def test_nothing_is_said_of_a_handshake_where_the_client_speaks_in_clear(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["connections", str(FIELD / "q05b-plain-to-tls-port.pcap"), "--columns", "tls"])
    _, *told = capsys.readouterr().out.splitlines()
    expected = "TLS: not decrypted; the server says protocol-version; the client speaks in clear"
    assert told == [expected] * 5


def test_each_of_several_files_has_a_line_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(FIELD / f"{name}.pcap") for name in ("t00-base", "q06-health-probes")]
    assert main(["info", *paths]) == 0
    told = capsys.readouterr().out
    assert f"files     pcap  916 packets  151 connections  {paths[1]}\n" in told
    assert f"          pcap  111 packets     1 connection  {paths[0]}\n" in told


def test_a_list_of_vbuckets_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", str(FIELD / "r05-nmvb-not-retried.pcap")])
    assert capsys.readouterr().out.count("366–499") == 1


def test_another_port_is_not_advised_where_the_trouble_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["check", str(FIELD / "t06c-proxy-v1-server-closes.pcap")])
    assert "--port auto" not in capsys.readouterr().err
