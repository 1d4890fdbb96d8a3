"""A capture's packets given to several readings by connection, and what these know put together
again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.open import CaptureFile, FileDamage
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.finding_records import with_findings
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.joining import (
    SET_APART,
    MergedReading,
    ReadingPart,
    judged,
    merged,
    merged_apart,
)
from dcpinspect.reading.reading import Reading, find_events
from dcpinspect.reading.resuming import go_on, put_aside
from dcpinspect.streams.events import EventQuery, FoundEvents
from dcpinspect.tables.record_tables import Records
from dcpinspect.transport.connections import AddressPairs
from dcpinspect.transport.headers import CLASS_NAMES, UNUSUAL, HeaderParser


@dataclass
class Given:
    """Batches of packets as a source of them."""

    files: list[CaptureFile]
    batches: list[PacketBatch]
    position: int = 0
    size: int | None = None
    packets: int = 0
    problems: list[FileDamage] = field(default_factory=list)

    def __iter__(self) -> Iterator[PacketBatch]:
        return iter(self.batches)

    can_stop = False

    def stop(self) -> None:
        """There is nothing to end."""

    def close(self) -> None:
        """There is nothing to free."""


@dataclass(frozen=True)
class Options:
    """How all readings of a capture are made."""

    rules: Sequence[str] | None = None
    salt: bytes | None = None
    """That of a redactor; None for none."""
    extra_ports: Sequence[int] = ()
    find_ports: bool = False

    def reading(self, source: Any, *, is_part: bool = True) -> Reading:
        """One of them, which checks."""
        reading = Reading(
            source, extra_ports=self.extra_ports, find_ports=self.find_ports, is_part=is_part
        )
        reading.check(self.rules, redactor=None if self.salt is None else Redactor(self.salt))
        return reading


def divided(
    packets: Iterable[PacketBatch], parts: int, rng: random.Random
) -> tuple[list[list[PacketBatch]], dict[str, int]]:
    """The packets of each of so many parts, and how many of each class no part has. Those that are
    dissected later are all of one part.
    """
    parser, pairs = HeaderParser(None), AddressPairs()
    found: list[list[PacketBatch]] = [[] for _ in range(parts)]
    of_pair: dict[int, int] = {}
    left_out = dict.fromkeys(CLASS_NAMES, 0)
    for batch in packets:
        headers = parser.columns(batch)
        of_packet = np.full(len(batch), -1)
        pair = pairs.find(headers.tcp)[0]
        of_packet[headers.index] = [
            of_pair.setdefault(number, rng.randrange(parts)) for number in pair.tolist()
        ]
        of_packet[headers.classes == UNUSUAL] = 0
        for number, count in enumerate(
            np.bincount(headers.classes[of_packet < 0], minlength=len(CLASS_NAMES)).tolist()
        ):
            left_out[CLASS_NAMES[number]] += count
        for part in range(parts):
            rows = np.flatnonzero(of_packet == part)
            if len(rows):
                numbered = replace(batch, packet=batch.packets[rows], frame=batch.frames[rows])
                columns = batch.columns.take(rows, axis=1)
                found[part].append(replace(numbered, data=batch.data.copy(), columns=columns))
    return found, left_out


def recut(batches: Iterable[PacketBatch], rng: random.Random) -> list[PacketBatch]:
    """The same packets in other batches."""
    out = []
    for batch in batches:
        packets, frames = batch.packets, batch.frames
        at = 0
        while at < len(batch):
            end = at + rng.randrange(1, 80)
            columns = batch.columns[:, at:end]
            out.append(
                replace(batch, columns=columns, packet=packets[at:end], frame=frames[at:end])
            )
            at = end
    return out


@dataclass(frozen=True)
class Joined:
    """Parts put together, and the tables that each has by itself."""

    merged: MergedReading
    rows: Sequence[Mapping[str, Records]]


def whole(
    batches: Sequence[PacketBatch], files: Sequence[str], options: Options = Options()
) -> MergedReading:
    """What one reading of all packets knows."""
    source = _source(batches, files)
    found = merged([ReadingPart.from_bytes(_known(source, options))], files)
    found.compare(lambda wanted: find_events(options.reading(source), wanted, found.numbers[0]))
    return found


def joined(
    parts: Sequence[Sequence[PacketBatch]],
    files: Sequence[str],
    options: Options = Options(),
    left_out: Mapping[str, int] | None = None,
) -> Joined:
    """What readings of these packets know together, after all of it was bytes once; each makes
    snapshots and gaps of its own.
    """
    sources = [_source(batches, files) for batches in parts]
    known = [_known(source, options) for source in sources]

    def having(number: int, but: BoolArray | None) -> ReadingPart:
        part = ReadingPart.from_bytes(known[number])
        part.tracker.set_apart(but)
        return ReadingPart.from_bytes(part.to_bytes())

    judge = partial(judged, [ReadingPart.from_bytes(one).tracker.gap_bounds for one in known])
    found, _ = merged_apart(having, len(known), judge, files, left_out=left_out)

    def look(wanted: EventQuery) -> FoundEvents:
        again = [
            find_events(options.reading(source), wanted, numbers)
            for source, numbers in zip(sources, found.numbers, strict=True)
        ]
        return FoundEvents.joined(wanted, again)

    found.compare(look)
    rows = [
        {name: ReadingPart.from_bytes(one).rows(name, of_whole, files) for name in SET_APART}
        for one, of_whole in zip(known, found.of_parts(), strict=True)
    ]
    return Joined(found, rows)


def _source(batches: Sequence[PacketBatch], files: Sequence[str]) -> Given:
    return Given([CaptureFile(name) for name in files], list(batches))


def _known(source: Given, options: Options) -> bytes:
    with options.reading(source) as reading:
        for _ in reading:
            pass
        return ReadingPart.from_reading(reading).to_bytes()


def gone_on(
    stretches: Sequence[Sequence[PacketBatch]], files: Sequence[str], options: Options = Options()
) -> MergedReading:
    """What a reading knows at its end that was put aside after each of these stretches of packets,
    and gone on with by another one.
    """
    states: list[bytes] = []
    for stretch in stretches:
        reading = options.reading(Given([CaptureFile(name) for name in files], list(stretch)))
        if states:
            go_on(reading, states[-1])
        reading.on_end = lambda reading=reading: states.append(put_aside(reading))  # type: ignore[misc]
        for _ in reading:
            pass
    found = merged([ReadingPart.from_reading(reading)], files)
    every = Given(
        [CaptureFile(name) for name in files], [batch for stretch in stretches for batch in stretch]
    )
    found.compare(lambda wanted: find_events(options.reading(every), wanted, found.numbers[0]))
    return found


def findings(known: MergedReading) -> list[Finding]:
    """What is wrong in parts put together."""
    assert known.checker is not None
    return known.checker.findings(known.links, known.coverage)


def named(known: MergedReading) -> dict[str, Records]:
    """The tables of parts put together, by name, as a reading has them."""
    if known.checker is None:
        return known.tables.by_name
    clients = known.checker.clients(known.links)
    return with_findings(known.tables.by_name, findings(known), clients, known.files)


def everything(found: Joined | MergedReading | Reading) -> dict[str, Any]:
    """All that can be told of a reading, or of parts put together."""
    known = found.merged if isinstance(found, Joined) else found
    made = known.by_name() if isinstance(known, Reading) else named(known)
    tables = {name: table.records() for name, table in made.items()}
    if isinstance(found, Joined):
        for name in SET_APART:
            tables[name] = [row for rows in found.rows for row in rows[name].records()]
    tables["snapshots"].sort(key=lambda row: row["row"])
    tables["gaps"].sort(
        key=lambda row: (row["rows"], row["after_seqno"], row["connection"], row["stream"])
    )
    directions = [one for one in known.coverage.directions if one.packets]
    return {**tables, "directions": directions, "packets": dict(known.coverage.packets)}
