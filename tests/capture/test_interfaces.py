"""Interfaces of namespaces, listed and opened as a user would."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dcpinspect.capture.interfaces import ANY, interface_drops, interfaces, open_interface
from dcpinspect.capture.packet_socket import COOKED, PacketSocket
from dcpinspect.errors import CaptureError, UsageError
from tests import builders
from tests.builders import Segment
from tests.capture.test_packet_socket import received, waiting
from tests.peers.network import NEEDS_ROOT, inside, ip, tapped

pytestmark = NEEDS_ROOT


@pytest.fixture
def wire() -> Iterator[tuple[str, int]]:
    with tapped("iface", "10.9.0.1/24") as found:
        yield found


def test_interfaces_are_listed_with_their_addresses_those_that_are_up_first(
    wire: tuple[str, int],
) -> None:
    namespace, _ = wire
    ip("-n", namespace, "tuntap", "add", "aaa", "mode", "tun")
    with inside(namespace):
        found = interfaces()
    names = [one.name for one in found]
    assert names[:2] == ["eth0", "lo"]
    assert names.index("aaa") > 1
    assert names[-1] == ANY
    assert [one.is_up for one in found if one.name in ("eth0", "aaa", ANY)] == [True, False, True]
    assert found[0].addresses[0] == "10.9.0.1"


def test_a_name_that_is_none_is_refused_with_those_there_are(wire: tuple[str, int]) -> None:
    with (
        inside(wire[0]),
        pytest.raises(
            UsageError, match=r"^-i eth\\x1b: there is no such interface; there are eth0, lo, any$"
        ),
    ):
        open_interface("eth\x1b", None, 1 << 20)


def test_an_interface_that_is_down_is_told(wire: tuple[str, int]) -> None:
    ip("-n", wire[0], "link", "set", "eth0", "down")
    with (
        inside(wire[0]),
        pytest.raises(CaptureError, match=r"^eth0: is down; bring it up: ip link set eth0 up$"),
    ):
        open_interface("eth0", None, 1 << 20)


@pytest.mark.parametrize(("name", "link_type"), [("eth0", 1), ("lo", 1), (ANY, COOKED)])
@pytest.mark.parametrize("ports", [None, (11_210,)])
def test_an_interface_is_opened_with_a_filter_and_a_large_buffer(
    name: str, link_type: int, ports: tuple[int, ...] | None, wire: tuple[str, int]
) -> None:
    with inside(wire[0]):
        opened = open_interface(name, ports, 32 << 20)
    assert (opened.source.name, opened.source.link_type) == (name, link_type)
    assert (opened.is_filtered, opened.buffer_bytes) == (ports is not None, 32 << 20)
    opened.source.close()


def test_a_tunnel_has_packets_without_a_header_below_ip(wire: tuple[str, int]) -> None:
    namespace, _ = wire
    ip("-n", namespace, "tuntap", "add", "tun7", "mode", "tun")
    ip("-n", namespace, "link", "set", "tun7", "up")
    with inside(namespace):
        opened = open_interface("tun7", (11_210,), 1 << 20)
    assert (opened.source.link_type, opened.is_filtered) == (101, True)
    opened.source.close()


def test_only_what_comes_after_opening_and_passes_the_filter_is_received(
    wire: tuple[str, int],
) -> None:
    namespace, fd = wire
    wanted, other = (
        builders.frame(Segment(True, 1, 2, payload=b"x", server=("10.0.0.2", port)))
        for port in (11_210, 80)
    )
    os.write(fd, wanted)
    with inside(namespace):
        source = open_interface("eth0", (11_210,), 1 << 20).source
    os.write(fd, other)
    os.write(fd, wanted)
    assert isinstance(source, PacketSocket)
    ((frame, *_),) = received(source, 1)
    assert frame == wanted
    assert waiting(source) == []
    assert source.counts() == (1, 0)
    source.close()


@pytest.mark.requires("setpriv")
@pytest.mark.parametrize("name", ["lo", ANY])
def test_without_the_right_to_capture_a_line_says_how_to_get_it(name: str) -> None:
    code = (
        f"from dcpinspect.capture.interfaces import open_interface; open_interface({name!r}, "
        "None, 1000)"
    )
    drop = "-net_raw,-net_admin"
    command = [
        "setpriv",
        f"--bounding-set={drop}",
        f"--inh-caps={drop}",
        sys.executable,
        "-c",
        code,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    program = re.escape(os.path.realpath(sys.executable))
    says = (
        rf"{name}: may not be captured \({os.strerror(errno.EPERM)}\); run it with sudo, or "
        r".*once: "
    )
    assert re.search(
        rf"CaptureError: {says}sudo setcap cap_net_raw\+ep {program}$", done.stderr.strip()
    )


def test_packets_are_cut_to_the_length_asked_for(wire: tuple[str, int]) -> None:
    namespace, fd = wire
    sent = builders.frame(Segment(True, 1, 2, payload=bytes(1000)))
    for ports in (None, (11_210,)):
        with inside(namespace):
            source = open_interface("eth0", ports, 1 << 20, snaplen=100).source
        os.write(fd, sent)
        assert isinstance(source, PacketSocket)
        ((frame, wire_length, *_),) = received(source, 1)
        assert (frame, wire_length) == (sent[:100], len(sent))
        source.close()


def test_what_interfaces_drop_is_asked_of_the_system(wire: tuple[str, int]) -> None:
    with inside(wire[0]):
        assert interface_drops(["eth0", ANY, "nope"]) == {"eth0": 0, ANY: 0}


def test_without_libpcap_nothing_is_filtered(
    wire: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scapy.libs.winpcapy", None)
    with inside(wire[0]):
        opened = open_interface("eth0", (11_210,), 1 << 20)
    assert not opened.is_filtered
    opened.source.close()
