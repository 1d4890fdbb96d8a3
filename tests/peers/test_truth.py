"""What stands beside each sample agrees with the sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers import capture_file, truth
from tests.peers.play import Said

_NAMES = sorted(path.name.partition(".")[0] for path in truth.SAMPLES.glob("*.sent.ndjson*"))
_DAMAGED = {"capture-loss", "midstream"}

_CASES = [
    # Messages of 10, 20 and 5 bytes: ranges that were captured, what each message lacks.
    ([(0, 35)], [(), (), ()]),
    ([], [((0, 10),), ((0, 20),), ((0, 5),)]),
    ([(0, 4), (6, 35)], [((4, 6),), (), ()]),
    ([(0, 8), (12, 14), (20, 32)], [((8, 10),), ((0, 2), (4, 10)), ((2, 5),)]),
    ([(10, 30)], [((0, 10),), (), ((0, 5),)]),
]


@pytest.mark.parametrize(("captured", "expected"), _CASES)
def test_missing_bytes_are_told_message_by_message(
    captured: list[tuple[int, int]], expected: list[truth.Ranges]
) -> None:
    assert truth.lost_ranges([b"a" * 10, b"b" * 20, b"c" * 5], captured) == expected


@pytest.mark.parametrize("digests", [False, True])
def test_what_is_saved_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digests: bool
) -> None:
    monkeypatch.setattr(truth, "SAMPLES", tmp_path)
    noop, get = bytes.fromhex("805c" + "00" * 22), bytes.fromhex("8000" + "00" * 22)
    said = [
        Said("one", ("10.0.0.1", 5), ("10.0.0.2", 6), [get, noop], [noop]),
        Said("two", ("::1", 5), ("::2", 6), [], [get]),
    ]
    lost: dict[tuple[int, truth.Direction], list[truth.Ranges]] = {
        (1, "c2s"): [(), ((0, 24),)],
        (1, "s2c"): [((2, 8),)],
        (2, "c2s"): [],
        (2, "s2c"): [()],
    }
    truth.save("saved", said, lost, digests=digests)
    one, two = truth.load("saved")
    assert (one.name, one.client, one.server) == ("one", ("10.0.0.1", 5), ("10.0.0.2", 6))
    assert (two.client, two.c2s) == (("::1", 5), [])
    assert [message.name for message in one.c2s] == ["get", "dcp_noop"]
    assert one.c2s[0].is_data(get)
    assert not one.c2s[0].is_data(noop)
    assert one.c2s[0].data == (None if digests else get)
    assert one.c2s[1].is_absent is not digests
    assert one.s2c[0].missing == (() if digests else ((2, 8),))


def test_every_capture_has_its_truth() -> None:
    captures = {path.name.partition(".")[0] for path in truth.SAMPLES.glob("*.pcap*")}
    assert captures == set(_NAMES)


@pytest.mark.parametrize(
    "name", [name for name in _NAMES if (truth.SAMPLES / f"{name}.pcap").exists()]
)
def test_a_capture_holds_what_was_sent_but_for_what_is_said_to_be_missing(name: str) -> None:
    segments = list(capture_file.segments(*capture_file.read(truth.SAMPLES / f"{name}.pcap")))
    whole = True
    for talk in truth.load(name):
        for messages, ends in (
            (talk.c2s, (talk.client, talk.server)),
            (talk.s2c, (talk.server, talk.client)),
        ):
            datas = [message.data or b"" for message in messages]
            way = [segment for segment in segments if (segment.source, segment.target) == ends]
            lost = truth.lost_ranges(datas, capture_file.stream_ranges(way, b"".join(datas)))
            assert lost == [message.missing for message in messages]
            whole = whole and not any(lost)
    assert whole is (name not in _DAMAGED)
