"""Letters of what happened to vbuckets over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.output.render.lanes import LETTERS, Sign
from dcpinspect.output.vbucket_heat import Heat
from dcpinspect.protocol.message import Severity
from dcpinspect.streams.words import NO_STREAM_END

if TYPE_CHECKING:
    from dcpinspect.tui.results import Results

SIGNS = (
    Sign("", "", ""),
    Sign("Q", "kind-request", "request"),
    Sign("C", "kind-upkeep", "connection closed"),
    Sign("E", "kind-end", "stream end"),
    Sign("N", "verdict-refused", "refused"),
    Sign("R", "kind-rollback", "rollback"),
    Sign(LETTERS["capture-loss"], "cause-capture-loss", "capture-loss"),
    Sign(LETTERS["unexplained"], "cause-capture-loss", "unexplained"),
    Sign("", "severity-warning", "warning"),
    Sign("", "severity-error", "error"),
)
"""Signs in rising order of importance; the last one wins a cell. Only those of findings have
colours of severities.
"""
REQUEST, CLOSED, END, REFUSED, ROLLBACK, LOSS, UNEXPLAINED, WARNING, ERROR = range(1, len(SIGNS))
SEVERITIES: Mapping[int, Severity] = {WARNING: "warning", ERROR: "error"}
"""Signs that stand for findings."""
_ANSWERS = {"refused": REFUSED, "rollback": ROLLBACK}


def signs(
    heat: Heat,
    results: Results,
    place_of: IntArray,
    shape: tuple[int, int],
    together: int,
) -> tuple[IntArray, IntArray, BoolArray]:
    """Returns the sign of each cell, as its number in ``SIGNS``; when that was, in nanoseconds since
    1970; and whether it is of a request. ``place_of``: the line of cells of each vbucket, -1 for
    none.
    """
    cell_signs, times, request_times = np.zeros((3, *shape), np.int64)
    if not cell_signs.size:
        return cell_signs, times, request_times > 0
    happened = np.array(list(_happened(results)), np.int64).reshape(-1, 3)
    bad = results.finding_marks.where(results.finding_marks.vbucket >= 0)
    signs_found = np.where(bad.is_error, ERROR, WARNING)
    happened = np.vstack((happened, np.column_stack((signs_found, bad.vbucket, bad.time_ns))))
    happened = happened[np.argsort(happened[:, 0], kind="stable")]
    happened = happened[happened[:, 1] < len(place_of)]
    sign, vbucket, time_ns = happened[place_of[happened[:, 1]] >= 0].T
    column = np.maximum(time_ns - heat.start_ns, 0) // (heat.span_ns * together)
    cells = place_of[vbucket], np.minimum(column, shape[1] - 1)
    cell_signs[cells], times[cells] = sign, time_ns  # the last one, the most important, wins
    is_request = sign == REQUEST
    request_times[cells[0][is_request], cells[1][is_request]] = time_ns[is_request]
    return cell_signs, times, (times == request_times) & (request_times > 0)


def _happened(results: Results) -> Iterator[tuple[int, int, int]]:
    """Yields letters, each with its vbucket and its time, in nanoseconds since 1970."""
    streams, gaps = (results.records.get(name) for name in ("streams", "gaps"))
    times, ends = ("first_time", "last_time"), ("end_reason", "answer", "requested_start")
    for vbucket, connection, begin, end, reason, answer, start in (
        streams.rows("vbucket", "connection", *times, *ends) if streams else ()
    ):
        if start is not None:
            yield REQUEST, vbucket, begin
        if reason in NO_STREAM_END:
            # a stream ends with its connection, however long it was quiet
            yield CLOSED, vbucket, results.closed.get(connection, end)
        elif reason is not None:
            yield END, vbucket, end
        if answer in _ANSWERS:
            yield _ANSWERS[answer], vbucket, end
    if gaps is not None:
        for sign in (LOSS, UNEXPLAINED):
            with_cause = gaps.take(gaps.rows_with("cause", SIGNS[sign].word))
            for vbucket, time_ns in with_cause.rows("vbucket", "last_time"):
                yield sign, vbucket, time_ns
