"""Times as they are written behind --since and --until."""

from __future__ import annotations

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.tables.times import TimeSpan, length, moment

FIRST = 1_712_404_860_932_921_052  # 2024-04-06 12:01:00.93 UTC
LAST = FIRST + 3_600 * 10**9
S = 10**9


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("90", FIRST + 90 * S),
        ("90s", FIRST + 90 * S),
        ("+1.5s", FIRST + 1_500_000_000),
        ("250 ms", FIRST + 250_000_000),
        ("10m", FIRST + 600 * S),
        ("10min", FIRST + 600 * S),
        ("2h", FIRST + 7200 * S),
        ("1d", FIRST + 86_400 * S),
        ("17us", FIRST + 17_000),
        ("-10m", LAST - 600 * S),
        ("-0.5s", LAST - 500_000_000),
        ("1712404861", 1_712_404_861 * S),
        ("1712404861.000000001", 1_712_404_861 * S + 1),
        ("2024-04-06 12:01:01", 1_712_404_861 * S),
        ("2024-04-06T14:01:01+02:00", 1_712_404_861 * S),
        ("2024-04-06", 1_712_361_600 * S),
        ("12:01:01", 1_712_404_861 * S),
        ("12:00", 1_712_404_800 * S),
        ("14:01:01+02:00", 1_712_404_861 * S),
    ],
)
def test_a_time_is_one_of_the_clock_or_counted_from_an_end_of_the_capture(
    text: str, at: int
) -> None:
    assert moment(text, "--since").time_ns(FIRST, lambda: LAST) == at


def test_a_time_of_the_day_may_be_of_the_day_after_the_first_packet() -> None:
    midnight = 1_712_361_600 * S
    assert moment("00:10", "--since").time_ns(midnight - 60 * S, lambda: 0) == midnight + 600 * S


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "10 weeks",
        "--5",
        "12:61",
        "25:00",
        "2024-13-01",
        "9" * 30,
        "1e9",
        "-",
        "9" * 12 + "d",
        "\x1b[2J",
    ],
)
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match=r"--until .*: write a time in UTC ") as refused:
        moment(text, "--until")
    assert "\x1b" not in str(refused.value)


def test_from_the_start_on_is_everything_also_what_is_older_than_the_first_packet() -> None:
    since, until = TimeSpan(moment("0s", "--since"), moment("1s", "--until"), lambda: LAST).bounds(
        FIRST
    )
    assert since < 0
    assert until == FIRST + S
    assert TimeSpan(moment("1us", "--since"), None, lambda: LAST).bounds(FIRST)[0] == FIRST + 1_000


def test_the_end_is_looked_for_only_if_a_bound_counts_from_there() -> None:
    def last() -> int:
        raise AssertionError

    assert TimeSpan(moment("1s", "--since"), None, last).bounds(FIRST)[0] == FIRST + S
    assert TimeSpan(None, moment("-1s", "--until"), lambda: LAST).bounds(FIRST)[1] == LAST - S


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("30s", 30 * S),
        ("30", 30 * S),
        ("1.5m", 90 * S),
        ("0s", 0),
        ("2 h", 7200 * S),
        ("5ms", 5_000_000),
    ],
)
def test_a_length_of_time_has_a_unit_or_is_of_seconds(text: str, ns: int) -> None:
    assert length(text, "--summary") == ns


@pytest.mark.parametrize("text", ["", "-5s", "+5s", "soon", "12:00", "5 weeks", "999999999999d"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write a length of time, as in 30s or 10m"):
        length(text, "--summary")
