"""``dcpinspect check``: what is wrong in captures, whose fault it is, and what to do."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.choosing import Choosing, FindingConditions
from dcpinspect.cli.remarks import UNCHECKED, remarks
from dcpinspect.cli.subset import EvidenceFile, EvidencePackets
from dcpinspect.cli.terminal import columns_asked, complain, height, put_folded
from dcpinspect.errors import CaptureError, UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.export.formats import TEXT, Format, Painter, ReportFormat
from dcpinspect.text import counted, escape, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dcpinspect.findings.finding import Finding
    from dcpinspect.findings.logs.log_evidence import LogEvidence
    from dcpinspect.findings.logs.log_reading import LogReading
    from dcpinspect.findings.recommended import Verdict
    from dcpinspect.output.export.target import Target
    from dcpinspect.protocol.redact import Redactor
    from dcpinspect.reading.joining import MergedReading
    from dcpinspect.reading.reading import Reading
    from dcpinspect.streams.tcp_facts import TcpConnection
    from dcpinspect.tables.record_tables import Records

FOUND = 1
"""Exit status if there are findings that ``--fail-on`` asks about."""


_BATCH_BYTES = 4 << 20
"""A quarter of the usual size of batches: rules need more memory per batch than other commands, and
several batches are under way.
"""


def print_rules(is_asked: bool) -> None:
    """Prints a line for each rule, and exits."""
    if is_asked:
        from dcpinspect.findings.registry import RULES

        width = max(map(len, RULES))
        put_folded(
            f"{rule.id:<{width}}  {rule.severity:<7}  {rule.family:<8}  {rule.fires}"
            for rule in RULES.values()
        )
        raise typer.Exit


class CheckOutput(options.Output):
    """What is shown of findings, where, in which format, and what makes the exit status 1."""

    words = """
    effects --all: Text only. Print everything of each finding: effects below their cause, rows and
        frames, exact times, and who has to act. Other formats always have it.
    --list-rules: List all rules with what each looks for.
    --fail-on: Exit with status 1 if there is a finding of this severity, or worse.
    """

    effects: bool = False
    columns: Annotated[str | None, options.columns_option("rule,count,who")] = None
    list_rules: Annotated[bool, {"callback": print_rules, "is_eager": True}] = False
    fail_on: Literal["error", "warning", "note", "never"] = "error"

    def names(self, *, with_files: bool) -> list[str] | None:
        """Returns the columns that are asked for. Raises UsageError."""
        if self.columns is None:
            return None
        from dcpinspect.cli.record_tables import columns_asked_for
        from dcpinspect.findings.finding_records import FINDINGS, FINDINGS_WITH_FILES

        return columns_asked_for(
            self.columns, "findings", FINDINGS_WITH_FILES if with_files else FINDINGS
        )

    def write(
        self,
        target: Target,
        format_: Format,
        columns: list[str] | None,
        checked: CheckedCaptures,
        choice: Choosing,
        verdicts: Sequence[Verdict] | None = None,
    ) -> None:
        """Writes findings in the form of the format, or as a table of these columns. ``verdicts``:
        recommendations to clients, and whether they follow them; None if not asked for.
        """
        width = target.width() or columns_asked()
        report = report_of(checked, choice, verdicts=verdicts, effects=self.effects, width=width)
        if columns is None:
            format_.report(target, report)
        elif format_.is_text:
            format_.records(target, _with_effects_below(checked), columns)
        else:
            format_.records(target, report.records(), columns)

    def fails(self, findings: Sequence[Finding]) -> bool:
        """Whether there are findings that make the exit status 1."""
        from dcpinspect.findings.rule import SEVERITIES

        return self.fail_on != "never" and any(
            SEVERITIES.index(finding.severity) <= SEVERITIES.index(self.fail_on)
            for finding in findings
        )


def check(
    context: typer.Context,
    conditions: FindingConditions,
    times: options.Times,
    result: CheckOutput,
    redaction: options.Redaction,
    packets: EvidencePackets,
    input_: options.Input,
    captures: Annotated[list[str] | None, {"callback": options.with_folders}] = None,
    log: list[str] | None = None,
    checkpoint: list[str] | None = None,
) -> int:
    """Print what is wrong in captures, worst first, with the messages that show it and what
    to do.

    Options:
    captures [CAPTURE…]: Capture files, or directories of them, read as one in order of time. -
        is standard input. With --log or --checkpoint, there may be none.
    --log FILE: Also look at this memcached.log, or output of cbstats or mcstat. May be
        repeated.
    --checkpoint FILE: Also check whether a consumer can resume from this JSON. May be repeated.
    """
    captures, logs, checkpoints = captures or [], log or (), checkpoint or ()
    format_, redactor = result.format(context), redaction.redactor()
    request = _CheckRequest(
        rules=conditions.rules.ids(),
        lint=conditions.rules.lint,
        choice=conditions.choosing(context.obj, times.span_of_whole()),
        result=result,
        format=format_,
        columns=result.names(with_files=len(captures) > 1),
        redactor=redactor,
        evidence=_evidence(logs, checkpoints, redactor),
        beside=[
            *logs,
            *checkpoints,
            *([conditions.baseline] if conditions.baseline is not None else ()),
        ],
    )
    with packets.file(
        context, captures, redactor, output=result.output, beside=request.beside
    ) as file:
        if captures:
            return _check(captures, request, file, input_)
    if request.evidence is None:
        raise UsageError("name a capture, or give --log or --checkpoint")
    options.refuse_others(context, "check without a capture", _WITHOUT_CAPTURE)
    return _check_alone(request.evidence, request)


@dataclass(frozen=True, slots=True)
class _CheckRequest:
    """Options of a check that are not captures."""

    rules: Sequence[str]
    lint: bool
    choice: Choosing
    result: CheckOutput
    format: Format
    columns: list[str] | None
    redactor: Redactor | None
    evidence: LogEvidence | None
    """What logs and checkpoints say."""
    beside: Sequence[str]
    """Files that are read beside captures."""


def _evidence(
    logs: Sequence[str], checkpoints: Sequence[str], redactor: Redactor | None
) -> LogEvidence | None:
    if not logs and not checkpoints:
        return None
    from dcpinspect.findings.logs.log_evidence import LogEvidence  # deferred: few checks have logs

    return LogEvidence.read(logs, checkpoints, redactor)


def _check(
    captures: Sequence[str],
    request: _CheckRequest,
    packets: EvidenceFile | None,
    input_: options.Input,
) -> int:
    """Checks captures. Returns the exit status."""
    # deferred: NumPy and the decoder, which --help and completion do not need
    from dcpinspect.arrays import give_back
    from dcpinspect.capture.open import open_capture
    from dcpinspect.output.render.coverage_text import why_nothing
    from dcpinspect.output.render.verdict import damage, is_answer
    from dcpinspect.reading.reading import Reading

    result, ports = request.result, input_.ports.reading_arguments()
    keeper = packets.keeper if packets is not None else None
    capture = open_capture(captures, batch_bytes=_BATCH_BYTES)
    with Reading(capture, **ports, keeper=keeper) as reading:
        if keeper is not None:
            keeper.follow(reading)
        reading.check(request.rules, evidence=request.evidence, redactor=request.redactor)
        with result.target(request.format, captures, request.beside) as target:
            with closing(reading.ahead()) as batches:
                for _ in interrupts.batches(capture, batches):
                    pass
            give_back()
            files, links = reading.files, reading.links
            choice = request.choice.within(reading)
            found = reading.findings(wanted=choice.wants, links=links)
            apart = _logs_apart(request.evidence, reading)
            found.sort(key=lambda finding: _is_of(finding, apart))
            findings = choice.matching(found, files)
            lacking = "" if findings else lacks(choice, reading, links)
            is_said = bool(findings) and not reading.messages  # findings say what is in its place
            unchecked = why_nothing(reading, advises_elsewhere=True) if is_said else UNCHECKED
            of_logs = [finding for finding in findings if _is_of(finding, apart)]
            own_findings = [finding for finding in findings if finding not in of_logs]
            is_checked = is_answer(own_findings, reading.messages) and not lacking
            checked = CheckedCaptures(
                findings,
                request.rules,
                reading,
                damage(reading),
                instead="" if is_checked else unchecked,
                apart=of_logs,
                why_apart=_why_apart(apart, reading),
            )
            verdicts = reading.checker.verdicts(links) if request.lint else None
            result.write(target, request.format, request.columns, checked, choice, verdicts)
            if packets is not None:
                packets.write(findings, reading)
        if request.format is not TEXT or request.columns is not None or not checked.apart:
            for line in checked.why_apart:
                complain(line)
        status = _remarks(
            reading, findings, lacking, request, stats=input_.stats, finds_ports=ports["find_ports"]
        )
        return FOUND if result.fails(own_findings) and status != UsageError.exit_status else status


def _logs_apart(evidence: LogEvidence | None, reading: Reading) -> dict[str, tuple[int, int]]:
    """Returns first and last time of the logs that have none in common with the capture."""
    if evidence is None or reading.earliest_ns is None or reading.last_time_ns is None:
        return {}
    return evidence.apart_from((reading.earliest_ns, reading.last_time_ns))


def _is_of(finding: Finding, logs: Mapping[str, tuple[int, int]]) -> bool:
    """Returns whether a finding is only of these logs, by their times."""
    ends = finding.first_time_ns, finding.last_time_ns
    return not finding.connections and all(
        any(first <= time_ns <= last for first, last in logs.values()) for time_ns in ends
    )


def _why_apart(logs: Mapping[str, tuple[int, int]], reading: Reading) -> list[str]:
    """Returns a line for each of the logs that have no time in common with the capture."""
    if not logs:
        return []
    from dcpinspect.tables.times import day_and_time  # deferred, as above

    assert reading.earliest_ns is not None
    assert reading.last_time_ns is not None
    bounds = reading.earliest_ns, reading.last_time_ns
    return [
        f"{escape(path)} has no time in common with the capture, which is of "
        f"{' to '.join(map(day_and_time, bounds))} UTC; the log is of "
        f"{' to '.join(map(day_and_time, span))}"
        for path, span in logs.items()
    ]


def _remarks(
    reading: Reading,
    findings: Sequence[Finding],
    lacking: str,
    request: _CheckRequest,
    *,
    stats: bool,
    finds_ports: bool,
) -> int:
    """Says what a check could not see. Returns the exit status, findings aside."""
    from dcpinspect.output.render.verdict import is_answer  # deferred, as above

    is_read_here = request.format is TEXT and height() > 0
    status = remarks(
        reading,
        stats=stats,
        told={
            number
            for finding in findings
            if is_read_here and finding.rule in ("capture-hole", "capture-cut")
            for number in finding.connections
        },
        checks=not is_answer(findings, reading.messages),
        is_said=bool(findings) and request.format is TEXT,
        advises_elsewhere=any(finding.rule == "wrong-port" for finding in findings),
    )
    if lacking and reading.messages:
        complain(
            f"{UNCHECKED}: {lacking}; 'dcpinspect connections' and 'dcpinspect vbuckets' list all"
        )
        status = UsageError.exit_status
    if request.evidence is not None:
        status = status or log_remarks(request.evidence.logs)
    if reading.messages and not reading.checker.has_dcp:
        is_known = any(
            finding.severity == "error" or finding.rule in ("login-refused", "bucket-refused")
            for finding in findings
        ) or any("cut short" in problem.what for problem in reading.capture.problems)
        more = "" if finds_ports or is_known else "; DCP may be on another port, try --port auto"
        complain(
            f"no DCP among {counted(reading.messages, 'message')}: only the rules for any message and "
            f"connection were checked{more}"
        )
    return status


_WITHOUT_CAPTURE = words_of(
    "log checkpoint rule family no_rule effects vbucket client severity filter_ limit columns "
    "redact redact_salt baseline list_rules fail_on format_name output csv_guard max_bytes"
)
"""Options that make sense for logs and checkpoints without a capture."""


def lacks(
    choice: Choosing, reading: Reading | MergedReading, links: Sequence[TcpConnection]
) -> str:
    """Returns what was asked for that the capture does not have; empty if it has everything."""
    vbuckets = set(reading.tracker.state.known_tables.streams.vbucket.tolist())
    assert reading.checker is not None
    return choice.lacking(links, reading.checker.clients(list(links)).values(), vbuckets)


def _check_alone(evidence: LogEvidence, request: _CheckRequest) -> int:
    """Checks logs and checkpoints without a capture. Returns the exit status."""
    from dcpinspect.findings.log_findings import findings_alone
    from dcpinspect.output.render.verdict import nothing_in

    result = request.result
    findings = request.choice.matching(
        findings_alone(evidence, request.rules, request.choice.wants), ()
    )
    is_checked = evidence.has_something
    with result.target(request.format, (), request.beside) as target:
        amount = nothing_in(request.choice.nothing, _amount(evidence))
        instead = UNCHECKED if not is_checked else "" if findings else amount
        checked = CheckedCaptures(findings, request.rules, instead=instead)
        result.write(target, request.format, request.columns, checked, request.choice)
    status = log_remarks(evidence.logs)
    if not is_checked:
        status = CaptureError.exit_status
    return FOUND if result.fails(findings) else status


def _amount(evidence: LogEvidence) -> str:
    """Says how much was looked at."""
    records = sum(log.events for log in evidence.logs)
    logs = f"{counted(records, 'record')} of {counted(len(evidence.logs), 'log')}"
    checkpoints = counted(len(evidence.checkpoints), "checkpoint")
    return ", ".join([logs] * bool(evidence.logs) + [checkpoints] * bool(evidence.checkpoints))


def log_remarks(logs: Sequence[LogReading]) -> int:
    """Says which lines of logs could not be used. Returns the exit status."""
    from dcpinspect.cli.log import remarks as of_logs

    return of_logs(logs) if logs else 0


@dataclass(frozen=True, slots=True)
class CheckedCaptures:
    """Findings, the rules that were checked, and the captures in which they were found."""

    findings: Sequence[Finding]
    rules: Sequence[str]
    """The ids of the rules that were checked."""
    reading: Reading | MergedReading | None = None
    """What was checked; None for logs and checkpoints alone."""
    damage: str = ""
    """What is wrong with the files."""
    instead: str = ""
    """What is said in place of the verdict, as where nothing was checked."""
    apart: Sequence[Finding] = ()
    """Those of the findings that are of another time than the captures."""
    why_apart: Sequence[str] = ()
    """Lines that say so."""


def _with_effects_below(checked: CheckedCaptures) -> Records:
    """Returns the table of findings for people: effects stand below their cause, which has the
    advice.
    """
    from dcpinspect.findings.finding_records import finding_records
    from dcpinspect.output.render.verdict import with_their_effects

    causes, effects = with_their_effects(checked.findings)
    in_order, rules, advice = [], [], []
    for cause in causes:
        own_effects = effects.get(cause.id, ())
        in_order += [cause, *own_effects]
        rules += [cause.rule, *(f"  {effect.rule}" for effect in own_effects)]
        advice += [cause.next or None, *(f"as for {cause.rule} above" for _ in own_effects)]
    files = () if checked.reading is None else checked.reading.files
    records = finding_records(in_order, files)
    return records.with_column("rule", rules).with_column("next", advice)


def report_of(
    checked: CheckedCaptures,
    choice: Choosing,
    *,
    verdicts: Sequence[Verdict] | None,
    effects: bool,
    width: int | None,
) -> ReportFormat:
    """Returns the report on findings, ready to be written. ``effects``: text shows effects below
    their causes, and everything else.
    """
    from dcpinspect.findings.finding_records import finding_records
    from dcpinspect.output.render.finding_text import lint_lines, report_lines
    from dcpinspect.output.render.verdict import LookedAt, verdict
    from dcpinspect.tables.times import in_words

    findings = checked.findings
    own_findings = [finding for finding in findings if finding not in checked.apart]
    rules = checked.rules
    reading = checked.reading
    files, links = ((), ()) if reading is None else (reading.files, reading.links)
    span = choice.time.bounds if choice.time is not None else None

    def lines(paint: Painter) -> list[str]:
        looked = (
            LookedAt.from_reading(reading, rules, choice.nothing, checked.damage)
            if reading is not None
            else None
        )
        # otherwise the report would say that nothing is wrong
        instead = checked.instead
        if not instead and span is not None:
            instead = f"{verdict(own_findings, looked)} · {in_words(span)}"
        report = report_lines(
            own_findings,
            files,
            paint,
            width=width,
            looked=looked,
            instead=instead or None,
            limit=height() or None,
            everything=effects,
            apart=checked.apart,
            why_apart=checked.why_apart,
        )
        return [
            *report,
            *(lint_lines(verdicts, links, paint, width) if verdicts is not None else ()),
        ]

    return ReportFormat(
        lines=lines,
        records=lambda: finding_records(findings, files),
    )
