"""Records held against JSON Schemas, each of which is looked at only once: that takes longer than a
record.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema


def validate(record: Any, schema: dict[str, Any]) -> None:
    """Raises ``jsonschema.ValidationError``."""
    _validator(json.dumps(schema)).validate(record)


@cache
def _validator(schema: str) -> Any:  # jsonschema's own type
    made = json.loads(schema)
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(made)
