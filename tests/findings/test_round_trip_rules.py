"""Rules about round trips: what stands out, what does not, and that it is the same in any
batches.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.round_trip_rules import ENOUGH
from tests.encode import encode
from tests.findings.checked import findings
from tests.parted import Options, divided, everything, joined, whole
from tests.streams.told import Told, capture

pytestmark = pytest.mark.slow

RULES = ["slow-responses"]


def asking(port: int, seconds: Sequence[float], *, opcode: str = "get") -> Told:
    """A client that is answered after so many seconds each time."""
    talk = Told(f"app:{port}", port=port)
    talk.hello("app/1.0", "JSON")
    for wait in seconds:
        opaque = talk.opaque()
        talk.send(
            "client", encode(opcode, opaque=opaque, key="k", value="v" if opcode == "set" else "")
        )
        talk.wait(wait)
        talk.answer(opcode, opaque)
    return talk


def found(*talks: Told) -> list[Finding]:
    once = findings(*talks, rules=RULES)
    assert findings(*talks, rules=RULES, sizes=[1] * 500) == once
    return once


QUICK = [0.0005] * 2 * ENOUGH


def test_a_connection_that_is_slower_than_the_others_is_named() -> None:
    (one,) = found(asking(1, QUICK), asking(2, [0.8] * ENOUGH), asking(3, QUICK))
    assert (one.rule, one.severity, one.cause, one.connection, one.whose) == (
        "slow-responses",
        "note",
        "connection",
        2,
        "unknown",
    )
    assert (
        one.message
        == "get takes about 810 ms at the median, and 0.513 ms on the server's other connections"
    )
    assert one.places[0].direction == "s2c"


def test_each_connection_that_is_slow_is_named_however_many_answers_it_has() -> None:
    found_ = found(asking(1, QUICK), asking(2, [0.8] * ENOUGH), asking(3, [0.8] * (5 * ENOUGH)))
    assert [case.connection for one in found_ for case in one.case_of_each] == [2, 3]


def test_a_response_that_is_much_slower_than_the_median_is_named() -> None:
    (one,) = found(asking(1, [*QUICK[:10], 2.5, *QUICK[10:]]))
    assert (one.cause, one.message) == (
        "pause",
        "a response to get took 2.5 s, where the median is about 0.513 ms",
    )
    assert one.places[0].row == 2 + 2 * 11


@pytest.mark.parametrize(
    "talks",
    [
        (asking(1, QUICK), asking(2, QUICK)),
        (asking(1, [0.8] * ENOUGH), asking(2, [0.8] * ENOUGH)),
        (asking(1, QUICK), asking(2, [0.05] * ENOUGH)),
        (asking(1, QUICK), asking(2, [0.8] * (ENOUGH - 1))),
        (asking(1, QUICK[: ENOUGH - 1]), asking(2, [0.8] * ENOUGH)),
        (asking(1, [*QUICK, 0.9]),),
        (asking(1, [*([0.05] * ENOUGH), 2.0]),),
        (asking(1, QUICK, opcode="set"), asking(2, [3.0] * ENOUGH, opcode="set")),
    ],
    ids=[
        "alike",
        "all slow",
        "slow and short",
        "few",
        "few others",
        "below a second",
        "ordinary for it",
        "writes may wait",
    ],
)
def test_what_does_not_stand_out_is_not_named(talks: tuple[Told, ...]) -> None:
    assert found(*talks) == []


def test_a_capture_that_is_read_in_parts(tmp_path: Path) -> None:
    talks = [asking(1, QUICK), asking(2, [0.8] * ENOUGH), asking(3, [*QUICK, 2.5])]
    (tmp_path / "slow.pcap").write_bytes(capture(*talks))
    with open_capture(str(tmp_path / "slow.pcap")) as opened:
        given = [replace(batch, data=batch.data.copy()) for batch in opened]
    shares, left_out = divided(given, 3, random.Random(2))
    one = everything(whole(given, ["slow.pcap"], Options(RULES)))
    assert everything(joined(shares, ["slow.pcap"], Options(RULES), left_out)) == one
    assert [found["cause"] for found in one["findings"]] == ["connection", "pause"]
