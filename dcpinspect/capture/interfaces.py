"""The network interfaces of this machine, and how one is opened: by Scapy, which knows how on each system."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dcpinspect.capture import kernel_filter
from dcpinspect.capture.packet_socket import HAS_RINGS, LINK_TYPES, MOST, PacketSocket, cooked_socket
from dcpinspect.capture.scapy_socket import ScapySocket
from dcpinspect.capture.walk import MAX_PACKET
from dcpinspect.errors import CaptureError, UsageError
from dcpinspect.escape import escape
from dcpinspect.kernel import Octets

ANY = "any"
_NO_RING = (errno.ENOPROTOOPT, errno.EOPNOTSUPP, errno.EINVAL)
"""What a system answers that has packet sockets and no rings (gVisor)."""


class PacketSource(Protocol):
    """An open interface."""

    name: str
    link_type: int
    """LINKTYPE_ number of its frames."""
    number: int
    """Which interface of the capture it is, from 0."""

    @property
    def silence_s(self) -> float:
        """After the end, so long after the last packet no more comes."""

    @property
    def is_empty(self) -> bool:
        """Nothing can come any more."""

    @property
    def is_gone(self) -> bool:
        """After an error: whether the interface will not come back."""

    def fileno(self) -> int | None:
        """For ``select``; None where it cannot be waited for."""

    @property
    def has_more(self) -> bool:
        """``take`` has left packets."""

    def take(self, out: Octets, most: int = MOST) -> tuple[int, int]:
        """Writes what waits as blocks of a pcapng file to the start of ``out``; bytes and packets written.

        At most so many packets, and as many as there is room for.
        """

    def error(self) -> OSError | None:
        """What has happened to the interface since one asked; None: nothing."""

    def end(self) -> None:
        """Receive no more. What waits can be taken."""

    def counts(self) -> tuple[int, int] | None:
        """Frames seen, and those of them that the kernel dropped; None where the system does not say."""

    def close(self) -> None:
        """Ends the capture."""


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """An interface as the system lists it."""

    name: str
    addresses: tuple[str, ...]
    is_up: bool


@dataclass(frozen=True, slots=True)
class Opened:
    """An interface that is being captured."""

    source: PacketSource
    is_filtered: bool
    """The kernel leaves out what is not asked for."""
    buffer_bytes: int | None
    """Room in the kernel for packets that wait; None where the system does not say."""


def interfaces() -> list[NetworkInterface]:
    """What can be captured, by name; ``any`` stands for all of them."""
    with _scapy() as conf:
        found = {
            name: NetworkInterface(name, tuple(address for version in (4, 6) for address in one.ips[version]), bool(one.is_valid()))
            for name, one in conf.ifaces.items()
        }
    if HAS_RINGS:
        found.setdefault(ANY, NetworkInterface(ANY, (), is_up=True))
    return sorted(found.values(), key=lambda one: (one.name == ANY, not one.is_up, one.name))


def traffic(names: Sequence[str], ports: Sequence[int], seconds: float) -> dict[str, int]:
    """Packets of the ports that come to each interface in so many seconds; only of those that may and can be captured."""
    with ExitStack() as stack:
        sources = []
        for name in names:
            with suppress(CaptureError, UsageError):
                opened = open_interface(name, ports, 0)
                stack.callback(opened.source.close)
                if opened.is_filtered:
                    sources.append(opened.source)
        if sources:
            time.sleep(seconds)
        counts = {source.name: source.counts() for source in sources}
    return {name: found[0] for name, found in counts.items() if found is not None}


def interface_drops(names: Sequence[str]) -> dict[str, int]:
    """Packets that interfaces have dropped since they are there, as far as the system says so; with ``any``, all of them together."""
    try:
        lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    except OSError:
        return {}
    found = {}
    for line in lines:
        name, _, numbers = line.partition(":")
        columns = numbers.split()
        found[name.strip()] = int(columns[3]) + int(columns[4])  # drop, fifo
    found[ANY] = sum(found.values())
    return {name: found[name] for name in names if name in found}


def open_interface(
    name: str, ports: Sequence[int] | None, buffer_bytes: int, *, snaplen: int = MAX_PACKET, is_promiscuous: bool = True
) -> Opened:
    """Begins to capture what may be of ``ports`` (None: everything). Raises UsageError for a name that is none, and CaptureError."""
    with _scapy(name) as conf:
        from scapy.error import Scapy_Exception

        if name not in conf.ifaces and not (name == ANY and HAS_RINGS):
            names = ", ".join(escape(one.name) for one in interfaces() if one.is_up)
            raise UsageError(f"-i {escape(name)}: there is no such interface; there are {names}")
        opener = _Opener(conf, name, ports, buffer_bytes, snaplen, is_promiscuous)
        try:
            return opener.opened()
        except PermissionError as error:
            raise CaptureError(name, None, f"may not be captured ({error.strerror})", _how_to_be_allowed()) from error
        except (OSError, Scapy_Exception) as error:  # libpcap and BPF have no exception of their own for a missing right
            if getattr(error, "errno", None) == errno.ENETDOWN:
                raise CaptureError(name, None, "is down", f"bring it up: ip link set {escape(name)} up") from error
            advice = _how_to_be_allowed() if hasattr(os, "geteuid") and os.geteuid() else "-D lists them"
            raise CaptureError(name, None, f"cannot be captured ({getattr(error, 'strerror', None) or error})", advice) from error


@dataclass(frozen=True, slots=True)
class _Opener:
    """How one interface is opened."""

    conf: Any
    name: str
    ports: Sequence[int] | None
    buffer_bytes: int
    snaplen: int
    is_promiscuous: bool

    def opened(self) -> Opened:
        """Through a packet socket with a ring where there is one, otherwise through Scapy's own."""
        if self.name == ANY and HAS_RINGS:
            return self._with_ring(PacketSocket(cooked_socket(None), ANY, is_cooked=True))
        kind = self.conf.ifaces.dev_from_name(self.name).l2listen()
        if not HAS_RINGS:
            return self._portably(kind)
        sock = kind(iface=self.name, promisc=self.is_promiscuous)
        ins = getattr(sock, "ins", None)
        if not isinstance(ins, socket.socket):
            sock.close()
            return self._portably(kind)
        if ins.getsockname()[3] in LINK_TYPES:
            source = PacketSocket(ins, self.name, close=sock.close)
        else:
            sock.close()
            source = PacketSocket(cooked_socket(self.name), self.name, is_cooked=True)
        try:
            return self._with_ring(source)
        except OSError as error:
            if error.errno not in _NO_RING:
                raise
            return self._portably(kind)

    def _with_ring(self, source: PacketSocket) -> Opened:
        try:
            instructions = None
            if self.ports is not None:
                link_type = kernel_filter.RAW_IP if source.is_cooked else source.link_type
                instructions = kernel_filter.program(self.ports, link_type, self.snaplen)
            source.set_filter(instructions or kernel_filter.everything(self.snaplen))
            room = source.start(self.buffer_bytes)
        except BaseException:
            source.close()
            raise
        return Opened(source, is_filtered=instructions is not None, buffer_bytes=room)

    def _portably(self, kind: Any) -> Opened:
        """With a filter that the link type allows if there is one."""
        from scapy.error import Scapy_Exception

        if self.ports is not None:
            wanted = kernel_filter.expression(self.ports)
            for expression in (f"{wanted} or vlan", wanted):
                try:
                    sock = kind(iface=self.name, filter=expression, promisc=self.is_promiscuous)
                    return Opened(ScapySocket(sock, self.name, self.snaplen), is_filtered=True, buffer_bytes=None)
                except (ImportError, Scapy_Exception):
                    continue
        sock = kind(iface=self.name, promisc=self.is_promiscuous)
        return Opened(ScapySocket(sock, self.name, self.snaplen), is_filtered=False, buffer_bytes=None)


def _how_to_be_allowed() -> str:
    if not sys.platform.startswith("linux"):
        return "run it with sudo"
    program = escape(os.path.realpath(sys.executable))
    return f"run it with sudo, or give its interpreter the right to capture, once: sudo setcap cap_net_raw+ep {program}"


@contextmanager
def _scapy(known: str | None = None) -> Iterator[Any]:
    """Scapy's configuration, with the interfaces of now; what it has to say of routes and link types concerns nobody.

    The list of before will do where it has the one that is ``known``: a new one takes long where there are many.
    """
    import scapy.arch  # noqa: F401  deferred: 0.3 s
    from scapy.config import conf

    logger = logging.getLogger("scapy")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        if known is None or known not in conf.ifaces:
            conf.ifaces.reload()
        yield conf
    finally:
        logger.setLevel(before)
