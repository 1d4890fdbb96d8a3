from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.render.braille import Canvas


def lines(canvas: Canvas, *, ascii_dot: str = "") -> list[str]:
    return ["".join(line) for line in canvas.text(ascii_dot=ascii_dot).tolist()]


def test_a_curve_stays_at_its_height_until_the_next_point() -> None:
    canvas = Canvas(4, 2)
    canvas.steps(np.array([0, 6]), np.array([7, 0]), 0)
    assert lines(canvas) == ["   ⡇", "⣀⣀⣀⡇"]
    assert lines(canvas, ascii_dot="*") == ["   *", "****"]


def test_of_two_curves_in_a_character_the_later_has_it() -> None:
    canvas = Canvas(2, 1)
    canvas.steps(np.array([0, 3]), np.array([3, 3]), 0)
    canvas.steps(np.array([2]), np.array([0]), 1)
    assert canvas.owner.tolist() == [[0, 1]]
    assert lines(canvas) == ["⣀⣁"]


@given(st.lists(st.tuples(st.integers(-9, 30), st.integers(-9, 30)), max_size=20))
def test_any_points_are_drawn_inside(points: list[tuple[int, int]]) -> None:
    canvas = Canvas(7, 3)
    x, y = (np.array([point[axis] for point in points], np.int64) for axis in (0, 1))
    canvas.steps(x, y, 0)
    text = canvas.text()
    assert text.shape == (3, 7)
    for at_x, at_y in points:
        if 0 <= at_x < 14 and 0 <= at_y < 12:
            assert text[at_y // 4, at_x // 2] != " "
    assert ((text != " ") == (canvas.owner == 0)).all()
