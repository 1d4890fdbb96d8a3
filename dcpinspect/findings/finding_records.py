"""Findings as records of the output contract ``dcpinspect.finding/1``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dcpinspect.arrays import IntArray
from dcpinspect.findings.finding import OVER, WHOSE, Finding, MessagePlace
from dcpinspect.findings.rule import FAMILIES, SEVERITIES, Rule
from dcpinspect.streams.grouping import VBUCKET_BITS
from dcpinspect.streams.table_columns import BY_TABLE
from dcpinspect.tables.column_kinds import columns
from dcpinspect.tables.record_tables import (
    Records,
    RecordTable,
    WordColumn,
    counted,
    time_text,
    worded,
)
from dcpinspect.text import escape, words_of

FINDINGS = RecordTable(
    "finding",
    columns(
        """
        rule text: id of the rule
        family word: what the rule is about
        severity word: error: data is lost or wrong, or a stream does not continue; warning: it
            costs time or resources, or will; note: worth knowing
        cause text: kind of the finding, if the rule has kinds
        message text: what happened, in one sentence
        next text: what to do; null if the cause says it
        connection i64: the connection; null where there are several
        connections numbers: the connections; empty for a log or a checkpoint
        vbuckets numbers: the vbuckets, sorted; empty for the whole connection
        sid i64: DCP stream-id
        rows numbers: messages that show it, the faulty one first
        frames numbers: last packet of each of these, or the one that closed the connection
        evidence places: the same messages in a way that can be compared between readings
        seqnos seqnos: seqnos in the message
        first_time time: time when it began; some messages that show it may be older
        last_time time: time of the last one
        count i64: how often it happened
        left_out i64: how many more messages show it than are in rows
        id text: id for other findings to refer to; the same in every reading of the same captures
        effect_of text: id of the finding that is its cause and says what to do; null if it has none
        clients words: clients of these connections, as in the table of vbuckets
        who text: the clients in words: DCP name, address, agent
        server text: their server: address
        whose word: side that must change something; normal means none
        over word: whether it is over at the end of the capture
        over_row i64: message that shows that it is over
        cases cases: what happened on each vbucket of each connection
        """,
        family=FAMILIES,
        severity=SEVERITIES,
        whose=WHOSE,
        over=OVER,
    ),
)
"""The contract of the table of findings."""

CONTRACTS = {**BY_TABLE, "findings": FINDINGS}
"""The contract of every table that is made from messages, by its name in SQL."""
_BECOME: Mapping[str, tuple[str, Collection[str]]] = {
    "orphaned-vbucket": ("orphaned", ("ended", "refused")),
    "snapshot-stalled": ("stalled", ("backfilling", "advancing")),
}
"""Rules that know more of a vbucket than its newest stream shows: the verdict on it, and those that
it replaces.
"""
CHECKED = ("findings", "vbuckets")
"""Tables that need the rules to be asked."""

_AT = [column.name for column in FINDINGS.columns].index("frames") + 1
_FILES = columns("files words: capture of each of the frames, if several captures are read")
FINDINGS_WITH_FILES = replace(
    FINDINGS, columns=(*FINDINGS.columns[:_AT], *_FILES, *FINDINGS.columns[_AT:])
)
"""The contract of the table of findings if several captures are read."""


_AS_THEY_ARE = words_of(
    "rule severity cause message connection sid count left_out id effect_of whose over over_row"
)
"""Columns that are members of a finding."""


def finding_records(
    findings: Sequence[Finding], rules: Mapping[str, Rule], files: Sequence[str]
) -> Records:
    """Returns the table of findings, in their order."""
    names = [escape(file) for file in files]
    columns: dict[str, list[Any]] = {
        name: [getattr(finding, name) for finding in findings] for name in _AS_THEY_ARE
    }
    columns |= {
        "family": [rules[finding.rule].family for finding in findings],
        "next": [finding.next or None for finding in findings],
        "connections": [list(finding.connections) for finding in findings],
        "vbuckets": [list(finding.vbuckets) for finding in findings],
        "rows": [[place.row for place in finding.places] for finding in findings],
        "frames": [[place.frame for place in finding.places] for finding in findings],
        "files": [[names[place.file] for place in finding.places] for finding in findings],
        "evidence": [[_evidence(place, names) for place in finding.places] for finding in findings],
        "seqnos": [list(finding.seqnos) for finding in findings],
        "first_time": [finding.first_time_ns or None for finding in findings],
        "last_time": [finding.last_time_ns or None for finding in findings],
        "clients": [[escape(client) for client in finding.clients] for finding in findings],
        "who": [escape(finding.who) for finding in findings],
        "server": [escape(finding.server) for finding in findings],
        "cases": [[_case(case) for case in finding.case_of_each] for finding in findings],
    }
    table = FINDINGS_WITH_FILES if len(files) > 1 else FINDINGS
    return Records(
        table, {column.name: columns[column.name] for column in table.columns}, len(findings)
    )


def told_verdict(stream: Mapping[str, Any], findings: Sequence[Finding]) -> str:
    """Returns the verdict on a stream, by its row in the table of streams and by what findings know
    beyond it.
    """
    verdict: str = stream["verdict"]
    for finding in findings:
        word, replaced = _BECOME.get(finding.rule, ("", ()))
        if verdict in replaced and any(
            stream["vbucket"] in case.vbuckets
            and stream["connection"] in case.connections
            and stream["sid"] == case.sid
            for case in finding.case_of_each
        ):
            return word
    return verdict


def with_counts(
    vbuckets: Records, findings: Sequence[Finding], clients: Mapping[int, str]
) -> Records:
    """Returns the table of vbuckets with the number of findings that speak of each vbucket.

    Findings about a whole connection do not count, nor those that another one about the vbucket
    explains. Verdicts are those that findings tell.
    ``clients``: the consumer of each connection, as the table names it.
    """
    if not len(vbuckets):
        return vbuckets
    client, verdict = (worded(vbuckets.columns[name]) for name in ("client", "verdict"))
    keys = client.codes << VBUCKET_BITS | np.array(vbuckets.values("vbucket"), dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    codes = {word: number for number, word in enumerate(client.words)}
    counts = np.zeros((len(keys), len(SEVERITIES)), dtype=np.int64)
    words, verdict_codes = [*verdict.words], verdict.codes.copy()
    counted_rows: dict[str | None, IntArray] = {}
    for finding in sorted(findings, key=lambda finding: finding.effect_of is not None):
        pairs = {
            codes[clients[number]] << VBUCKET_BITS | vbucket
            for case in finding.case_of_each
            for number in case.connections
            if clients.get(number) in codes
            for vbucket in case.vbuckets
        }
        wanted = np.array(list(pairs), dtype=np.int64)
        positions = np.minimum(np.searchsorted(in_order, wanted), len(in_order) - 1)
        rows = order[positions[in_order[positions] == wanted]]
        counted_rows[finding.id] = rows
        explained = counted_rows.get(finding.effect_of, np.empty(0, np.int64))
        counts[rows[~np.isin(rows, explained)], SEVERITIES.index(finding.severity)] += 1
        if finding.rule in _BECOME:
            word, replaced = _BECOME[finding.rule]
            words += [word] if word not in words else []
            codes_replaced = [number for number, one in enumerate(words) if one in replaced]
            rows = rows[np.isin(verdict.codes[rows], codes_replaced)]
            verdict_codes[rows] = words.index(word)
    return vbuckets.with_column(
        "findings", counted(counts, SEVERITIES, with_zeros=True)
    ).with_column("verdict", WordColumn(verdict_codes, words))


def with_findings(
    tables: Mapping[str, Records],
    findings: Sequence[Finding],
    rules: Mapping[str, Rule],
    clients: Mapping[int, str],
    files: Sequence[str],
) -> dict[str, Records]:
    """Returns the tables of a reading by name, with the table of findings, which the table of
    vbuckets then counts. ``files``: all of the reading.
    """
    vbuckets = with_counts(tables["vbuckets"], findings, clients)
    return {**tables, "vbuckets": vbuckets, "findings": finding_records(findings, rules, files)}


def _case(case: Finding) -> dict[str, Any]:
    return {
        "client": escape(case.clients[0]) if case.clients else None,
        "connection": next(iter(case.connections), None),
        "vbuckets": list(case.vbuckets),
        "sid": case.sid,
        "message": case.message,
        "rows": [message_place.row for message_place in case.places],
        "seqnos": list(case.seqnos),
        "facts": dict(case.facts),
        "first_time": time_text(case.first_time_ns) if case.first_time_ns else None,
        "last_time": time_text(case.last_time_ns) if case.last_time_ns else None,
        "count": case.count,
        "over": case.over,
        "over_row": case.over_row,
    }


def _evidence(message_place: MessagePlace, files: Sequence[str]) -> dict[str, Any]:
    return {
        "connection": message_place.connection,
        "direction": message_place.direction,
        "stream_offset": message_place.stream_offset,
        "file": files[message_place.file],
        "frame": message_place.frame,
    }
