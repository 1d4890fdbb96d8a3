"""One end of one connection: it walks down the conversation, sends its own part and reads the
other's.

Nothing here sleeps: an end goes on when what it waits for has arrived, or fails after ``TIMEOUT``.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Protocol

from dcpinspect.protocol.header import HEADER_SIZE, decode_header
from tests.peers.script import Await, Close, Conversation, Mark, Send, Side

TIMEOUT = 60.0
"""Seconds that any single wait may take; a lossy path needs several retransmission timers in a row.
"""

_CHUNK = 1 << 16

Address = tuple[str, int]


class Socket(Protocol):
    """What an end needs of a socket, or of what stands before one, as TLS does."""

    def settimeout(self, value: float | None, /) -> None: ...
    def setsockopt(self, level: int, name: int, value: int | bytes, /) -> None: ...
    def getsockname(self) -> Any: ...
    def getpeername(self) -> Any: ...
    def recv(self, size: int, /) -> bytes: ...
    def sendall(self, data: bytes | bytearray, /) -> None: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


Wrap = Callable[[socket.socket, Side], Socket]
"""Puts something between an end and its socket, at the beginning of the connection."""


def bare(sock: socket.socket, side: Side) -> Socket:
    """Nothing between."""
    del side
    return sock


class PeerError(AssertionError):
    """A peer did not get what the script says it gets."""


class Board:
    """Where ends meet: the two of a connection, and connections that wait for each other."""

    def __init__(self, hooks: Mapping[str, Callable[[], object]] | None = None) -> None:
        self._hooks = dict(hooks or {})
        self._lock = threading.Condition()
        self._arrived: dict[tuple[int, int], int] = {}
        self._reached: set[str] = set()
        self._at_failure: list[Callable[[], object]] = []
        self.error: BaseException | None = None
        """What went wrong first; everything after it is a consequence."""

    def meet(self, place: tuple[int, int], name: str) -> None:
        """Wait for the other end at this place of the conversation; the second to arrive runs the
        hook.
        """
        with self._lock:
            self._arrived[place] = self._arrived.get(place, 0) + 1
            second = self._arrived[place] == 2
            self._lock.notify_all()
        if second:
            self._hooks.get(name, lambda: None)()
            self.reach(name, place)
        else:
            self._wait(lambda: self._arrived[place] == 3, f"the other end never came to {name!r}")

    def reach(self, name: str, place: tuple[int, int] | None = None) -> None:
        """Say that a mark has been reached."""
        with self._lock:
            self._reached.add(name)
            if place is not None:
                self._arrived[place] += 1
            self._lock.notify_all()

    def wait_for(self, name: str) -> None:
        """Wait until a mark has been reached."""
        self._wait(lambda: name in self._reached, f"{name!r} was never reached")

    def fail(self, error: BaseException) -> None:
        """Wake everybody up: one end has given up."""
        with self._lock:
            self.error = self.error or error
            self._lock.notify_all()
        for call in self._at_failure:
            call()

    def at_failure(self, call: Callable[[], object]) -> None:
        """What to do, beside waking who waits here, when somebody gives up."""
        self._at_failure.append(call)

    def _wait(self, ready: Callable[[], bool], complaint: str) -> None:
        with self._lock:
            self._lock.wait_for(lambda: ready() or self.error is not None, TIMEOUT)
            if not ready():
                raise PeerError(complaint)


@dataclass(slots=True)
class Record:
    """What one end did: exactly the messages that it sent and those that it got, in order."""

    conversation: str
    side: Side
    address: Address
    peer: Address
    sent: list[bytes] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)


class _Inbox:
    """Reads frames as fast as they come, so that a long burst never stalls both ends."""

    def __init__(self, sock: Socket, expected: Iterator[Send], into: list[bytes]) -> None:
        self._sock = sock
        self._expected = expected
        self._frames = into
        self._buffer = bytearray()
        self._size = 0
        self._ended = False
        self._error: OSError | None = None
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        upcoming = next(self._expected, None)
        try:
            while data := self._sock.recv(_CHUNK):
                with self._news:
                    self._buffer += data
                    self._size += len(data)
                    while size := self._complete(upcoming):
                        self._frames.append(bytes(self._buffer[:size]))
                        del self._buffer[:size]
                        upcoming = next(self._expected, None)
                    self._news.notify_all()
        except OSError as error:
            self._error = error
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _complete(self, upcoming: Send | None) -> int:
        if upcoming is not None and upcoming.raw:
            size = len(upcoming.data)
        elif len(self._buffer) < HEADER_SIZE:
            return 0
        else:
            size = decode_header(memoryview(self._buffer)).size
        return size if size <= len(self._buffer) else 0

    def wait_frames(self, count: int) -> None:
        self._wait(
            lambda: len(self._frames) >= count,
            lambda: f"{len(self._frames)} of {count} messages arrived",
        )

    def wait_bytes(self, count: int) -> None:
        self._wait(lambda: self._size >= count, lambda: f"{self._size} of {count} bytes arrived")

    def wait_end(self) -> None:
        self._wait(lambda: self._ended, lambda: "the other end did not close")
        self._thread.join()

    def _wait(self, ready: Callable[[], bool], complaint: Callable[[], str]) -> None:
        with self._news:
            self._news.wait_for(lambda: ready() or self._ended, TIMEOUT)
            if not ready():
                raise PeerError(complaint() + (f" ({self._error})" if self._error else ""))


class Endpoint:
    """Follows a conversation at one of its ends."""

    def __init__(self, sock: Socket, side: Side, conversation: Conversation, board: Board) -> None:
        sock.settimeout(TIMEOUT)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(conversation.nodelay))
        self._sock = sock
        self._side = side
        self._talk = conversation
        self._board = board
        local, remote = sock.getsockname(), sock.getpeername()
        self.record = Record(conversation.name, side, local[:2], remote[:2])
        theirs = (
            event for event in conversation.events if isinstance(event, Send) and event.side != side
        )
        self._inbox = _Inbox(sock, theirs, self.record.received)
        self._writes = cycle(conversation.writes)
        self._room = next(self._writes)
        self._pending = bytearray()
        self._owed = 0
        self._owed_bytes = 0

    def follow(self) -> Record:
        """The whole conversation; what was said at this end."""
        try:
            closed = False
            for number, event in enumerate(self._talk.events):
                if isinstance(event, Send):
                    self._send(event, number)
                elif isinstance(event, Mark):
                    self._catch_up()
                    self._board.meet((id(self._talk), number), event.name)
                elif isinstance(event, Await):
                    self._catch_up()
                    self._board.wait_for(event.name)
                else:
                    self._close(event)
                    closed = True
                    break
            if not closed:
                self._close(Close("client"))
            if self._side == "client":
                self._board.reach(f"{self._talk.name} ended")
            return self.record
        except BaseException as error:
            self._board.fail(error)
            raise
        finally:
            self._sock.close()

    def _send(self, event: Send, number: int) -> None:
        if event.side != self._side:
            if event.hold is not None:
                self._flush()
                self._inbox.wait_bytes(self._owed_bytes + event.hold[0])
                self._board.meet((id(self._talk), number), event.hold[1])
            self._owed += 1
            self._owed_bytes += len(event.data)
            return
        if event.waits and len(self.record.received) < self._owed:
            self._catch_up()
        self.record.sent.append(event.data)
        if event.hold is not None:
            size, name = event.hold
            self._pending += event.data[:size]
            self._flush()
            self._board.meet((id(self._talk), number), name)
            self._sock.sendall(event.data[size:])
            return
        self._pending += event.data
        self._room -= 1
        if self._room == 0:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._sock.sendall(self._pending)
            self._pending.clear()
        self._room = next(self._writes)

    def _catch_up(self) -> None:
        self._flush()
        self._inbox.wait_frames(self._owed)

    def _close(self, event: Close) -> None:
        self._catch_up()
        if event.abort:
            # A reset throws away what the other end has not read yet, so both say first that they
            # have.
            self._board.meet((id(self._talk), -1), f"{self._talk.name} aborts")
            if event.side == self._side:
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # The reader still holds the socket: shutting down the reading half lets it go.
                self._sock.shutdown(socket.SHUT_RD)
                self._inbox.wait_end()
            else:
                self._inbox.wait_end()
            return
        if event.side == self._side:
            self._sock.shutdown(socket.SHUT_WR)
            self._inbox.wait_end()
        else:
            self._inbox.wait_end()
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_WR)


def speak(
    sock: socket.socket, side: Side, conversation: Conversation, board: Board, wrap: Wrap
) -> Record:
    """An end's whole part, in a thread of its own; what was said there."""
    try:
        sock.settimeout(TIMEOUT)
        wrapped = wrap(sock, side)
    except BaseException as error:
        board.fail(error)
        sock.close()
        raise
    return Endpoint(wrapped, side, conversation, board).follow()
