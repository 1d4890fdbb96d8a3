"""``dcpinspect watch``: runs unattended, and tells findings as they become certain."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dcpinspect.cli import completion, interrupts, metrics, options
from dcpinspect.cli.capturing import capturing
from dcpinspect.cli.check import FOUND
from dcpinspect.cli.output import StandardOutput
from dcpinspect.cli.read import STDIN, Files
from dcpinspect.cli.teller import Teller
from dcpinspect.cli.terminal import complain
from dcpinspect.cli.watcher import Watcher
from dcpinspect.errors import UsageError
from dcpinspect.escape import escape
from dcpinspect.suggest import did_you_mean

if TYPE_CHECKING:
    from dcpinspect.capture.around import Around
    from dcpinspect.cli.notify import Notifier
    from dcpinspect.cli.read import Source

_SAVING = ("save_to", "save_max", "save_memory")


@options.shared(capturing)
def watch(
    context: typer.Context,
    captures: Annotated[
        list[str] | None, typer.Argument(metavar="[-]", show_default=False, help="- watches the capture that comes on standard input.")
    ] = None,
    follow: Annotated[
        str | None, typer.Option("--follow", metavar="FILE", help="Watch the capture that another program is writing to this file.")
    ] = None,
    format_name: Annotated[
        Literal["text", "ndjson"],
        typer.Option("--format", "-f", help="The format. ndjson has the records of findings that 'dcpinspect check' writes."),
    ] = "text",
    rule: options.Rules = None,
    family: options.Families = None,
    lint: options.Lint = False,
    no_rule: options.NoRules = None,
    severity: options.Severity = None,
    settle: Annotated[
        str, typer.Option("--settle", metavar="TIME", help="Tell a finding when nothing has contradicted it for this time.")
    ] = "5s",
    patience: Annotated[
        str, typer.Option("--patience", metavar="TIME", help="Tell that something does not come when nothing has come for this time more.")
    ] = "60s",
    stop_on: Annotated[
        list[str] | None,
        typer.Option(
            "--stop-on",
            metavar="RULE|SEVERITY",
            autocompletion=completion.rules,
            help="End with status 1 when a finding of this rule, or of this severity or worse, is told. May be repeated.",
        ),
    ] = None,
    save_around: Annotated[
        str | None,
        typer.Option("--save-around", metavar="TIME", help="Save the packets of this time before and after each finding that is told."),
    ] = None,
    save_to: Annotated[str, typer.Option("--save-to", metavar="DIR", help="For --save-around, the directory of the files.")] = ".",
    save_max: Annotated[int, typer.Option("--save-max", metavar="N", min=1, help="For --save-around, save N files at most.")] = 100,
    save_memory: Annotated[
        int, typer.Option("--save-memory", metavar="MIB", min=1, help="For --save-around, memory for the latest packets.")
    ] = 256,
    exec_: Annotated[
        str | None,
        typer.Option(
            "--exec", metavar="COMMAND", help="Start this program for a finding that is told, which it has on standard input as JSON."
        ),
    ] = None,
    exec_every: Annotated[
        str, typer.Option("--exec-every", metavar="TIME", help="For --exec, start the program once in this time at most.")
    ] = "10s",
    summary: Annotated[
        str | None, typer.Option("--summary", metavar="TIME", help="Print a line with counts on standard error each time this has passed.")
    ] = None,
    redact: options.Redact = False,
    redact_salt: options.RedactSalt = None,
    metrics_at: metrics.Address = None,
    metrics_vbuckets: metrics.WithVbuckets = False,
    port: options.Port = None,
    stats: options.Stats = False,
    **choices: Any,  # options of capturing
) -> int:
    """Tell findings as they become certain, one line each, until Ctrl-C or SIGTERM."""
    # deferred: NumPy and the decoder, which --help and completion do not need
    from dcpinspect.tables.times import length

    source = _source(context, captures or [], follow, choices)
    wanted = options.rules_of(rule, family, no_rule, lint=lint)
    stops = _stops(stop_on, wanted)
    settle_ns, patience_ns = length(settle, "--settle"), length(patience, "--patience")
    every_ns = length(summary, "--summary") if summary is not None else 0
    if summary is not None and not every_ns:
        raise UsageError(f"--summary {summary}: write a length of time above 0")
    redactor = options.redactor(redact, redact_salt)
    if redactor is not None and (save_around is not None or choices.get("write") is not None):
        name = "--save-around" if save_around is not None else "--write"
        raise UsageError(f"{name}: packets have what --redact replaces; leave out one of the two")
    around = _around(context, save_around, save_to, save_max, save_memory)
    notifier = notifier_of(context, exec_, exec_every)
    extra_ports, find_ports = options.ports(port)
    out = StandardOutput()
    exporting = metrics.exporting(metrics_at, with_vbuckets=metrics_vbuckets)
    with ExitStack() as stack:
        exporter = stack.enter_context(exporting)
        with interrupts.telling(lambda: "stopped before anything came", status=0):  # opening a pipe waits for its first bytes
            reading = stack.enter_context(source.reading(extra_ports, find_ports=find_ports, keeper=None))
        reading.check(wanted, redactor=redactor)
        reading.forget_what_is_over()
        teller = Teller(
            out if format_name == "text" else None,
            put=out.put,
            severity=severity.value if severity is not None else None,
            stops=stops,
            around=around,
            notifier=notifier,
        )
        watcher = Watcher(
            reading,
            teller,
            settle_ns=settle_ns,
            patience_ns=patience_ns,
            around=around,
            notifier=notifier,
            summary_ns=every_ns,
        )
        was_stopped = False

        def stop() -> None:
            nonlocal was_stopped
            was_stopped = True
            reading.capture.stop()

        with interrupts.stopping(stop) if source.pauses else nullcontext():
            try:
                for _ in reading if exporter is None else exporter.between(reading, reading):
                    watcher.pass_time()
                    if watcher.is_over:
                        break
                else:
                    watcher.end(is_whole=not was_stopped)
            finally:
                watcher.close()
        status = source.report(reading, is_whole=not watcher.is_over, stats=stats, shown=reading.messages, skipped=0)
        complain(watcher.summary())
        return FOUND if watcher.is_over else status


def _source(context: typer.Context, captures: Sequence[str], follow: str | None, choices: dict[str, Any]) -> Source:
    """Returns what to watch. Raises UsageError."""
    interface = choices["interface"]
    given = [*(["-i"] if interface else []), *(["--follow"] if follow is not None else []), *captures]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(map(escape, given))}: one thing at a time; leave out all but one")
    if interface:
        return options.taken(capturing, choices)
    for parameter in context.command.params:
        if parameter.name in signature(capturing).parameters and options.is_typed(context, parameter.name or ""):
            raise UsageError(f"{max(parameter.opts, key=len)}: is for interfaces; name one with -i")
    if follow is None and list(captures) != [STDIN]:
        if captures:
            name = escape(captures[0])
            raise UsageError(
                f"{name}: --follow FILE watches a file that grows; 'dcpinspect check {name}' says what is wrong in a whole one"
            )
        raise UsageError("name what to watch: -i eth0, --follow FILE, or - for standard input")
    return Files([follow if follow is not None else STDIN], follow=True)


def _stops(names: Sequence[str] | None, wanted: Sequence[str]) -> frozenset[str]:
    """Returns the rules and severities that end the watch. Raises UsageError."""
    from dcpinspect.findings.registry import RULES
    from dcpinspect.findings.rule import SEVERITIES

    found: set[str] = set()
    for name in names or ():
        if name in SEVERITIES:
            found.update(SEVERITIES[: SEVERITIES.index(name) + 1])
        elif name not in RULES:
            close = did_you_mean(name, [*SEVERITIES, *RULES]) or f"; there are {', '.join(SEVERITIES)}, and the rules of docs/rules.md"
            raise UsageError(f"--stop-on {escape(name)}: no rule or severity has this name{close}")
        elif name not in wanted:
            raise UsageError(f"--stop-on {name}: this rule is not among those that are checked; see --rule, --no-rule and --lint")
        else:
            found.add(name)
    return frozenset(found)


def _around(context: typer.Context, text: str | None, folder: str, most: int, memory_mib: int) -> Around | None:
    """Returns the keeper that saves packets around findings. Raises UsageError."""
    if text is None:
        for parameter in context.command.params:
            if parameter.name in _SAVING and options.is_typed(context, parameter.name or ""):
                raise UsageError(f"{parameter.opts[0]}: is for --save-around; give it a time, as in --save-around 30s")
        return None
    from dcpinspect.capture.around import MIB, Around
    from dcpinspect.tables.times import length

    around_ns = length(text, "--save-around")
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        why = "cannot be written to" if os.path.isdir(folder) else "is not a directory"
        raise UsageError(f"--save-to {escape(folder)}: {why}; name a directory")
    return Around(folder, around_ns, most_bytes=memory_mib * MIB, most_files=most, tell=complain)


def notifier_of(context: typer.Context, command: str | None, every: str) -> Notifier | None:
    """Returns the starter of the program of ``--exec``; None without one. Raises UsageError."""
    if command is None:
        if options.is_typed(context, "exec_every"):
            raise UsageError("--exec-every: is for --exec; name a program")
        return None
    from dcpinspect.cli.notify import Notifier
    from dcpinspect.tables.times import length

    return Notifier(command, length(every, "--exec-every") / 1e9, tell=complain)
