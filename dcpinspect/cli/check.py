"""``dcpinspect check``: what is wrong in captures, whose fault it is, and what to do."""

from __future__ import annotations

from contextlib import ExitStack, closing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dcpinspect.cli import completion, interrupts, options
from dcpinspect.cli.choosing import choosing
from dcpinspect.cli.output import choose_format, opened, refuse_to_overwrite
from dcpinspect.cli.remarks import UNCHECKED, remarks
from dcpinspect.cli.subset import EvidenceFile, packet_wishes
from dcpinspect.cli.terminal import columns_asked, complain, put_folded
from dcpinspect.errors import UsageError
from dcpinspect.export.formats import FORMATS, SARIF, Format, Report, TableFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dcpinspect.cli.choosing import Choosing
    from dcpinspect.export.formats import Paint
    from dcpinspect.export.target import Target
    from dcpinspect.findings.finding import Finding
    from dcpinspect.findings.lint import Verdict
    from dcpinspect.logs.evidence import Evidence
    from dcpinspect.logs.reading import LogReading
    from dcpinspect.parts import Merged
    from dcpinspect.reading import Reading
    from dcpinspect.streams.links import Link

if TYPE_CHECKING:
    CheckFormat = str
else:
    CheckFormat = Literal[(*FORMATS, SARIF.name)]
FOUND = 1
"""Exit status if there are findings that ``--fail-on`` asks about."""


_BATCH_BYTES = 4 << 20
"""A quarter of the usual size of batches: rules need more memory per batch than other commands, and several batches are under way."""


class FailOn(StrEnum):
    """Severity from which the exit status is 1."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    NEVER = "never"


def print_rules(is_asked: bool) -> None:
    """Prints a line for each rule, and exits."""
    if is_asked:
        from dcpinspect.findings.registry import RULES

        width = max(map(len, RULES))
        put_folded(f"{one.id:<{width}}  {one.severity:<7}  {one.family:<8}  {one.fires}" for one in RULES.values())
        raise typer.Exit


def check(
    context: typer.Context,
    captures: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CAPTURE…]",
            callback=options.with_folders,
            help="Capture files, or directories of them, read as one in order of time. - is standard input. With --log or --checkpoint,"
            " there may be none.",
        ),
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option("--log", metavar="FILE", help="Also look at this memcached.log, or output of cbstats or mcstat. May be repeated."),
    ] = None,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option("--checkpoint", metavar="FILE", help="Also check whether a consumer can resume from this JSON. May be repeated."),
    ] = None,
    rule: options.Rules = None,
    family: options.Families = None,
    lint: options.Lint = False,
    no_rule: options.NoRules = None,
    effects: Annotated[
        bool, typer.Option("--all", help="Text only. Also print the effects below their cause. Other formats always have them.")
    ] = False,
    vbucket: Annotated[
        str | None, typer.Option("--vbucket", metavar="LIST", help="Only findings about these vbuckets, as in 1,5-9.")
    ] = None,
    connection: Annotated[
        str | None, typer.Option("--connection", metavar="LIST", help="Only findings about these connections, as in 1,3-4.")
    ] = None,
    client: Annotated[
        str | None, typer.Option("--client", metavar="TEXT", help="Only findings about clients with this in their address or DCP name.")
    ] = None,
    severity: options.Severity = None,
    filter_: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="SQL", help="Only findings where this is true, as in \"whose = 'server'\"; @name is a saved filter."
        ),
    ] = None,
    since: options.Since = None,
    until: options.Until = None,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", metavar="N", min=0, help="Stop after N findings. The worst come first.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="[LIST]",
            callback=options.list_columns,
            is_eager=True,
            autocompletion=completion.record_columns,
            help="Print a table with these columns, in this order, as in rule,count,who. Without a list, list all columns.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", metavar="FILE", help="Only findings that are new or worse, compared with this JSON of an earlier check."
        ),
    ] = None,
    list_rules: Annotated[  # noqa: ARG001 - eager: it has done its work by then
        bool, typer.Option("--list-rules", callback=print_rules, is_eager=True, help="List all rules with what each looks for.")
    ] = False,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="Exit with status 1 if there is a finding of this severity, or worse.")
    ] = FailOn.ERROR,
    format_name: Annotated[
        CheckFormat | None,
        typer.Option("--format", "-f", show_default=False, help="The format. By default, the name of -o FILE chooses it, or it is text."),
    ] = None,
    output: options.OutputFile = None,
    write: Annotated[
        str | None,
        typer.Option(
            "--write", "-w", metavar="FILE", help="Also write the packets around the findings to this file, as pcapng with comments."
        ),
    ] = None,
    around: Annotated[
        int, typer.Option("--around", metavar="N", min=0, help="For -w, how many messages before and after each one that shows a finding.")
    ] = 5,
    with_secrets: options.WithSecrets = False,
    decrypted: options.Decrypted = False,
    csv_guard: options.CsvGuard = True,
    redact: options.Redact = False,
    redact_salt: options.RedactSalt = None,
    port: options.Port = None,
    stats: options.Stats = False,
) -> int:
    """Print what is wrong in captures, worst first, with the messages that show it and what to do."""
    # deferred: NumPy and the decoder, which --help and completion do not need
    from dcpinspect.capture.open import open_capture
    from dcpinspect.growing import give_back
    from dcpinspect.reading import Reading
    from dcpinspect.render.verdict import damage

    chosen = chosen_format(context, format_name, output)
    if write is None and options.is_typed(context, "around"):
        raise UsageError("--around: is for the packets of -w FILE")
    redactor = options.redactor(redact, redact_salt)
    manner = packet_wishes(write, with_secrets=with_secrets, decrypted=decrypted, redactor=redactor)
    wanted = options.rules_of(rule, family, no_rule, lint=lint)
    choice = choosing(vbucket, connection, client, severity, filter_, limit, baseline, context.obj, options.span_of_whole(since, until))
    captures = captures or []
    evidence, beside = None, [*(log or ()), *(checkpoint or ()), *([baseline] if baseline is not None else ())]
    if log or checkpoint:
        from dcpinspect.logs.evidence import Evidence

        evidence = Evidence.read(log or (), checkpoint or (), redactor)
    shown = columns_of(columns, chosen, several=len(captures) > 1)
    if not captures:
        if evidence is None:
            raise UsageError("name a capture, or give --log or --checkpoint")
        options.refuse_others(context, "check without a capture", _WITHOUT_CAPTURE)
        return _check_alone(evidence, wanted, choice, chosen, output, shown, fail_on, beside, effects=effects, guard=csv_guard)
    extra_ports, find_ports = options.ports(port)
    with ExitStack() as stack:
        packets = None
        if write is not None and manner is not None:
            refuse_to_overwrite(write, (), beside)
            packets = stack.enter_context(EvidenceFile(write, captures, manner, output=output, around=around))
        keeper = packets.keeper() if packets is not None else None
        capture = open_capture(captures, batch_bytes=_BATCH_BYTES)
        reading = stack.enter_context(Reading(capture, extra_ports=extra_ports, find_ports=find_ports, keeper=keeper))
        if keeper is not None:
            keeper.follow(reading)
        reading.check(wanted, evidence=evidence, redactor=redactor)
        with opened(output, chosen, captures, beside) as out:
            with closing(reading.ahead()) as batches:
                for _ in interrupts.batches(capture, batches):
                    pass
            give_back()
            files, links = [file.name for file in reading.capture.files], reading.engine.links
            choice = choice.within(reading)
            found = choice.of(reading.findings(wanted=choice.wants, links=links), files)
            assert reading.checker is not None
            lacking = "" if found else lacks(choice, reading, links)
            is_checked = reading.messages > 0 and not lacking
            verdicts = reading.checker.verdicts(links) if lint else None
            told = report_of(
                found,
                wanted,
                files,
                links,
                verdicts,
                effects=effects,
                is_checked=is_checked,
                width=out.width() or columns_asked(),
                reading=reading,
                nothing=choice.nothing,
                damage=damage(reading),
                span=choice.time.bounds if choice.time is not None else None,
            )
            write_report(out, chosen, told, shown, guard=csv_guard)
            if packets is not None:
                packets.write(found, reading)
        status = remarks(reading, stats=stats, checks=True)
        if lacking and reading.messages:
            complain(f"{UNCHECKED}: {lacking}; 'dcpinspect connections' and 'dcpinspect vbuckets' list all")
            status = UsageError.exit_status
        if evidence is not None:
            status = status or log_remarks(evidence.logs)
        if reading.messages and not reading.checker.has_dcp:
            is_refused = any(one.rule == "login-refused" for one in found)
            more = "" if find_ports or is_refused else "; DCP may be on another port, try --port auto"
            complain(f"no DCP among {reading.messages:,} messages: only the rules for any message and connection were checked{more}")
        return FOUND if fails(found, fail_on) and status != UsageError.exit_status else status


_WITHOUT_CAPTURE = (
    *("log", "checkpoint", "rule", "family", "no_rule", "effects", "vbucket", "client", "severity", "filter_", "limit", "columns"),
    *("redact", "redact_salt", "baseline", "list_rules", "fail_on", "format_name", "output", "csv_guard"),
)
"""Options that make sense for logs and checkpoints without a capture."""


def lacks(choice: Choosing, reading: Reading | Merged, links: Sequence[Link]) -> str:
    """Returns what was asked for that the capture does not have; empty if it has everything."""
    assert reading.checker is not None
    assert reading.tracker is not None
    vbuckets = set(reading.tracker.state.known.streams.vbucket.tolist())
    return choice.lacking(links, reading.checker.clients(list(links)).values(), vbuckets)


def _check_alone(
    evidence: Evidence,
    wanted: Sequence[str],
    choice: Choosing,
    chosen: Format,
    output: str | None,
    shown: list[str] | None,
    fail_on: FailOn,
    beside: Sequence[str],
    *,
    effects: bool,
    guard: bool,
) -> int:
    """Checks logs and checkpoints without a capture. Returns the exit status."""
    from dcpinspect.errors import CaptureError
    from dcpinspect.findings.alone import findings_alone

    found = choice.of(findings_alone(evidence, wanted, choice.wants), ())
    is_checked = evidence.has_something
    with opened(output, chosen, (), beside) as out:
        width = out.width() or columns_asked()
        told = report_of(found, wanted, (), (), None, effects=effects, is_checked=is_checked, width=width, nothing=choice.nothing)
        write_report(out, chosen, told, shown, guard=guard)
    status = log_remarks(evidence.logs)
    if not is_checked:
        status = CaptureError.exit_status
    return FOUND if fails(found, fail_on) else status


def log_remarks(logs: Sequence[LogReading]) -> int:
    """Says which lines of logs could not be used. Returns the exit status."""
    from dcpinspect.cli.log import remarks as of_logs

    return of_logs(logs) if logs else 0


def columns_of(text: str | None, format_: Format, *, several: bool) -> list[str] | None:
    """Returns the columns that are asked for. Raises UsageError."""
    if text is None:
        return None
    from dcpinspect.cli.record_tables import columns_asked_for
    from dcpinspect.findings.record import FINDINGS, FINDINGS_WITH_FILES

    if not isinstance(format_, TableFormat):
        raise UsageError(f"--columns: {format_} has no columns")
    return columns_asked_for(text, "findings", FINDINGS_WITH_FILES if several else FINDINGS)


def write_report(out: Target, format_: Format, told: Report, columns: list[str] | None, *, guard: bool) -> None:
    """Writes findings in the form of the format, or as a table of these columns."""
    if columns is not None and isinstance(format_, TableFormat):
        format_.records(out, told.records(), columns, guard=guard)
    else:
        format_.report(out, told, guard=guard)


def chosen_format(context: typer.Context, name: str | None, output: str | None) -> Format:
    """Returns the format that is asked for. Raises UsageError for options that it does not use."""
    is_sarif = name == SARIF.name or (name is None and output is not None and output.lower().endswith(tuple(SARIF.suffixes)))
    chosen = SARIF if is_sarif else choose_format(name, output)
    options.refuse_unused(context, chosen)
    return chosen


def report_of(
    found: Sequence[Finding],
    rules: Sequence[str],
    files: Sequence[str],
    links: Sequence[Link],
    verdicts: Sequence[Verdict] | None,
    *,
    effects: bool = False,
    is_checked: bool = True,
    width: int | None = None,
    reading: Reading | Merged | None = None,
    nothing: str = "nothing wrong",
    damage: str = "",
    span: tuple[int, int] | None = None,
) -> Report:
    """Returns the report on findings, ready to be written.

    ``rules``: ids of the rules that were checked. ``verdicts``: recommendations to clients, and whether they follow them; None if not asked
    for. ``effects``: text shows effects below their causes, and everything else. ``reading``: what was checked. ``nothing``: text if
    nothing was found. ``damage``: what is wrong with the files. ``is_checked``: whether there was a message to check. ``span``: of time, if
    only findings of that span are told.
    """
    from dcpinspect.export.sarif import sarif_log
    from dcpinspect.findings.record import finding_records
    from dcpinspect.findings.registry import RULES
    from dcpinspect.render.findings import report_lines
    from dcpinspect.render.lint import lint_lines
    from dcpinspect.render.verdict import LookedAt

    def lines(paint: Paint) -> list[str]:
        much = LookedAt.of(reading, rules, nothing, damage) if reading is not None else None
        instead = None if is_checked else UNCHECKED  # otherwise the report would say that nothing is wrong
        told = report_lines(found, files, paint, with_effects=effects, width=width, looked=much, instead=instead, span=span)
        return [*told, *(lint_lines(verdicts, links, paint, width) if verdicts is not None else ())]

    return Report(
        lines=lines,
        records=lambda: finding_records(found, RULES, files),
        sarif=lambda: sarif_log(found, [RULES[one] for one in rules], files, links, is_whole=is_checked),
    )


def fails(found: Sequence[Finding], fail_on: FailOn) -> bool:
    """Whether there are findings that make the exit status 1."""
    from dcpinspect.findings.rule import SEVERITIES

    return fail_on is not FailOn.NEVER and any(SEVERITIES.index(one.severity) <= SEVERITIES.index(fail_on.value) for one in found)
