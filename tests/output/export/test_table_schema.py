"""What ``dcpinspect schema`` prints, and that every record fits its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from dcpinspect.cli.main import main
from dcpinspect.output.export.json import SCHEMA, message_object, specific_numbers
from dcpinspect.output.export.table_schema import SCHEMAS, message_schema, table_schema
from dcpinspect.protocol.header import decode_header
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.table_columns import ALL
from dcpinspect.tables.schema import SPECIFIC
from tests.protocol.vectors import ALL as VECTORS
from tests.tables.build import batch

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


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(message_schema())


def test_its_version_is_that_of_the_messages() -> None:
    assert message_schema()["properties"]["schema"]["const"] == SCHEMA


def test_what_is_required_is_always_written() -> None:
    assert set(message_schema()["required"]) <= set(
        message_object(batch(VECTORS[0].annotate().data), 0, fields=False)
    )


def test_every_specific_key_is_described() -> None:
    described = set(message_schema()["properties"])
    for vector in VECTORS:
        if decode_header(vector.data).size == len(vector.data):
            assert set(specific_numbers(vector.annotate())) <= described, vector.id


def test_a_key_of_several_commands_has_the_meaning_in_each_as_the_column_has() -> None:
    keys = SCHEMAS["message"]["properties"]
    for column in (column for column in SPECIFIC if column.name in keys):
        assert keys[column.name]["description"] == column.doc
    assert "dcp_snapshot_marker: first seqno the snapshot may" in keys["start_seqno"]["description"]


def test_a_key_that_nobody_described_is_refused() -> None:
    found = message_object(batch(VECTORS[0].data), 0, fields=False) | {"unheard_of": 1}
    with pytest.raises(jsonschema.ValidationError, match="unheard_of"):
        jsonschema.validate(json.loads(json.dumps(found, default=str)), message_schema())


def test_every_key_of_a_message_is_described() -> None:
    schema = SCHEMAS["message"]
    forms = {"message": schema, **schema["$defs"]}
    lacks = [
        f"{part}.{name}"
        for part, form in forms.items()
        for name, kind in form["properties"].items()
        if "description" not in kind
        and not all("description" in one for one in kind.get("anyOf", [{}]))
    ]
    assert lacks == []
