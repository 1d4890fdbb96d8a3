from __future__ import annotations

from collections.abc import Sequence

from dcpinspect.reading.store.store import Store
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tui.filter_completion import frequent_values, offer
from tests.catalogue import each


def frequent(column: str) -> Sequence[str]:
    return {"vbucket": ["7", "12"], "key": ["it''s", "user::1"], "name": ["dcp_mutation"]}.get(
        column, []
    )


def first(text: str) -> str | None:
    """The text with the first of what is offered."""
    offered = offer(text, frequent)
    return text[: offered.start] + offered.completions[0].text if offered.completions else None


@each(
    ("typed", "completed"),
    [
        ("vbu", "vbucket"),
        ("vbucket = 5 and by_s", "vbucket = 5 and by_seqno"),
        ("not opaq", "not opaque"),
        ("(opaq", "(opaque"),
        ("y_seqno", "by_seqno"),
        ("name = 'dcp_mu", "name = 'dcp_mutation'"),
        ("name = ", "name = 'dcp_mutation'"),
        ("name in ('dcp_noop', 'dcp_mu", "name in ('dcp_noop', 'dcp_mutation'"),
        ("status_name in ('success', 'rollb", "status_name in ('success', 'rollback'"),
        ("@roll", "@rollbacks"),
        ("key = 'us", "key = 'user::1'"),
        ("key = 'no", None),
        ("vbucket = ", "vbucket = 7"),
        ("vbucket in (7, 1", "vbucket in (7, 12"),
        ("vbucket ", "vbucket ="),
        ("vbucket is no", "vbucket is not null"),
        ("vbucket = 5 and name ", "vbucket = 5 and name ="),
        ("vbucket is null and name l", "vbucket is null and name like '"),
        ("vbucket = 5 ", "vbucket = 5 and"),
        ("vbucket = 5 o", "vbucket = 5 or"),
        ("nothing_like_it", None),
        ("nothing_like_it = ", None),
        ("key = 'it''s o", None),
    ],
)
def test_what_is_being_typed_is_completed(typed: str, completed: str | None) -> None:
    assert first(typed) == completed


def test_every_column_has_a_word_about_it() -> None:
    assert all(one.doc for one in offer("", frequent).completions)


def test_the_capture_s_own_values_make_filters(store: Store) -> None:
    for column in ("vbucket", "name", "key", "opaque", "by_seqno", "status_name", "client"):
        values = frequent_values(store, column)
        assert values
        for value in values[:5]:
            text = f"{column} = " + (value if value.isdigit() and column != "key" else f"'{value}'")
            parse_filter(text)
    assert frequent_values(store, "datatype") == []
    assert frequent_values(store, "no_such_column") == []


def test_an_empty_store_has_no_values() -> None:
    with Store() as empty:
        assert frequent_values(empty, "vbucket") == []


@each(
    "typed",
    [
        "vbucket in (" + ", ".join(map(str, range(3000))) + ") and name ",
        "vbucket in (" + " " * 20_000 + "(",
        "vbucket in (" + "1," * 10_000 + "!",
        "name in (" + "'a', " * 4000 + "!",
        "name like 'a' and " * 1000 + "(",
        "name" + " " * 20_000 + "(",
        "a" * 20_000 + "!",
        "=" * 20_000 + "!",
    ],
)
def test_long_filters_are_completed_in_linear_time(typed: str) -> None:
    offer(typed, frequent)  # quadratic patterns would take minutes, and nested ones for ever
