from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.tables.sentences import Sentences

FORMS = ("only {count}", "{count} of {all} in row {count}", "never {all}")


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(-5, 1 << 40), st.integers(0, (1 << 64) - 1)))
)
def test_texts_and_arrow_are_the_same(rows: list[tuple[int, int, int]]) -> None:
    numbers = {
        "count": np.array([row[1] for row in rows], np.int64),
        "all": np.array([row[2] for row in rows], np.uint64),
    }
    found = Sentences(FORMS, np.array([row[0] for row in rows], np.int64), numbers)
    assert (
        found.texts()
        == found.arrow().to_pylist()
        == [FORMS[form].format(count=count, all=all_) for form, count, all_ in rows]
    )
