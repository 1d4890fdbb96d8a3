"""``dcpinspect check``: what is wrong in captures, whose fault it is, and what to do."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.output import choose_format, opened
from dcpinspect.cli.report import report
from dcpinspect.cli.terminal import INTERRUPTED, complain
from dcpinspect.errors import UsageError
from dcpinspect.escape import escape
from dcpinspect.export.formats import Format
from dcpinspect.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dcpinspect.findings.finding import Finding

FOUND = 1
"""Exit status where something was found that ``--fail-on`` asks about."""


class FailOn(StrEnum):
    """What makes the exit status 1."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    NEVER = "never"


def check(
    context: typer.Context,
    captures: options.Captures,
    rule: Annotated[
        list[str] | None, typer.Option("--rule", metavar="RULE", help="Only this rule, and those of --family; may be repeated.")
    ] = None,
    family: Annotated[
        list[str] | None,
        typer.Option("--family", metavar="FAMILY", help="Only rules of this family, and those of --rule; may be repeated."),
    ] = None,
    no_rule: Annotated[list[str] | None, typer.Option("--no-rule", metavar="RULE", help="Not this rule; may be repeated.")] = None,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Findings so bad, or worse, make the exit status 1.")] = FailOn.ERROR,
    format_: options.OutputFormat = None,
    output: options.OutputFile = None,
    csv_guard: options.CsvGuard = True,
    port: options.Port = None,
    stats: options.Stats = False,
) -> int:
    """Say what is wrong in captures: worst first, with the messages that show it and what to do."""
    # Deferred: NumPy and the decoder; --help and completion do without.
    from dcpinspect.cli.tables import write_records
    from dcpinspect.findings.checker import RULES
    from dcpinspect.findings.record import finding_records
    from dcpinspect.reading import Reading
    from dcpinspect.render.findings import report_lines

    format_ = choose_format(format_, output)
    options.refuse_unused(context, format_, {"csv_guard": (Format.CSV,)})
    wanted = _rules(rule, family, no_rule)
    extra_ports, find_ports = options.ports(port)
    with Reading(captures, extra_ports=extra_ports, find_ports=find_ports) as reading:
        reading.check(wanted)
        with opened(output, format_, captures) as out:
            try:
                for _ in interrupts.between(reading):
                    pass
            finally:  # Ctrl-C: what was found until then
                is_whole = not interrupts.settled()
                if not is_whole:
                    complain(INTERRUPTED)
                found = reading.findings(is_whole=is_whole)
                files = [file.name for file in reading.capture.files]
                if format_ is Format.TEXT:
                    out.put("".join(f"{line}\n" for line in report_lines(found, files, out.painter())))
                    out.is_complete = True
                else:
                    write_records(finding_records(found, RULES, files), None, format_, out, guard=csv_guard)
        status = report(reading, stats=stats)
        return FOUND if _fails(found, fail_on) and status != UsageError.exit_status else status


def _fails(found: Sequence[Finding], fail_on: FailOn) -> bool:
    from dcpinspect.findings.rule import SEVERITIES

    return fail_on is not FailOn.NEVER and any(SEVERITIES.index(one.severity) <= SEVERITIES.index(fail_on.value) for one in found)


def _rules(rule: list[str] | None, family: list[str] | None, no_rule: list[str] | None) -> list[str]:
    """Ids of the rules that are asked for. Raises UsageError."""
    from dcpinspect.findings.checker import RULES

    families = list(dict.fromkeys(one.family for one in RULES.values()))
    for option, values, known in (("--rule", rule, RULES), ("--no-rule", no_rule, RULES), ("--family", family, families)):
        for value in values or ():
            if value not in known:
                close = did_you_mean(value, known) or f"; there are {', '.join(known)}"
                raise UsageError(f"{option} {escape(value)}: no {option.removeprefix('--no-').removeprefix('--')} has this name{close}")
    chosen = [
        one.id
        for one in RULES.values()
        if (one.id in (rule or ()) or one.family in (family or ()) or not (rule or family)) and one.id not in (no_rule or ())
    ]
    if not chosen:
        raise UsageError("--no-rule: no rule is left to check; take one of them back")
    return chosen
