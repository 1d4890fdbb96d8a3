"""The analysis of one part: the engine reads the bundles of some connections, from the first capture of their point to the last.

Several tasks can share a large part, as ``sharing`` says. Each of them checks the messages of its own stretch of the packets one by one,
and writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from dcpinspect.capture.batch import Column, PacketBatch
from dcpinspect.capture.open import CaptureFile, Problem
from dcpinspect.comparison.side import Answers
from dcpinspect.findings.checker import Checker
from dcpinspect.findings.collector import Collector
from dcpinspect.findings.registry import RULES
from dcpinspect.parts import Part, shown
from dcpinspect.reading import Reading
from dcpinspect.records import dataclass
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
from dcpinspect.spark.sharing import sharing
from dcpinspect.spark.states import mark_of, may_continue, read_contents, read_state, write_contents, write_state
from dcpinspect.streams.contents import ALL, Contents, Share
from dcpinspect.streams.tracker import Tracker

if TYPE_CHECKING:
    from dcpinspect.streams.events import EventQuery, FoundEvents

KEY_RULES = [rule.id for rule in RULES.values() if "contents" in rule.needs]
"""Rules about keys. Each task finds cases of them in its own vbuckets."""
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
    keys: tuple[str, ...] = ()
    """Paths of the files with what other tasks knew of keys."""


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
    hashed_by: tuple[int, int] | None = None
    """Secrets by which all these tasks hash keys; None for a task that has the part for itself."""

    @property
    def all_bundles(self) -> list[Bundled]:
        """The new bundles, and those that were read before."""
        return [*(self.before.bundles if self.before else ()), *self.bundles]

    @property
    def size(self) -> int:
        """Size of the files of the bundles in bytes."""
        return sum(files.size(one.path) for one in self.bundles)

    @property
    def from_first(self) -> Work:
        """The same work without earlier results: everything is read again."""
        return replace(self, bundles=self.all_bundles, before=None)

    @property
    def follows(self) -> bool:
        """Whether the task follows the connections; its results become the part."""
        return self.share == self.shares - 1

    @property
    def keys(self) -> Share | None:
        """The vbuckets whose keys the task follows, for which it reads the whole part; None if it only writes messages."""
        return sharing(self.shares).keys(self.share)

    def stretch(self) -> tuple[int, int]:
        """Returns the stretch of packets that complete the messages which the task writes: its first packet, and the one behind its last.

        Packets of the part are counted from 0.
        """
        total = sum(one.packets for one in self.bundles)
        first, behind = (int(total * edge) for edge in (0.0, *sharing(self.shares).edges)[self.share :][:2])
        return min(first, total - 1), behind if self.follows else min(behind, total - 1)

    def packets(self) -> UnitPackets:
        """Returns all packets of the part."""
        return UnitPackets(self.files, self.bundles)

    def reading(self) -> Reading:
        """Returns a reading of the packets, as a part of a larger reading."""
        return Reading(self.packets(), extra_ports=self.extra_ports, find_ports=self.find_ports, is_part=True, keys=self.secrets.read())


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
    """Path of the file with what a task found that does not follow the connections: problems of messages and keys; empty for none."""
    ending_looks: str = ""
    """The same for messages that were only completed by the end of the captures."""
    keys: str = ""
    """Path of the file with what such a task knows of keys, for a later run; empty for none."""
    goes_on: bool = True
    """Whether the task could continue from the state. If not, the result is empty, and the part must be read from its first packet."""


class UnitPackets:
    """The packets of bundles, in the form of a capture that a reading takes."""

    can_stop = False

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
    keys: list[Checker] = []  # one for what lasts, and one for messages that are only completed by the end
    with work.reading() as reading:

        def look_at_keys() -> None:
            if reading.tracker is not None and not work.follows:
                keys.append(Checker(reading.tracker, KEY_RULES, with_keys=redactor is None))

        def on_end() -> None:
            nonlocal is_ended
            is_ended = True
            if work.messages and reading.tracker is not None and may_continue(reading):
                states.append(_put_aside(reading, f"{work.part}.{own}", work))
            look_at_keys()

        def look_at_own(_: PacketBatch) -> None:
            reading.is_looking = reading.capture.packets > start

        reading.on_end = on_end
        if work.follows:
            reading.check(RULES, redactor=redactor)
            reading.on_packets = look_at_own
        elif work.keys is not None:
            reading.track(redactor)
        if not _begin(reading, work):
            return Analysed("", (), (), 0, goes_on=False)
        look_at_keys()
        with closing(iter(reading)) as batches:
            for batch in batches:
                if answers is not None:
                    answers.feed(batch)
                told = batch.redacted(redactor)
                if keys:
                    keys[-1].take(told, ())
                packets = reading.capture.packets
                if work.messages and (work.follows or packets <= end) and packets > start:
                    (ending if is_ended else messages).add(told, ids(reading)[batch.connection])
                    if not work.follows:
                        looks.gather(told)
                if work.keys is None and packets >= end:
                    break
    messages.close()
    ending.close()
    paths, rows = (*messages.paths, *ending.paths), messages.rows + ending.rows
    written = list(map(Written.of, (*paths, *filter(None, states))))
    if not work.follows:
        at_end = Collector({})
        for found, checker in zip((looks.gathered, at_end), keys, strict=False):
            found.include(checker.gathered)
        alone, later = _told(part, looks.gathered, work.salt), _told(f"{part}-end", at_end, work.salt)
        written += map(Written.of, filter(None, (alone, later)))
        return Analysed("", paths, tuple(written), rows, looks=alone, ending_looks=later, keys="".join(states))
    known = Part.of(reading)
    files.write(part, known.to_bytes(), work.salt)
    groups = write_keys(part, sorted({key for one in work.all_bundles for key in one.keys}))
    written += map(Written.of, (part, groups))
    if answers is not None:
        written.append(Written.of(write_paths(part, work, reading, answers)))
    written.append(Written.of(write_bounds(part, known.tracker.gap_bounds, work.salt)))
    known.tracker.set_apart()
    files.write(f"{part}{FEW}", known.to_bytes(), work.salt)
    written.append(Written.of(f"{part}{FEW}"))
    closed = [one for about in reading.coverage.tls.values() if (one := closed_by(about, reading.engine.keys)) is not None]
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


def _begin(reading: Reading, work: Work) -> bool:
    """Lets a reading begin where earlier runs ended. Returns whether it could."""
    tracker, share = reading.tracker, work.keys
    if tracker is not None and share is not None:
        tracker.contents = Contents(share=share, hashed_by=work.hashed_by)
    before = work.before
    if before is None:
        return True
    if not read_state(reading, before.state, work.salt):
        return False
    if tracker is None or share is None:
        return True
    if not work.follows:
        tracker.flow = tracker.noops = tracker.histories = None
    if before.keys or share != ALL:
        others = read_contents(before.keys, work.salt)
        if others is None or tracker.contents is None:
            return False
        try:
            tracker.contents = Contents.joined([tracker.contents, *others], tracker.state.known.streams, share)
        except ValueError:
            return False
    return True


def _told(stem: str, found: Collector, salt: Salt | None) -> str:
    """Writes what was found, and returns the path of the file; empty if nothing was found."""
    return write_looks(stem, found, salt) if len(found) else ""


def _put_aside(reading: Reading, stem: str, work: Work) -> str:
    """Saves what a later run needs of this task, and returns the path of the file; empty if nothing can be saved."""
    if work.follows:
        return write_state(reading, stem, work.salt)
    assert reading.tracker is not None
    assert reading.tracker.contents is not None
    return write_contents(reading.tracker.contents, stem, work.salt)


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
