"""Every word that tables print has a meaning, and the documents say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from dcpinspect.cli.main import main
from dcpinspect.diff.difference_columns import PATHS, VERDICTS
from dcpinspect.findings.finding_records import CONTRACTS
from dcpinspect.findings.logs.log_events import EVENTS
from dcpinspect.findings.recommended import Says
from dcpinspect.findings.registry import RULES
from dcpinspect.findings.rule import FAMILIES, SEVERITIES
from dcpinspect.output.export.table_schema import SCHEMAS as JSON_SCHEMAS
from dcpinspect.output.render.explanation import descriptions, explain, suggestions
from dcpinspect.output.render.glossary import DOCS, GLOSSARY
from dcpinspect.output.render.lanes import UNICODE, legend
from dcpinspect.output.render.palette import GLYPHS
from dcpinspect.output.render.verdict import LETTERS
from dcpinspect.protocol.flags import DURABILITY_LEVELS
from dcpinspect.spark.spark_schema import SCHEMAS
from dcpinspect.streams import words as w
from dcpinspect.streams.rollback import CAUSES as ROLLBACK_CAUSES
from dcpinspect.streams.table_columns import ALL
from dcpinspect.streams.transitions import SNAPSHOT_STATES
from dcpinspect.tables.schema import BY_NAME, COLUMNS
from tests.peers.truth import SAMPLES

LISTS = {
    "answer of a stream": w.ANSWERS,
    "verdict of a stream": w.STREAM_VERDICTS,
    "end_reason of a stream": w.END_REASONS,
    "verdict of a connection": w.CONNECTION_VERDICTS,
    "state of a snapshot": SNAPSHOT_STATES,
    "type of a snapshot": w.SNAPSHOT_TYPES,
    "layout of a snapshot marker": w.SNAPSHOT_LAYOUTS,
    "convention of a snapshot": w.CONVENTIONS,
    "cause of a gap": w.CAUSES,
    "cause of a rollback": ROLLBACK_CAUSES,
    "role of the TCP server": w.ROLES,
    "severity of a finding": SEVERITIES,
    "family of a rule": FAMILIES,
    "verdict of a difference": VERDICTS,
    "verdict of lint": get_args(Says),
}


@pytest.mark.parametrize("topic", LISTS)
def test_every_word_of_a_list_has_a_meaning(topic: str) -> None:
    assert sorted(GLOSSARY[topic]) == sorted(LISTS[topic])


def test_every_word_is_explained() -> None:
    for topic, meanings in GLOSSARY.items():
        for word, meaning in meanings.items():
            lines = explain(word.upper())
            assert lines is not None
            assert lines[lines.index(f"{word}: {topic}") + 1] == f"  {meaning}"
    assert set(w.VBUCKET_VERDICTS) <= {word for meanings in GLOSSARY.values() for word in meanings}


def test_every_cause_of_a_rule_is_explained() -> None:
    for rule in RULES.values():
        for cause in {*rule.causes, *(() if isinstance(rule.whose, str) else rule.whose)} - {""}:
            assert explain(cause), cause
    lines = explain("not yet")
    assert lines is not None
    assert lines[0] == "not-yet: a cause of findings of bucket-refused"
    assert lines[2].startswith("bucket-refused: ")


@pytest.mark.parametrize(
    "word",
    [
        *("vb", "Con", "Summary", "prepared", "completed", "TCP window", "below DCP", "lacks"),
        *("starts at the request", "nobody is at fault", "not over by the end", "throughput"),
        *("other-history", "not-reached", "no-stream", *EVENTS),
        *("cell", "loops", "receives nothing", "new branch", "strict flag", "group", "members"),
        *("coverage", "clock", "tap", "at fault", "%2"),
        *("after-address-translation", "behind-a-proxy", "one-direction", "mid-stream"),
        *("first_time_ns", "last_time_ns", "until_time_ns", "compaction", "stale"),
        *("out of order", "received", "resume", "discard", "full window", "stall"),
        "fell back to disk",
        "dcp_disconnect_when_stuck_name_regex",
        "dcp_disconnect_when_stuck_timeout_seconds",
        *("rebalance", "node", "nodes", "cluster", "replication", "stream request", "stream end"),
        *("persisted", "acknowledgement", "ended early", "SASL", "plain", "scram"),
        *("client random", "snapshot length", "packets used", "captured bytes", "decoded bytes"),
        *("skipped bytes", "missing bytes", "not decodable bytes", "duplicate bytes", "cut off"),
        *("in-memory", "takeover-send", "takeover-wait", "reading"),
        *("heuristic", "bytes not acknowledged", "lost data", "skipped seqnos", "durability"),
        *("map", "why skipped", "protocol", "ended after a rollback", "pale", "when", "explains"),
        *("bytes captured", "request_frame", "log_frame", "nobody", "not known"),
    ],
)
def test_words_of_all_outputs_are_explained(word: str) -> None:
    assert explain(word)


@pytest.mark.parametrize("word", ["ahead", "hidden", "late"])
def test_a_word_of_tables_that_is_also_a_cause_begins_with_its_meaning(word: str) -> None:
    lines = explain(word) or []
    assert lines[0] == f"{word}: word of dcpinspect"
    assert lines[1].startswith("  of ")
    assert lines[-1].startswith(f"{word}: a cause in findings of ")


def test_a_severity_has_one_meaning() -> None:
    (column, meaning, *_) = explain("severity") or []
    assert column == "severity: column of findings"
    for severity in SEVERITIES:
        assert f"{severity}: {GLOSSARY['severity of a finding'][severity]}" in meaning


def test_the_documents_say_the_same() -> None:
    text = (Path(__file__).parents[3] / "docs" / "streams.md").read_text("utf-8")
    documented = {}
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        rows = re.findall(
            r"^\| `([^`]+)` \|(?: `[^`]` \|)? (.+?) \|$", part.partition("\n## ")[0], re.MULTILINE
        )
        if rows:
            documented[part.partition("\n")[0].replace("`", "")] = {
                word: meaning.replace("`", "") for word, meaning in rows
            }
    assert documented
    assert documented == {topic: GLOSSARY[topic] for topic in documented}


def test_every_table_is_explained_as_its_page_says() -> None:
    text = (Path(__file__).parents[3] / "docs" / "sql.md").read_text("utf-8")
    documented = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|$", text, re.MULTILINE))
    tables = GLOSSARY["table"]
    assert documented.keys() | SCHEMAS.keys() | {"runs", "log_events"} == tables.keys()
    for table in tables:
        assert f"{table}: table" in (explain(table) or ())
    for table, row in documented.items():
        assert tables[table] == f"a row is {row.replace('`', '')}"


def test_every_column_is_explained() -> None:
    for name in [
        *(column.name for column in COLUMNS),
        *(column.name for table in ALL for column in table.columns),
    ]:
        assert explain(name) is not None, name
    assert explain("rtt_ns") == [
        "rtt_ns: column of messages",
        "  nanoseconds from that request to the response",
    ]


def spoken(word: str) -> set[str]:
    """A word of several parts as people type it."""
    return {re.sub(r"[\s_-]+", between, word) for between in " -_"}


def test_every_word_of_the_glossary_is_explained_however_it_is_joined() -> None:
    page = (Path(__file__).parents[3] / "docs" / "glossary.md").read_text("utf-8")
    known = [
        word
        for word, _ in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
        if word not in ("word", "---")
    ]
    assert len(known) > 15
    for word in (*known, *(word for meanings in GLOSSARY.values() for word in meanings)):
        answers = {tuple(explain(form) or ()) for form in spoken(word)}
        assert len(answers) == 1, word
        assert answers != {()}, word


@pytest.mark.parametrize(
    "word",
    [
        "SYN",
        "handshake",
        "keepalive",
        "reset",
        "RST",
        "FIN",
        "ALPN",
        "key-log",
        "proxy",
        "sidecar",
        "service-mesh",
    ],
)
def test_words_of_tcp_and_tls_that_findings_use_are_explained(word: str) -> None:
    title, meaning, *_ = explain(word) or ("", "")
    assert title == f"{word.replace('-', ' ')}: word of TCP and TLS"
    assert word.lower() not in meaning.lower().split()


def test_a_word_may_be_asked_for_with_what_it_is_said_of() -> None:
    assert explain("snapshot cut") == explain("cut snapshot") == explain("cut")
    assert (explain("snapshot cut") or [""])[0] == "cut: state of a snapshot"
    assert len(explain("complete") or ()) > len(explain("snapshot complete") or ()) > 0


def outputs(
    capsys: pytest.CaptureFixture[str], sample: Path = SAMPLES / "tour.pcapng"
) -> Iterator[str]:
    """The words of headings, legends and labels, and those of words in tables, of what commands
    print about a capture.
    """
    path = str(sample)
    for command in ("streams", "vbuckets", "snapshots", "gaps", "rollbacks", "connections"):
        assert main([command, path, "--format", "ndjson"]) == 0
        for record in map(json.loads, capsys.readouterr().out.splitlines()):
            yield from record
            words = (
                "answer",
                "verdict",
                "end_reason",
                "state",
                "type",
                "layout",
                "convention",
                "cause",
                "role",
                "closed_by",
            )
            yield from (record[name] for name in words if record.get(name))
            for name in ("flags", "request_flags"):
                yield from record.get(name) or ()
    assert main(["check", path, "--fail-on", "never", "--format", "ndjson"]) == 0
    for record in map(json.loads, capsys.readouterr().out.splitlines()):
        yield from record
        yield from (record[name] for name in ("rule", "family", "severity", "whose", "over"))
    assert main(["info", path]) == 0
    yield from re.findall(r"^(\w+) ", capsys.readouterr().out, re.MULTILINE)
    assert main(["stats", path]) == 0
    yield from re.findall(
        r"[a-z_]{3,}|p\d\d",
        " ".join(
            re.findall(
                r"^(?:command|collection|status|snapshots|connection) .*$",
                capsys.readouterr().out,
                re.MULTILINE,
            )
        ),
    )


def test_every_word_of_every_output_is_explained_and_not_by_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unknown = sorted(word for word in {*outputs(capsys)} if explain(word) is None)
    assert unknown == [], " ".join(unknown)
    for meanings in GLOSSARY.values():
        for word, meaning in meanings.items():
            assert meaning.lower().rstrip(".") != word.lower()
    for table in (COLUMNS, *(table.columns for table in ALL)):
        for column in table:
            assert f"  {column.name.replace('_', ' ')}" not in explain(column.name)  # type: ignore[operator] # as above


def test_every_column_of_a_pipeline_is_explained() -> None:
    others = {
        name: {column.name for column in contract.columns}
        for name, contract in {**CONTRACTS, "paths": PATHS}.items()
    }
    others["messages"] = set(BY_NAME)
    for table, schema in SCHEMAS.items():
        known = DOCS.get(table, {}).keys() | others.get(table, set()) | {"file", "files"}
        assert not [
            name
            for name in schema.names
            if name.removesuffix("_ns") not in known and name not in known
        ], table
        assert DOCS.get(table, {}).keys() <= {*schema.names}, table


def test_a_column_of_a_pipeline_is_told_with_its_table() -> None:
    lines = explain("used")
    assert lines is not None
    assert list(lines) == [
        "used: column of captures of a pipeline",
        "  packets that may be DCP, which are kept",
    ]
    assert explain("clock_from") is not None


def members(schema: Any) -> Iterator[str]:
    """The names of all members of records that a JSON schema has, at any depth."""
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
    inner = schema.values() if isinstance(schema, dict) else schema
    if isinstance(schema, dict | list):
        for part in inner:
            yield from members(part)


def test_every_member_of_json_is_described_and_explained() -> None:
    for output, schema in JSON_SCHEMAS.items():
        for name in set(members(schema)):
            assert all(descriptions(schema, name)), f"{output}: {name}"
            assert explain(name), f"{output}: {name}"
    assert explain("delta") == ["delta: in JSON of message", "  how much to add or subtract"]


def test_every_sign_of_timelines_and_lists_is_explained() -> None:
    for one in (one for line in legend() for one in line):
        assert any(f"  {one.word}" in (explain(glyph) or ()) for glyph in one.glyph), one
    for glyph, word in (("└", "explained by the finding above"), ("▄", "items")):
        assert explain(glyph) == [f"{glyph}: sign of an output", f"  {word}"]
    for glyph in (UNICODE.back, UNICODE.end, "→", "←"):
        assert explain(glyph)
    assert explain("explained by others")
    assert explain("as") is None, "not several of the sign a"
    for state, letter in LETTERS.items():
        assert f"  on a map: {state}" in (explain(letter) or ())
    for severity, glyph in GLYPHS.items():
        assert explain(glyph) == [f"{glyph}: sign of an output", f"  {severity}"]


def test_numbers_with_names_are_told_with_both() -> None:
    levels = "1 majority, 2 majority-and-persist-on-active, 3 persist-to-majority"
    assert f"  {levels}" in (explain("durability_level") or ())
    for number, level in DURABILITY_LEVELS.items():
        assert GLOSSARY["durability level"][level].endswith(f"; as a number {number}")
    assert "  18446744073709551615 no end" in (explain("requested_end") or ())


def test_words_of_pictures_and_names_of_numbers_are_explained() -> None:
    for word in ("nothing came", "dashed", "with an error", "came"):
        assert (explain(word) or [""])[0] == f"{word}: word of dcpinspect"
    assert (explain("alive") or [""])[0] == "alive: state of a vbucket"
    assert (explain("do not create") or [""])[0] == "do not create: word of dcpinspect"
    assert suggestions("zork") == []


def test_a_member_of_json_is_told_beside_a_column_of_a_pipeline() -> None:
    assert explain("path") == [
        *("path: column of captures of a pipeline", "  where it was read", ""),
        *("path: in JSON of message", "  path in the document"),
    ]


def test_numbers_are_told_only_of_the_column_that_has_them() -> None:
    version, end_seqno = explain("version") or [], explain("end_seqno") or []
    assert "version: opcode 0x0b" in version
    assert "  dcp_snapshot_marker: 0 v2.0, 1 v2.1, 2 v2.2" in version
    end = "  dcp_stream_req: 18446744073709551615 no end"
    assert [line for line in end_seqno if "no end" in line] == [end]
    assert end_seqno.index(end) < end_seqno.index("end_seqno: column of snapshots")
    states = explain("state") or []
    assert states[states.index("  state of the snapshot") + 1].startswith("  open, complete, ")
    assert not {"active", "alive"} & set(" ".join(states[3:]).split())
    assert "0 consumer" not in " ".join(explain("flags") or ())
    assert (explain("versions") or [])[0] == "versions: column of log"


def test_no_column_is_explained_by_its_own_name() -> None:
    for name, column in BY_NAME.items():
        assert column.doc.lower() not in name.split("_")[1:], name


@pytest.mark.slow
@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.pcap*")), ids=lambda path: path.name)
def test_headings_and_states_of_all_samples_are_explained(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = sorted(word for word in {*outputs(capsys, sample)} if explain(word) is None)
    assert unknown == [], " ".join(unknown)
