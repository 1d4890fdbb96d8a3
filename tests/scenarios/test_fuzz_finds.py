"""What the fuzzer found once is read as it should be; and it finds what is wrong with one input of
many.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from pathlib import Path

import pytest

from tests.fuzz import captures, conversations, keys
from tests.fuzz.search import CORPUS, TARGETS, Search, Target, changed, failure

pytestmark = pytest.mark.slow

FINDS = sorted(path.relative_to(CORPUS) for path in CORPUS.glob("*/*"))


@pytest.mark.parametrize("find", FINDS, ids=str)
def test_what_was_found_once_is_not_again(find: Path) -> None:
    error = failure(TARGETS[find.parent.name], (CORPUS / find).read_bytes())
    if error is not None:
        raise error


def test_of_many_inputs_that_are_read_at_once_the_one_that_fails_is_told() -> None:
    def check(data: bytes) -> set[Hashable]:
        assert data[:1] < b"\xf0"
        return {data[:1]}

    def check_all(inputs: Sequence[bytes]) -> list[set[Hashable]]:
        return [check(data) for data in inputs]

    search = Search(
        Target(check, lambda rng: rng.randbytes(3), check_all, at_once=16), random.Random(1)
    )
    found = next(data for _ in range(100) if (data := search.step()) is not None)
    assert found[0] >= 0xF0


def test_inputs_that_fail_only_together_are_told_as_one() -> None:
    def check_all(inputs: Sequence[bytes]) -> list[set[Hashable]]:
        assert len(inputs) == 1
        return [set()]

    search = Search(
        Target(lambda _: set(), lambda _: b"x", check_all, b"+".join, 3), random.Random(1)
    )
    found = search.step()
    assert found is not None
    assert found.count(b"+") == 2


def test_of_packets_that_are_read_together_the_same_is_seen_as_of_each_alone() -> None:
    rng = random.Random(8)
    programs = [captures.small(rng) for _ in range(24)]
    assert captures.check_together(programs) == [
        captures.check_packets(program) for program in programs
    ]
    assert captures.check_packets(captures.joined(programs)) == set().union(
        *captures.check_together(programs)
    )


def test_of_files_that_are_read_together_the_same_is_seen_as_of_each_alone() -> None:
    rng = random.Random(8)
    contents = [changed(captures.file(rng), rng, []) for _ in range(24)]
    together = captures.check_files(contents)
    assert together == [captures.check_file(content) for content in contents]
    assert captures.check_file(captures.joined_files(contents)) == set().union(*together)


def test_of_messages_that_are_read_together_the_same_is_seen_as_of_each_alone() -> None:
    rng = random.Random(8)
    programs = [conversations.program(rng) for _ in range(6)]
    alone = [
        {
            one
            for one in conversations.check(program)
            if isinstance(one, tuple) and isinstance(one[0], int)
        }
        for program in programs
    ]
    together = conversations.check_all(programs)
    assert all(
        mine <= seen for mine, seen in zip(alone, together, strict=True)
    )  # findings may be about several connections
    assert conversations.said(conversations.joined(programs)) == [
        talk for program in programs for talk in conversations.said(program)
    ]


def test_keys_of_several_inputs_are_pressed_one_behind_the_other() -> None:
    programs = [
        bytes([keys.KEYS.index(key) for key in typed])
        for typed in (["2"], ["question_mark"], ["3"])
    ]
    found = keys.check_all(programs)
    shown = [str(one) for one in found]
    assert ["'Help'" in one for one in shown] == [False, True, False], "Esc leads back"
    assert keys.check(keys.joined(programs)) == set().union(*found)
