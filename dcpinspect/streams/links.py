"""What the TCP connection under the messages tells: how it began and ended, and what is missing of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """One connection of the reading so far. Pairs are by direction, client to server first."""

    number: int
    client: str
    """``10.0.0.9:50312``."""
    server: str
    has_handshake: bool
    """Its SYN was captured: nothing was said before."""
    first_file: int
    """File of its first packet, from 0."""
    first_ns: int
    last_ns: int
    """Capture times of its first and its latest packet."""
    closed: str
    """``fin``, ``rst``, ``replaced`` (a new connection runs on its addresses), or empty while it is open."""
    closed_by: int
    """Direction of the FIN or RST; -1 where none was captured."""
    closed_ns: int
    closed_packet: int
    """Number over the whole reading of the packet that ended it."""
    closed_frame: int
    """Its number in ``closed_file``, which counts the files of the reading from 0."""
    closed_file: int
    jump: int
    """How far its first sequence number is from where the connection before it on the same addresses was; 0 unless only that tells that it
    is another one."""
    holes: tuple[int, int]
    missing: tuple[int, int]
    """Bytes in those holes."""
    skipped: tuple[int, int]
    """Captured bytes that are in no message."""
    lost_at_end: tuple[tuple[int, int] | None, tuple[int, int] | None]
    """Stream offsets [start, end) behind the latest message that could not be read; None where there are none."""
    tls: str | None = None
    """Version, cipher suite and what became of the records; None where the connection has no TLS."""

    @property
    def is_complete(self) -> bool:
        """Whether everything that was said on it was captured and read."""
        return self.has_handshake and not any((*self.missing, *self.skipped)) and self.lost_at_end == (None, None)
