"""The TCP client of a story: it connects, in the story's order, and speaks the client's part.

In most stories it is the DCP consumer; where the open has no producer flag it is the DCP producer.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext

from tests.peers.endpoint import TIMEOUT, Address, Board, Record, Wrap, bare, speak
from tests.peers.script import Conversation, Story

FIRST_PORT = 50_000
"""Client port of a story's first connection where ports are fixed, so that captures name the same
ports every time.
"""


class Consumer:
    """Connects to the story's servers; ``inside`` is entered for each socket, to make it in another
    network namespace.
    """

    def __init__(
        self,
        story: Story,
        board: Board,
        servers: Mapping[str, Address],
        hosts: Mapping[str, str],
        *,
        fixed_ports: bool = False,
        inside: Callable[[], AbstractContextManager[None]] = nullcontext,
        wrap: Wrap = bare,
    ) -> None:
        self._story = story
        self._board = board
        self._servers = servers
        self._hosts = hosts
        self._fixed_ports = fixed_ports
        self._inside = inside
        self._wrap = wrap

    def run(self) -> list[Record]:
        """All connections of the story; what was said at this end, in the story's order."""
        try:
            with ThreadPoolExecutor(len(self._story)) as pool:
                futures: list[Future[Record]] = []
                for number, talk in enumerate(self._story):
                    if talk.after:
                        self._board.wait_for(talk.after)
                    sock = self._connect(talk, FIRST_PORT + number if self._fixed_ports else 0)
                    futures.append(
                        pool.submit(speak, sock, "client", talk, self._board, self._wrap)
                    )
                return [future.result() for future in futures]
        except BaseException as error:
            self._board.fail(error)
            raise

    def _connect(self, talk: Conversation, port: int) -> socket.socket:
        host, server = self._hosts[talk.client], self._servers[talk.server]
        with self._inside():
            sock = socket.socket(
                socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM
            )
        try:
            sock.settimeout(TIMEOUT)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if talk.mss:
                # Told to the server in the SYN, so it holds in both directions.
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, talk.mss)
            sock.bind((host, port))
            sock.connect(server)
        except OSError:  # the story has failed, and nobody listens
            sock.close()
            raise
        return sock
