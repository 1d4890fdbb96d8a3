"""What of a message the capture holds."""

from __future__ import annotations

from dcpinspect.protocol.annotation import Annotation
from dcpinspect.protocol.message import Context


def test_bytes_are_taken_whole_or_not_at_all_and_held_up_to_the_first_missing_one() -> None:
    annotation = Annotation(b"abcdef", Context(), [(2, 4)])
    assert (
        annotation.captured_bytes(0, 2),
        annotation.captured_bytes(0, 3),
        annotation.captured_bytes(4, 2),
    ) == (
        b"ab",
        None,
        b"ef",
    )
    assert (annotation.held(0, 6), annotation.held(3, 3), annotation.held(4, 9)) == (
        b"ab",
        b"",
        b"ef",
    )


def test_a_problem_names_its_rule_and_place() -> None:
    annotation = Annotation(b"", Context(), [])
    annotation.problem("truncated", "header", 0, "header ends 24 bytes early")
    assert [
        (problem.rule, problem.field, problem.offset) for problem in annotation.message.problems
    ] == [("truncated", "header", 0)]
