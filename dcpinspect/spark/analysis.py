"""The analysis of one part: the engine reads the bundles of some connections, from the first capture of their point to the last.

Several tasks can share a large part. Each task reads the packets of the part from the first on, because nobody knows before where a message
begins. But only one task follows the connections. Each task checks the messages of its own stretch of the packets one by one, and writes
them.
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

READ, WRITE, FOLLOW = 3, 15, 8
"""Cost of a message in tenths of a microsecond: to find and decode it, to check and write it, and to follow it."""
MOST_SHARES = 4
"""Greatest number of tasks that share a part: with more tasks, the one that follows the connections does not become faster."""
MOST_CLOSED = 10_000
"""Greatest number of TLS connections of a part that are remembered because no key could decrypt them."""


@dataclass(frozen=True, slots=True)
class Former:
    """What earlier runs made of a part that continues in new captures."""

    state: str
    """Path of the file with the part's state."""
    bundles: Sequence[Bundled]
    """Bundles that the state has seen."""
    messages: tuple[str, ...]
    """Files of the part's messages that stay, as the manifest names them."""
    rows: int
    """Number of messages in these files."""
    looks: tuple[str, ...]
    """The same as ``Kept.looks``."""


@dataclass(frozen=True, slots=True)
class Work:
    """A part that a task is to read."""

    point: str
    files: Sequence[str]
    """Names of all captures, by number."""
    bundles: Sequence[Bundled]
    """Bundles in the order of the captures."""
    before: Former | None = None
    """What earlier runs made of the captures before these bundles; None: these bundles are all."""
    extra_ports: tuple[int, ...] = ()
    find_ports: bool = False
    secrets: Secrets = field(default_factory=lambda: Secrets())
    salt: Salt | None = None
    """Salt for redacting what is written, and for encrypting files that are not tables."""
    part: str = ""
    """Path for the file of the part, without the end that is different for each attempt."""
    messages: str = ""
    """The same path for the files of messages; empty if no messages are wanted."""
    originals: Mapping[str, str] = field(default_factory=dict)
    """The same as ``Kept.originals``."""
    beside: Sequence[Work] = ()
    """For a part of copies: the same connections at the points where they count. The copies are compared with them."""
    share: int = 0
    """Number of this task among those that share the part; the last one follows the connections."""
    shares: int = 1

    @property
    def all_bundles(self) -> list[Bundled]:
        """The new bundles, and those that were read before."""
        return [*(self.before.bundles if self.before else ()), *self.bundles]

    @property
    def from_first(self) -> Work:
        """The same work without earlier results: everything is read again."""
        return replace(self, bundles=self.all_bundles, before=None)

    @property
    def follows(self) -> bool:
        """Whether the task follows the connections, and so has to read the whole part."""
        return self.share == self.shares - 1

    def stretch(self) -> tuple[int, int]:
        """Returns the stretch of packets that complete the messages which the task writes: its first packet, and the one behind its last.

        Packets of the part are counted from 0.
        """
        total = sum(one.packets for one in self.bundles)
        first, behind = (int(total * edge) for edge in (0.0, *_edges(self.shares))[self.share :][:2])
        return min(first, total - 1), behind if self.follows else min(behind, total - 1)

    def packets(self) -> UnitPackets:
        """Returns all packets of the part."""
        return UnitPackets(self.files, self.bundles)

    def reading(self) -> Reading:
        """Returns a reading of the packets, as a part of a larger reading."""
        return Reading(self.packets(), extra_ports=self.extra_ports, find_ports=self.find_ports, is_part=True, keys=self.secrets.read())


def _edges(shares: int) -> list[float]:
    """Returns where the stretches of so many tasks end, as shares of all packets. All tasks then have the same amount of work."""
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
    """What a task made of its share of a part, besides the content of its files."""

    part: str
    """Path of the file of the part; empty unless the task followed the connections."""
    messages: tuple[str, ...]
    """Paths of the files of messages."""
    written: tuple[Written, ...]
    """All files that the task wrote, as it left them."""
    rows: int
    closed: tuple[str, ...] = ()
    """The same as ``Kept.closed``."""
    state: str = ""
    """Path of the state with which a later run can continue; empty if it cannot."""
    folded: str = ""
    """The same as ``Kept.folded``."""
    ending: tuple[str, ...] = ()
    """Those of ``messages`` with messages that were only completed by the end of the captures."""
    ending_rows: int = 0
    """Number of messages in the files of ``ending``."""
    looks: str = ""
    """Path of the file with problems of messages, from a task that does not follow the connections; empty if there are none."""
    goes_on: bool = True
    """Whether the task could continue from the state. If not, the result is empty, and the part must be read from its first packet."""


class UnitPackets:
    """The packets of bundles, in the form of a capture that a reading takes."""

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
        """Does nothing, because bundles are not live."""

    def close(self) -> None:
        """Does nothing, because no file stays open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def analyse(work: Work) -> Analysed:
    """Reads a share of a part; writes its messages and results to files whose names belong to this attempt only."""
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
    """Returns the part of captures that contain nothing of the protocol."""
    with Work("", files, ()).reading() as reading:
        reading.check(RULES)
        for _ in reading:
            pass
    return Part.of(reading)


def ids(reading: Reading) -> Column:
    """Returns the id of each connection by its number. An id is the number, over all captures, of the connection's first packet."""
    return np.concatenate(([0], reading.engine.transport.opened_by))


@dataclass(frozen=True, slots=True)
class Look:
    """A part that is to be read again, for events that are missing in other streams."""

    work: Work
    wanted: EventQuery
    numbers: Column
    """Number of each connection in the whole, by its number in the part."""


def look(one: Look) -> FoundEvents:
    """Returns the wanted events of a part."""
    with one.work.reading() as reading:
        return shown(reading, one.wanted, one.numbers)
