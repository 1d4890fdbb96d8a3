"""Network namespaces, and a wire between them that a policy may make lossy.

The wire is two TAP interfaces and a thread that carries frames from one to the other. So every
segment was cut, numbered, checksummed, acknowledged and retransmitted by the kernel, and what the
wire loses or reorders is decided by us; not every kernel has netem. Needs root.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import selectors
import struct
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, Self

import pytest

TUNSETIFF = 0x400454CA
IFF_TUN_NO_PI, _IFF_TAP_NO_PI = 0x0001 | 0x1000, 0x0002 | 0x1000
_CLONE_NEWNET = 0x40000000
_FRAME = 1 << 16

_libc = ctypes.CDLL(None, use_errno=True)


NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


def ip(*arguments: str) -> None:
    """Run iproute2."""
    subprocess.run(("ip", *arguments), check=True, capture_output=True, text=True)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread lives in the namespace: sockets and interfaces made now belong to it."""
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{namespace}") as away:
        _enter(away.fileno())
        try:
            yield
        finally:
            _enter(home.fileno())


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns failed")


@contextmanager
def namespaces(*names: str) -> Iterator[tuple[str, ...]]:
    """Fresh network namespaces with a loopback interface; gone afterwards, whatever happens."""
    with ExitStack() as stack:
        full = tuple(f"dcp{os.getpid()}-{name}" for name in names)
        for name in full:
            ip("netns", "add", name)
            stack.callback(subprocess.run, ("ip", "netns", "del", name), check=False)
            ip("-n", name, "link", "set", "lo", "up")
        yield full


Towards = Literal["left", "right"]
Policy = Callable[[Towards, bytes], Iterable[bytes]]
"""Frame by frame: what goes on, now, in that direction."""


def carry_all(towards: Towards, frame: bytes) -> Iterable[bytes]:
    """The policy of a healthy wire."""
    del towards
    return (frame,)


@dataclass(frozen=True, slots=True)
class Plug:
    """One end of a wire: an interface in a namespace."""

    namespace: str
    mac: str
    addresses: tuple[str, ...] = ()
    """With prefix length."""
    name: str = "eth0"
    mtu: int = 1500
    bridge: str = ""
    """Bridge of the namespace that the interface is a port of."""

    def tap(self) -> int:
        """Make the interface; its other side as a file descriptor."""
        with inside(self.namespace):
            fd = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", self.name.encode(), _IFF_TAP_NO_PI))
        ip(
            "-n",
            self.namespace,
            "link",
            "set",
            self.name,
            "address",
            self.mac,
            "mtu",
            str(self.mtu),
        )
        if self.bridge:
            ip("-n", self.namespace, "link", "set", self.name, "master", self.bridge)
        for address in self.addresses:
            # Duplicate address detection would keep a fresh IPv6 address unusable for a second.
            ip(
                "-n",
                self.namespace,
                "addr",
                "add",
                address,
                "dev",
                self.name,
                *(("nodad",) if ":" in address else ()),
            )
        ip("-n", self.namespace, "link", "set", self.name, "up")
        return fd


@contextmanager
def tapped(name: str, *addresses: str, mtu: int = 1500) -> Iterator[tuple[str, int]]:
    """A namespace with an interface eth0, and a file descriptor: what is written to it arrives
    there, frame by frame.

    Nothing else does: IPv6, which talks to neighbours by itself, is off.
    """
    with namespaces(name) as (namespace,):
        with inside(namespace), open("/proc/sys/net/ipv6/conf/default/disable_ipv6", "w") as switch:
            switch.write("1")
        fd = Plug(namespace, "02:00:00:00:00:02", addresses, mtu=mtu).tap()
        try:
            yield namespace, fd
        finally:
            os.close(fd)


class Wire:
    """Connects two plugs for as long as it is entered."""

    def __init__(self, left: Plug, right: Plug, policy: Policy = carry_all) -> None:
        self._left, self._right, self._policy = left, right, policy
        self._stop_read, self._stop_write = os.pipe()
        self._ends: tuple[int, int] = (-1, -1)
        self._thread = threading.Thread(target=self._carry)

    def __enter__(self) -> Self:
        self._ends = (self._left.tap(), self._right.tap())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._stop_write, b"x")
        self._thread.join()
        for fd in (*self._ends, self._stop_read, self._stop_write):
            os.close(fd)

    def _carry(self) -> None:
        left, right = self._ends
        with selectors.DefaultSelector() as selector:
            routes: dict[int, tuple[Towards, int]] = {left: ("right", right), right: ("left", left)}
            for fd in (left, right, self._stop_read):
                selector.register(fd, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fd == self._stop_read:
                        return
                    towards, out = routes[key.fd]
                    for frame in self._policy(towards, os.read(key.fd, _FRAME)):
                        # An interface that is not up yet takes no frames; TCP and ARP come again.
                        with suppress(OSError):
                            os.write(out, frame)


def tcp_payload(frame: bytes) -> int:
    """Bytes of TCP payload in an Ethernet frame with plain IPv4 or IPv6; 0 for anything else."""
    kind = frame[12:14]
    if kind == b"\x08\x00" and frame[23] == 6:
        header = 14 + 4 * (frame[14] & 0x0F)
        end = 14 + int.from_bytes(frame[16:18], "big")
    elif kind == b"\x86\xdd" and frame[20] == 6:
        header = 54
        end = 54 + int.from_bytes(frame[18:20], "big")
    else:
        return 0
    return end - header - 4 * (frame[header + 12] >> 4)


@dataclass(eq=False, slots=True)
class Trouble:
    """A policy: of the frames with payload towards one side, some are lost, some late, some
    doubled.

    Frames count from 1 and retransmissions count too, so that a set of numbers always says the
    same.
    """

    towards: Towards
    lost: frozenset[int] = frozenset()
    late: dict[int, int] = field(default_factory=dict)
    """Frame -> how many later frames pass it."""
    doubled: frozenset[int] = frozenset()
    _count: int = 0
    _held: list[tuple[int, bytes]] = field(default_factory=list)

    def __call__(self, towards: Towards, frame: bytes) -> list[bytes]:
        """What passes now."""
        if towards != self.towards or not tcp_payload(frame):
            return [frame]
        self._count += 1
        number = self._count
        passing: list[bytes]
        if number in self.lost:
            passing = []
        elif number in self.late:
            self._held.append((number + self.late[number], frame))
            passing = []
        else:
            passing = [frame] * (2 if number in self.doubled else 1)
        due = [held for at, held in self._held if at <= number]
        self._held = [(at, held) for at, held in self._held if at > number]
        return passing + due
