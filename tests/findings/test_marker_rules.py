"""Rules about snapshots as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.records import Snapshots
from tests.findings.checked import findings
from tests.peers.script import Stream
from tests.streams.told import Told, opened


def of(rule: str, *talks: Told) -> list[tuple[str, str]]:
    return [(one.severity, one.message) for one in findings(*talks) if one.rule == rule]


def streaming(talk: Told, **request: object) -> Stream:
    return talk.stream(7, **request)  # type: ignore[arg-type] # passed on


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (5, []),
        (2, []),
        (9, [("note", "first snapshot starts at 9; 2 or 5 expected")]),
        (3, [("warning", "first snapshot starts at 3; 2 or 5 expected")]),
    ],
)
def test_a_first_marker_starts_where_it_was_asked_to(
    start: int, expected: list[tuple[str, str]]
) -> None:
    talk = opened()
    stream = streaming(talk, start=5, snapshot=(2, 9))
    stream.snapshot(start, 12, "memory")
    stream.mutation(12, "k")
    assert of("first-marker-start", talk) == expected


def test_a_first_marker_may_start_anywhere_from_the_latest_or_behind_a_hole() -> None:
    talk = opened()
    stream = streaming(talk, flags=["from-latest"])
    stream.snapshot(50, 60, "memory")
    assert of("first-marker-start", talk) == []
    talk = opened()
    with talk.lost():
        stream = streaming(talk)
        stream.snapshot(0, 9, "memory")
    stream.snapshot(50, 60, "memory", "checkpoint")
    stream.mutation(60, "k")
    assert of("first-marker-start", talk) == []


def cut_short(
    *features: str, kind: str = "memory", value: dict[str, object] | None = None, **controls: str
) -> Told:
    """Of a snapshot up to 9 the last seqno does not come."""
    talk = Told("test:1")
    if features:
        talk.hello("test/1.0", *features)
    talk.open("test:1", "producer")
    for key, of in controls.items():
        talk.control(key, of)
    stream = streaming(talk, value=value)
    stream.snapshot(0, 9, kind)
    stream.mutation(8, "k")
    stream.snapshot(10, 12, "memory", "checkpoint")
    stream.mutation(12, "l")
    return talk


@pytest.mark.parametrize(
    ("features", "severity", "what"),
    [
        (("JSON", "Collections"), "warning", "seqno 9 did not come, nor a SeqnoAdvanced"),
        (("JSON",), "note", "seqno 9 did not come"),
    ],
)
def test_a_snapshot_that_another_marker_cuts_short(
    features: tuple[str, ...], severity: str, what: str
) -> None:
    assert of("snapshot-incomplete", cut_short(*features)) == [
        (severity, f"the snapshot had come to seqno 8 of 9 when the next marker came: {what}")
    ]


def test_seqnos_that_did_not_come_are_named() -> None:
    talk = opened()
    stream = streaming(talk, start=4)
    stream.snapshot(4, 9, "memory")
    stream.snapshot(10, 20, "memory", "checkpoint")
    stream.mutation(12, "l")
    stream.snapshot(21, 30, "memory", "checkpoint")
    found = [one for one in findings(talk) if one.rule == "snapshot-incomplete"]
    (one,) = found  # of the same vbucket
    assert (one.message, one.count) == (
        (
            "nothing of the snapshot up to 9 had come when the next marker came: seqnos 5–9 did not come, "
            "nor a SeqnoAdvanced"
        ),
        2,
    )
    assert one.seqnos == (5, 9)


class Taken(np.ndarray[Any, Any]):
    """A column that counts how many entries are taken out of it."""

    count = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        Taken.count += np.size(found)
        return found


def taken(snapshots: int) -> int:
    """Entries of a column that are looked at where so many snapshots are incomplete."""
    talk = opened()
    stream = streaming(talk)
    for start in range(0, 2 * snapshots, 2):
        stream.snapshot(start, start + 1, "memory")
    Taken.count = 0
    assert (
        sum(one.count for one in findings(talk) if one.rule == "snapshot-incomplete")
        == snapshots - 1
    )
    return Taken.count


def test_incomplete_snapshots_are_not_compared_with_all_others_of_their_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    column: Any = Snapshots.fields["index"]
    monkeypatch.setattr(
        Snapshots, "index", property(lambda rows: column.__get__(rows, Snapshots).view(Taken))
    )
    assert 0 < taken(80) < 2.5 * taken(40)


def advice(talk: Told) -> str:
    (one,) = [one for one in findings(talk) if one.rule == "snapshot-incomplete"]
    return one.next


FILTER: dict[str, object] = {"collections": ["0"]}


@pytest.mark.parametrize("features", [("JSON",), ()])
def test_only_a_client_without_collections_is_told_to_negotiate_them(
    features: tuple[str, ...],
) -> None:
    assert "negotiate collections" in advice(cut_short(*features))
    for value in (None, FILTER):
        told = advice(cut_short("JSON", "Collections", value=value))
        assert "negotiate" not in told
        assert told.startswith("a client can take the snapshot as ended")


def test_whether_collections_are_on_nobody_knows_where_the_hello_may_be_lost() -> None:
    talk = Told("test:1")
    with talk.lost():
        talk.hello("test/1.0", "JSON", "Collections")
    talk.open("test:1", "producer")
    stream = streaming(talk)
    stream.snapshot(0, 9, "memory")
    stream.mutation(8, "k")
    stream.snapshot(10, 12, "memory", "checkpoint")
    assert of("snapshot-incomplete", talk) == [
        (
            "note",
            "the snapshot had come to seqno 8 of 9 when the next marker came: seqno 9 did not come",
        )
    ]
    assert "negotiate" not in advice(talk)
    assert "whether collections are on" in advice(talk)


def test_where_the_request_is_not_captured_the_server_may_be_older_than_its_words() -> None:
    """As in a capture of what the server sends, and nothing else: its settings are the client's."""
    for is_new in (False, True):
        talk = opened()
        if is_new:
            talk.control("v7_dcp_status_codes", "true")
        with talk.lost():
            stream = streaming(talk)
        stream.snapshot(0, 9, "memory")
        stream.mutation(8, "k")
        stream.snapshot(10, 12, "memory", "checkpoint")
        (one,) = [one for one in findings(talk) if one.rule == "snapshot-incomplete"]
        assert (one.severity, one.cause) == (
            ("warning", "not-told") if is_new else ("note", "hidden")
        )
        assert ("has not the stream request" in one.next) == (not is_new)


KNOWN = "MB-73354"


def test_servers_that_are_known_to_leave_it_out_are_named() -> None:
    told = advice(cut_short("JSON", "Collections", value=FILTER))
    assert KNOWN in told
    assert all(version in told for version in ("7.0.2", "7.2.9", "7.6.12", "8.0.2"))


@pytest.mark.parametrize(
    "talk",
    [
        cut_short("JSON", "Collections"),
        cut_short("JSON", "Collections", value={"sid": 3}),
        cut_short("JSON", "Collections", value=FILTER, kind="disk"),
        cut_short("JSON", "Collections", value=FILTER, enable_sync_writes="true"),
        cut_short("JSON"),
    ],
    ids=[
        "without a filter",
        "with a stream-id alone",
        "from disk",
        "with sync writes",
        "without collections",
    ],
)
def test_and_not_where_theirs_is_another_case(talk: Told) -> None:
    assert KNOWN not in advice(talk)


@pytest.mark.parametrize(
    ("value", "settings", "severity", "cause", "whose"),
    [
        (FILTER, {}, "note", "hidden", "normal"),
        (None, {}, "note", "hidden", "normal"),  # perhaps a prepare
        (FILTER, {"enable_sync_writes": "true"}, "note", "hidden", "normal"),
        (None, {"enable_sync_writes": "true"}, "warning", "not-told", "server"),
    ],
    ids=["a filter", "no sync writes", "a filter with sync writes", "all is visible"],
)
def test_a_server_before_7_0_does_not_have_to_say_what_it_hides(
    value: dict[str, object] | None, settings: dict[str, str], severity: str, cause: str, whose: str
) -> None:
    """It has no SeqnoAdvanced. Its version is known by a setting that it does not know, here on
    another connection.
    """
    other = opened("other:1", port=50_009)
    other.control("v7_dcp_status_codes", "true", status=Status.EINVAL)
    (one,) = [
        one
        for one in findings(cut_short("JSON", "Collections", value=value, **settings), other)
        if one.rule == "snapshot-incomplete"
    ]
    assert (one.severity, one.cause, one.whose) == (severity, cause, whose)
    assert one.next == "a client can take the snapshot as ended; " + (
        "the server owes the last seqno or, from 7.0 on, a SeqnoAdvanced; report it with the "
        "server's version, the client is not at fault"
        if whose == "server"
        else "servers before 7.0, as this one, do not say which seqnos the client cannot see"
    )


def test_a_stream_that_brought_all_it_was_asked_for_owes_nothing_of_its_snapshot() -> None:
    talk = opened()
    stream = talk.stream(7, end=5)
    stream.snapshot(0, 9, "disk")
    stream.mutation(7, "k")
    stream.end()
    assert of("snapshot-incomplete", talk) == []


def test_a_snapshot_that_seqno_advanced_completes_or_a_hole_hides() -> None:
    talk = opened()
    stream = streaming(talk)
    stream.snapshot(0, 9, "memory")
    stream.mutation(8, "k")
    stream.seqno_advanced(9)
    stream.snapshot(10, 20, "memory", "checkpoint")
    with talk.lost():
        stream.mutation(20, "l")
    stream.snapshot(21, 22, "memory", "checkpoint")
    stream.mutation(22, "m")
    assert of("snapshot-incomplete", talk) == []


@pytest.mark.parametrize(
    ("reason", "is_lost", "rules"),
    [
        ("ok", False, ["snapshot-incomplete"]),
        ("state-changed", False, []),
        ("ok", True, []),
    ],
)
def test_a_stream_end_with_reason_ok_inside_an_oso_snapshot(
    reason: str, is_lost: bool, rules: list[str]
) -> None:
    talk = opened(enable_out_of_order_snapshots="true")
    stream = streaming(talk)
    stream.oso("start")
    stream.mutation(5, "k")
    if is_lost:
        with talk.lost():
            stream.oso("end")
    stream.end(reason)
    told = findings(talk, rules=("snapshot-incomplete",))
    assert [one.rule for one in told] == rules
    assert all((one.severity, one.whose) == ("warning", "server") for one in told)


def test_what_came_of_an_incomplete_snapshot_is_what_lies_inside_of_it() -> None:
    talk = opened()
    stream = streaming(talk)
    stream.snapshot(0, 9, "memory")
    stream.mutation(4, "a")
    stream.mutation(30, "b")
    stream.snapshot(40, 50, "memory")
    assert [message for _, message in of("snapshot-incomplete", talk)] == [
        "the snapshot had come to seqno 4 of 9 when the next marker came: seqnos 5–9 did not come, nor a SeqnoAdvanced"
    ]


def test_a_marker_behind_what_came_is_not_called_incomplete_as_well() -> None:
    talk = opened()
    stream = streaming(talk)
    stream.snapshot(0, 9, "memory")
    stream.mutation(9, "a")
    stream.snapshot(3, 5, "memory")
    stream.snapshot(10, 12, "memory")
    assert len(of("marker-behind", talk)) == 1
    assert of("snapshot-incomplete", talk) == []


def test_incomplete_snapshots_of_several_vbuckets_are_one_short_sentence() -> None:
    talks = []
    for port in (50_000, 50_001):
        talk = Told("old:1", port=port)
        talk.hello("old/1", "XATTR")
        talk.open("old:1", "producer")
        for vbucket, end in ((7, 8), (8, 14), (9, 23)):
            stream = talk.stream(vbucket)
            stream.snapshot(0, end, "memory")
            stream.mutation(end - 1, "k")
            stream.snapshot(end + 1, end + 9, "memory")
            stream.mutation(end + 9, "k")
        talks.append(talk)
    (found,) = (one for one in findings(*talks) if one.rule == "snapshot-incomplete")
    assert found.what == "the last seqnos of a snapshot had not come when the next marker came"
