"""The TCP server of a story: one listener a host, one thread a connection.

In most stories it is the DCP producer; where the open has no producer flag it is the DCP consumer.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from tests.peers.endpoint import TIMEOUT, Address, Board, Record, Wrap, bare, speak
from tests.peers.script import Story


class Producer:
    """Accepts the story's connections, in order, and speaks the server's part of each.

    ``hosts`` gives the address of each host by its name on the stage. Listening begins at once, so
    sockets belong to the network namespace of whoever makes the object.
    """

    def __init__(
        self, story: Story, board: Board, hosts: Mapping[str, str], port: int = 0, wrap: Wrap = bare
    ) -> None:
        self._story = story
        self._board = board
        self._wrap = wrap
        self._listeners: dict[str, socket.socket] = {}
        for name in dict.fromkeys(talk.server for talk in story):
            host = hosts[name]
            listener = socket.socket(
                socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM
            )
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen()
            listener.settimeout(TIMEOUT)
            self._listeners[name] = listener
        board.at_failure(self._stop_accepting)

    @property
    def addresses(self) -> dict[str, Address]:
        """Where each host listens."""
        return {name: listener.getsockname()[:2] for name, listener in self._listeners.items()}

    def _stop_accepting(self) -> None:
        for listener in self._listeners.values():
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)

    def run(self) -> list[Record]:
        """All connections of the story; what was said at this end, in the story's order."""
        try:
            with ThreadPoolExecutor(len(self._story)) as pool:
                futures: list[Future[Record]] = []
                # Clients connect in the story's order, and a listener hands connections out in that
                # order.
                for talk in self._story:
                    sock, _ = self._listeners[talk.server].accept()
                    futures.append(
                        pool.submit(speak, sock, "server", talk, self._board, self._wrap)
                    )
                return [future.result() for future in futures]
        except BaseException as error:
            self._board.fail(error)
            raise
        finally:
            for listener in self._listeners.values():
                listener.close()
