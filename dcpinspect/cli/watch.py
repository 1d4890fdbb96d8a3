"""``dcpinspect watch``: runs unattended, and tells findings as they become certain."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dcpinspect.cli import completion, interrupts, options
from dcpinspect.cli.capturing import Capturing
from dcpinspect.cli.check import FOUND
from dcpinspect.cli.choices import Choices
from dcpinspect.cli.metrics import Exposition
from dcpinspect.cli.output import StandardOutput
from dcpinspect.cli.read import CaptureSource, MessageSource
from dcpinspect.cli.teller import Teller, TellingStyle
from dcpinspect.cli.terminal import complain
from dcpinspect.errors import DamagedCapture, UsageError
from dcpinspect.text import counted, did_you_mean, escape

if TYPE_CHECKING:
    from dcpinspect.capture.batch import PacketBatch
    from dcpinspect.capture.recent_packets import RecentPackets
    from dcpinspect.cli.metrics_server import Exporter
    from dcpinspect.cli.notify import Notifier
    from dcpinspect.reading.reading import Reading
    from dcpinspect.streams.records import Streams
    from dcpinspect.streams.tcp_facts import TcpConnection


class LiveWatch:
    """Checks a reading that runs for weeks, between its packets, and tells certain findings."""

    def __init__(self, reading: Reading, teller: Teller, *, summary_ns: int) -> None:
        from dcpinspect.capture.clock import CaptureClock

        self._reading = reading
        self._teller = teller
        self._clock = CaptureClock()
        self._summary_s = summary_ns / 1e9
        self._summary_due = time.monotonic() + self._summary_s if summary_ns else float("inf")
        reading.on_packets = self._follow_packets
        reading.on_pause = self._pause

    @property
    def is_over(self) -> bool:
        """Whether a finding was told that ends the watch."""
        return self._teller.is_over

    def _follow_packets(self, packets: PacketBatch) -> None:
        self._clock.note(packets)
        self.pass_time()
        if self._teller.around is not None:
            self._teller.around.add(packets)

    def _pause(self) -> None:
        self.pass_time()
        if self.is_over:
            self._reading.capture.stop()

    def pass_time(self) -> None:
        """Checks for findings and does other periodic work, if it is time."""
        now_ns = self._clock.now_ns()
        if (
            now_ns is not None
            and self._teller.check_when_due(self._reading, now_ns)
            and self._teller.around is not None
        ):
            self._teller.around.pass_time(now_ns)
        if self._teller.notifier is not None:
            self._teller.notifier.pass_time()
        if time.monotonic() >= self._summary_due:
            self._summary_due = time.monotonic() + self._summary_s
            complain(self.summary())

    def end(self, *, is_whole: bool) -> None:
        """Tells the remaining findings.

        ``is_whole``: the input has ended; otherwise only the watch ends, and missing messages may
        still come.
        """
        self._teller.end(self._reading, self._clock.now_ns() or 0, is_whole=is_whole)

    def close(self) -> None:
        """Closes files, and ends running programs."""
        if self._teller.around is not None:
            self._teller.around.close()
        if self._teller.notifier is not None:
            self._teller.notifier.close()

    def summary(self) -> str:
        """Summarizes the reading so far on one line."""

        reading = self._reading
        copies = reading.tracker.left_out(reading.links)
        tracker, links = reading.tracker.counted(reading.links)
        clauses = [
            counted(reading.capture.packets, "packet"),
            counted(reading.messages - tracker.copies.messages_of(copies), "message"),
            counted(len(links) + reading.tracker.left_counts["connections"], "connection"),
            f"{counted(_open_streams(tracker.state.known_tables.streams, links), 'stream')} open",
            *self._teller.summary,
        ]
        # only captures from interfaces can drop packets
        if (drops := getattr(reading.capture, "drops_in_words", None)) is not None:
            clauses.append(drops)
        if self._teller.around is not None:
            clauses.append(f"{counted(self._teller.around.saved, 'file')} saved")
        if self._teller.notifier is not None:
            clauses.append(f"{counted(self._teller.notifier.started, 'program')} started")
        return f"watched {escape(', '.join(reading.files))}: {', '.join(clauses)}"


def _open_streams(streams: Streams, links: Sequence[TcpConnection]) -> int:
    """Returns the number of streams that the server accepted and neither side has ended."""
    import numpy as np

    from dcpinspect.streams.transitions import ACCEPTED, CLOSING, STREAMING

    closed = [link.number for link in links if link.closed]
    return int(
        (
            np.isin(streams.state, (ACCEPTED, STREAMING, CLOSING))
            & ~np.isin(streams.connection, closed)
        ).sum()
    )


class Telling(Choices):
    """Which findings are told, when, and how."""

    title = "The findings"
    words = """
    format_name --format -f: The format. ndjson has the records of findings that 'dcpinspect check'
        writes.
    --settle TIME: Tell a finding when nothing has contradicted it for this time.
    --patience TIME: Tell that something does not come when nothing has come for this time more.
    --exec COMMAND: Start this program for a finding that is told, which it has on standard input as
        JSON.
    --exec-every TIME: For --exec, start the program once in this time at most.
    """
    format_name: Literal["text", "ndjson"] = "text"
    rules: options.RuleChoice = options.RuleChoice()
    settle: str = "5s"
    patience: str = "60s"
    exec_: str | None = None
    exec_every: str = "10s"

    def manner(self, stops: frozenset[str] = frozenset()) -> TellingStyle:
        """Returns which findings are told, when, and in which form. ``stops``: what ends the watch.
        Raises UsageError.
        """
        from dcpinspect.tables.times import length  # deferred: only a command that runs needs it

        settle_ns = length(self.settle, "--settle")
        patience_ns = length(self.patience, "--patience")
        return TellingStyle(
            self.format_name == "text",
            self.rules.severity,
            settle_ns,
            patience_ns,
            stops,
        )

    def notifier(self, context: typer.Context) -> Notifier | None:
        """Returns the starter of the program of ``--exec``; None without one. Raises UsageError."""
        if self.exec_ is None:
            if options.is_typed(context, "exec_every"):
                raise UsageError("--exec-every: is for --exec; name a program")
            return None
        from dcpinspect.cli.notify import Notifier
        from dcpinspect.tables.times import length

        return Notifier(self.exec_, length(self.exec_every, "--exec-every") / 1e9, tell=complain)


class SavedPackets(Choices):
    """Whether packets around findings are saved, which, and where."""

    title = "The packets"
    words = """
    --save-around TIME: Save the packets of this time before and after each finding that is told.
    --save-to DIR: For --save-around, the directory of the files.
    --save-max N: For --save-around, save N files at most.
    --save-memory MIB: For --save-around, memory for the latest packets.
    """
    save_around: str | None = None
    save_to: str = "."
    save_max: Annotated[int, {"min": 1}] = 100
    save_memory: Annotated[int, {"min": 1}] = 256

    def around(self, context: typer.Context) -> RecentPackets | None:
        """Returns the keeper that saves packets around findings, or None. Raises UsageError."""
        if self.save_around is None:
            reason = "is for --save-around; give it a time, as in --save-around 30s"
            options.refuse_typed(context, self.parameters(), reason)
            return None
        from dcpinspect.capture import rights
        from dcpinspect.capture.recent_packets import MIB, RecentPackets
        from dcpinspect.tables.times import length

        around_ns, folder = length(self.save_around, "--save-around"), self.save_to
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
            problem = (
                "cannot be written to; name another directory"
                if os.path.isdir(folder)
                else "is not a directory; name one"
                if os.path.exists(folder)
                else "there is no such directory; make it with mkdir, or check the name"
            )
            raise UsageError(f"--save-to {escape(folder)}: {problem}")
        rights.be_private()
        return RecentPackets(
            folder,
            around_ns,
            most_bytes=self.save_memory * MIB,
            most_files=self.save_max,
            tell=complain,
        )


def watch(
    context: typer.Context,
    capturing: Capturing,
    telling: Telling,
    saving: SavedPackets,
    redaction: options.Redaction,
    exposition: Exposition,
    input_: options.Input,
    captures: Annotated[list[str] | None, {"show_default": False}] = None,
    follow: str | None = None,
    stop_on: Annotated[list[str] | None, {"autocompletion": completion.rules}] = None,
    summary: str | None = None,
) -> int:
    """Tell findings as they become certain, one line each, until Ctrl-C or SIGTERM.

    Options:
    captures [-]: - watches the capture that comes on standard input.
    --follow FILE: Watch the capture that another program is writing to this file.
    --stop-on RULE|SEVERITY: End with status 1 when a finding of this rule, or of this severity
        or worse, is told. May be repeated.
    --summary TIME: Print a line with counts on standard error each time this has passed.
    """
    # deferred: NumPy and the decoder, which --help and completion do not need
    from dcpinspect.tables.times import length

    source = _source(context, captures or [], follow, capturing)
    rules = telling.rules.ids()
    manner = telling.manner(_stops(stop_on, rules))
    every_ns = length(summary, "--summary") if summary is not None else 0
    if summary is not None and not every_ns:
        raise UsageError(f"--summary {summary}: write a length of time above 0")
    redactor = redaction.redactor()
    if redactor is not None and (saving.save_around is not None or capturing.write is not None):
        name = "--save-around" if saving.save_around is not None else "--write"
        raise UsageError(f"{name}: packets have what --redact replaces; leave out one of the two")
    around, notifier = saving.around(context), telling.notifier(context)
    ports = input_.ports.reading_arguments()
    with ExitStack() as stack:
        exporter = stack.enter_context(exposition.exporting())
        # opening a pipe waits for its first bytes
        with interrupts.telling(lambda: "stopped before anything came", status=0):
            reading = stack.enter_context(source.reading(**ports, keeper=None))
        reading.check(rules, redactor=redactor)
        reading.forget_what_is_over()
        teller = Teller(StandardOutput(), manner, around=around, notifier=notifier)
        watcher = LiveWatch(reading, teller, summary_ns=every_ns)
        _watch(watcher, reading, exporter, pauses=source.pauses)
        status = source.report(
            reading,
            is_whole=not watcher.is_over,
            stats=input_.stats,
            shown=None,
            skipped=0,
        )
        complain(watcher.summary())
        if around is not None and around.is_lacking:
            status = status or DamagedCapture.exit_status
        return FOUND if watcher.is_over else status


def _watch(
    watcher: LiveWatch, reading: Reading, exporter: Exporter | None, *, pauses: bool
) -> None:
    """Tells findings until the end, a signal, or one that ends the watch."""
    was_stopped = False

    def stop() -> None:
        nonlocal was_stopped
        was_stopped = True
        reading.capture.stop()

    with interrupts.stopping(stop) if pauses else nullcontext():
        try:
            for _ in reading if exporter is None else exporter.between(reading, reading):
                watcher.pass_time()
                if watcher.is_over:
                    break
            else:
                watcher.end(is_whole=not was_stopped)
        finally:
            watcher.close()


def _source(
    context: typer.Context, captures: Sequence[str], follow: str | None, capturing: Capturing
) -> MessageSource:
    """Returns what to watch. Raises UsageError."""
    sources = [
        *(["-i"] if capturing.interface else []),
        *(["--follow"] if follow is not None else []),
        *captures,
    ]
    if len(sources) > 1:
        raise UsageError(
            f"{' and '.join(map(escape, sources))}: one thing at a time; leave out all but one"
        )
    if capturing.interface:
        return capturing.interfaces()
    options.refuse_typed(context, capturing.parameters(), "is for interfaces; name one with -i")
    if follow is None and list(captures) != [options.STDIN]:
        if captures:
            name = escape(captures[0])
            raise UsageError(
                f"{name}: --follow FILE watches a file that grows; 'dcpinspect check {name}' "
                "says what is wrong in a whole one"
            )
        raise UsageError("name what to watch: -i eth0, --follow FILE, or - for standard input")
    return CaptureSource([follow if follow is not None else options.STDIN], follow=True)


def _stops(names: Sequence[str] | None, checked_rules: Sequence[str]) -> frozenset[str]:
    """Returns the rules and severities that end the watch. Raises UsageError."""
    from dcpinspect.findings.registry import RULES
    from dcpinspect.findings.rule import SEVERITIES

    stops: set[str] = set()
    for name in names or ():
        if name in SEVERITIES:
            stops.update(SEVERITIES[: SEVERITIES.index(name) + 1])
        elif name not in RULES:
            close = (
                did_you_mean(name, [*SEVERITIES, *RULES])
                or f"; there are {', '.join(SEVERITIES)}, and the rules of docs/rules.md"
            )
            raise UsageError(f"--stop-on {escape(name)}: no rule or severity has this name{close}")
        elif name not in checked_rules:
            raise UsageError(
                f"--stop-on {name}: this rule is not among those that are checked; see --rule, "
                "--no-rule and --lint"
            )
        else:
            stops.add(name)
    return frozenset(stops)
