"""Pictures of a vbucket's streams keep to their width, and say everything in words, too."""

from __future__ import annotations

import pytest

from dcpinspect.output.render.lanes import ASCII, Painted, Scale, lanes, legend, legend_lines
from dcpinspect.output.render.shape import by_seqno
from dcpinspect.output.render.timeline_text import (
    ascii_only,
    end_of,
    numbers,
    picture,
    request_text,
    scale_of,
    seqnos_of,
)
from tests.streams.test_story import told, twice
from tests.streams.told import opened


def text_of(line: list[Painted]) -> str:
    return "".join(text for text, _ in line)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_picture_keeps_to_its_width_and_says_everything_in_words(width: int) -> None:
    streams = told(*twice())
    scale = scale_of(seqnos_of(streams, None), width=width)
    lines = [text_of(line) for line in picture(streams[:1], scale, [[]], width=width)]
    assert all(len(line) <= width for line in lines)
    whole = "\n".join(
        text_of(line) for line in picture(streams[:1], scale, [[(2, "S")]], width=None)
    )
    for part in (
        "row 5: from 0, accepted",
        "0–9 disk, 10–20 cut memory",
        "4 received, ended",
        "deduplicated 8 seqnos in 3 gaps",
        "connection closed, 1 system event",
    ):
        assert part in whole


def test_a_part_of_the_range_is_drawn_with_the_same_letters() -> None:
    streams = told(*twice())
    scale = scale_of(seqnos_of(streams, range(4, 9)), width=80)
    assert (scale.first, scale.last, scale.step) == (4, 8, 1)
    assert lanes(by_seqno(streams[0]), scale).gaps == "ddddd"


@pytest.mark.parametrize(("start", "last"), [(50, 50), (1_000_000, 9)])
def test_a_request_from_far_above_does_not_stretch_the_axis(start: int, last: int) -> None:
    talk = opened()
    talk.stream(7, start=start, uuid=1, rollback=0)
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "a")
    streams = told(talk)
    assert seqnos_of(streams, None) == (0, last)
    drawn = picture(streams, scale_of((0, last), width=80), [[], []], width=80)
    assert any(f"from {start}, rollback to 0" in text_of(line) for line in drawn)


def test_ascii_has_nothing_else() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 2**64 - 1, "memory")
    stream.mutation(5, "ключ")
    streams = told(talk)
    when_and_whose = [line for signs in legend(ASCII) for line in legend_lines(signs)]
    for line in (
        *picture(
            streams, scale_of(seqnos_of(streams, None), width=80), [[]], width=80, glyphs=ASCII
        ),
        *when_and_whose,
    ):
        assert ascii_only(text_of(line)).isascii()
    assert ascii_only("a → b … ключ") == "a > b ~ " + r"\u043a\u043b\u044e\u0447"


def test_an_axis_of_time_has_as_many_digits_as_its_ticks_differ_in() -> None:
    for step, shown in (
        (50_000_000, "0.0 s     0.5 s     1.0 s"),
        (10_000_000, "0.0 s     0.1 s     0.2 s"),
        (200_000, "0.000 s   0.002 s   0.004 s"),
        (10**9, "0 s       10 s      20 s"),
    ):
        assert numbers(Scale(0, step, 30, is_time=True)) == shown
    wide = Scale(0, 10_000_000, 3, 10, is_time=True)
    assert numbers(wide) == "0.00 s    0.01 s    0.02 s"


def test_long_times_are_in_minutes_hours_and_days_at_round_times() -> None:
    hour = 3600 * 10**9
    for length_ns, shown, end in (
        (66 * 10**9, "0 s         20 s        40 s        60 s", "66.000 s"),
        (hour, "0 min              30 min", "60 min"),
        (25 * hour, "0 h                12 h", "25 h"),
        (76 * hour + 1, "0 d         1 d          2 d         3 d", "3.2 d"),
    ):
        scale = Scale.filling(0, length_ns, 40, is_time=True)
        assert numbers(scale) == shown
        assert end_of(scale, length_ns) == end


@pytest.mark.parametrize(
    ("length_ns", "end"),
    [
        (3_312_000, "0.00331 s"),
        (14_600_000, "0.0146 s"),
        (930_000_000, "0.930 s"),
        (66 * 10**9, "66.000 s"),
    ],
)
def test_the_end_of_an_axis_has_three_digits_that_count(length_ns: int, end: str) -> None:
    assert end_of(Scale.filling(0, length_ns, 40, is_time=True), length_ns) == end


def test_no_line_ends_in_blanks() -> None:
    streams = told(*twice())
    for width in (60, None):
        for line in picture(streams, Scale(1 << 40, 1, 10), [[]] * len(streams), width=width):
            assert text_of(line) == text_of(line).rstrip()


@pytest.mark.parametrize(
    ("flags", "end", "asked"),
    [
        ([], 9, "from 0 to 9, accepted"),
        (["to-latest"], 9, "from 0 to-latest, accepted"),
        (["strict-vbucket-uuid", "disk-only"], 2**64 - 1, "from 0 disk-only, accepted"),
    ],
)
def test_an_end_that_a_flag_sets_is_not_the_one_of_the_request(
    flags: list[str], end: int, asked: str
) -> None:
    talk = opened()
    stream = talk.stream(7, end=end, flags=flags)
    stream.end()
    (story,) = told(talk)
    assert request_text(story).endswith(asked)
