"""Shows what a pipeline run did, and what an output contains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dcpinspect.findings.registry import RULES
from dcpinspect.text import counted, escape

MAX_LINES = 10
"""Number of points, and of damaged places, that are listed."""
SHOWN_S = 0.1
"""Least number of seconds for the start of Spark that are told."""


def summary_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines about a run, from its summary."""
    seconds = record["seconds"]
    if record["expired"]:
        yield f"{_captures(record['expired'])} taken out because of their age"
    elif not (record["captures"] or record["known"]):
        yield "nothing has changed"
    elif not record["captures"]:
        yield f"nothing new; left out {_left_out(record)}"
    else:
        left_out = f"; left out {_left_out(record)}" if record["known"] else ""
        start = (
            f", of which Spark took {seconds['start']:.1f} s to start"
            if seconds.get("start", 0) >= SHOWN_S
            else ""
        )
        yield f"{_what_was_read(record)}{left_out}"
        yield f"{record['messages']:,} messages in {seconds['whole']:.1f} s{start}"
    texts = []
    if bad := record["quarantined"]:
        texts.append(f"{_captures(bad)} could not be read")
    if damaged := record["damaged"]:
        texts.append(f"{_captures(damaged)} {'is' if damaged == 1 else 'are'} damaged")
    if texts:
        yield ", ".join(texts)
    yield from _tables(record["rows"])
    yield from _problem_lines(of_severity(record["problems"], "note"))
    yield f"tables in {escape(record['out'])}, run {record['batch']}"


def _left_out(record: Mapping[str, Any]) -> str:
    """Describes captures that a run did not read: those of earlier runs, and copies."""
    copies = record["copies"]
    before = record["known"] - copies
    texts = [f"{before:,} that an earlier run has read"] if before else []
    if copies:
        texts.append(f"{copies:,} {'copy' if copies == 1 else 'copies'}")
    return " and ".join(texts)


def watched_line(record: Mapping[str, Any]) -> str:
    """Describes one of many runs on one line."""
    return (
        f"{_what_was_read(record)} in {record['seconds']['whole']:.1f} s; "
        f"{record['rows']['messages']:,} messages by now, run {record['batch']}"
    )


def _what_was_read(record: Mapping[str, Any]) -> str:
    return (
        f"read {_captures(record['captures'])}, {_bytes(record['bytes'])}, "
        f"{record['packets']:,} packets"
    )


def info_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines about an output, from its summary."""
    yield (
        f"{counted(record['runs'], 'run')}, the newest by dcpinspect {escape(record['program'])}"
    )
    yield "captures: " + (
        ", ".join(f"{count:,} {state}" for state, count in record["captures"].items() if count)
        or "none"
    )
    for point in record["points"][:MAX_LINES]:
        times = f", {_span(point['first_time'], point['last_time'])}" if point["first_time"] else ""
        yield (
            f"  {escape(point['point'])}: {_captures(point['captures'])}, "
            f"{_bytes(point['bytes'])}, {point['packets']:,} packets{times}"
        )
    if len(record["points"]) > MAX_LINES:
        yield (
            f"  and {counted(len(record['points']) - MAX_LINES, 'more point')}; the table "
            "captures has all"
        )
    if record["consumers"]:
        yield "clients, over all connections, nodes and captures:"
    for consumer in record["consumers"][:MAX_LINES]:
        servers = ", ".join(consumer["servers"][:4]) + (
            ", …" if len(consumer["servers"]) > 4 else ""
        )
        yield (
            f"  {escape(consumer['client'])}: {counted(consumer['vbuckets'], 'vbucket')} over "
            f"{counted(len(consumer['connections']), 'connection')} to {servers}"
        )
    if len(record["consumers"]) > MAX_LINES:
        yield f"  and {len(record['consumers']) - MAX_LINES:,} more; the table vbuckets has all"
    if record["findings"]:
        yield "findings by cause:"
    for group in record["findings"][:MAX_LINES]:
        cause = f" ({group['cause']})" if group["cause"] else ""
        times = f", seen {group['count']:,} times" if group["count"] > group["findings"] else ""
        if times and group["rule"] in RULES and RULES[group["rule"]].of_each:
            noun = "vbucket" if group["vbuckets"] else "connection"
            times = f", on {counted(group[f'{noun}s'], noun)}"  # each of them counts
        yield (
            f"  {group['severity']} {group['rule']}{cause}: "
            f"{counted(group['findings'], 'finding')}{times}"
        )
    if len(record["findings"]) > MAX_LINES:
        yield (
            f"  and {counted(len(record['findings']) - MAX_LINES, 'more kind')}; 'dcpinspect "
            "pipeline check' has all"
        )
    yield from _tables(record["tables"])
    yield from _problem_lines(record["problems"])


def of_severity(problems: Iterable[Mapping[str, Any]], *severities: str) -> list[Mapping[str, Any]]:
    """Returns the rows of the table ``bad`` with one of these severities."""
    return [problem for problem in problems if problem["severity"] in severities]


def _problem_lines(problems: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for problem in problems[:MAX_LINES]:
        yield f"{problem['severity']}: {problem_text(problem)}"
    if len(problems) > MAX_LINES:
        yield f"{counted(len(problems) - MAX_LINES, 'more problem')}; the table bad has all"


def problem_text(problem: Mapping[str, Any]) -> str:
    """Describes what is wrong with a capture, from a row of the table ``bad``, with advice if it
    could not be read.
    """
    offset = "" if problem["offset"] is None else f", offset {problem['offset']}"
    advice = (
        "; it is left out: take it away, or put a pcap or pcapng file in its place"
        if problem["severity"] == "error"
        else ""
    )
    return f"{problem['file']}{offset}: {problem['what']}{advice}"


def _tables(rows: Mapping[str, int]) -> Iterator[str]:
    yield "rows of tables: " + ", ".join(f"{name} {count:,}" for name, count in rows.items())


def _span(first: str, last: str) -> str:
    """Returns the span between two times in RFC 3339, to the second."""
    begin, end = (time[:19].replace("T", " ") for time in (first, last))
    if begin == end:
        return f"{begin} UTC"
    return f"{begin} to {end[11:] if end[:10] == begin[:10] else end} UTC"


def _captures(count: int) -> str:
    return counted(count, "capture")


def _bytes(size: int) -> str:
    for unit, power in (("GB", 9), ("MB", 6), ("kB", 3)):
        if size >= 10**power:
            return f"{size / 10**power:.1f} {unit}"
    return f"{size} B"
