"""The network interfaces of this machine, and how one is opened: by Scapy, which knows how on each system."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from dcpinspect.capture import kernel_filter
from dcpinspect.capture.packet_socket import COOKED, LINK_TYPES, Frame, PacketSocket, cooked_socket
from dcpinspect.capture.scapy_socket import ScapySocket
from dcpinspect.errors import CaptureError, UsageError
from dcpinspect.escape import escape

ANY = "any"
HAS_PACKET_SOCKETS = hasattr(socket, "AF_PACKET")


class PacketSource(Protocol):
    """An open interface."""

    name: str
    link_type: int
    """LINKTYPE_ number of its frames."""
    number: int
    """Which interface of the capture it is, from 0."""

    @property
    def is_gone(self) -> bool:
        """After an error: whether the interface will not come back."""

    def fileno(self) -> int | None:
        """For ``select``; None where it cannot be waited for."""

    def receive(self, room: memoryview, at: int) -> Frame | None:
        """Puts the next frame into ``room`` from ``at`` on; None when none waits. Raises OSError when no more will come."""

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
    if HAS_PACKET_SOCKETS:
        found.setdefault(ANY, NetworkInterface(ANY, (), is_up=True))
    return sorted(found.values(), key=lambda one: (one.name == ANY, not one.is_up, one.name))


def open_interface(name: str, ports: Sequence[int] | None, buffer_bytes: int) -> Opened:
    """Begins to capture what may be of ``ports`` (None: everything). Raises UsageError for a name that is none, and CaptureError."""
    known = interfaces()
    if all(one.name != name for one in known):
        names = ", ".join(escape(one.name) for one in known if one.is_up)
        raise UsageError(f"-i {escape(name)}: there is no such interface; there are {names}")
    with _scapy() as conf:
        from scapy.error import Scapy_Exception

        try:
            return _opened(conf, name, ports, buffer_bytes)
        except PermissionError as error:
            raise CaptureError(name, None, f"may not be captured ({error.strerror})", _how_to_be_allowed()) from error
        except (OSError, Scapy_Exception) as error:  # libpcap and BPF have no exception of their own for a missing right
            if getattr(error, "errno", None) == errno.ENETDOWN:
                raise CaptureError(name, None, "is down", f"bring it up: ip link set {escape(name)} up") from error
            advice = _how_to_be_allowed() if hasattr(os, "geteuid") and os.geteuid() else "--list-interfaces lists them"
            raise CaptureError(name, None, f"cannot be captured ({getattr(error, 'strerror', None) or error})", advice) from error


def _opened(conf: Any, name: str, ports: Sequence[int] | None, buffer_bytes: int) -> Opened:
    if HAS_PACKET_SOCKETS and name == ANY:
        return _listening(PacketSocket(cooked_socket(None), name, is_cooked=True), ports, buffer_bytes)
    kind = conf.ifaces.dev_from_name(name).l2listen()
    sock = kind(iface=name)
    ins = getattr(sock, "ins", None)
    if not HAS_PACKET_SOCKETS or not isinstance(ins, socket.socket):
        sock.close()
        return _opened_portably(kind, name, ports)
    if ins.getsockname()[3] in LINK_TYPES:
        return _listening(PacketSocket(ins, name, close=sock.close), ports, buffer_bytes)
    sock.close()
    return _listening(PacketSocket(cooked_socket(name), name, is_cooked=True), ports, buffer_bytes)


def _listening(source: PacketSocket, ports: Sequence[int] | None, buffer_bytes: int) -> Opened:
    try:
        instructions = None
        if ports is not None:
            instructions = kernel_filter.program(ports, kernel_filter.RAW_IP if source.link_type == COOKED else source.link_type)
        if instructions is not None:
            source.set_filter(instructions)
        room = source.set_buffer(buffer_bytes)
        source.forget()  # what came before the filter
    except BaseException:
        source.close()
        raise
    return Opened(source, is_filtered=instructions is not None, buffer_bytes=room)


def _opened_portably(kind: Any, name: str, ports: Sequence[int] | None) -> Opened:
    """Through Scapy's own socket, with a filter that its link type allows if there is one."""
    from scapy.error import Scapy_Exception

    if ports is not None:
        wanted = kernel_filter.expression(ports)
        for expression in (f"{wanted} or vlan", wanted):
            try:
                return Opened(ScapySocket(kind(iface=name, filter=expression), name), is_filtered=True, buffer_bytes=None)
            except (ImportError, Scapy_Exception):
                continue
    return Opened(ScapySocket(kind(iface=name), name), is_filtered=False, buffer_bytes=None)


def _how_to_be_allowed() -> str:
    if not sys.platform.startswith("linux"):
        return "run it with sudo"
    program = escape(os.path.realpath(sys.executable))
    return f"run it with sudo, or allow its interpreter to once and for all: sudo setcap cap_net_raw,cap_net_admin+ep {program}"


@contextmanager
def _scapy() -> Iterator[Any]:
    """Scapy's configuration, with the interfaces of now; what it has to say of routes and link types concerns nobody."""
    import scapy.arch  # noqa: F401  deferred: 0.3 s
    from scapy.config import conf

    logger = logging.getLogger("scapy")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        conf.ifaces.reload()
        yield conf
    finally:
        logger.setLevel(before)
