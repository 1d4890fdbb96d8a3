"""Both peers on one stage: a story told over real sockets, and what was said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from tests.peers.consumer import Consumer
from tests.peers.endpoint import Address, Board, PeerError, Record, Wrap, bare
from tests.peers.producer import Producer
from tests.peers.script import Story


@dataclass(frozen=True, slots=True)
class Said:
    """One connection of a story that was told: who, and every message in each direction, in
    order.
    """

    name: str
    client: Address
    server: Address
    c2s: list[bytes]
    s2c: list[bytes]


def play(
    story: Story,
    *,
    hosts: Mapping[str, str] | None = None,
    port: int = 0,
    fixed_ports: bool = False,
    hooks: Mapping[str, Callable[[], object]] | None = None,
    at_server: Callable[[], AbstractContextManager[None]] = nullcontext,
    at_client: Callable[[], AbstractContextManager[None]] = nullcontext,
    wrap: Wrap = bare,
) -> list[Said]:
    """Tell the story, on the loopback interface unless ``hosts`` says where everybody lives.

    ``hooks`` run when the mark of that name is reached. ``at_server`` and ``at_client`` are entered
    where that side makes its sockets, ``wrap`` puts something before each. Raises PeerError when a
    message did not arrive as it was sent.
    """
    places = {name: "127.0.0.1" for talk in story for name in (talk.client, talk.server)} | dict(
        hosts or {}
    )
    board = Board(hooks)
    with at_server():
        producer = Producer(story, board, places, port, wrap)
    consumer = Consumer(
        story,
        board,
        producer.addresses,
        places,
        fixed_ports=fixed_ports,
        inside=at_client,
        wrap=wrap,
    )
    with ThreadPoolExecutor(2) as pool:
        serving, asking = pool.submit(producer.run), pool.submit(consumer.run)
        wait((serving, asking))
    if board.error is not None:
        raise board.error
    clients, servers = asking.result(), serving.result()
    return [_said(client, server) for client, server in zip(clients, servers, strict=True)]


def _said(client: Record, server: Record) -> Said:
    for sender, receiver in ((client, server), (server, client)):
        if sender.sent != receiver.received:
            place = next(
                (
                    n
                    for n, pair in enumerate(zip(sender.sent, receiver.received, strict=False))
                    if len(set(pair)) > 1
                ),
                None,
            )
            where = (
                f"message {place} differs"
                if place is not None
                else f"{len(receiver.received)} of {len(sender.sent)} messages arrived"
            )
            raise PeerError(f"{client.conversation}: of what the {sender.side} sent, {where}")
    return Said(client.conversation, client.address, client.peer, client.sent, server.sent)
