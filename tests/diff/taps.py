"""One conversation captured at two places: near the client (A), and near the server (B), by another
clock and with other addresses.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from tests.builders import Conversation, Segment, pcap, recorded
from tests.peers.script import Send
from tests.streams.told import opened

OFFSET, FORTH, BACK, SERVER = 5_000_000_000, 300_000, 100_000, 40_000
"""Nanoseconds: B's clock less A's; from A's tap to B's; back; and what the server takes."""


def conversation(events: int = 40) -> list[Segment]:
    """As the client's end has it, a message in each segment."""
    talk = opened()
    stream = talk.stream(7, log=[(0xABCD, 0)])
    stream.snapshot(0, events, "memory")
    for seqno in range(1, events + 1):
        stream.mutation(seqno, f"key-{seqno}", b"v" * 100)
    wire = Conversation(step_ns=1_000_000)
    wire.handshake()
    for event in talk.events:
        if isinstance(event, Send):
            wire.send(event.side == "client", event.data)
    return wire.segments


def taps(
    segments: list[Segment], *, lost: Collection[int] = (), missed: Collection[int] = ()
) -> tuple[list[Segment], list[Segment]]:
    """The same at both places: by the clock of A and by that of B.

    ``lost``: segments that do not come through and are sent again after 200 ms; ``missed``: those
    that B's capture lacks.
    """
    a: list[Segment] = []
    b: list[Segment] = []
    last = 0
    for number, one in enumerate(segments):
        at = max(one.time_ns, last)  # when its sender's tap sees it, by A's clock
        for time_ns in (at, at + 200_000_000) if number in lost else (at,):
            comes_through = number not in lost or time_ns > at
            near, far = (a, b) if one.to_server else (b, a)
            shift = (0, OFFSET) if one.to_server else (OFFSET, 0)
            near.append(replace(one, time_ns=time_ns + shift[0]))
            if comes_through:
                far.append(
                    replace(one, time_ns=time_ns + (FORTH if one.to_server else BACK) + shift[1])
                )
                last = time_ns + 1_000_000
        if number in missed:
            b.pop()
    nat = ("192.168.7.7", 4242)
    return a, [replace(one, client=nat) for one in b]


def written(folder: Path, a: list[Segment], b: list[Segment]) -> tuple[Path, Path]:
    """As captures."""
    paths = folder / "a.pcap", folder / "b.pcap"
    for path, segments in zip(paths, (a, b), strict=True):
        ordered = sorted(segments, key=lambda one: one.time_ns)
        path.write_bytes(pcap(recorded(ordered), magic=0xA1B23C4D))
    return paths
