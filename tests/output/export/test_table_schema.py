"""What ``dcpinspect schema`` prints, and that every record fits its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from dcpinspect.cli.main import main
from dcpinspect.output.export.table_schema import SCHEMAS, table_schema
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.table_columns import ALL

SAMPLES = Path(__file__).parents[3] / "sample_captures"


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_printed_schema_is_the_contract(
    name: str, golden: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", name]) == 0
    golden(f"schemas/{name}.json", capsys.readouterr().out)
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
