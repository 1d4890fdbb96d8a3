"""Findings as SARIF 2.1.0, the form in which CI systems take findings of tools: one run, its rules,
and a result for each finding.

A capture has no lines, so the place of a result is the capture, and the message as logical location
and properties. Results are identified by fingerprints that do not change with filters, other
captures in the reading, or rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dcpinspect import __version__
from dcpinspect.capture.byte_source import STDIN
from dcpinspect.findings.cases import places_of
from dcpinspect.findings.finding import Finding, MessagePlace
from dcpinspect.findings.rule import SEVERITIES, Rule

if TYPE_CHECKING:
    from dcpinspect.streams.tcp_facts import TcpConnection

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
FINGERPRINT = "dcpinspect/evidence/v2"
PAGE = "docs/rules.md"
"""Page with an anchor for each rule."""


def sarif_log(
    findings: Iterable[Finding],
    rules: Sequence[Rule],
    files: Sequence[str],
    links: Iterable[TcpConnection],
    *,
    is_whole: bool = True,
) -> dict[str, Any]:
    """Returns the log, ready for JSON.

    ``rules``: the rules that were checked. ``links``: the connections. ``is_whole``: whether the
    reading came to its end.
    """
    by_number = {link.number: link for link in links}
    numbers = {rule.id: number for number, rule in enumerate(rules)}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "dcpinspect",
                        "semanticVersion": __version__,
                        "rules": [_rule(rule) for rule in rules],
                    }
                },
                "invocations": [{"executionSuccessful": is_whole}],
                "artifacts": [
                    {"location": _artifact(files, number), "roles": ["analysisTarget"]}
                    for number in range(len(files))
                ],
                "results": [
                    _result(connection_part, finding.id, numbers[finding.rule], files, by_number)
                    for finding in findings
                    for connection_part in _by_connection(finding)
                ],
            }
        ],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    sections = [
        ("found when", rule.fires),
        ("not when", rule.unless),
        ("next", rule.next),
        ("causes", ", ".join(rule.causes)),
        ("reported as", ", ".join(rule.reports)),
    ]
    present = [(title, text) for title, text in sections if text]
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.fires},
        "help": {
            "text": "\n".join(
                [*(f"{title}: {text}" for title, text in present), f"more: {PAGE}#{rule.id}"]
            ),
            "markdown": "\n".join(
                [
                    f"# {rule.id}",
                    *(
                        f"\n**{title[0].upper()}{title[1:]}:** {_plain(text)}"
                        for title, text in present
                    ),
                    f"\n{PAGE}#{rule.id}",
                ]
            ),
        },
        "defaultConfiguration": {"level": rule.severity},
        "properties": {"tags": [rule.family]},
    }


def _plain(text: str) -> str:
    """Returns text that Markdown shows unchanged."""
    return re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", text)


def _by_connection(finding: Finding) -> Iterator[Finding]:
    """Splits a finding by connection: facts about one are the same whatever else is read."""
    if len(finding.connections) < 2:
        yield finding
        return
    for number in finding.connections:
        cases = [case for case in finding.cases if number in case.connections]
        vbuckets = sorted({vbucket for case in cases for vbucket in case.vbuckets})
        yield replace(
            finding,
            message=finding.what if len(cases) > 1 else cases[0].message,
            connections=(number,),
            vbuckets=tuple(vbuckets),
            places=places_of(cases)[0],
            seqnos=tuple(dict.fromkeys(seqno for case in cases for seqno in case.seqnos)),
            count=sum(case.count for case in cases),
        )


def _result(
    finding: Finding,
    id_: str,
    number: int,
    files: Sequence[str],
    links: Mapping[int, TcpConnection],
) -> dict[str, Any]:
    locations = [_location(place_shown, files, links) for place_shown in finding.places]
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": number,
        "level": finding.severity,
        "rank": 100.0 - 50 * SEVERITIES.index(finding.severity),
        "message": {
            "text": f"{finding.where}: {finding.message}. Next: {finding.next}"
            if finding.next
            else f"{finding.where}: {finding.message}"
        },
        "locations": locations[:1] or [_connection(finding, files, links)],
        "occurrenceCount": max(finding.count, 1),
        "fingerprints": {FINGERPRINT: _fingerprint(finding, links)},
        "properties": {
            "connections": list(finding.connections),
            "vbuckets": list(finding.vbuckets),
            "rows": [place_shown.row for place_shown in finding.places],
            "frames": [place_shown.frame for place_shown in finding.places],
            "seqnos": list(finding.seqnos),
            "id": id_,
            **({} if finding.effect_of is None else {"effectOf": finding.effect_of}),
            **({} if finding.cause is None else {"cause": finding.cause}),
            **({} if finding.sid is None else {"sid": finding.sid}),
        },
    }
    if locations[1:]:
        result["relatedLocations"] = [
            {
                "id": number,
                **place_shown,
                "message": {
                    "text": (
                        f"row {place_shown['properties']['row']}, frame {place_shown['properties']['frame']}"
                    )
                },
            }
            for number, place_shown in enumerate(locations[1:], 1)
        ]
    return result


def _location(
    message: MessagePlace, files: Sequence[str], links: Mapping[int, TcpConnection]
) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": _artifact(files, message.file, index=message.file)
        },
        "logicalLocations": [
            {
                "name": f"row {message.row}",
                "kind": "message",
                "fullyQualifiedName": f"{_ends(message.connection, links)}/{message.direction}/{message.stream_offset}",
            }
        ],
        "properties": {
            "row": message.row,
            "frame": message.frame,
            "connection": message.connection,
            "direction": message.direction,
            "streamOffset": message.stream_offset,
        },
    }


def _connection(
    finding: Finding, files: Sequence[str], links: Mapping[int, TcpConnection]
) -> dict[str, Any]:
    """Returns the place of a finding that no message shows."""
    number = next(iter(finding.connections), None)
    if number is None:  # a finding in a log or a checkpoint, which is no artifact of the run
        return {
            "logicalLocations": [
                {"name": finding.where, "kind": "module", "fullyQualifiedName": finding.where}
            ]
        }
    file = links[number].first_file if number in links else 0
    return {
        "physicalLocation": {"artifactLocation": _artifact(files, file, index=file)},
        "logicalLocations": [
            {
                "name": f"connection {number}",
                "kind": "connection",
                "fullyQualifiedName": _ends(number, links),
            }
        ],
        "properties": {"connection": number},
    }


def _fingerprint(finding: Finding, links: Mapping[int, TcpConnection]) -> str:
    """Returns a text that is the same in every reading with the same evidence: without rows, frames
    or numbers of connections.

    Times tell connections apart whose client used its port again.
    """
    texts = [
        finding.rule,
        finding.cause or "",
        ",".join(map(str, finding.vbuckets)),
        "" if finding.sid is None else str(finding.sid),
    ]
    texts += [
        f"{_ends(first_place.connection, links)} {first_place.direction} {first_place.stream_offset} {first_place.time_ns}"
        for first_place in finding.places[:1]
    ]
    began = {number: links[number].first_ns for number in finding.connections if number in links}
    texts += (
        [f"{_ends(number, links)} {began.get(number, 0)}" for number in finding.connections]
        if not finding.places
        else []
    )
    return sha256("\n".join(texts).encode()).hexdigest()


def _ends(connection: int, links: Mapping[int, TcpConnection]) -> str:
    if connection in links:
        return f"{links[connection].client}>{links[connection].server}"
    return f"connection {connection}"


def _artifact(files: Sequence[str], number: int, *, index: int | None = None) -> dict[str, Any]:
    """Returns a capture as a URI; relative if its name is."""
    name = files[number]
    path = quote("stdin" if name == STDIN else os.fsencode(name))
    return {
        "uri": f"file://{path}" if os.path.isabs(name) else path,
        **({} if index is None else {"index": index}),
    }
