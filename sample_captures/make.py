#!/usr/bin/env python3
"""Make the sample captures: ``python sample_captures/make.py [NAME...]``, as root, on Linux with
tcpdump.

Each sample is a story (``tests/peers/stories``) told by two peers over real TCP and recorded by
tcpdump; ``README.md`` tells what each one is for. Beside a capture stands what the peers said.
Every recording is checked before it is kept: tcpdump dropped nothing, and the segments hold what
the peers sent.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate, count, groupby
from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

sys.path.insert(0, str(Path(__file__).parents[1]))  # the peers are no part of the installed package

from tests.peers import capture_file
from tests.peers.endpoint import Address
from tests.peers.network import Plug, Policy, Trouble, Wire, carry_all, inside, ip, namespaces
from tests.peers.play import Said, play
from tests.peers.recorder import PORT, Recorder
from tests.peers.script import EPOCH, Conversation, Send, Side, Story, other
from tests.peers.stories import STORIES
from tests.peers.stories.busy import RECORDING_STARTS, RECORDING_STOPS, busy
from tests.peers.stories.trouble import QUIET
from tests.peers.truth import SAMPLES, Direction, Ranges, lost_ranges, save

HOSTS = {
    "client": "10.11.0.1",
    "client6": "fd11::1",
    "node1": "10.11.0.2",
    "node2": "10.11.0.3",
    "node1-6": "fd11::2",
}
"""Who lives where, on samples that cross a wire."""

_CLIENT_MAC, _SERVER_MAC = "02:00:0a:0b:00:01", "02:00:0a:0b:00:02"


@contextmanager
def wire(mtu: int, policy: Policy = carry_all) -> Iterator[tuple[str, str]]:
    """Namespaces of client and server, joined by a wire."""
    with namespaces("client", "server") as (client, server):
        left = Plug(
            client,
            _CLIENT_MAC,
            ("10.11.0.1/24", *(("fd11::1/64",) if mtu >= 1280 else ())),
            mtu=mtu,
        )
        right = Plug(
            server,
            _SERVER_MAC,
            ("10.11.0.2/24", "10.11.0.3/24", *(("fd11::2/64",) if mtu >= 1280 else ())),
            mtu=mtu,
        )
        with Wire(left, right, policy):
            yield client, server


def tell(
    story: Story,
    client: str,
    server: str,
    hosts: Mapping[str, str] = HOSTS,
    hooks: Mapping[str, Callable[[], object]] | None = None,
) -> list[Said]:
    """The story, told across namespaces."""
    return play(
        story,
        hosts=hosts,
        port=PORT,
        fixed_ports=True,
        hooks=hooks,
        at_client=lambda: inside(client),
        at_server=lambda: inside(server),
    )


def over_wire(story: Story, path: Path, *, mtu: int, policy: Policy = carry_all) -> list[Said]:
    """Tell the story over a wire, recorded at the client's end."""
    with wire(mtu, policy) as (client, server), Recorder(path, "eth0", client) as recorder:
        said = tell(story, client, server)
        recorder.wait_until_closed(len(story))
    return said


def keep(
    name: str, recording: Path, said: Sequence[Said], suffix: str, *, damaged: bool = False
) -> None:
    """Check a recording against what was said, and write it and its truth into the samples.

    Its clock is set to the stories' date, a minute after their first documents were stored.
    """
    link, packets = capture_file.read(recording)
    ways: dict[tuple[Address, Address], list[capture_file.Segment]] = {}
    for segment in capture_file.segments(link, packets):
        ways.setdefault((segment.source, segment.target), []).append(segment)
    missing: dict[tuple[int, Direction], list[Ranges]] = {}
    for number, talk in enumerate(said, 1):
        c2s, s2c = (
            ways.get((talk.client, talk.server), []),
            ways.get((talk.server, talk.client), []),
        )
        missing[number, "c2s"] = lost_ranges(
            talk.c2s, capture_file.stream_ranges(c2s, b"".join(talk.c2s))
        )
        missing[number, "s2c"] = lost_ranges(
            talk.s2c, capture_file.stream_ranges(s2c, b"".join(talk.s2c))
        )
    if not damaged and any(any(lost) for lost in missing.values()):
        raise SystemExit(f"{name}: the recording lacks bytes that were sent")
    target = SAMPLES / f"{name}.{suffix}"
    shift = (packets[0][0] // 10**9 - EPOCH - 60) * 10**9
    packets = [(time - shift, data) for time, data in packets]
    comment = f"dcpinspect sample {name}, see README.md"
    content = (
        capture_file.pcapng(link, packets, comment, "eth0")
        if "pcapng" in suffix
        else capture_file.pcap(link, packets)
    )
    target.write_bytes(gzip.compress(content, 9, mtime=0) if suffix.endswith(".gz") else content)
    truth = save(name, said, missing, digests=suffix.endswith(".gz"))
    count = sum(len(talk.c2s) + len(talk.s2c) for talk in said)
    print(  # noqa: T201
        f"{target.name}: {count} messages, {target.stat().st_size} bytes; {truth.name}: "
        f"{truth.stat().st_size} bytes"
    )


def tour(scratch: Path) -> None:
    """All kinds of messages, IPv4 and IPv6."""
    keep("tour", scratch, over_wire(STORIES["tour"](), scratch, mtu=1280), "pcapng")


def rollback(scratch: Path) -> None:
    """A failover, and what each vbucket has to give back."""
    keep("rollback", scratch, over_wire(STORIES["rollback"](), scratch, mtu=576), "pcap")


def snapshots(scratch: Path) -> None:
    """Snapshots of all kinds, over a loopback interface."""
    with namespaces("local") as (local,), Recorder(scratch, "lo", local) as recorder:
        said = tell(STORIES["snapshots"](), local, local, hosts=dict.fromkeys(HOSTS, "127.0.0.1"))
        recorder.wait_until_closed(len(said))
    keep("snapshots", scratch, said, "pcap")


def lossy(scratch: Path) -> None:
    """A path that loses, delays and doubles segments in both directions; the receiver gets
    everything in the end.
    """
    down = Trouble(
        "left",
        lost=frozenset({9, 24, 25, 26, 60, 91, 120, 121}),
        late={15: 2, 40: 1, 41: 3, 77: 4, 100: 1, 130: 2},
        doubled=frozenset({33, 70, 71, 105}),
    )
    up = Trouble("right", lost=frozenset({7}), doubled=frozenset({4}))
    story = busy(rounds=60)
    keep("lossy", scratch, over_wire(story, scratch, mtu=576, policy=both(down, up)), "pcap")


def both(first: Policy, second: Policy) -> Policy:
    """One policy after the other."""
    return lambda towards, frame: [
        out for passed in first(towards, frame) for out in second(towards, passed)
    ]


def capture_loss(scratch: Path) -> None:
    """A healthy conversation whose recording lacks frames that the receiver had."""
    said = over_wire(busy(rounds=36), scratch, mtu=576)
    link, packets = capture_file.read(scratch)
    lost = frames_to_lose(list(capture_file.segments(link, packets)), said[0])
    scratch.write_bytes(
        capture_file.pcap(
            link, [packet for frame, packet in enumerate(packets, 1) if frame not in lost]
        )
    )
    keep("capture-loss", scratch, said, "pcap", damaged=True)


def frames_to_lose(segments: Sequence[capture_file.Segment], talk: Said) -> set[int]:
    """Frames whose absence hurts in different ways, well apart from each other.

    Inside one value; over the start of a message; three in a row over several messages; a segment
    that held whole messages only; and one of the client's.
    """
    starts = list(accumulate(map(len, talk.s2c), initial=0))
    down = [s for s in segments if s.source == talk.server and s.payload]
    up = [s for s in segments if s.source == talk.client and s.payload]
    first = down[0].seq

    def boundaries(segment: capture_file.Segment) -> list[int]:
        begin = segment.seq - first
        return starts[
            bisect_left(starts, begin) : bisect_left(starts, begin + len(segment.payload))
        ]

    streaming = down[len(down) // 4 :]
    inside = next(s for s in streaming if not boundaries(s))
    later = [s for s in streaming if s.frame > inside.frame + 20]
    over = next(s for s in later if boundaries(s) and boundaries(s)[0] > s.seq - first)
    later = [s for s in later if s.frame > over.frame + 20]
    row = later[:3]
    later = [s for s in later if s.frame > row[-1].frame + 20]
    ends = set(starts)
    whole = next(
        s for s in later if s.seq - first in ends and s.seq - first + len(s.payload) in ends
    )
    return {inside.frame, over.frame, *(s.frame for s in row), whole.frame, up[-2].frame}


def midstream(scratch: Path) -> None:
    """tcpdump comes late and leaves early, both in the middle of a message."""
    story = STORIES["midstream"]()
    marks = [
        number
        for number, event in enumerate(story[0].events)
        if isinstance(event, Send) and event.hold
    ]
    between = [
        event
        for event in story[0].events[marks[0] : marks[1]]
        if isinstance(event, Send) and event.side == "server"
    ]
    held = [
        event.hold[0]
        for number in marks
        if isinstance(event := story[0].events[number], Send) and event.hold
    ]
    expected = sum(len(event.data) for event in between) - held[0] + held[1]
    with wire(576) as (client, server):
        recorder = Recorder(scratch, "eth0", client)

        def stop() -> None:
            recorder.wait_payload((HOSTS["node1"], PORT), expected)
            recorder.stop()

        with ExitStack() as stack:
            hooks = {RECORDING_STARTS: lambda: stack.enter_context(recorder), RECORDING_STOPS: stop}
            said = tell(story, client, server, hooks=hooks)
    keep("midstream", scratch, said, "pcap", damaged=True)


def any_interface(scratch: Path) -> None:
    """A host between client and server, whose bridge shows each packet to ``-i any`` where it
    enters and where it leaves.
    """
    with namespaces("client", "host", "server") as (client, host, server):
        ip("-n", host, "link", "add", "br0", "type", "bridge", "forward_delay", "0")
        ip("-n", host, "link", "set", "br0", "up")
        left = (
            Plug(client, _CLIENT_MAC, ("10.11.0.1/24",), mtu=576),
            Plug(host, "02:00:0a:0b:00:11", name="port1", mtu=576, bridge="br0"),
        )
        right = (
            Plug(host, "02:00:0a:0b:00:12", name="port2", mtu=576, bridge="br0"),
            Plug(server, _SERVER_MAC, ("10.11.0.2/24",), mtu=576),
        )
        with Wire(*left), Wire(*right), Recorder(scratch, "any", host) as recorder:
            said = tell(
                busy(rounds=12), client, server, hosts={"client": "10.11.0.1", "node1": "10.11.0.2"}
            )
            recorder.wait_until_closed(len(said))
    keep("any", scratch, said, "pcap")


def large(scratch: Path) -> None:
    """About 100,000 messages."""
    keep("large", scratch, over_wire(STORIES["large"](), scratch, mtu=1500), "pcapng.gz")


def upr(scratch: Path) -> None:
    """The first specification's own examples, in packets crafted with Scapy."""
    story = STORIES["upr"]()
    scratch.write_bytes(capture_file.pcap(1, list(crafted(story[0]))))
    parts = {
        side: [
            event.data
            for event in story[0].events
            if isinstance(event, Send) and event.side == side
        ]
        for side in _MACS
    }
    ends = {"client": ("10.11.0.1", 50_000), "server": ("10.11.0.2", PORT)}
    keep(
        "upr",
        scratch,
        [Said(story[0].name, ends["client"], ends["server"], parts["client"], parts["server"])],
        "pcap",
    )


def loop(scratch: Path) -> None:
    """A client that never finishes its first snapshot."""
    keep("loop", scratch, over_wire(STORIES["loop"](), scratch, mtu=1500), "pcap")


def orphans(scratch: Path) -> None:
    """A client that forgets vbuckets; for three seconds nothing is said."""
    with wire(1500) as (client, server), Recorder(scratch, "eth0", client) as recorder:
        said = tell(STORIES["orphans"](), client, server, hooks={QUIET: lambda: time.sleep(3)})
        recorder.wait_until_closed(len(said))
    keep("orphans", scratch, said, "pcap")


_MACS: dict[Side, str] = {"client": _CLIENT_MAC, "server": _SERVER_MAC}
_IPS: dict[Side, str] = {"client": "10.11.0.1", "server": "10.11.0.2"}
_PORTS: dict[Side, int] = {"client": 50_000, "server": PORT}
_SEGMENT = 100
"""Payload bytes of a crafted segment: most examples share one with their neighbours, or need two.
"""


def crafted(talk: Conversation) -> Iterator[capture_file.Packet]:
    """Handshake, a segment whenever one is full or the speaker changes, acknowledgements, and both
    FINs.
    """
    seq: dict[Side, int] = {"client": 0x1000_0000, "server": 0x2000_0000}
    clock = count(EPOCH * 10**9, 250_000)

    def packet(side: Side, flags: str, payload: bytes = b"") -> capture_file.Packet:
        far = other(side)
        frame = (
            Ether(src=_MACS[side], dst=_MACS[far])
            / IP(src=_IPS[side], dst=_IPS[far], id=0)
            / TCP(
                sport=_PORTS[side],
                dport=_PORTS[far],
                flags=flags,
                seq=seq[side],
                ack=seq[far] if "A" in flags else 0,
                window=65535,
            )
            / payload
        )
        seq[side] += len(payload) + ("S" in flags) + ("F" in flags)
        return next(clock), bytes(frame)

    yield packet("client", "S")
    yield packet("server", "SA")
    yield packet("client", "A")
    sends = [event for event in talk.events if isinstance(event, Send)]
    for side, turn in groupby(sends, key=lambda event: event.side):
        said = b"".join(event.data for event in turn)
        for start in range(0, len(said), _SEGMENT):
            yield packet(side, "PA", said[start : start + _SEGMENT])
        yield packet(other(side), "A")
    yield packet("client", "FA")
    yield packet("server", "FA")
    yield packet("client", "A")


MAKERS: dict[str, Callable[[Path], None]] = {
    "tour": tour,
    "rollback": rollback,
    "snapshots": snapshots,
    "lossy": lossy,
    "capture-loss": capture_loss,
    "midstream": midstream,
    "any": any_interface,
    "large": large,
    "upr": upr,
    "loop": loop,
    "orphans": orphans,
}
"""By the name of the sample."""


def main(names: Sequence[str]) -> None:
    """Make the samples with these names, or all."""
    unknown = set(names) - set(MAKERS)
    if unknown:
        raise SystemExit(
            f"no sample is called {', '.join(sorted(unknown))}; there are {', '.join(MAKERS)}"
        )
    for name in names or MAKERS:
        with tempfile.TemporaryDirectory() as directory:
            MAKERS[name](Path(directory) / "recording.pcap")


if __name__ == "__main__":
    main(sys.argv[1:])
