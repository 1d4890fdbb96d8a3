from __future__ import annotations

from dcpinspect.diff.difference_columns import PATHS
from dcpinspect.findings.finding_records import CONTRACTS
from dcpinspect.output.render.explanation import explain
from dcpinspect.output.render.pipeline_columns import DOCS
from dcpinspect.spark.stored import SCHEMAS
from dcpinspect.tables.schema import BY_NAME


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
