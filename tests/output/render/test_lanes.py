"""Lanes of a vbucket's streams: every cell stands for its seqnos, the worst cause wins, any range
costs the same.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.output.render.lanes import (
    ASCII,
    LETTERS,
    LOUD,
    UNICODE,
    Glyphs,
    Lanes,
    Scale,
    joined,
    lanes,
    legend,
    legend_lines,
    paint_of,
    paints_of,
    style_of,
)
from dcpinspect.output.render.palette import PAINTS
from dcpinspect.output.render.shape import Mark, by_seqno
from dcpinspect.streams import words as w
from dcpinspect.streams.story import Bars, StreamStory
from dcpinspect.streams.table_columns import GAPS, SNAPSHOTS, STREAMS
from dcpinspect.streams.words import SNAPSHOT_TYPES
from dcpinspect.tables.record_tables import Records

NO_SNAPSHOTS = Records(SNAPSHOTS, {column.name: [] for column in SNAPSHOTS.columns}, 0)


def made(
    *,
    snapshots: list[tuple[int, int, int, str]] = [],  # noqa: B006 - read only
    gaps: list[tuple[int, int, str]] = [],  # noqa: B006
    items: list[tuple[int, int, int]] = [],  # noqa: B006
    **stream: object,
) -> StreamStory:
    """A stream with these snapshots (first, last, received, type), gaps (after, before, cause) and
    items (first, last, count).
    """

    def column(
        rows: list[tuple[int, ...]], place: int
    ) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return np.array([row[place] for row in rows], dtype=np.uint64)

    plain = [(first, last, received) for first, last, received, _ in snapshots]
    types = np.array(
        [w.SNAPSHOT_TYPES.index("memory" if kind == "history" else kind) for *_, kind in snapshots],
        dtype=np.int64,
    )
    history = np.array([kind == "history" for *_, kind in snapshots], dtype=np.bool_)
    runs = [(after, before) for after, before, _ in gaps]
    table: dict[str, list[object]] = {column.name: [None] * len(gaps) for column in GAPS.columns}
    nowhere = np.zeros(len(items), dtype=np.int64)
    everything: dict[str, object] = {column.name: None for column in STREAMS.columns}
    return StreamStory(
        row=Records(STREAMS, {name: [value] for name, value in everything.items()}, 1),
        stream={**everything, "connection": 1, "stream": 1, "items": len(items), **stream},
        snapshots=NO_SNAPSHOTS,
        gaps=Records(GAPS, {**table, "rows": [[1]] * len(gaps)}, len(gaps)),
        bars=Bars(
            column(list(plain), 0),
            column(list(plain), 1),
            column(list(plain), 2),
            types,
            history,
            types,
            types,
        ),
        after=column(list(runs), 0),
        before=column(list(runs), 1),
        cause=np.array([w.CAUSES.index(cause) for *_, cause in gaps], dtype=np.int64),
        item_first=column(list(items), 0),
        item_last=column(list(items), 1),
        item_count=np.array([count for *_, count in items], dtype=np.int64),
        item_row=nowhere,
        item_time=nowhere,
        refused_row=np.empty(0, np.int64),
        refused_seqno=np.empty(0, np.uint64),
        item_until=nowhere,
    )


def drawn(
    story: StreamStory, first: int = 0, last: int = 9, cells: int = 10, glyphs: Glyphs = UNICODE
) -> Lanes:
    return lanes(by_seqno(story), Scale.finest(first, last, cells), glyphs=glyphs)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(10, 300))
def test_a_scale_holds_its_range_in_round_steps(one: int, other: int, cells: int) -> None:
    first, last = sorted((one, other))
    scale = Scale.finest(first, last, cells)
    assert scale.first <= first
    assert last <= scale.last
    assert scale.cells <= cells
    assert str(scale.step).rstrip("0") in ("1", "2", "5")
    assert scale.cell(np.array([first, last], np.uint64)).tolist() == [
        (one - scale.first) // scale.step for one in (first, last)
    ]


def test_what_a_stream_asked_for_and_how_far_it_came() -> None:
    assert drawn(made(requested_start=2, last_seqno=7)).axis == "  Q────┤  "
    assert drawn(made(requested_start=8, rollback_seqno=3)).axis == "   R◂───Q "
    assert drawn(made(first_seqno=4, last_seqno=6)).axis == "    ──┤   "
    assert drawn(made(requested_start=5)).axis == "     Q    "
    assert (
        lanes(by_seqno(made(requested_start=0, last_seqno=50)), Scale.finest(20, 39, 20)).axis
        == "┼─────────┼────────┤"
    )


def test_snapshots_alternate_and_show_what_did_not_come() -> None:
    assert (
        drawn(made(snapshots=[(0, 3, 3, "disk"), (4, 6, 6, "disk"), (7, 9, 7, "memory")])).snapshots
        == "▓▓▓▓███░╌╌"
    )
    assert (
        drawn(
            made(snapshots=[(0, 3, 3, "memory"), (4, 6, 6, "memory"), (7, 9, 9, "history")])
        ).snapshots
        == "░░░░▒▒▒hhh"
    )
    assert drawn(made(snapshots=[(1, 5, 5, "oso"), (8, 8, 7, "memory")])).snapshots == " ≈≈≈≈≈  ╌ "


def test_density_is_the_share_of_a_cells_seqnos() -> None:
    items = [(seqno, seqno, 1) for seqno in (*range(10), 10, 20, 21, 22, 23, 24)]
    assert drawn(made(items=items), 0, 99).items == "█▁▄       "
    assert drawn(made(items=[(0, 19, 10)]), 0, 99).items == "▄▄        "
    assert drawn(made(items=items), 0, 99, glyphs=ASCII).items == "#_-       "


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 60), st.integers(1, 9)), max_size=40),
    st.integers(10, 80),
)
def test_every_event_is_in_a_cell_and_no_cell_is_drawn_without_one(
    spans: list[tuple[int, int, int]], cells: int
) -> None:
    items = [(first, first + more, count) for first, more, count in spans]
    scale = Scale.finest(0, 560, cells)
    found = lanes(by_seqno(made(items=items)), scale).items
    covered = {
        cell
        for first, last, _ in items
        for cell in range(first // scale.step, last // scale.step + 1)
    }
    assert {cell for cell, glyph in enumerate(found) if glyph != " "} == covered


def test_the_worst_cause_wins_a_cell() -> None:
    for mild, bad in zip(LETTERS, list(LETTERS)[1:], strict=False):
        for pair in ([(0, 5, mild), (3, 9, bad)], [(3, 9, bad), (0, 5, mild)]):
            expected = f" {LETTERS[mild] * 3}{LETTERS[bad] * 5} "
            assert drawn(made(gaps=pair)).gaps == expected, (mild, bad)
    assert set(LETTERS) == set(w.CAUSES)
    assert len(set(LETTERS.values())) == len(w.CAUSES)


def test_events_stand_at_their_seqnos() -> None:
    story = made(gaps=[(2, 5, "seqno-advanced")], last_seqno=8, end_reason="ok")
    assert (
        lanes(by_seqno(story, [Mark(1, "S"), Mark(99, "V")]), Scale.finest(0, 9, 10)).events
        == " S  ^   E "
    )
    assert drawn(made(last_seqno=8, end_reason="connection-closed")).events == "        C "


@given(st.integers(0, 2**63), st.integers(1, 10**9), st.integers(1, 300), st.integers(1, 40))
def test_ticks_are_round_and_have_room(first: int, step: int, cells: int, apart: int) -> None:
    scale = Scale(first, step, cells)
    ticks = scale.ticks(apart)
    assert ticks.step >= step * apart
    assert str(ticks.step).rstrip("0") in ("1", "2", "5")
    assert all(
        at % ticks.step == 0 and first <= at <= scale.last for at in (*ticks[:1], *ticks[-1:])
    )


@given(st.integers(0, 2**63), st.integers(0, 10**12), st.integers(10, 300))
def test_a_filled_scale_has_all_and_leaves_less_than_a_step(
    first: int, more: int, cells: int
) -> None:
    scale = Scale.filling(first, first + more, cells)
    assert scale.cells <= cells
    assert scale.last >= first + more
    assert scale.last - (first + more) < scale.step


def test_the_lines_of_tall_items_are_one_height() -> None:
    drawn = lanes(
        by_seqno(made(items=[(0, 9, 10), (10, 19, 5), (20, 29, 1)])), Scale(0, 10, 3), high=4
    )
    assert drawn.items.splitlines() == ["█  ", "█  ", "██ ", "██▃"]


def test_a_branch_that_a_stream_goes_on_in_is_marked_on_its_axis() -> None:
    log = [(0xB8, 5), (0xA7, 0)]
    assert drawn(made(requested_start=0, last_seqno=9, failover_log=log)).axis == "Q────B───┤"
    assert "B" not in drawn(made(requested_start=5, last_seqno=9, failover_log=log)).axis


def test_the_legend_has_the_colours_of_what_it_names() -> None:
    for glyphs in (UNICODE, ASCII):
        bars, letters, events, findings = legend(glyphs)
        for sign in bars:
            lane = "items" if sign.word == "items" else "snapshots"
            assert {paint_of(lane, glyph, glyphs) for glyph in sign.glyph} == {sign.paint}
        assert [(sign.glyph, sign.word) for sign in letters] == [
            (letter, cause) for cause, letter in LETTERS.items()
        ]
        assert all(paint_of("gaps", sign.glyph, glyphs) == sign.paint for sign in letters)
        assert all(paint_of("events", sign.glyph, glyphs) == sign.paint for sign in events)
        assert [sign.glyph for sign in findings] == [glyphs.error, glyphs.warning]
        words = [sign.word for line in (bars, letters, events, findings) for sign in line]
        assert len(words) == len(set(words)), "no two signs have one name"
        assert {sign.paint for line in (bars, letters, events, findings) for sign in line} <= set(
            PAINTS
        )


def test_snapshots_of_each_type_have_the_colour_of_the_type() -> None:
    for number, kind in enumerate(SNAPSHOT_TYPES):
        assert {paint_of("snapshots", glyph, UNICODE) for glyph in UNICODE.of_type(number)} == {
            f"snapshot-{kind}"
        }


def test_the_line_of_a_rollback_has_its_colour_and_other_lines_have_none() -> None:
    assert list(joined("R◂──Q", paints_of("axis", "R◂──Q", UNICODE))) == [
        ("R◂──", "kind-rollback"),
        ("Q", "kind-request"),
    ]
    assert list(joined("Q──┤", paints_of("axis", "Q──┤", UNICODE))) == [
        ("Q", "kind-request"),
        ("──┤", ""),
    ]


def test_what_is_loud_is_a_ground_in_the_colours_of_a_terminal() -> None:
    assert style_of("cause-unexplained") == "bright_red reverse"
    assert style_of("cause-resumed") == "yellow reverse", "the client never got these"
    assert style_of("cause-deduplicated") == "bright_black"
    assert style_of("") == ""
    assert set(LOUD) <= set(PAINTS)


def test_lines_of_the_legend_break_between_two_signs() -> None:
    whole = ["".join(text for text, _ in line) for line in legend_lines(legend()[1])]
    assert whole == ["  ".join(f"{letter} {cause}" for cause, letter in LETTERS.items())]
    narrow = ["".join(text for text, _ in line) for line in legend_lines(legend()[1], 40)]
    assert len(narrow) > 2
    assert all(len(line) <= 40 for line in narrow)
    assert "  ".join(narrow) == whole[0]
