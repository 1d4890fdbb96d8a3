"""One reading of captures: opens files, feeds the engine, and tells what was found and not."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.folders import named
from dcpinspect.capture.open import BATCH_BYTES, Capture, CaptureFile, FileDamage, open_capture
from dcpinspect.capture.pcapng import secrets_behind
from dcpinspect.closable import Closable
from dcpinspect.coverage import Coverage
from dcpinspect.reading.decoding import Frames, frames_joined
from dcpinspect.reading.engine import ByteKeeper, Engine
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.transport.connections import DEFAULT_PORTS

if TYPE_CHECKING:
    from dcpinspect.findings.checker import Checker
    from dcpinspect.findings.finding import Candidates, Finding, Wanted
    from dcpinspect.findings.logs.log_evidence import LogEvidence
    from dcpinspect.protocol.redact import Redactor
    from dcpinspect.streams.events import EventQuery, FoundEvents
    from dcpinspect.streams.tables import Tables
    from dcpinspect.streams.tcp_facts import TcpConnection
    from dcpinspect.streams.tracker import Tracker
    from dcpinspect.tables.record_tables import Records
    from dcpinspect.transport.capture_survey import Survey
    from dcpinspect.transport.tls.keylog import KeyLog

    LookedAt = tuple[MessageBatch, MessageBatch, Sequence[Candidates]]
    """A batch, the batch as rules see it, and what is wrong with its messages by themselves."""

T = TypeVar("T")

_DECODED_AT_ONCE = 1 << 20
"""Packets of so many bytes are decoded together, of whatever captures. Messages of as many are kept
for a second look.
"""
MOST_CLOSED = 1000
"""The default of ``Reading.most_closed``."""
MANY = 10
"""Of connections that were closed a short time ago, or of which something is missing, so many times
as many stay: they cast doubt on others.
"""
LONG_AGO_NS = 60_000_000_000
"""What comes now is not of a connection that was closed so long ago, in nanoseconds."""


def ahead(batches: Generator[T, None, None]) -> Generator[T, None, None]:
    """Yields the batches; a thread makes each one while the caller works on the one before. Kernels
    let both run.
    """
    from concurrent.futures import ThreadPoolExecutor  # deferred: it brings logging

    with closing(batches), ThreadPoolExecutor(max_workers=1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


class Packets(Protocol):
    """Where packets come from: files, a pipe, interfaces."""

    files: list[CaptureFile]

    @property
    def position(self) -> int:
        """Number of bytes read so far."""

    @property
    def size(self) -> int | None:
        """Bytes that ``position`` reaches; None if unknown, or if they cannot be read again."""

    @property
    def packets(self) -> int:
        """Number of packets delivered so far."""

    @property
    def problems(self) -> list[FileDamage]:
        """Damaged places met so far."""

    def __iter__(self) -> Iterator[PacketBatch]:
        """Returns the packets in order, once."""

    @property
    def can_stop(self) -> bool:
        """Whether the source has no end of its own, and ``stop`` ends it."""

    def stop(self) -> None:
        """Ends a live source, or a pipe, as if it ended there."""

    def close(self) -> None:
        """Frees what is open."""


class Reading(Closable):
    """The messages of one or more captures, batch by batch. Iterate once; use as a context manager.

    Raises CaptureError if a file cannot be read at all; damage inside a file is in
    ``capture.problems``.
    """

    is_looking = True
    """Whether messages are also looked at by themselves, if the reading checks, or elsewhere."""
    most_closed = MOST_CLOSED
    """Number of closed connections that stay in a reading without end: the latest ones."""

    def __init__(
        self,
        capture: Sequence[str] | Packets,
        *,
        extra_ports: Sequence[int] = (),
        find_ports: bool = False,
        track: bool = False,
        keeper: ByteKeeper | None = None,
        is_part: bool = False,
        keys: KeyLog | None = None,
        surveyed: Survey | None = None,
    ) -> None:
        """``capture``: names of files, or packets, which are closed with the reading. ``track``:
        keep ``tables``.

        ``find_ports``: also read connections on other ports that prove to carry the protocol.
        ``keeper``: an object that will come back to the bytes of messages. ``is_part``: the packets
        are those of some connections of a larger reading, which compares their streams. ``keys``:
        secrets of TLS connections. ``surveyed``: what the captures told before, if that is known.
        """
        self.capture: Packets = open_capture(capture) if isinstance(capture, Sequence) else capture
        surveyed, secrets = self._look_ahead(surveyed)
        self.named = named(capture if isinstance(capture, Sequence) else self.files)
        """What is read, as it was given: captures, and directories of captures."""
        ports = (*DEFAULT_PORTS, *extra_ports)
        names = self.files
        self.engine = Engine(
            names, ports=ports, find_ports=find_ports, keeper=keeper, is_part=is_part, keys=keys
        )
        for text in secrets:
            self.engine.keys.add(text)
        if surveyed is not None:
            self.engine.transport.copies = copy(surveyed.copies)  # another reading begins anew
        self.first_time_ns: int | None = None
        """Capture time of the first packet, once one was read; lists count times from there."""
        self.earliest_ns: int | None = None
        """The earliest capture time of a packet so far: not always that of the first one."""
        self.last_time_ns: int | None = None
        """The latest capture time of a packet so far."""
        self.clock_ns: int | None = None
        """Capture time of the last packet; if packets are waited for, plus the time that has passed
        since while nothing came.
        """
        self.truncated = 0
        """Number of packets so far of which the capture has less than was sent."""
        self.messages = 0
        """Number of messages delivered so far."""
        self.is_through = False
        """Whether the end of the captures was reached, and all messages were delivered."""
        self.options: dict[str, Any] = {
            "extra_ports": extra_ports,
            "find_ports": find_ports,
            "keys": self.engine.keys,
            "surveyed": surveyed,
        }
        """Options by which another reading finds the same connections, with the secrets by then."""
        self._is_part = is_part
        self._is_repeatable = self.capture.size is not None and not is_part
        self._compared = -1  # number of messages at the last comparison
        self._kept: list[MessageBatch] | None = [] if self._is_repeatable else None
        """All batches so far; None if they are too large to keep, and are read again instead."""
        self._tracker: Tracker | None = None
        self._checker: Checker | None = None
        self.on_pause: Callable[[], object] = lambda: None
        """Called now and then while nothing comes, if packets are waited for."""
        self.on_end: Callable[[], object] = lambda: None
        """Called once all packets were read and what they completed was delivered, unless the
        reading goes ahead.
        """
        self.on_packets: Callable[[PacketBatch], object] = lambda _: None
        """Gets every batch of packets before the engine does. Earlier batches were decoded by then,
        unless the reading goes ahead.
        """
        self._links: list[TcpConnection] | None = None
        self._is_endless = False
        self._reset = 0  # number of connections when those that were reset were last ended
        # connections and streams that were met when some last left, and connections that stayed
        self._met = 0, 0, 0
        self._has_keeper = keeper is not None
        self.redactor: Redactor | None = None
        """Replaces what tables and findings say of documents, users and names, but no messages."""
        if track:
            self.track()

    def _look_ahead(self, surveyed: Survey | None) -> tuple[Survey | None, Sequence[bytes]]:
        """Looks at files before they are read: returns the survey that they need, and the secrets
        that stand behind their packets.
        """
        secrets: Sequence[bytes] = ()
        if not isinstance(self.capture, Capture):
            return surveyed, secrets
        is_one, is_piped = len(self.files) == 1, self.capture.can_stop
        if is_one and os.path.isfile(self.files[0]):
            with suppress(OSError):
                secrets = secrets_behind(self.files[0])
        if surveyed is None and (not is_one or is_piped or self.capture.has_snaplens):
            from dcpinspect.transport.capture_survey import survey  # deferred: for several

            surveyed = survey(self.files, is_piped=is_piped)
            secrets = (*secrets, *surveyed.secrets)
        if surveyed is not None:
            self.capture.set_clocks(surveyed.ahead_ns, surveyed.goes_on)
        return surveyed, secrets

    def track(self, redactor: Redactor | None = None) -> None:
        """Keeps ``tables`` from now on; call it before the first batch. ``redactor``: as above."""
        from dcpinspect.streams.tracker import Tracker  # deferred: most readings do without

        self.redactor = redactor or self.redactor
        self._tracker = Tracker(remembers=not self._is_repeatable and not self._is_part)

    def check(
        self,
        rules: Iterable[str] | None = None,
        *,
        redactor: Redactor | None = None,
        with_rows: bool = False,
        evidence: LogEvidence | None = None,
        vbucket: int | None = None,
    ) -> None:
        """Looks for what is wrong from now on; call this before the first batch.

        ``rules``: ids of the rules that are wanted; else all but the lint rules. ``redactor``: as
        the attribute. ``with_rows``: findings get the rows of all messages that show them.
        ``evidence``: logs and checkpoints to look at beside the captures. ``vbucket``: only
        findings about this one will be asked for.
        """
        from dcpinspect.findings.checker import Checker  # deferred, as above
        from dcpinspect.findings.registry import ORDINARY

        self.track(redactor)
        self._checker = Checker(
            self.tracker,
            ORDINARY if rules is None else rules,
            with_keys=redactor is None,
            with_rows=with_rows,
            vbucket=vbucket,
        )
        self._checker.evidence = evidence

    @property
    def is_tracking(self) -> bool:
        """Whether the reading tracks streams."""
        return self._tracker is not None

    @property
    def is_checking(self) -> bool:
        """Whether the reading looks for what is wrong; then it tracks streams too."""
        return self._checker is not None

    @property
    def tracker(self) -> Tracker:
        """What knows the streams. Raises ValueError unless the reading tracks streams."""
        if self._tracker is None:
            raise ValueError("this reading does not track streams")
        return self._tracker

    @property
    def checker(self) -> Checker:
        """What has the findings. Raises ValueError unless the reading checks."""
        if self._checker is None:
            raise ValueError("this reading does not check")
        return self._checker

    def forget_what_is_over(self) -> None:
        """Lets what is over leave memory from now on, if it can be part of no finding: the reading
        may have no end. Call this before the first batch.

        Streams and vbuckets still count it. The tables of snapshots and gaps have the latest, and
        what is not as it should be. Captures that can be read again have an end, and nothing of
        them leaves. Raises ValueError unless the reading tracks streams.
        """
        tracker = self.tracker
        if not self._is_repeatable:
            self._is_endless = True
            tracker.forget_what_is_over()

    def _let_go(self) -> None:
        """Lets connections leave that were closed long ago, and streams that ended, if many have
        come since the last time.
        """
        met, streams = self.engine.transport.count, self.tracker.state.counts.streams
        # what is looked at is all that stayed: it has to grow before
        is_due = met >= self._met[0] + max(self.most_closed, self._met[2] // 2)
        has_streams = streams >= self._met[1] + self.tracker.most_streams
        if not is_due and not has_streams:
            return
        over, old = self.engine.over((self.last_time_ns or 0) - LONG_AGO_NS)
        links = self.links
        doubted = [link.number for link in links if not link.is_complete]
        count, most = len(over) - self.most_closed, len(over) - MANY * self.most_closed
        first = over[: max(min(count, old), most, 0)]
        gone = {*first[~np.isin(first, doubted)].tolist(), *over[: max(most, 0)].tolist()}
        if gone or has_streams:
            self.checker.let_go(links, self.coverage, gone)
            self.engine.let_go(gone)
            streams = self.tracker.state.counts.streams
        else:
            streams = self._met[1]
        self._met = met, streams, len(links) - len(gone)

    def close(self) -> None:
        """Frees the files."""
        self.capture.close()

    @property
    def ends(self) -> tuple[int, int]:
        """Times of the first packet and of the latest one so far, in nanoseconds since 1970."""
        first_ns = self.first_time_ns or 0
        return first_ns, max(first_ns, self.last_time_ns or 0)

    @property
    def coverage(self) -> Coverage:
        """What became of every packet and byte read so far."""
        return self.engine.coverage

    @property
    def files(self) -> list[str]:
        """Names of the captures, by number."""
        return [file.name for file in self.capture.files]

    @property
    def links(self) -> list[TcpConnection]:
        """The connections that have not left and carry the protocol, or may carry it. Once all was
        read, it is the same list each time: there may be very many.
        """
        if self._links is not None:
            return self._links
        links, files = self.engine.links, self.capture.files
        if len(files) != 1 and not self._is_part:
            links = [
                replace(link, points=(files[link.first_file].point, files[link.last_file].point))
                for link in links
            ]
        if self.is_through:
            self._links = links
        return links

    @property
    def tables(self) -> Tables:
        """Connections, streams, snapshots, gaps, rollbacks and vbuckets by now. Raises ValueError
        unless the reading tracks streams.
        """
        return self._tables(self.links)

    def _tables(self, links: list[TcpConnection]) -> Tables:
        self._compare()
        names = self.files
        return self.tracker.tables(links, names if len(names) > 1 else ())

    def findings(
        self,
        *,
        is_whole: bool = True,
        wanted: Wanted | None = None,
        links: list[TcpConnection] | None = None,
    ) -> list[Finding]:
        """Returns what is wrong so far, worst first. Raises ValueError unless the reading checks.

        ``is_whole``: the reading has come to its end, or is asked about live; it was not
        interrupted in between. ``wanted``: which cases, as of ``Collector.findings``. ``links``:
        the attribute, if the caller has them: there may be many.
        """
        checker = self.checker
        self._compare()
        links = self.links if links is None else links
        return checker.findings(links, self.coverage, is_whole=is_whole, is_wanted=wanted)

    def by_name(self) -> dict[str, Records]:
        """Returns ``tables`` by name, as SQL has them; if the reading checks, with findings, which
        the table of vbuckets then counts.
        """
        return self.tables.by_name if self._checker is None else self.worked_out()[2]

    def worked_out(
        self, *, is_whole: bool = True
    ) -> tuple[Tables, list[Finding], dict[str, Records]]:
        """Returns ``tables``, ``findings`` and ``by_name`` of a reading that checks, each made
        once. Raises as ``findings``.
        """
        from dcpinspect.findings.finding_records import with_findings

        links = self.links  # once: there may be very many
        findings, tables = self.findings(links=links, is_whole=is_whole), self._tables(links)
        clients = self.checker.clients(links)
        return (
            tables,
            findings,
            with_findings(tables.by_name, findings, clients, self.files),
        )

    def _compare(self) -> None:
        """Compares streams, if captures can be read again and messages came since last time."""
        if self._is_repeatable and self._compared != self.messages:
            self.tracker.compare(self._look_again)
            self._compared = self.messages

    def _look_again(self, query: EventQuery) -> FoundEvents:
        if self._kept is not None:
            return find_events(self._kept, query)
        with Reading(self.files, **self.options) as again:
            return find_events(again, query)

    def __iter__(self) -> Generator[MessageBatch, None, None]:
        return self._delivered(self._decoded(self._framed()))

    def ahead(self) -> Generator[MessageBatch, None, None]:
        """Yields what iterating yields, but uses all processors: threads make the next batches
        meanwhile. Close it unless it came to its end.

        There are no threads if there is only one batch, or if packets are waited for.
        """
        if (self.capture.size or 0) <= BATCH_BYTES:
            return iter(self)
        # a keeper is asked what it keeps when messages are seen, so it must see no later packets
        # before
        framed = self._framed()
        return self._delivered(ahead(self._decoded(framed if self._has_keeper else ahead(framed))))

    def _delivered(
        self, batches: Generator[LookedAt, None, None]
    ) -> Generator[MessageBatch, None, None]:
        with closing(batches):
            for batch, looked_at, looks in batches:
                self.messages += len(batch)
                self._keep(batch)
                if self._tracker is not None:
                    self._tracker.feed(batch.redacted(self.redactor))
                if self._checker is not None:
                    self._checker.feed(looked_at, looks)
                yield batch
                if self._is_endless and self.is_checking:
                    self._let_go()
        self.is_through = True
        if self._tracker is not None:
            self._tracker.finish()

    def _keep(self, batch: MessageBatch) -> None:
        """Keeps a batch, if those so far are small."""
        if self._kept is not None:
            self._kept.append(batch)
            if sum(len(kept.data) for kept in self._kept) > _DECODED_AT_ONCE:
                self._kept = None

    def _decoded(self, framed: Generator[Frames, None, None]) -> Generator[LookedAt, None, None]:
        with closing(framed):
            for frames in framed:
                batch = self.engine.decode(frames)
                if batch is not None:
                    looked_at = batch.redacted(self.redactor)
                    checker = self._checker if self.is_looking else None
                    looks = () if checker is None else checker.check_alone(looked_at)
                    yield batch, looked_at, looks

    def _framed(self) -> Generator[Frames, None, None]:
        taken: dict[int, int] = {}  # number of blocks of secrets, by file
        held, held_bytes = list[Frames](), 0
        for captured in self.capture:
            packets = self.engine.steady(captured)
            for number, file in enumerate(self.capture.files):
                for text in file.secrets[taken.get(number, 0) :]:
                    self.engine.keys.add(text)
                taken[number] = len(file.secrets)
            if len(packets):
                times_ns = [int(packets.time_ns.min()), int(packets.time_ns.max())]
                if self.first_time_ns is None:
                    self.first_time_ns = int(packets.time_ns[0])
                if self.earliest_ns is not None and self.last_time_ns is not None:
                    times_ns += [self.earliest_ns, self.last_time_ns]
                self.earliest_ns, self.last_time_ns = min(times_ns), max(times_ns)
                self.truncated += int((packets.captured < packets.wire).sum())
                # not the latest time: a clock may be set back
                self.clock_ns = int(packets.time_ns[-1])
                self.on_packets(packets)
            held.append(self.engine.frame(packets))
            held_bytes += len(packets.data)
            may_wait = self._is_repeatable and not self._has_keeper and packets.clock_ns is None
            is_first = len(packets) > 0 and packets.first_frame == 1  # of its capture
            if may_wait and is_first and held_bytes < _DECODED_AT_ONCE:
                continue  # to decode takes some time, however few messages there are
            yield frames_joined(held)
            held, held_bytes = [], 0
            if self._is_endless and self.engine.transport.count >= self._reset + self.most_closed:
                self._reset = self.engine.transport.count
                yield self.engine.frame_reset((self.last_time_ns or 0) - LONG_AGO_NS)
            if packets.clock_ns is not None:
                self.clock_ns = packets.clock_ns - self.engine.clock.ahead_ns
                yield self.engine.frame_overdue(packets.clock_ns)
            if not len(packets):
                self.on_pause()
        if held:
            yield frames_joined(held)
        self.on_end()
        yield self.engine.frame_rest()


def find_events(
    batches: Iterable[MessageBatch], wanted: EventQuery, numbers: IntArray | None = None
) -> FoundEvents:
    """Returns the wanted events, found in messages that are read again; ``numbers``: those of their
    connections in the whole, if they are of a part.
    """
    from dcpinspect.streams.events import FoundEvents  # deferred: few readings need it

    events = FoundEvents(wanted)
    for batch in batches:
        if int(batch.row[0]) > wanted.last_row:
            break
        events.feed(batch, numbers)
    return events
