"""Writes a report as text, small enough to be passed on."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from dcpinspect.errors import UsageError
from dcpinspect.output.report.report_contents import Limits, Source, contents
from dcpinspect.text import escape

ReportFormat = Literal["html", "markdown"]
_SUFFIXES: dict[str, ReportFormat] = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".markdown": "markdown",
}

MOST_BYTES = 5_000_000
"""Greatest size of a page in bytes: what people can attach to a ticket."""


def format_of(path: str) -> ReportFormat:
    """Returns the format for a file of this name. Raises UsageError."""
    for suffix, format_ in _SUFFIXES.items():
        if path.lower().endswith(suffix):
            return format_
    raise UsageError(f"{escape(path)}: the name of a report ends in .html or .md")


def written(format_: ReportFormat, source: Source) -> str:
    """Returns the report as text. If a page comes out too large, the limits are halved until it is
    small enough.
    """
    if format_ == "markdown":
        from dcpinspect.output.report.markdown import markdown

        return markdown(contents(source, Limits(evidence=0, timelines=0)))
    from dcpinspect.output.report.page import page  # deferred: loads Jinja2

    limits = Limits()
    while True:
        report_contents = contents(source, limits)
        if limits != Limits():
            less = (
                "Some findings, messages, timelines and rows of tables, so that this page is "
                f"smaller than {MOST_BYTES // 1_000_000} MB."
            )
            report_contents = replace(report_contents, left_out=[*report_contents.left_out, less])
        text = page(report_contents)
        if len(text.encode()) <= MOST_BYTES or limits.evidence <= 1:
            return text
        limits = limits.halved()
