"""Findings in the form of their contract."""

from __future__ import annotations

import json

import pytest

from dcpinspect.errors import PlacedError
from dcpinspect.findings.finding_records import FINDINGS, finding_records, with_counts
from dcpinspect.findings.registry import RULES
from dcpinspect.output.export.table_schema import table_schema
from dcpinspect.streams.table_columns import VBUCKETS
from dcpinspect.tables.record_rows import parse_record_filter
from dcpinspect.tables.record_tables import Records
from tests.findings.checked import findings
from tests.schemas import validate
from tests.streams.told import opened


@pytest.mark.parametrize("files", [["a.pcap"], ["a.pcap", "b\x1b.pcap"]])
def test_records_are_the_contract(files: list[str]) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "k")
    stream.mutation(2**40, "l")
    records = finding_records(findings(talk, rules=["seqno-outside-snapshot"]), RULES, files)
    (found,) = json.loads(json.dumps(records.records()))
    validate(found, table_schema(FINDINGS))
    keys = ["schema", *(column.name for column in FINDINGS.columns)]
    assert [key for key in found if key != "files"] == keys
    assert ("files" in found) == (len(files) > 1)
    assert records.arrow().num_rows == 1
    assert found["evidence"][0]["stream_offset"] > 0


def test_vbuckets_count_what_speaks_of_them() -> None:
    talk = opened()
    for vbucket in range(3):
        stream = talk.stream(vbucket)
        stream.snapshot(0, 9, "memory")
        for seqno in (9, 9, 2)[: vbucket + 1]:
            stream.mutation(seqno, f"k{seqno}")
    table = Records(
        VBUCKETS,
        {"client": ["a", "a", "a", "b"], "vbucket": [0, 1, 2, 2], "verdict": ["ended"] * 4},
        4,
    )
    counted = with_counts(
        table, findings(talk, rules=["seqno-not-increasing", "mid-stream-start"]), {1: "a"}
    )
    assert [one["error"] for one in counted.values("findings")] == [0, 1, 1, 0]
    assert counted.values("vbucket") == [0, 1, 2, 2]


def test_a_side_that_findings_call_otherwise_is_suggested() -> None:
    for side, word in (("consumer", "client"), ("producer", "server")):
        with pytest.raises(PlacedError, match=f"did you mean {word}"):
            parse_record_filter(f"whose = '{side}'", FINDINGS)
