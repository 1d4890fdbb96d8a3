from __future__ import annotations

import pytest
from deltalake import Schema

from dcpinspect.spark.spark_schema import ddl
from dcpinspect.spark.stored import BOUNDED, MESSAGES, PARTITIONS, SCHEMAS


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_table_can_be_stored_as_delta_and_read_by_spark(name: str) -> None:
    schema = SCHEMAS[name]
    assert [field.name for field in Schema.from_arrow(schema).fields] == schema.names
    assert ddl(schema).count("`") >= 2 * len(schema)


def test_what_the_log_of_messages_tells_is_a_column() -> None:
    assert {*PARTITIONS, *BOUNDED} <= {*MESSAGES.names}
