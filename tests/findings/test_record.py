"""Findings in the form of their contract."""

from __future__ import annotations

import json

import jsonschema
import pytest

from dcpinspect.export.table_schema import table_schema
from dcpinspect.findings.checker import RULES
from dcpinspect.findings.record import FINDINGS, finding_records
from tests.findings.checked import findings
from tests.streams.told import opened


@pytest.mark.parametrize("files", [["a.pcap"], ["a.pcap", "b\x1b.pcap"]])
def test_records_are_the_contract(files: list[str]) -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "k")
    stream.mutation(2**40, "l")
    records = finding_records(findings(talk), RULES, files)
    (found,) = json.loads(json.dumps(records.records()))
    jsonschema.validate(found, table_schema(FINDINGS))
    keys = ["schema", *(column.name for column in FINDINGS.columns)]
    assert [key for key in found if key != "files"] == keys
    assert ("files" in found) == (len(files) > 1)
    assert records.arrow().num_rows == 1
    assert found["evidence"][0]["stream_offset"] > 0
