"""What the TCP connection under the messages tells: how it began and ended, what is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Self

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.streams.records import GREATEST

OUTAGE_NS = 10_000_000_000
"""By then, TCP has sent bytes again five times or more."""


def host_of(address: str) -> str:
    """Returns an address without its port."""
    return address.rpartition(":")[0]


def client_text(client: str, origin: str | None) -> str:
    """Returns a client's address, and who is behind it if a PROXY header names it (``origin``)."""
    return f"{origin} behind the proxy {client}" if origin else client


def in_network(address: str, network: int) -> str:
    """Returns an address and port as it is written in a further network, such as
    ``10.0.0.9%2:50312``.
    """
    host, _, port = address.rpartition(":")
    bracket = "]" if host.endswith("]") else ""
    return f"{host.removesuffix(bracket)}%{network}{bracket}:{port}"


class ZeroWindow(NamedTuple):
    """When an end announced a TCP receive window of 0, which stops the other end."""

    since_ns: int
    until_ns: int
    """When it was open again; if never, the end of the connection."""
    frame: int
    """Number of the packet that announced it, in ``file``, which counts from 0."""
    file: int

    @property
    def time_ns(self) -> int:
        """How long it was, as far as is known."""
        return self.until_ns - self.since_ns


class ZeroWindows(NamedTuple):
    """The times of 1 s or more when an end took nothing."""

    spells: tuple[ZeroWindow, ...]
    """The longest, and one that is not over, in order of time."""
    times: int
    """How many there were."""
    is_over: bool
    """Whether the window was open again in the end."""

    @property
    def longest(self) -> ZeroWindow:
        """The longest of all."""
        return max(self.spells, key=lambda spell: spell.time_ns)


class LateAck(NamedTuple):
    """Bytes that were sent again until the other side's host acknowledged them late."""

    start: int
    end: int
    """Stream offsets [start, end) of what had been sent by then and was not acknowledged before;
    all, where nobody knows, as inside TLS.
    """
    sent_ns: int
    """When it was sent first, or earlier."""
    since_ns: int
    """When it was sent again first."""
    time_ns: int
    """When it was acknowledged; ``GREATEST``: it never was."""


@dataclass(frozen=True, slots=True)
class TcpConnection:
    """One connection of the reading so far. Pairs are by direction, client to server first."""

    number: int
    client: str
    """Address and port, such as ``10.0.0.9:50312``."""
    server: str
    has_handshake: bool
    """Whether its SYN was captured: then nothing was said before."""
    first_seq: tuple[int, int]
    """TCP sequence numbers of the first bytes; -1 where nobody knows it."""
    first_file: int
    last_file: int
    """Numbers of the files of its first packet, and of its end or else its latest one, from 0."""
    first_frame: int
    """Number of its first packet in ``first_file``."""
    first_ns: int
    last_ns: int
    """Capture times of its first and its latest packet."""
    closed: str
    """``fin``, ``rst``, ``replaced`` (a new connection has its addresses), or empty: it is open."""
    closed_by: int
    """Direction of the FIN or RST; -1 where none was captured."""
    closed_ns: int
    closed_packet: int
    """Number of the packet that ended it, counted over the whole reading."""
    closed_frame: int
    """Number of that packet in ``closed_file``, which counts the files of the reading from 0."""
    closed_file: int
    jump: int
    """Distance of its first sequence number from where the last connection on the same addresses
    was. It is 0 unless only this distance shows that it is another connection.
    """
    holes: tuple[int, int]
    missing: tuple[int, int]
    """Bytes missing in those holes."""
    skipped: tuple[int, int]
    """Captured bytes that belong to no message."""
    lost_at_end: tuple[tuple[int, int] | None, tuple[int, int] | None]
    """Stream offsets [start, end) behind the latest unreadable message; None for none."""
    tls: str | None = None
    """Version, cipher suite and state of the records; None where the connection has no TLS."""
    is_decrypted: bool = False
    """Whether what was read of it came out of TLS."""
    networks: tuple[int, ...] = ()
    """The networks in which its packets were, as ``headers.network_of`` has them."""
    network: int = 1
    """Number of the network, where ``networks_apart`` found several with the same addresses."""
    acked: tuple[int, int] = (0, 0)
    """Stream offset up to which the host of the other side has acknowledged what was sent; 0 where
    nobody knows. Inside TLS that is so unless everything was acknowledged, to the greatest number.
    """
    proxied: str | None = None
    """Address and port of the client as a PROXY header names it, empty if it names none; None
    without such a header.
    """
    unopened: str = ""
    """What came of its SYN instead of an answer: ``unanswered``, ``refused``, or what an ICMP error
    says. ``silent`` where it was opened and closed, and nobody said a byte. Else empty.
    """
    unreached: tuple[str, ...] = ("", "")
    """By direction: what an ICMP error says of its packets, where the end that they were sent to
    was not heard after it; else empty.
    """
    syns: int = 0
    """Number of packets of the client, where it has had no answer."""
    unseen: int = -1
    """Direction without a captured packet, though the other shows that it had some; -1: none."""
    unproven: tuple[int, ...] = (0, 0)
    """Bytes behind the ends that IP headers tell, where nothing shows that they are its own."""
    shut: tuple[ZeroWindows | None, ...] = (None, None)
    """By direction: that its sender, for 1 s or more, took nothing."""
    late_acks: tuple[tuple[LateAck, ...], ...] = ((), ())
    """By direction, in order. If there were too many, the first one begins at 0, and stands for all
    that are forgotten.
    """
    is_http: bool = False
    """Whether it speaks HTTP."""
    ends_unacked: bool = False
    """Whether bytes are acknowledged by no packet at the end, and their sender never sent them again."""
    unfinished: tuple[int, int] = (0, 0)
    """Captured bytes of a message that is not complete at the end."""
    not_decodable: int = 0
    """Bytes of ``skipped`` that are of another protocol."""
    points: tuple[str, str] = ("", "")
    """Capture points of these files: a capture of another point shows nothing of it."""

    @property
    def heard_until_ns(self) -> int:
        """When the connection ended; the time of its latest packet where nobody ended it."""
        return self.closed_ns if self.closed in ("fin", "rst") else self.last_ns

    @property
    def how_closed(self) -> str:
        """How one end closed it, in a word."""
        return "reset" if self.closed == "rst" else "closed"

    @property
    def how_it_closes(self) -> str:
        """The same as something that one end does: it closes or resets the connection."""
        return "resets" if self.closed == "rst" else "closes"

    def node(self, named: str) -> str:
        """Returns the address of a node as the server calls it, which may mean itself."""
        if named and "$HOST" not in named and self.network > 1:
            return in_network(named, self.network)
        return (named or self.server).replace("$HOST", host_of(self.server))

    def in_network(self, network: int) -> Self:
        """Returns the connection in a further network: its addresses have the number of it."""
        return replace(
            self,
            network=network,
            client=in_network(self.client, network),
            server=in_network(self.server, network),
            proxied=in_network(self.proxied, network) if self.proxied else self.proxied,
        )

    def has_received(self, direction: int, offset: int) -> bool:
        """Returns whether the other side's host acknowledged the header of the message at a stream
        offset of a direction.
        """
        return self.acked[direction] >= offset + HEADER_SIZE

    def received_ns(
        self,
        direction: int,
        offset: int,
        sent_ns: int,
        size: int = HEADER_SIZE,
        until_ns: int = GREATEST,
    ) -> int:
        """Returns since when the other side can know ``size`` bytes from a stream offset on: the
        time when its host acknowledged them, if they were sent again until then; ``GREATEST`` if
        they were sent again in vain; else ``sent_ns``. Nothing after ``until_ns`` counts.
        """
        late_ns = (
            late.time_ns
            for late in self.late_acks[direction]
            if late.start < offset + size
            and offset < late.end
            and late.sent_ns <= sent_ns
            and sent_ns <= late.time_ns <= until_ns
        )
        return max(late_ns, default=sent_ns)

    @property
    def are_shut(self) -> tuple[bool, bool]:
        """By direction: whether its sender takes nothing at the end, so that nothing can come."""
        c2s, s2c = (shut is not None and not shut.is_over for shut in self.shut)
        return c2s, s2c

    def carried_ns(self, since_ns: int, until_ns: int, heard_ns: int) -> int:
        """Returns for how long of a time the network carried, as far as TCP shows: silence in the
        rest is nobody's. ``heard_ns``: time of the latest message of who is waited for. A network
        that carries nothing in the end may have done so from then on, or from the latest
        acknowledgement on.
        """
        outages = sorted(
            (
                late.since_ns
                if late.time_ns < GREATEST
                else min(late.since_ns, max(heard_ns, late.sent_ns)),
                late.time_ns,
            )
            for acks in self.late_acks
            for late in acks
        )
        carried, known_ns = max(0, until_ns - since_ns), since_ns
        for begin_ns, end_ns in outages:
            carried -= max(0, min(end_ns, until_ns) - max(begin_ns, known_ns))
            known_ns = max(known_ns, min(end_ns, until_ns))
        return carried

    def outage_ns(self, time_ns: int) -> int:
        """Returns for how long the network had carried nothing of a side, as far as TCP shows."""
        return max(
            (
                time_ns - late.since_ns
                for acks in self.late_acks
                for late in acks
                if late.since_ns <= time_ns <= late.time_ns
            ),
            default=0,
        )

    @property
    def origin(self) -> str:
        """Address and port of the client, behind its proxy if a header names it."""
        return self.proxied or self.client

    def is_cut(self, direction: int) -> bool:
        """Whether bytes of a direction are missing, or are in no whole message."""
        return self.missing[direction] + self.skipped[direction] + self.unfinished[direction] > 0

    @property
    def is_complete(self) -> bool:
        """Whether everything that was said on the connection was captured and read."""
        return (
            self.has_handshake
            and not any((*self.missing, *self.skipped))
            and self.lost_at_end == (None, None)
        )


class CountedConnections:
    """Which connections count in readings."""

    def __init__(self) -> None:
        self.copies = False
        """Whether tables and counts also have connections that show what another one shows."""


command_counting = CountedConnections()
"""What the command line says."""
