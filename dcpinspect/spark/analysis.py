"""The analysis of one part: the engine reads the bundles of some connections, from the first
capture of their point to the last.

Several tasks can share a large part. Every task reads the packets of the part from the first on,
because nobody knows before where a message begins. Each checks the messages of its own stretch of
the packets one by one, and writes them. The first tasks stop there. The last tasks read to the end,
and follow the streams. Half of that work is to compare keys. So each of these tasks compares the
keys of some vbuckets. The last one also follows what needs the whole connection, such as flow
control and noops, and what it knows becomes the part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field, replace

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.open import CaptureFile, FileDamage
from dcpinspect.diff.reading_side import AnswerTimes
from dcpinspect.findings.checker import Checker
from dcpinspect.findings.collector import Collector
from dcpinspect.findings.registry import RULES
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.reading.joining import ReadingPart
from dcpinspect.reading.reading import Reading, find_events
from dcpinspect.spark import files
from dcpinspect.spark.attempts import WrittenFile, attempt
from dcpinspect.spark.bundles import UnitBundles, write_keys
from dcpinspect.spark.capture_points import write_paths
from dcpinspect.spark.manifest import FEW, ManifestPart
from dcpinspect.spark.message_files import MessageFiles
from dcpinspect.spark.part_disputes import write_bounds
from dcpinspect.spark.record_files import write_looks
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.secrets import Secrets, closed_by
from dcpinspect.spark.spark_schema import BOUNDED, PARTITIONS
from dcpinspect.spark.states import (
    mark_of,
    may_continue,
    read_contents,
    read_state,
    write_contents,
    write_state,
)
from dcpinspect.streams.contents import ALL, Contents, VbucketShare
from dcpinspect.streams.events import EventQuery, FoundEvents
from dcpinspect.streams.tracker import Tracker
from dcpinspect.transport.capture_survey import CutCopies, copies_in

SHARINGS = {
    1: ((1.0,), 1),
    2: ((0.8074, 1.0), 1),
    3: ((0.6533, 1.0, 1.0), 1),
    4: ((0.5433, 0.978, 1.0, 1.0), 2),
    5: ((0.5067, 0.912, 1.0, 1.0, 1.0), 3),
    6: ((0.4883, 0.879, 1.0, 1.0, 1.0, 1.0), 4),
}
"""By number of tasks that share a part: where the stretch of each ends, as a share of packets (each
begins where the last ends), and how many of them follow keys, the last ones. So the slowest has as
little to do as possible, by the measured costs of a message that ``tests/spark/test_analysis.py``
has. All tasks read the part, so more than six gain little.
"""
MOST_SHARES = max(SHARINGS)
KEY_RULES = [rule.id for rule in RULES.values() if "contents" in rule.needs]
"""Rules about keys. Each task finds cases of them in its own vbuckets."""
MOST_CLOSED = 10_000
"""Greatest number of a part's TLS connections remembered because no key decrypted them."""


@dataclass(frozen=True, slots=True)
class PartTask:
    """A part that a task is to read."""

    point: str
    files: Sequence[str]
    """Names of all captures, by number."""
    bundles: Sequence[UnitBundles]
    """Bundles in the order of the captures."""
    before: ManifestPart | None = None
    """What earlier runs made of the captures before these bundles: messages that stay, and files by
    their paths; None: these bundles are all.
    """
    earlier: Sequence[UnitBundles] = ()
    """Bundles that the state of ``before`` has seen."""
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
    """The same as ``ManifestPart.originals``."""
    beside: Sequence[PartTask] = ()
    """For a part of copies: the same connections at the points where they count. The copies are
    compared with them.
    """
    share: int = 0
    """Number of this task among those that share the part; the last one follows the connections."""
    shares: int = 1
    hashed_by: tuple[int, int] | None = None
    """Secrets by which all these tasks hash keys; None for a task that has the part for itself."""

    @property
    def all_bundles(self) -> list[UnitBundles]:
        """The new bundles, and those that were read before."""
        return [*self.earlier, *self.bundles]

    @property
    def size(self) -> int:
        """Size of the files of the bundles in bytes."""
        return sum(files.size(bundle.path) for bundle in self.bundles)

    @property
    def from_first(self) -> PartTask:
        """The same work without earlier results: everything is read again."""
        return replace(self, bundles=self.all_bundles, earlier=(), before=None)

    @property
    def follows(self) -> bool:
        """Whether the task follows the connections; its results become the part."""
        return self.share == self.shares - 1

    @property
    def keys(self) -> VbucketShare | None:
        """The vbuckets whose keys the task follows, for which it reads the whole part; None if it
        only writes messages.
        """
        _, followers = SHARINGS[self.shares]
        number = self.share - (self.shares - followers)
        return VbucketShare(number, followers) if number >= 0 else None

    def stretch(self) -> tuple[int, int]:
        """Returns the stretch of packets that complete the messages which the task writes: its
        first packet, and the one behind its last.

        Packets of the part are counted from 0.
        """
        total = sum(bundle.packets for bundle in self.bundles)
        edges, _ = SHARINGS[self.shares]
        first, behind = (int(total * edge) for edge in (0.0, *edges)[self.share :][:2])
        return min(first, total - 1), behind if self.follows else min(behind, total - 1)

    def packets(self) -> UnitPackets:
        """Returns all packets of the part."""
        return UnitPackets(self.files, self.bundles, self.point)

    def reading(self) -> Reading:
        """Returns a reading of the packets, as a part of a larger reading."""
        reading = Reading(
            self.packets(),
            extra_ports=self.extra_ports,
            find_ports=self.find_ports,
            is_part=True,
            keys=self.secrets.read(),
        )
        reading.engine.transport.copies = _copies(self.files, self.all_bundles)
        return reading


@dataclass(frozen=True, slots=True)
class PartResult:
    """What a task made of its share of a part, besides the content of its files."""

    part: ManifestPart
    """What the manifest is to say of the share, with whole paths. The file of the part is named if
    the task followed the connections.
    """
    written: tuple[WrittenFile, ...] = ()
    """All files that the task wrote, as it left them."""
    goes_on: bool = True
    """Whether the task could continue from the state. If not, the result is empty, and the part
    must be read from its first packet.
    """


class UnitPackets:
    """The packets of bundles, in the form of a capture that a reading takes."""

    can_stop = False

    def __init__(
        self, files: Sequence[str], bundles: Sequence[UnitBundles], point: str = ""
    ) -> None:
        self.files = [CaptureFile(name, point=point) for name in files]
        self.position = self.packets = 0
        self.size: int | None = None
        self.problems: list[FileDamage] = []
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


def analyse(work: PartTask) -> PartResult:
    """Reads a share of a part; writes its messages and results to files whose names belong to this
    attempt only.
    """
    share = _TaskReading(work)
    with work.reading() as reading:
        if not share.begin(reading):
            return PartResult(ManifestPart(work.point, "", (), 0), goes_on=False)
        done = share.read(reading)
        return share.with_part(done, reading) if work.follows else share.with_looks(done)


class _TaskReading:
    """One task's share of a part, while it is read."""

    def __init__(self, work: PartTask) -> None:
        attempt_name = attempt()
        self._work = work
        self._stem = f"{work.part}.{attempt_name}"
        self._redactor = None if work.salt is None else work.salt.redactor()
        self._messages, self._ending = (
            MessageFiles(f"{work.messages}.{attempt_name}{name}", work.point)
            for name in ("", "-end")
        )
        self._state, self._is_ended = "", False
        self._answers = AnswerTimes() if work.beside else None
        self._looks = Checker(Tracker(), RULES, with_keys=self._redactor is None)
        self._keys: list[Checker] = []
        """One for what lasts, and one for messages that are only completed by the end."""

    def begin(self, reading: Reading) -> bool:
        """Tells a reading what to follow, and to go on behind earlier runs; returns if it could."""
        work, (start, _) = self._work, self._work.stretch()

        def look_at_own(_: PacketBatch) -> None:
            reading.is_looking = reading.capture.packets > start

        reading.on_end = lambda: self._before_end(reading)
        if work.follows:
            reading.check(RULES, redactor=self._redactor)
            reading.on_packets = look_at_own
        elif work.keys is not None:
            reading.track(self._redactor)
        if not _begin(reading, work):
            return False
        self._look_at_keys(reading)
        return True

    def _before_end(self, reading: Reading) -> None:
        """Saves what a later run needs, before messages that only the captures' end completes."""
        self._is_ended = True
        if self._work.messages and reading.is_tracking and may_continue(reading):
            if self._work.follows:
                self._state = write_state(reading, self._stem, self._work.salt)
            elif (contents := reading.tracker.contents) is not None:
                self._state = write_contents(contents, self._stem, self._work.salt)
        self._look_at_keys(reading)

    def _look_at_keys(self, reading: Reading) -> None:
        if reading.is_tracking and not self._work.follows:
            self._keys.append(Checker(reading.tracker, KEY_RULES, with_keys=self._redactor is None))

    def read(self, reading: Reading) -> PartResult:
        """Reads all messages, and returns what every task has of them."""
        work, (start, end) = self._work, self._work.stretch()
        with closing(iter(reading)) as batches:
            for batch in batches:
                if self._answers is not None:
                    self._answers.feed(batch)
                redacted, packets = batch.redacted(self._redactor), reading.capture.packets
                if self._keys:
                    self._keys[-1].feed(redacted, ())
                if work.messages and (work.follows or packets <= end) and packets > start:
                    (self._ending if self._is_ended else self._messages).add(
                        redacted, ids(reading)[batch.connection]
                    )
                    if not work.follows:
                        self._looks.gather(redacted)
                if work.keys is None and packets >= end:
                    break
        self._messages.close()
        self._ending.close()
        paths = (*self._messages.paths, *self._ending.paths)
        written = [WrittenFile.from_file(path, (*PARTITIONS, *BOUNDED)) for path in paths]
        written += map(WrittenFile.from_file, filter(None, [self._state]))
        share = ManifestPart(
            work.point,
            "",
            paths,
            self._messages.rows + self._ending.rows,
            originals=work.originals,
            is_copy=not work.messages,
        )
        return PartResult(share, tuple(written))

    def with_looks(self, done: PartResult) -> PartResult:
        """Writes what a task found that does not follow the connections."""
        at_end, part_path, salt = Collector({}), f"{self._stem}.part", self._work.salt
        for gathered, checker in zip((self._looks.gathered, at_end), self._keys, strict=False):
            gathered.include(checker.gathered)
        looks, ending_looks = (
            tuple(filter(None, [write_looks(path, gathered, salt)]))
            for path, gathered in ((part_path, self._looks.gathered), (f"{part_path}-end", at_end))
        )
        keys = tuple(filter(None, [self._state]))
        return PartResult(
            replace(done.part, looks=looks, ending_looks=ending_looks, keys=keys),
            (*done.written, *map(WrittenFile.from_file, (*looks, *ending_looks))),
        )

    def with_part(self, done: PartResult, reading: Reading) -> PartResult:
        """Writes the part, and what stands beside it."""
        work = self._work
        part_path = f"{self._stem}.part"
        merged_part = ReadingPart.from_reading(reading)
        files.write(part_path, merged_part.to_bytes(), work.salt)
        paths = [
            part_path,
            write_keys(
                part_path, sorted({key for bundle in work.all_bundles for key in bundle.keys})
            ),
        ]
        if self._answers is not None:
            paths.append(write_paths(part_path, work, reading, self._answers))
        paths.append(write_bounds(part_path, merged_part.tracker.gap_bounds, work.salt))
        merged_part.tracker.set_apart()
        files.write(f"{part_path}{FEW}", merged_part.to_bytes(), work.salt)
        paths.append(f"{part_path}{FEW}")
        closed = [
            mark
            for about in reading.coverage.tls.values()
            if (mark := closed_by(about, reading.engine.keys)) is not None
        ]
        share = replace(
            done.part,
            file=part_path,
            closed=tuple(closed[:MOST_CLOSED]),
            state=self._state,
            folded=mark_of(work.all_bundles),
            ending=tuple(self._ending.paths),
            ending_rows=self._ending.rows,
        )
        return PartResult(share, (*done.written, *map(WrittenFile.from_file, paths)))


def _copies(names: Sequence[str], bundles: Sequence[UnitBundles]) -> CutCopies | None:
    """Returns what of cut captures counts as copies: others have the same connections."""
    are_cut = {bundle.file: bundle.is_cut for bundle in bundles}
    if len(are_cut) < 2 or not any(are_cut.values()):
        return None
    return copies_in(UnitPackets(names, bundles), by_time=False)


def _begin(reading: Reading, work: PartTask) -> bool:
    """Lets a reading begin where earlier runs ended. Returns whether it could."""
    share = work.keys
    if reading.is_tracking and share is not None:
        reading.tracker.contents = Contents(share=share, hashed_by=work.hashed_by)
    before = work.before
    if before is None:
        return True
    # what is a copy only now was read then
    files_before, are_copies = (
        {bundle.file for bundle in work.earlier},
        reading.engine.transport.copies,
    )
    if isinstance(are_copies, CutCopies):
        were_copies = _copies(work.files, work.earlier)
        known = were_copies.directions if were_copies is not None else frozenset()
        if any(key not in known and key[0] in files_before for key in are_copies.directions):
            return False
    if not read_state(reading, before.state, work.salt):
        return False
    if not reading.is_tracking or share is None:
        return True
    tracker = reading.tracker
    if not work.follows:
        tracker.flow = tracker.noops = tracker.histories = None
    if before.keys or share != ALL:
        earlier_contents = read_contents(before.keys, work.salt)
        if earlier_contents is None or tracker.contents is None:
            return False
        try:
            tracker.contents = Contents.joined(
                [tracker.contents, *earlier_contents], tracker.state.known_tables.streams, share
            )
        except ValueError:
            return False
    return True


def nothing(files: Sequence[str]) -> ReadingPart:
    """Returns the part of captures that contain nothing of the protocol."""
    with PartTask("", files, ()).reading() as reading:
        reading.check(RULES)
        for _ in reading:
            pass
    return ReadingPart.from_reading(reading)


def ids(reading: Reading) -> IntArray:
    """Returns the id of each connection by its number. An id is the number, over all captures, of
    the connection's first packet.
    """
    return np.concatenate(([0], reading.engine.transport.opened_by))


@dataclass(frozen=True, slots=True)
class EventLook:
    """A part that is to be read again, for events that are missing in other streams."""

    work: PartTask
    wanted: EventQuery
    numbers: IntArray
    """Number of each connection in the whole, by its number in the part."""


def events_looked_for(event_look: EventLook) -> FoundEvents:
    """Returns the wanted events of a part."""
    with event_look.work.reading() as reading:
        return find_events(reading, event_look.wanted, event_look.numbers)
