"""What one task of the pipeline does alone, by the streams of all connections: it puts them
together.

    python -m bench.merge [--connections 20,60] [--vbuckets 1024] [--kind clients|nodes] [--folder DIR] [--rounds 1]
        [--quiet] [--check] [--profile]

Each connection is a file of its own, with so many streams: a request, its answer, a snapshot of a
few items. Of 32 streams one is rolled back and asked for again, one has a gap that a hole in the
capture leaves, and one has ended. ``clients``: each connection is a client's; all ask for the same
vbuckets. ``nodes``: one client asks each of so many servers for vbuckets of its own. All tasks are
done in this process. A line has the processor time of that task, the same for each stream, and what
the driver took. With ``--quiet`` there are no rollbacks, ends and holes; ``--check`` measures one
reading of all.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from bench.captures import CLIENT, SERVER, START_NS, Writer
from bench.pipeline import Measured
from bench.read import row
from dcpinspect.reading.reading import Reading
from dcpinspect.spark import pipeline
from tests.encode import encode

ROLLED, LOST, ENDED = 3, 11, 19
"""Of 32 vbuckets."""
UUID = 0x7E57_0000_0000_0000
ITEMS = 4
ROUNDS = 2
"""Snapshots of each stream."""


def said(vbuckets: int, name: str, *, quiet: bool) -> tuple[bytes, list[bytes]]:
    """What a client says, and what its server does, in pieces that a capture may lack."""
    features: list[dict[str, Any]] = [{"feature": code} for code in (0x06, 0x0A, 0x0B, 0x12)]
    client = [
        encode("hello", key='{"a":"bench"}', features=features, opaque=1),
        encode("dcp_open", key=name, flags=["producer"], opaque=2),
    ]
    server = [
        encode("hello", "response", features=features, opaque=1),
        encode("dcp_open", "response", opaque=2),
    ]
    pieces = []
    highs = [{"vbucket": vbucket, "seqno": ROUNDS * (ITEMS + 1)} for vbucket in range(vbuckets)]
    client.append(encode("get_all_vb_seqnos", opaque=3, state="active"))
    server.append(encode("get_all_vb_seqnos", "response", opaque=3, seqnos=highs))
    for vbucket in range(vbuckets):
        log = [{"uuid": UUID + vbucket, "seqno": 0}]
        ask: dict[str, Any] = {"vbucket": vbucket, "end_seqno": 2**64 - 1}
        if vbucket % 32 == ROLLED and not quiet:
            seqnos = {"start_seqno": 900, "snapshot_start_seqno": 900, "snapshot_end_seqno": 900}
            client.append(
                encode(
                    "dcp_stream_req",
                    **ask,
                    **seqnos,
                    vbucket_uuid=UUID - 1,
                    opaque=0x8000 + vbucket,
                )
            )
            server.append(
                encode(
                    "dcp_stream_req",
                    "response",
                    status=0x23,
                    rollback_seqno=0,
                    opaque=0x8000 + vbucket,
                )
            )
        client.append(encode("dcp_stream_req", **ask, opaque=0x1000 + vbucket))
        server.append(
            encode("dcp_stream_req", "response", opaque=0x1000 + vbucket, failover_log=log)
        )
    pieces.append(b"".join(server))
    for round_ in range(ROUNDS):
        for vbucket in range(vbuckets):
            first, common = (
                1 + round_ * (ITEMS + 1),
                {"vbucket": vbucket, "opaque": 0x1000 + vbucket},
            )
            kind = ["memory", "checkpoint"]
            start = first if round_ else 0
            pieces.append(
                encode(
                    "dcp_snapshot_marker",
                    start_seqno=start,
                    end_seqno=first + ITEMS,
                    snapshot_type=kind,
                    **common,
                )
            )
            for seqno in (*range(first, first + ITEMS - 1), first + ITEMS):  # one was de-duplicated
                document = {
                    "key": b"order::%d" % seqno,
                    "collection": 0,
                    "value": b'{"a":1}',
                    "datatype": 1,
                    "cas": START_NS + seqno,
                }
                pieces.append(encode("dcp_mutation", by_seqno=seqno, **document, **common))
            if vbucket % 32 == LOST and not round_ and not quiet:
                pieces.append(b"HOLE")
            if vbucket % 32 == ENDED and not quiet and round_ == ROUNDS - 1:
                pieces.append(encode("dcp_stream_end", end_reason="closed", **common))
    return b"".join(client), pieces


def make(
    folder: Path, connections: int, vbuckets: int, kind: str, *, quiet: bool = False
) -> list[str]:
    """The captures, one for each connection."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = []
    said_by = {
        name: said(vbuckets, name, quiet=quiet)
        for name in {_name(kind, number) for number in range(connections)}
    }
    for number in range(connections):
        path = folder / f"{number:05}.pcap"
        names.append(str(path))
        if kind == "clients":
            ends = {
                "client": bytes((10, 1, number >> 8, 1 + (number & 0xFF) % 250)),
                "server": b"\x0a\x00\x00\x07",
            }
        else:
            ends = {
                "client": b"\x0a\x01\x00\x01",
                "server": bytes((10, 2, number >> 8, number & 0xFF)),
            }
        asked, told = said_by[_name(kind, number)]
        writer = Writer(path, port=30_000 + number, **ends).__enter__()
        writer.send(CLIENT, np.frombuffer(asked, np.uint8))
        for held in b"".join(told).split(b"HOLE"):
            writer.send(SERVER, np.frombuffer(held, np.uint8))
            writer.sequence[SERVER] += 100 if number % 4 == 1 else 0  # bytes that were not captured
        if number % 8:
            writer.file.close()  # still open at the end
        else:
            writer.__exit__()
    return names


def _name(kind: str, number: int) -> str:
    return f"bench:{number}" if kind == "clients" else "bench:one"


ALONE = "putting streams together"


class _Steps(Measured):
    """Tasks, with what each step took."""

    def __init__(self, profile: cProfile.Profile | None) -> None:
        super().__init__(2)
        self.steps: list[tuple[str, float]] = []
        self._profile = profile

    def map(
        self, what: str, work: Callable[[Any], Any], items: Sequence[Any], sizes: Sequence[int]
    ) -> list[Any]:
        """As ``Tasks`` has it."""
        profile = self._profile if what == ALONE else None
        if profile is not None:
            profile.enable()
        begin = time.process_time()
        found = super().map(what, work, items, sizes)
        self.steps.append((what, time.process_time() - begin))
        if profile is not None:
            profile.disable()
        return found


def run(captures: Sequence[str], out: Path, profile: cProfile.Profile | None = None) -> _Steps:
    """A run of the pipeline with all tasks in this process."""
    shutil.rmtree(out, ignore_errors=True)
    tasks, begin = _Steps(profile), time.process_time()
    pipeline.run(pipeline.Options(captures, str(out)), lambda: nullcontext(tasks))
    whole = time.process_time() - begin
    tasks.steps.append(("driver", whole - sum(took for _, took in tasks.steps)))
    return tasks


def check(captures: Sequence[str]) -> float:
    """Processor time of all tables and findings of one reading, beyond the reading."""
    with Reading(captures) as reading:
        reading.check()
        for _ in reading:
            pass
        begin = time.process_time()
        reading.by_name()
        return time.process_time() - begin


def main() -> None:
    """Make the captures, run all, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--connections", default="20,60")
    parser.add_argument("--vbuckets", type=int, default=1024)
    parser.add_argument("--kind", choices=("clients", "nodes"), default="clients")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "dcpinspect-bench"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quiet", action="store_true", help="nothing of what rules tell of")
    parser.add_argument(
        "--check",
        action="store_true",
        help="tables and findings of one reading in place of the pipeline",
    )
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    for connections in map(int, arguments.connections.split(",")):
        captures = make(
            arguments.folder / "crowd",
            connections,
            arguments.vbuckets,
            arguments.kind,
            quiet=arguments.quiet,
        )
        if arguments.check:
            row(connections, arguments.kind, f"{check(captures):.2f} s")
        for _ in range(0 if arguments.check else arguments.rounds):
            profile = cProfile.Profile() if arguments.profile else None
            tasks = run(captures, arguments.folder / "tables", profile)
            streams = connections * arguments.vbuckets
            alone = sum(took for what, took in tasks.steps if what == ALONE)
            driver = tasks.steps[-1][1]
            row(
                connections,
                arguments.kind,
                f"{streams:,}",
                f"{alone:.2f} s",
                f"{alone / streams * 1e3:.4f} ms",
                f"{driver:.2f} s",
            )
            for what, took in tasks.steps:
                sys.stdout.write(f"    {what}: {took:.2f} s\n")
            if profile is not None:
                pstats.Stats(profile).sort_stats("cumulative").print_stats(70)
                pstats.Stats(profile).sort_stats("tottime").print_stats(50)


if __name__ == "__main__":
    main()
