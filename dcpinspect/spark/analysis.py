"""The analysis of one part: the engine over the bundles of some connections, from the first capture of their point to the last.

Several tasks may share a large part. Each reads its packets from the first on, for nobody knows before where a message begins; but one of
them alone follows the connections. Each looks at the messages of one stretch of the packets by themselves, and writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from dcpinspect.capture.batch import Column, PacketBatch
from dcpinspect.capture.open import CaptureFile, Problem
from dcpinspect.comparison.side import Answers
from dcpinspect.findings.checker import Checker
from dcpinspect.findings.registry import RULES
from dcpinspect.parts import Part, shown
from dcpinspect.reading import Reading
from dcpinspect.spark import files
from dcpinspect.spark.attempts import Written, attempt
from dcpinspect.spark.bundles import Bundled, write_keys
from dcpinspect.spark.disputes import write_bounds
from dcpinspect.spark.looks import write_looks
from dcpinspect.spark.manifest import FEW
from dcpinspect.spark.message_files import MessageFiles
from dcpinspect.spark.paths import write_paths
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.secrets import Secrets, closed_by
from dcpinspect.spark.states import mark_of, read_state, write_state
from dcpinspect.streams.tracker import Tracker

if TYPE_CHECKING:
    from dcpinspect.streams.events import EventQuery, FoundEvents

READ, WRITE, FOLLOW = 2, 23, 10
"""What a message costs: to be found and decoded, to be looked at and written, and to be followed; in tenths of a microsecond."""
MOST_SHARES = 4
"""Tasks that share a part, at most: with more, the one that follows the connections takes no less time."""
MOST_CLOSED = 10_000
"""TLS connections of a part that are remembered because no key opened them."""


@dataclass(frozen=True, slots=True)
class Former:
    """A part that goes on in new captures."""

    state: str
    """Path of its state."""
    bundles: Sequence[Bundled]
    """What that has seen."""
    messages: tuple[str, ...]
    """Files of its messages that stay, as the manifest names them."""
    rows: int
    """Messages in these."""
    looks: tuple[str, ...]
    """As ``Kept.looks``."""


@dataclass(frozen=True, slots=True)
class Work:
    """A part to be read."""

    point: str
    files: Sequence[str]
    """Names of all captures, by number."""
    bundles: Sequence[Bundled]
    """In the order of the captures."""
    before: Former | None = None
    """What was made of the captures before these; None: these are all."""
    extra_ports: tuple[int, ...] = ()
    find_ports: bool = False
    secrets: Secrets = field(default_factory=lambda: Secrets())
    salt: Salt | None = None
    """By which what is written is redacted, and files that are no tables encrypted."""
    part: str = ""
    """File that what was found is written to, up to what is the attempt's own, and the ending."""
    messages: str = ""
    """The same of messages; empty where nobody wants them."""
    originals: Mapping[str, str] = field(default_factory=dict)
    """As ``Kept.originals``."""
    beside: Sequence[Work] = ()
    """Of a part of copies: the same connections at the points where they count, which it is compared with."""
    share: int = 0
    """Which of the tasks that share the part; the last one follows its connections."""
    shares: int = 1

    @property
    def all_bundles(self) -> list[Bundled]:
        """With those that were read before."""
        return [*(self.before.bundles if self.before else ()), *self.bundles]

    @property
    def from_first(self) -> Work:
        """The same without what was made before: all is read again."""
        return replace(self, bundles=self.all_bundles, before=None)

    @property
    def follows(self) -> bool:
        """Whether the task follows the connections, and so has to read all."""
        return self.share == self.shares - 1

    def stretch(self) -> tuple[int, int]:
        """The packets of the part, counted from 0, that complete the messages which the task writes: the first, and the first behind."""
        total = sum(one.packets for one in self.bundles)
        first, behind = (int(total * edge) for edge in (0.0, *_edges(self.shares))[self.share :][:2])
        return min(first, total - 1), behind if self.follows else min(behind, total - 1)

    def packets(self) -> UnitPackets:
        """All packets."""
        return UnitPackets(self.files, self.bundles)

    def reading(self) -> Reading:
        """The packets, as a part of a larger reading."""
        return Reading(self.packets(), extra_ports=self.extra_ports, find_ports=self.find_ports, is_part=True, keys=self.secrets.read())


def _edges(shares: int) -> list[float]:
    """Where the stretches of so many tasks end, as parts of all packets, so that all tasks have as much to do."""
    low, high = 0.0, float(READ + WRITE + FOLLOW)
    while True:
        each, edges = (low + high) / 2, [0.0]
        for _ in range(shares - 1):
            edges.append(min(1.0, (each + WRITE * edges[-1]) / (READ + WRITE)))
        rest = READ + FOLLOW + WRITE * (1 - edges[-1])
        if high - low < 1e-6:
            return [*edges[1:], 1.0]
        low, high = (each, high) if rest > each else (low, each)


@dataclass(frozen=True, slots=True)
class Analysed:
    """What became of a share of a part, besides what is in its files."""

    part: str
    """Path of what was found; empty unless the task followed the connections."""
    messages: tuple[str, ...]
    """Paths of the files of its messages."""
    written: tuple[Written, ...]
    """These files and what is beside them, as they were left."""
    rows: int
    closed: tuple[str, ...] = ()
    """As ``Kept.closed``."""
    state: str = ""
    """Path of what it takes to go on; empty where it does not."""
    folded: str = ""
    """As ``Kept.folded``."""
    ending: tuple[str, ...] = ()
    """Those of ``messages`` that only the end completed."""
    ending_rows: int = 0
    """Messages in these."""
    looks: str = ""
    """Path of what is wrong with messages that another task follows; empty where nothing is."""
    goes_on: bool = True
    """Whether it could begin with the state that there is; else there is nothing, and it is to begin with its first packet."""


class UnitPackets:
    """The packets of bundles, as a reading takes them."""

    def __init__(self, files: Sequence[str], bundles: Sequence[Bundled]) -> None:
        self.files = [CaptureFile(name) for name in files]
        self.position = self.packets = 0
        self.size: int | None = None
        self.problems: list[Problem] = []
        self._bundles = bundles

    def __iter__(self) -> Iterator[PacketBatch]:
        for bundled in self._bundles:
            for batch in bundled.batches():
                self.packets += len(batch)
                yield batch

    def stop(self) -> None:
        """Nothing is live."""

    def close(self) -> None:
        """Nothing stays open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def analyse(work: Work) -> Analysed:
    """Reads a share of a part, and writes its messages and what was found, to files of this attempt's own."""
    own, redactor = attempt(), None if work.salt is None else work.salt.redactor()
    messages, ending = (MessageFiles(f"{work.messages}.{own}{name}", work.point) for name in ("", "-end"))
    part, states, is_ended = f"{work.part}.{own}.part", list[str](), False
    start, end = work.stretch()
    answers = Answers() if work.beside else None
    looks = Checker(Tracker(), RULES, with_keys=redactor is None)
    with work.reading() as reading:

        def on_end() -> None:
            nonlocal is_ended
            is_ended = True
            if work.follows and work.messages:
                states.append(write_state(reading, f"{work.part}.{own}", work.salt))

        def look_at_own(_: PacketBatch) -> None:
            reading.is_looking = reading.capture.packets > start

        reading.on_end = on_end
        if work.follows:
            reading.check(RULES, redactor=redactor)
            reading.on_packets = look_at_own
        if work.before is not None and not read_state(reading, work.before.state, work.salt):
            return Analysed("", (), (), 0, goes_on=False)
        with closing(iter(reading)) as batches:
            for batch in batches:
                if answers is not None:
                    answers.feed(batch)
                packets = reading.capture.packets
                if work.messages and (work.follows or packets <= end) and packets > start:
                    told = batch.redacted(redactor)
                    (ending if is_ended else messages).add(told, ids(reading)[batch.connection])
                    if not work.follows:
                        looks.gather(told)
                if not work.follows and packets >= end:
                    break
    messages.close()
    ending.close()
    paths, rows = (*messages.paths, *ending.paths), messages.rows + ending.rows
    written = list(map(Written.of, paths))
    if not work.follows:
        alone = write_looks(part, looks.gathered, work.salt) if len(looks.gathered) else ""
        written += [Written.of(alone)] if alone else []
        return Analysed("", paths, tuple(written), rows, looks=alone)
    known = Part.of(reading)
    files.write(part, known.to_bytes(), work.salt)
    keys = write_keys(part, sorted({key for one in work.all_bundles for key in one.keys}))
    written += map(Written.of, (part, keys, *filter(None, states)))
    if answers is not None:
        written.append(Written.of(write_paths(part, work, reading, answers)))
    written.append(Written.of(write_bounds(part, known.tracker.gap_bounds, work.salt)))
    known.tracker.set_apart()
    files.write(f"{part}{FEW}", known.to_bytes(), work.salt)
    written.append(Written.of(f"{part}{FEW}"))
    closed = [one for one in map(closed_by, reading.coverage.tls.values()) if one is not None]
    return Analysed(
        part,
        paths,
        tuple(written),
        rows,
        tuple(closed[:MOST_CLOSED]),
        state="".join(states),
        folded=mark_of(work.all_bundles),
        ending=tuple(ending.paths),
        ending_rows=ending.rows,
    )


def nothing(files: Sequence[str]) -> Part:
    """The part of captures in which there is nothing of the protocol."""
    with Work("", files, ()).reading() as reading:
        reading.check(RULES)
        for _ in reading:
            pass
    return Part.of(reading)


def ids(reading: Reading) -> Column:
    """By number of a connection: its id, which is the number over all captures of its first packet."""
    return np.concatenate(([0], reading.engine.transport.opened_by))


@dataclass(frozen=True, slots=True)
class Look:
    """A part that is to be looked through again, for events that others lack."""

    work: Work
    wanted: EventQuery
    numbers: Column
    """By connection of the part: its number in the whole."""


def look(one: Look) -> FoundEvents:
    """The events that are wanted of a part."""
    with one.work.reading() as reading:
        return shown(reading, one.wanted, one.numbers)
