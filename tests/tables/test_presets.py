"""What has a name from the start works, and says what it is."""

from __future__ import annotations

import pytest

from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.presets import COLUMN_SETS, FILTERS
from dcpinspect.tables.schema import BY_NAME


@pytest.mark.parametrize("name", FILTERS)
def test_filters_are_filters(name: str) -> None:
    assert parse_filter(FILTERS[name].text).condition == parse_filter(f"@{name}").condition


@pytest.mark.parametrize("name", COLUMN_SETS)
def test_sets_of_columns_name_columns_once(name: str) -> None:
    columns = COLUMN_SETS[name].text.split(",")
    assert set(columns) <= set(BY_NAME)
    assert len(set(columns)) == len(columns)


def test_all_are_explained() -> None:
    assert all(preset.doc for preset in (*FILTERS.values(), *COLUMN_SETS.values()))
