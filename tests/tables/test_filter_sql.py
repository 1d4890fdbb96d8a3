"""A condition in SQL has nothing in it that the user wrote but constants, and those as
constants.
"""

from __future__ import annotations

import pytest

from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_sql import Sql


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        (
            "VBUCKET in (1, 5) and not by_seqno > 7",
            '("vbucket" in (1, 5)) and (not ("by_seqno" > 7))',
        ),
        (
            "key = 'it''s' or key like 'a!_%' escape '!'",
            "(\"key\" = 'it''s') or (\"key\" like 'a!_%' escape '!')",
        ),
        ("key_bytes = x'00ff'", "\"key_bytes\" = '\\x00\\xff'::blob"),
        ("datatype <> 'json'", "not (list_contains(\"datatype\", 'json'))"),
        ("problem is not null", 'not ("problem" is null)'),
        ("true", "true"),
    ],
)
def test_duckdbs(text: str, sql: str) -> None:
    assert Sql().condition(parse_filter(text).condition) == sql
