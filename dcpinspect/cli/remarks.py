"""Remarks on captures at the end of a command: damage, and captures without a wanted message."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

from dcpinspect.cli import terminal
from dcpinspect.errors import CaptureError, DamagedCapture, UsageError
from dcpinspect.text import counted, escape, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from dcpinspect.capture.open import FileDamage
    from dcpinspect.reading.reading import Reading

MAX_LINES = 10
"""Number of damaged places, or directions that lost bytes, that are listed."""
MOST_NAMED = 4
"""Number of connections that are named in a line."""

UNCHECKED = "nothing was checked"


def refuse_unless_damaged(reading: Reading, reason: str) -> None:
    """Raises UsageError because there is nothing to show. If captures are damaged, which may be the
    reason, only prints the text.
    """
    if not reading.capture.problems:
        raise UsageError(reason)
    terminal.complain(reason)


def no_such_connections(reading: Reading, wanted: Sequence[range]) -> str:
    """Returns how many connections there are, if no wanted one is among them; else empty."""
    count = len(reading.links) + reading.engine.unlisted
    if not wanted or any(
        max(1, numbers.start) <= min(count, numbers.stop - 1) for numbers in wanted
    ):
        return ""
    named = ", ".join(
        str(numbers.start) if len(numbers) == 1 else f"{numbers.start}-{numbers.stop - 1}"
        for numbers in wanted
    )
    return f"connection {named}: there are {count}; 'dcpinspect connections' lists them"


def _set_clocks(reading: Reading) -> Iterator[str]:
    """Yields which clocks differ, where one was set while it captured, and what times mean then;
    and which captures are not in order of time.
    """
    surveyed, steps = reading.options["surveyed"], reading.engine.clock.steps
    ahead = surveyed.ahead_ns if surveyed is not None else {}
    turns_back = reading.engine.clock.turns_back
    if not steps and not ahead and not turns_back:
        return
    from dcpinspect.findings.cases import duration  # deferred: few captures have such a clock

    for name, ns in ahead.items():
        yield (
            f"{escape(name)}: its clock is {duration(abs(ns))} "
            f"{'ahead' if ns > 0 else 'behind'}, as packets of another capture show; "
            "its times are moved by that"
        )
    for step in steps:
        name, turn = reading.capture.files[step.file].name, "back" if step.ns < 0 else "forward"
        yield (
            f"{escape(name)}: at frame {step.frame}, the clock of the capturing machine was set "
            f"{turn} by {duration(abs(step.ns))}; times go on by the clock as it was before"
        )
    for file in turns_back.keys() - {step.file for step in steps}:
        name, late = escape(reading.capture.files[file].name), turns_back[file]
        yield (
            f"{name}: its packets are not in order of time; frame {late.frame} is "
            f"{duration(-late.ns)} before the one in front of it; first: reordercap {name} OUT"
        )


def complain_of(
    problems: Sequence[FileDamage], complain: Callable[[object], None] = terminal.complain
) -> None:
    """Prints a line for each of these damaged places."""
    for problem in problems:
        complain(problem.note)


def remarks(
    reading: Reading,
    *,
    is_whole: bool = True,
    stats: bool = False,
    shown: int | None = None,
    skipped: int = 0,
    checks: bool = False,
    is_said: bool = False,
    advises_elsewhere: bool = False,
    side: str = "",
    damage_shown: int = 0,
    counted_copies: Collection[int] = (),
    told: Collection[int] = (),
) -> int:
    """Prints remarks on the captures on standard error. Returns the exit status of the command.

    ``is_whole``: False if the command stopped before the end of the captures. ``stats``: adds the
    table of all packets and bytes. ``shown``: number of messages that met the conditions, without
    those that were ``skipped``. ``checks``: the command looks for problems, so captures without
    messages are a failure. ``is_said``: it has said why there are none. ``advises_elsewhere``: it
    has said what to do about bytes of other protocols. ``side``: names the reading, if there are
    two. ``damage_shown``: number of damaged places that were told before. ``counted_copies``:
    connections that were counted, although they show what another one shows. ``told``: connections
    whose losses were told.
    """
    # deferred: NumPy, which --help does not need
    from dcpinspect.output.render.coverage_text import nothing_found

    def complain(message: object) -> None:
        terminal.complain(f"{side}: {message}" if side else message)

    for file in reading.capture.files:
        if file.remark is not None:
            complain(f"{escape(file.name)}: {file.remark}")
    for line in _set_clocks(reading):
        complain(line)
    problems = reading.capture.problems
    complain_of(problems[damage_shown:MAX_LINES], complain)
    if len(problems) > MAX_LINES:
        complain(counted(len(problems) - MAX_LINES, "more problem"))
    if is_whole and not reading.messages:
        if not is_said:
            why = nothing_found(
                reading,
                any_port=", or --port auto" if checks else "",
                advises_elsewhere=advises_elsewhere,
            )
            complain(f"{UNCHECKED}: {why}" if checks else why)
    elif is_whole:
        for line in (
            *_selected(reading, shown, skipped),
            *_counted_twice(counted_copies),
            *_lost(reading, advises_elsewhere=advises_elsewhere, told=told),
        ):
            complain(line)
    elif stats:
        complain("reading stopped before the end; --stats counts what was read so far")
    for line in _left_out(reading, stats=stats):
        complain(line)
    if stats:
        _write_coverage(reading, side)
    if (problems and not (reading.capture.packets or reading.messages)) or (
        checks and not reading.messages
    ):
        return CaptureError.exit_status
    return DamagedCapture.exit_status if problems else 0


def _write_coverage(reading: Reading, side: str) -> None:
    from dcpinspect.output.render.coverage_text import coverage_table  # deferred, as above

    lines = coverage_table(reading.coverage, reading.capture.files, terminal.error_width())
    heading = [f"{side}:"] if side else []
    sys.stderr.write("".join(f"{line}\n" for line in (*heading, *lines)))


def _selected(reading: Reading, shown: int | None, skipped: int) -> Iterator[str]:
    """Says that no message was shown."""
    if shown == 0:
        yield (
            f"--skip left out all {skipped:,} messages"
            if skipped
            else f"none of {reading.messages:,} messages met the conditions"
        )


def _counted_twice(connections: Collection[int]) -> Iterator[str]:
    if connections:
        numbers = listed([*map(str, sorted(connections))], MOST_NAMED)
        yield (
            f"counted twice, since a pipe is read once: connection {numbers}; save it to a "
            "file first ('dcpinspect connections' has copy_of)"
        )


def _lost(reading: Reading, *, advises_elsewhere: bool, told: Collection[int]) -> Iterator[str]:
    """Says which connections lost bytes."""
    from dcpinspect.output.render.coverage_text import losses  # deferred, as above

    lost = list(
        islice(
            losses(reading.coverage, advises_elsewhere=advises_elsewhere, told=told),
            MAX_LINES + 1,
        )
    )
    yield from lost[:MAX_LINES]
    if len(lost) > MAX_LINES:
        yield "more connections lost bytes; --stats lists all"
    if getattr(reading.capture, "is_crowded", False):
        yield (
            "more captures overlap in time than are read beside each other, so packets were read "
            "late; to read all in order, first: mergecap -w OUT FILE…"
        )


def _left_out(reading: Reading, *, stats: bool) -> Iterator[str]:
    """Says what tables do not have."""
    if not reading.is_tracking:
        return
    if unlisted := reading.engine.unlisted:
        yield (
            f"{unlisted:,} more connections carried nothing but noops, if that; no table or "
            "finding has them"
        )
    left_counts = reading.tracker.left_counts
    if stats and any(left_counts.values()):
        counts = ", ".join(f"{count:,} {name}" for name, count in left_counts.items() if count)
        yield (
            f"{counts} were over and have left memory; tables have the latest, counts and "
            "findings have all"
        )
