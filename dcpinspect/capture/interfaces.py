"""The network interfaces of this machine, and how one is opened: by Scapy on each system."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from dcpinspect.arrays import ByteArray
from dcpinspect.capture import kernel_filter
from dcpinspect.capture.packet_socket import (
    HAS_RINGS,
    LINK_TYPES,
    MOST,
    PacketSocket,
    cooked_socket,
)
from dcpinspect.capture.packet_walk import MAX_PACKET
from dcpinspect.capture.scapy_socket import ScapySocket
from dcpinspect.errors import CaptureError, UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import escape

ANY = "any"
_NO_RING = (errno.ENOPROTOOPT, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of a system that has packet sockets but no rings (gVisor)."""


class PacketSource(Protocol):
    """An open interface."""

    name: str
    link_type: int
    """LINKTYPE_ number of its frames."""
    number: int
    """Number of the interface in the capture, from 0."""

    @property
    def silence_s(self) -> float:
        """Seconds after the last packet at the end, after which no more comes."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing can come any more."""

    @property
    def is_gone(self) -> bool:
        """After an error: whether the interface will not come back."""

    def fileno(self) -> int | None:
        """Returns a descriptor for ``select``; None if the source cannot be waited for."""

    @property
    def has_more(self) -> bool:
        """Whether ``write_waiting`` has left packets."""

    def write_waiting(self, out: ByteArray, limit: int = MOST) -> tuple[int, int]:
        """Writes what waits as blocks of a pcapng file to the start of ``out``; returns bytes and
        packets written.

        It writes at most ``limit`` packets, and as many as there is room for.
        """

    def error(self) -> OSError | None:
        """Returns what has happened to the interface since the last call; None: nothing."""

    def end(self) -> None:
        """Stops receiving. What waits can still be taken."""

    def counts(self) -> tuple[int, int] | None:
        """Returns frames seen, and how many the kernel dropped; None where the system is silent."""

    def close(self) -> None:
        """Ends the capture."""


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """An interface as the system lists it."""

    name: str
    addresses: tuple[str, ...]
    is_up: bool


@dataclass(frozen=True, slots=True)
class OpenInterface:
    """An interface that is being captured."""

    source: PacketSource
    is_filtered: bool
    """Whether the kernel leaves out what is not asked for."""
    buffer_bytes: int | None
    """Room in the kernel for packets that wait; None where the system does not say."""


def interfaces() -> list[NetworkInterface]:
    """Returns what can be captured, by name; ``any`` stands for all interfaces."""
    with _scapy() as conf:
        by_name = {
            name: NetworkInterface(
                name,
                tuple(address for version in (4, 6) for address in interface.ips[version]),
                bool(interface.is_valid()),
            )
            for name, interface in conf.ifaces.items()
        }
    if HAS_RINGS:
        by_name.setdefault(ANY, NetworkInterface(ANY, (), is_up=True))
    return sorted(
        by_name.values(),
        key=lambda interface: (interface.name == ANY, not interface.is_up, interface.name),
    )


def traffic(names: Sequence[str], ports: Sequence[int], seconds: float) -> dict[str, int]:
    """Returns the packets of the ports that come to each interface in so many seconds, for
    interfaces that may and can be captured.
    """
    with ExitStack() as stack:
        sources = []
        for name in names:
            with suppress(CaptureError, UsageError):
                interface = open_interface(name, ports, 0)
                stack.callback(interface.source.close)
                if interface.is_filtered:
                    sources.append(interface.source)
        if sources:
            time.sleep(seconds)
        counts = {source.name: source.counts() for source in sources}
    return {
        name: source_counts[0]
        for name, source_counts in counts.items()
        if source_counts is not None
    }


def interface_drops(names: Sequence[str]) -> dict[str, int]:
    """Returns the packets that interfaces have dropped since they exist, as far as the system says
    so; for ``any``, the sum of all.
    """
    try:
        lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    except OSError:
        return {}
    drops = {}
    for line in lines:
        name, _, numbers = line.partition(":")
        columns = numbers.split()
        drops[name.strip()] = int(columns[3]) + int(columns[4])  # drop, fifo
    drops[ANY] = sum(drops.values())
    return {name: drops[name] for name in names if name in drops}


def open_interface(
    name: str,
    ports: Sequence[int] | None,
    buffer_bytes: int,
    *,
    snaplen: int = MAX_PACKET,
    is_promiscuous: bool = True,
) -> OpenInterface:
    """Begins to capture what may be of ``ports`` (None: everything). Raises UsageError for a name
    that is no interface, and CaptureError.
    """
    with _scapy(name) as conf:
        from scapy.error import Scapy_Exception

        if name not in conf.ifaces and not (name == ANY and HAS_RINGS):
            names = ", ".join(
                escape(interface.name) for interface in interfaces() if interface.is_up
            )
            raise UsageError(f"-i {escape(name)}: there is no such interface; there are {names}")
        opener = _Opener(conf, name, ports, buffer_bytes, snaplen, is_promiscuous)
        try:
            return opener.open_source()
        except PermissionError as error:
            raise CaptureError(
                name, f"may not be captured ({error.strerror})", _how_to_be_allowed()
            ) from error
        except (
            OSError,
            Scapy_Exception,
        ) as error:  # libpcap and BPF have no exception of their own for a missing right
            if getattr(error, "errno", None) == errno.ENETDOWN:
                raise CaptureError(
                    name, "is down", f"bring it up: ip link set {escape(name)} up"
                ) from error
            advice = (
                _how_to_be_allowed() if hasattr(os, "geteuid") and os.geteuid() else "-D lists them"
            )
            raise CaptureError(
                name, f"cannot be captured ({getattr(error, 'strerror', None) or error})", advice
            ) from error


@dataclass(frozen=True, slots=True)
class _Opener:
    """How one interface is opened."""

    conf: Any
    name: str
    ports: Sequence[int] | None
    buffer_bytes: int
    snaplen: int
    is_promiscuous: bool

    def open_source(self) -> OpenInterface:
        """Opens the interface through a packet socket with a ring if there is one, otherwise
        through Scapy's own socket.
        """
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

    def _with_ring(self, source: PacketSocket) -> OpenInterface:
        try:
            instructions = None
            if self.ports is not None:
                link_type = kernel_filter.RAW_IP if source.is_cooked else source.link_type
                instructions = kernel_filter.program(self.ports, link_type, self.snaplen)
            source.set_filter(instructions or kernel_filter.everything(self.snaplen))
            buffer_bytes = source.start(self.buffer_bytes)
        except BaseException:
            source.close()
            raise
        return OpenInterface(
            source, is_filtered=instructions is not None, buffer_bytes=buffer_bytes
        )

    def _portably(self, kind: Any) -> OpenInterface:
        """Opens the interface through Scapy's socket, with a filter if the link type allows one."""
        from scapy.error import Scapy_Exception

        if self.ports is not None:
            expression_of_ports = kernel_filter.expression(self.ports)
            for expression in (f"{expression_of_ports} or vlan", expression_of_ports):
                try:
                    sock = kind(iface=self.name, filter=expression, promisc=self.is_promiscuous)
                    return OpenInterface(
                        ScapySocket(sock, self.name, self.snaplen),
                        is_filtered=True,
                        buffer_bytes=None,
                    )
                except (ImportError, Scapy_Exception):
                    continue
        sock = kind(iface=self.name, promisc=self.is_promiscuous)
        return OpenInterface(
            ScapySocket(sock, self.name, self.snaplen), is_filtered=False, buffer_bytes=None
        )


def _how_to_be_allowed() -> str:
    if not sys.platform.startswith("linux"):
        return "run it with sudo"
    program = escape(os.path.realpath(sys.executable))
    return (
        "run it with sudo, or give its interpreter the right to capture, once: sudo setcap "
        f"cap_net_raw+ep {program}"
    )


@contextmanager
def _scapy(known: str | None = None) -> Iterator[Any]:
    """Gives Scapy's configuration, with the current interfaces; silences what Scapy says of routes
    and link types.

    An earlier list is used if it has the interface ``known``: to make a new list takes long if
    there are many.
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
