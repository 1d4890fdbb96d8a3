"""The shipped schemas are the tables' own, and every record fits its own."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from dcpinspect.export.table_schema import SCHEMAS, table_schema
from dcpinspect.reading import Reading
from dcpinspect.streams.contracts import ALL

SAMPLES = Path(__file__).parents[2] / "sample_captures"


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_shipped_schema_is_the_schema(name: str) -> None:
    shipped = (files("dcpinspect.export") / "schemas" / f"{name}.json").read_text("utf-8")
    assert json.loads(shipped) == SCHEMAS[name], "run python -m dcpinspect.export.table_schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize("sample", ["tour.pcapng", "rollback.pcap", "midstream.pcap", "upr.pcap"])
def test_every_record_of_a_sample_fits(sample: str) -> None:
    with Reading([str(SAMPLES / sample)], track=True) as reading:
        list(reading)
        tables = reading.tables
    for table in ALL:
        validator = jsonschema.Draft202012Validator(table_schema(table))
        for record in tables.by_name[f"{table.name}s"].records():
            validator.validate(json.loads(json.dumps(record)))


def test_a_word_that_nobody_described_is_refused() -> None:
    schema = table_schema(next(table for table in ALL if table.name == "gap"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"cause": "magic"}, {**schema, "required": []})
