from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.tui.jumps import MOST, Jumps, Spot


@given(st.lists(st.sampled_from(["jump", "back", "forward"]), max_size=40))
def test_back_and_forward_are_those_of_a_browser(moves: list[str]) -> None:
    jumps, here = Jumps(), Spot("packets", row=0)
    visited, at, number = [here], 0, 0
    for move in moves:
        if move == "jump":
            number += 1
            jumps.leave(here)
            here = Spot("packets", row=number)
            visited, at = [*visited[: at + 1], here], at + 1
        elif move == "back":
            spot = jumps.back(here)
            assert (spot is None) == (at == 0)
            at, here = max(at - 1, 0), spot or here
        else:
            spot = jumps.forward(here)
            assert (spot is None) == (at == len(visited) - 1)
            at, here = min(at + 1, len(visited) - 1), spot or here
        assert here == visited[at]


def test_only_so_many_are_remembered() -> None:
    jumps = Jumps()
    for row in range(3 * MOST):
        jumps.leave(Spot("packets", row=row))
    count = 0
    while jumps.back(Spot("stats")) is not None:
        count += 1
    assert count == MOST
