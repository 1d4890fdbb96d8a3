"""Findings as records of the output contract ``dcpinspect.finding/1``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from dcpinspect.findings.finding import OVER, WHOSE, Finding, MessagePlace
from dcpinspect.findings.rule import FAMILIES, SEVERITIES
from dcpinspect.streams.grouping import VBUCKET_BITS
from dcpinspect.streams.table_columns import BY_TABLE
from dcpinspect.streams.words import STOOD, STREAM_VERDICTS, VBUCKET_VERDICTS
from dcpinspect.tables.column_kinds import columns
from dcpinspect.tables.record_tables import (
    LazyColumn,
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
        severity word: error: data is lost or wrong, a stream does not go on, or the protocol is
            broken; warning: somebody has to look, because a client goes wrong, a server refuses, or
            it costs time; note: good to know; a refused request after which the client got its stream is one,
            too
        cause text: kind of the finding, if the rule has kinds
        message text: what happened, in one sentence
        next text: what to do; null if the cause says it
        connection i64: the connection; null where there are several
        connections numbers: the connections; empty for a log or a checkpoint
        vbuckets numbers: the vbuckets, sorted; empty for the whole connection
        sid i64: DCP stream-id
        rows numbers: messages that show it, the faulty one first
        frames numbers: last packet of each of these, then packets without a message that show it
        evidence places: the same in a way that can be compared between readings
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


def needs_rules(name: str, columns: Collection[str] | None = None) -> bool:
    """Returns whether these columns of a table, or all, need the rules to be asked."""
    if name in ("findings", "vbuckets"):
        return True
    names = [column.name for column in CONTRACTS[name].columns] if columns is None else columns
    checked = ("findings", "verdict") if name == "streams" else ("findings",)
    return any(column.partition(".")[0] in checked for column in names)


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


def finding_records(findings: Sequence[Finding], files: Sequence[str]) -> Records:
    """Returns the table of findings, in their order."""
    from dcpinspect.findings.registry import RULES  # deferred: most tables need no rule

    names = [escape(file) for file in files]
    findings = [finding.in_full for finding in findings]
    # so that rows and frames of messages are at the same indices
    evidence = [
        sorted(finding.places, key=lambda place: not place.has_message) for finding in findings
    ]
    columns: dict[str, list[Any]] = {
        name: [getattr(finding, name) for finding in findings] for name in _AS_THEY_ARE
    }
    columns |= {
        "family": [RULES[finding.rule].family for finding in findings],
        "next": [finding.next or None for finding in findings],
        "connections": [list(finding.connections) for finding in findings],
        "vbuckets": [list(finding.vbuckets) for finding in findings],
        "rows": [_rows(finding) for finding in findings],
        "frames": [
            [message_place.frame for message_place in message_places] for message_places in evidence
        ],
        "files": [
            [names[message_place.file] for message_place in message_places]
            for message_places in evidence
        ],
        "evidence": [
            [_evidence(message_place, names) for message_place in message_places]
            for message_places in evidence
        ],
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


def with_counts(
    tables: Mapping[str, Records], findings: Sequence[Finding], clients: Mapping[int, str]
) -> dict[str, Records]:
    """Returns the tables, where vbuckets, streams and connections have the number of findings that
    speak of them.

    Findings about a whole connection count there only. Where one explains others of its vbuckets or
    connections, it counts in their place, once. Verdicts on vbuckets and streams are those that
    findings tell.
    ``clients``: the consumer of each connection, as the table of vbuckets names it.
    """
    vbuckets = tables["vbuckets"]
    rows_of = _rows_of_vbuckets(vbuckets, clients)
    rows_of_streams = _rows_of_streams(tables["streams"])
    records_of = {
        "vbuckets": _with_verdicts(vbuckets, VBUCKET_VERDICTS, findings, rows_of),
        "streams": _with_verdicts(tables["streams"], STREAM_VERDICTS, findings, rows_of_streams),
        "connections": tables["connections"],
    }
    row_of = {
        number: row for row, number in enumerate(records_of["connections"].values("connection"))
    }
    rows_by_table: dict[str, Callable[[Finding], Iterable[int]]] = {
        "vbuckets": rows_of,
        "streams": rows_of_streams,
        "connections": lambda finding: {
            row_of[number] for number in finding.connections if number in row_of
        },
    }
    records_of = {
        name: records.with_column("findings", _counts(records, findings, rows_by_table[name]))
        for name, records in records_of.items()
        if len(records)
    }
    if "vbuckets" in records_of:
        ignored = {
            row for finding in findings if finding.rule in _IGNORED for row in rows_of(finding)
        }
        records_of["vbuckets"] = _with_end(records_of["vbuckets"], ignored)
    return {**tables, **records_of}


def _counts(
    records: Records, findings: Sequence[Finding], rows_of: Callable[[Finding], Iterable[int]]
) -> LazyColumn:
    """Returns the number of findings of each severity, by row of a table."""
    of_vbuckets = "vbucket" in records.columns
    members = records.values("vbucket" if of_vbuckets else "connection")
    number_of_id = {finding.id: number for number, finding in enumerate(findings)}
    named = [
        frozenset(finding.vbuckets if of_vbuckets else finding.connections) for finding in findings
    ]
    rows_of_each: list[set[int]] = [set() for _ in findings]
    for number, finding in enumerate(findings):
        cause = number_of_id.get(finding.effect_of or "")
        for row in rows_of(finding):
            if cause is not None and members[row] in named[cause]:
                rows_of_each[cause].add(row)
            else:
                rows_of_each[number].add(row)
    counts = np.zeros((len(records), len(SEVERITIES)), dtype=np.int64)
    for finding, rows in zip(findings, rows_of_each, strict=True):
        counts[[*rows], SEVERITIES.index(finding.severity)] += 1
    return counted(counts, SEVERITIES, with_zeros=True)


def _rows_of_vbuckets(
    vbuckets: Records, clients: Mapping[int, str]
) -> Callable[[Finding], Iterable[int]]:
    """Returns what finds the vbuckets that a finding names."""
    client = worded(vbuckets.columns["client"])
    codes = {word: number for number, word in enumerate(client.words)}
    keys = zip(client.codes.tolist(), vbuckets.values("vbucket"), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}

    def rows_of(finding: Finding) -> set[int]:
        names = {
            (codes.get(clients.get(number, ""), -1), vbucket)
            for case in finding.case_of_each
            for number in case.connections
            for vbucket in case.vbuckets
        }
        return {row_of[name] for name in names if name in row_of}

    return rows_of


def _rows_of_streams(streams: Records) -> Callable[[Finding], Iterable[int]]:
    """Returns what finds the streams of a finding's cases: of each connection and vbucket the one
    that had begun when the first of the messages there came that show it, and of a case that came
    several times those whose requests show it.
    """
    connection, vbucket, open_row = (
        np.array(streams.values(name), np.int64) for name in ("connection", "vbucket", "open_row")
    )
    keys = connection << VBUCKET_BITS | vbucket
    order = np.lexsort((open_row, keys))
    keys, sids = keys[order], streams.values("sid")

    def rows_of(finding: Finding) -> Iterator[int]:
        for case in finding.case_of_each:
            for number, vbucket in product(case.connections, case.vbuckets):
                key = number << VBUCKET_BITS | vbucket
                first, end = np.searchsorted(keys, [key, key + 1]).tolist()
                first_row = next(
                    (place.row for place in case.places if place.connection == number), 0
                )
                rows = [row for row in order[first:end].tolist() if case.sid in (None, sids[row])]
                begun = [row for row in rows if open_row[row] <= first_row]
                yield from (begun or rows)[-1:]
                if case.count > 1:
                    shown_rows = {*case.rows.tolist(), *(place.row for place in case.places)}
                    yield from (row for row in rows if int(open_row[row]) in shown_rows)

    return lambda finding: set(rows_of(finding))


def _with_verdicts(
    records: Records,
    known: Collection[str],
    findings: Sequence[Finding],
    rows_of: Callable[[Finding], Iterable[int]],
) -> Records:
    """Returns a table of vbuckets or streams with the verdicts that findings tell, if they are among
    the ``known`` ones of the table.
    """
    verdict = worded(records.columns["verdict"])
    words, codes = [*verdict.words], verdict.codes.copy()
    for finding in findings:
        word, replaced = _BECOME.get(finding.rule, ("", ()))
        if word in known:
            words += [word] if word not in words else []
            codes_replaced = [number for number, name in enumerate(words) if name in replaced]
            rows = np.array([*rows_of(finding)], np.int64)
            codes[rows[np.isin(verdict.codes[rows], codes_replaced)]] = words.index(word)
    return records.with_column("verdict", WordColumn(codes, words))


_NEVER_CAME = ("unexplained", "resumed")
"""Causes of gaps that the client has, too; those of the capture may have come."""
_IGNORED = ("rollback-not-followed", "rollback-not-honoured")
"""Rules about rollbacks after which a vbucket did not go on as it has to."""
_OF_END = words_of("verdict last_seqno requested_end gaps high_seqno behind streams bytes findings")
_LONGEST_END = 31
"""Bytes of a stream end with a stream-id: header, framing extras of 3 bytes, and reason."""


def _with_end(vbuckets: Records, ignored: Collection[int]) -> Records:
    """Returns the table of vbuckets with what those were before that ended. ``ignored``: rows of
    those whose rollback was not followed.
    """
    made = [
        _before_end(vbucket, row in ignored)
        for row, vbucket in enumerate(vbuckets.row_dicts(*_OF_END))
    ]
    codes = np.array([-1 if word is None else STOOD.index(word) for word in made], np.int64)
    return vbuckets.with_column("before_end", WordColumn(codes, STOOD))


def _before_end(vbucket: Mapping[str, Any], is_ignored: bool) -> str | None:
    """Returns how a vbucket stood before it ended. Where nothing came, a finding may say why it
    ended. ``is_ignored``: a rollback was not followed.
    """
    last, end = vbucket["last_seqno"], vbucket["requested_end"]
    if vbucket["verdict"] != "ended" or (last is not None and end is not None and last >= end):
        return None
    if any((vbucket["gaps"] or {}).get(cause) for cause in _NEVER_CAME):
        return "lost-something"
    if vbucket["behind"]:
        return "behind"
    if vbucket["high_seqno"] is None and is_ignored:
        return "rolled-back"
    if last is None:
        counts = vbucket["findings"]
        has_more = vbucket["bytes"] > _LONGEST_END * vbucket["streams"]  # as a cache transfer
        return None if counts["error"] or counts["warning"] or has_more else "silent"
    return None if vbucket["behind"] is None else "caught-up"


def with_findings(
    tables: Mapping[str, Records],
    findings: Sequence[Finding],
    clients: Mapping[int, str],
    files: Sequence[str],
) -> dict[str, Records]:
    """Returns the tables of a reading by name, with the table of findings, which others then count.
    ``files``: all of the reading.
    """
    return {
        **with_counts(tables, findings, clients),
        "findings": finding_records(findings, files),
    }


def _rows(case: Finding) -> list[int]:
    return [message_place.row for message_place in case.places if message_place.has_message]


def _case(case: Finding) -> dict[str, Any]:
    return {
        "client": escape(case.clients[0]) if case.clients else None,
        "connection": next(iter(case.connections), None),
        "vbuckets": list(case.vbuckets),
        "sid": case.sid,
        "message": case.message,
        "rows": _rows(case),
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
