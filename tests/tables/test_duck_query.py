"""A text and its result: what is refused is one line."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dcpinspect.errors import PlacedError, UsageError
from dcpinspect.tables.duck_query import MOST_BYTES, SLICE, DuckQuery


def asked(text: str) -> DuckQuery:
    query = DuckQuery(text, ["numbers"])
    query.database.register("numbers", pa.table({"n": range(3 * SLICE)}))
    return query


def test_rows_come_batch_by_batch_under_one_schema() -> None:
    with asked("create table t as select n + 1 m from numbers; select * from t") as query:
        rows = query.result()
        batches = list(rows)
    assert rows.schema.names == ["m"]
    assert sum(batch.num_rows for batch in batches) == 3 * SLICE
    assert max(batch.num_rows for batch in batches) <= SLICE


def test_wide_rows_come_in_batches_that_fit_into_memory() -> None:
    """Arrow has texts of up to 2 GiB in a batch: 16,384 rows of this size would be refused."""
    text = "select repeat(chr(65 + (n % 26)::int), 140_000) t from numbers where n < 16_384"
    rows = 0
    with asked(text) as query:
        for batch in query.result():
            assert batch.nbytes <= MOST_BYTES
            assert batch["t"][0].as_py() == chr(65 + rows % 26) * 140_000
            rows += batch.num_rows
    assert rows == SLICE


@pytest.mark.parametrize(
    ("text", "says", "at"),
    [
        ("select n from number", "Did you mean numbers?", "number"),
        ("select m from numbers", 'Referenced column "m" not found', "m from"),
        ("selec 1", "syntax error", "selec"),
    ],
)
def test_a_mistake_is_a_line_with_its_place(text: str, says: str, at: str) -> None:
    with asked(text) as query, pytest.raises(PlacedError) as raised:
        query.result()
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
    assert text[raised.value.at :].startswith(at)


def test_a_text_without_a_query_is_refused() -> None:
    with asked(" -- nothing") as query, pytest.raises(UsageError, match="the query is empty"):
        query.result()
