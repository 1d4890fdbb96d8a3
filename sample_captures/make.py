#!/usr/bin/env python3
"""Make the sample captures: ``python sample_captures/make.py [NAME...]``, as root, on Linux with tcpdump.

Each sample is a story (``tests/peers/stories``) told by two peers over real TCP and recorded by tcpdump;
``README.md`` tells what each one is for. Beside a capture stands what the peers said. Every recording is
checked before it is kept: tcpdump dropped nothing, and the segments hold what the peers sent.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.peers import capture_file  # noqa: E402  the peers are not installed
from tests.peers.endpoint import Address  # noqa: E402
from tests.peers.network import Plug, Policy, Wire, carry_all, inside, namespaces  # noqa: E402
from tests.peers.play import Said, play  # noqa: E402
from tests.peers.recorder import PORT, Recorder  # noqa: E402
from tests.peers.script import EPOCH, Story  # noqa: E402
from tests.peers.stories.snapshots import snapshots as snapshots_story  # noqa: E402
from tests.peers.stories.tour import tour as tour_story  # noqa: E402
from tests.peers.truth import SAMPLES, Direction, Ranges, lost_ranges, save  # noqa: E402

HOSTS = {"client": "10.11.0.1", "client6": "fd11::1", "node1": "10.11.0.2", "node2": "10.11.0.3", "node1-6": "fd11::2"}
"""Who lives where, on samples that cross a wire."""

_CLIENT_MAC, _SERVER_MAC = "02:00:0a:0b:00:01", "02:00:0a:0b:00:02"


@contextmanager
def wire(mtu: int, policy: Policy = carry_all) -> Iterator[tuple[str, str]]:
    """Namespaces of client and server, joined by a wire."""
    with namespaces("client", "server") as (client, server):
        left = Plug(client, _CLIENT_MAC, ("10.11.0.1/24", *(("fd11::1/64",) if mtu >= 1280 else ())), mtu=mtu)
        right = Plug(server, _SERVER_MAC, ("10.11.0.2/24", "10.11.0.3/24", *(("fd11::2/64",) if mtu >= 1280 else ())), mtu=mtu)
        with Wire(left, right, policy):
            yield client, server


def tell(
    story: Story, client: str, server: str, hosts: Mapping[str, str] = HOSTS, hooks: Mapping[str, Callable[[], None]] | None = None
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
    """Record the client's end of a wire while the story is told."""
    with wire(mtu, policy) as (client, server), Recorder(path, "eth0", client) as recorder:
        said = tell(story, client, server)
        recorder.wait_until_closed(len(story))
    return said


def keep(name: str, recording: Path, said: Sequence[Said], suffix: str, *, damaged: bool = False) -> None:
    """Check a recording against what was said, and write it and its truth into the samples.

    Its clock is set to the stories' date, a minute after their first documents were stored.
    """
    link, packets = capture_file.read(recording)
    ways: dict[tuple[Address, Address], list[capture_file.Segment]] = {}
    for segment in capture_file.segments(link, packets):
        ways.setdefault((segment.source, segment.target), []).append(segment)
    missing: dict[tuple[int, Direction], list[Ranges]] = {}
    for number, talk in enumerate(said, 1):
        c2s, s2c = ways.get((talk.client, talk.server), []), ways.get((talk.server, talk.client), [])
        missing[number, "c2s"] = lost_ranges(talk.c2s, capture_file.stream_ranges(c2s, b"".join(talk.c2s)))
        missing[number, "s2c"] = lost_ranges(talk.s2c, capture_file.stream_ranges(s2c, b"".join(talk.s2c)))
    if not damaged and any(any(lost) for lost in missing.values()):
        raise SystemExit(f"{name}: the recording lacks bytes that were sent")
    target = SAMPLES / f"{name}.{suffix}"
    shift = (packets[0][0] // 10**9 - EPOCH - 60) * 10**9
    packets = [(time - shift, data) for time, data in packets]
    comment = f"dcpinspect sample {name}, see README.md"
    content = capture_file.pcapng(link, packets, comment, "eth0") if "pcapng" in suffix else capture_file.pcap(link, packets)
    target.write_bytes(gzip.compress(content, 9, mtime=0) if suffix.endswith(".gz") else content)
    truth = save(name, said, missing, digests=suffix.endswith(".gz"))
    count = sum(len(talk.c2s) + len(talk.s2c) for talk in said)
    print(f"{target.name}: {count} messages, {target.stat().st_size} bytes; {truth.name}: {truth.stat().st_size} bytes")  # noqa: T201


def tour(scratch: Path) -> None:
    """All kinds of messages."""
    said = over_wire(tour_story(), scratch, mtu=1280)
    keep("tour", scratch, said, "pcapng")


def snapshots(scratch: Path) -> None:
    """Snapshots of all kinds, over a loopback interface."""
    with namespaces("local") as (local,), Recorder(scratch, "lo", local) as recorder:
        said = tell(snapshots_story(), local, local, dict.fromkeys(HOSTS, "127.0.0.1"))
        recorder.wait_until_closed(len(said))
    keep("snapshots", scratch, said, "pcap")


SAMPLE_MAKERS: dict[str, Callable[[Path], None]] = {"tour": tour, "snapshots": snapshots}


def main(names: Sequence[str]) -> None:
    """Make the samples with these names, or all."""
    unknown = set(names) - set(SAMPLE_MAKERS)
    if unknown:
        raise SystemExit(f"no sample is called {', '.join(sorted(unknown))}; there are {', '.join(SAMPLE_MAKERS)}")
    for name in names or SAMPLE_MAKERS:
        with tempfile.TemporaryDirectory() as directory:
            SAMPLE_MAKERS[name](Path(directory) / "recording.pcap")


if __name__ == "__main__":
    main(sys.argv[1:])
