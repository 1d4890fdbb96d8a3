"""What is read of link types and tunnels is what the documentation says, and what is not read is
named.
"""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from dcpinspect.capture.encapsulations import READ, TUNNEL_PORTS
from dcpinspect.capture.open import open_capture
from dcpinspect.cli.main import main
from tests import builders

ROOT = Path(__file__).parents[2]
FIELD = ROOT / "tests" / "captures" / "field"
BASE = (FIELD / "t00-base.pcap").read_bytes()
PAGE = (ROOT / "docs" / "coverage.md").read_text()


def test_the_documentation_has_the_link_types_that_are_read() -> None:
    assert {
        int(number): name
        for number, name in re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE)
    } == READ


def test_the_documentation_has_the_ports_of_tunnels_that_are_read() -> None:
    ports = [
        int(number)
        for told in re.findall(r"UDP to ports? ([\d, and]+)", PAGE)
        for number in re.findall(r"\d+", told)
    ]
    assert sorted(ports) == sorted(TUNNEL_PORTS)


@pytest.mark.parametrize("name", ["f22-nflog", "f23-ipnet", "v06-gre-in-udp-4754", "v07-gtpu"])
def test_a_capture_of_a_rare_kind_is_read_whole(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(FIELD / f"{name}.pcap")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("nothing wrong: 345 messages, 5 streams, 100 % of bytes decoded")
    assert err == ""


@pytest.mark.parametrize(
    ("number", "name"),
    [(147, "147 (USER0)"), (289, "289 (ETW)"), (200, "200"), (189, "189 (USB_LINUX)")],
)
def test_a_link_type_that_is_not_read_is_named(
    number: int, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(BASE[:20] + struct.pack("<I", number) + BASE[24:])
    assert main(["check", str(path)]) == 2
    err = capsys.readouterr().err
    assert "no TCP" not in err
    assert f"no DCP beside packets with link type {name}" in err
    of_windows = "pktmon etl2pcap IN --out OUT\n"
    assert ("editcap -T ether" in err, err.endswith(of_windows)) == (number != 289, number == 289)


def mixed(*links: int, per: int) -> bytes:
    """The base capture as pcapng, its packets in turns on interfaces of these link types; others
    than Ethernet have noise.
    """
    with open_capture(FIELD / "t00-base.pcap") as capture:
        (batch,) = capture
    body = builders.section()
    for number, link in enumerate(links):
        name = f"if{number}".encode()
        body += block(
            1,
            struct.pack("<HHI", link, 0, 0)
            + struct.pack("<HH", 2, len(name))
            + name
            + bytes(-len(name) % 4 + 4),
        )
    for at, size in zip(batch.offset.tolist(), batch.captured.tolist(), strict=True):
        data = batch.data[at : at + size].tobytes()
        for number, link in enumerate(links):
            for _ in range(1 if link == 1 else per):
                body += block(
                    6,
                    struct.pack("<IIIII", number, 0, 0, size, size)
                    + (data if link == 1 else bytes(size))
                    + bytes(-size % 4),
                )
    return body


def block(kind: int, body: bytes) -> bytes:
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


@pytest.mark.parametrize("batch_bytes", [300, 1 << 20])
def test_of_several_interfaces_those_that_are_not_read_are_named_with_their_packets(
    batch_bytes: int, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(mixed(147, 1, 289, 189, per=2) + mixed(1, 147, per=1))
    with open_capture(tmp_path / "x", batch_bytes=batch_bytes) as capture:
        assert sum(map(len, capture)) == 111 * 9
        assert [one.what for one in capture.problems] == [
            "222 packets of interface if0 have link type 147 (USER0), which is not read",
            "222 packets of interface if2 have link type 289 (ETW), which is not read",
            "111 packets of interface if1 have link type 147 (USER0), which is not read",
        ]


def test_an_interface_without_tcp_is_no_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_bytes(mixed(1, 189, per=1))
    assert main(["check", str(tmp_path / "x")]) == 0
    assert capsys.readouterr().err == ""


def test_a_pcap_file_behind_another_has_its_own_link_type(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(BASE + BASE[:20] + struct.pack("<I", 147) + BASE[24:])
    with open_capture(tmp_path / "x", batch_bytes=5000) as capture:
        assert sum(map(len, capture)) == 222
        assert [one.what for one in capture.problems] == [
            "111 packets have link type 147 (USER0), which is not read"
        ]


def test_port_0_is_not_offered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packets = []
    for ports in ((0, 40_000), (40_000, 0), (0, 0), (0, 40_000)):
        segment = builders.Segment(
            True, 1, 1, 0x18, b"x", client=("10.0.0.1", ports[0]), server=("10.0.0.2", ports[1])
        )
        packets += builders.recorded([segment])
    path = tmp_path / "x.pcap"
    path.write_bytes(builders.pcap([replace(one, time_ns=builders.START_NS) for one in packets]))
    main(["check", str(path)])
    assert "try --port 40000" in capsys.readouterr().err
    path.write_bytes(builders.pcap([packets[2]]))
    main(["check", str(path)])
    err = capsys.readouterr().err
    assert "--port 0" not in err
    assert main(["check", str(path), "--port", "0"]) == 2
    assert "--port 0: write a number from 1 to 65535, or auto" in capsys.readouterr().err
