"""The schema of messages is the tables' own, and a schema."""

from __future__ import annotations

import json

import jsonschema
import pytest

from dcpinspect.output.export.json import SCHEMA, message_object, specific_numbers
from dcpinspect.output.export.message_schema import message_schema
from dcpinspect.protocol.header import decode_header
from tests.protocol.vectors import ALL
from tests.tables.build import batch


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(message_schema())


def test_its_version_is_that_of_the_messages() -> None:
    assert message_schema()["properties"]["schema"] == {"const": SCHEMA}


def test_what_is_required_is_always_written() -> None:
    assert set(message_schema()["required"]) <= set(
        message_object(batch(ALL[0].annotate().data), 0, fields=False)
    )


def test_every_specific_key_is_described() -> None:
    described = set(message_schema()["properties"])
    for vector in ALL:
        if decode_header(vector.data).size == len(vector.data):
            assert set(specific_numbers(vector.annotate())) <= described, vector.id


def test_a_key_that_nobody_described_is_refused() -> None:
    found = message_object(batch(ALL[0].data), 0, fields=False) | {"unheard_of": 1}
    with pytest.raises(jsonschema.ValidationError, match="unheard_of"):
        jsonschema.validate(json.loads(json.dumps(found, default=str)), message_schema())
