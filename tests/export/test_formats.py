from __future__ import annotations

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.export.formats import Format, format_of


@pytest.mark.parametrize(
    ("path", "expected"),
    [("a.json", Format.JSON), ("dir.csv/A.PARQUET", Format.PARQUET), ("x.jsonl", Format.NDJSON), ("x.y.arrows", Format.ARROW)],
)
def test_the_end_of_a_name_says_the_format(path: str, expected: Format) -> None:
    assert format_of(path) is expected


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("out.xml", "out.xml: no format has names in .xml; end it in .txt, .json, "),
        ("out", "out: its name says no format; end it in .txt, "),
        (".json", ".json: its name says no format; "),
        ("a.\x1b[2J", "a.\\x1b[2J: no format has names in .\\x1b[2J; "),
    ],
)
def test_another_name_is_refused_with_those_there_are(path: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        format_of(path)
    assert str(caught.value).startswith(says)
    assert str(caught.value).endswith(".arrow, .arrows, or give --format")


def test_a_terminal_can_show_what_is_text() -> None:
    assert [format_.value for format_ in Format if format_.is_binary] == ["parquet", "arrow"]
