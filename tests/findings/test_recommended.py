"""What the capture lacks is not held against a client: the same conversations as in ``test_lint``,
with what decides in a hole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dcpinspect.protocol.statuses import Status
from tests.catalogue import each
from tests.findings.checked import findings, verdicts, verdicts_of
from tests.findings.test_lint import (
    FIRING,
    LINT,
    LOG,
    acknowledging,
    client,
    resumed,
    rolled_back,
    streaming,
)
from tests.streams.told import Told, opened, packets

SETTING = {
    "lint-noop": "enable_noop",
    "lint-noop-interval": "set_noop_interval",
    "lint-flow-control": "connection_buffer_size",
    "lint-cursor-dropping": "supports_cursor_dropping",
    "lint-stream-end-on-close": "send_stream_end_on_client_close_stream",
    "lint-expiry": "enable_expiry_opcode",
    "lint-flatbuffers": "flatbuffers_system_events",
    "lint-purge-seqno": "max_marker_version",
    "lint-compression": "force_value_compression",
    "lint-v7-status": "v7_dcp_status_codes",
}


def said(rule: str, *talks: Told) -> str:
    (*_, one) = verdicts(*talks, rules=[rule])
    return one.says


@pytest.mark.parametrize("rule", SETTING)
def test_a_setting_may_be_in_a_hole(rule: str) -> None:
    talk = client(SETTING[rule])
    with talk.lost():
        talk.control("enable_stream_id", "false")
    stream = talk.stream(7, start=5)
    stream.close()
    assert said(rule, talk) == "NA"
    assert findings(talk, rules=[rule]) == []


@pytest.mark.parametrize(
    ("refused", "says"),
    [
        (None, "FAIL"),
        ("flatbuffers_system_events", "FAIL"),
        ("enable_out_of_order_snapshots", "NA"),
    ],
)
def test_a_setting_that_the_server_is_too_old_for_is_not_asked_of_its_client(
    refused: str | None, says: str
) -> None:
    """A server that does not know a setting of 7.0 does not know the statuses of 7.0; one that does
    not know a setting of 7.2 may.
    """
    talk = opened()
    if refused is not None:
        talk.control(refused, "true", status=Status.EINVAL)
    talk.stream(7)
    assert said("lint-v7-status", talk) == says


def test_a_hole_behind_the_first_stream_request_hides_no_noop_before_it() -> None:
    talk = streaming("enable_noop", "supports_cursor_dropping")
    with talk.lost():
        talk.control("supports_cursor_dropping", "true")
    talk.noop()
    assert (said("lint-noop", talk), said("lint-cursor-dropping", talk)) == ("FAIL", "NA")


def test_a_setting_whose_answer_is_lost_is_not_known() -> None:
    talk = client("v7_dcp_status_codes")
    whole = len(packets(talk))
    talk.control("v7_dcp_status_codes", "true")
    talk.stream(7)
    captured = packets(talk)
    answer = next(
        place
        for place in range(whole, len(captured))
        if captured[place].flow != captured[whole].flow and captured[place].size
    )
    del captured[answer]
    (one,) = verdicts_of(captured, ["lint-v7-status"])
    assert (one.says, one.why) == (
        "NA",
        "unknown, the answer to v7_dcp_status_codes was not captured",
    )


def test_a_setting_that_is_cut_is_not_known() -> None:
    talk = streaming()
    captured = packets(talk)
    cut = [
        replace(packet, data=packet.data[: packet.payload + 30])
        if b"v7_dcp" in packet.data and packet.begins is False
        else packet
        for packet in captured
    ]
    assert [one.says for one in verdicts_of(captured, ["lint-v7-status"])] == ["PASS"]
    assert [one.says for one in verdicts_of(cut, ["lint-v7-status"])] == ["NA"]


def begun_late() -> Told:
    """The capture begins with the open."""
    talk = Told("kafka:1")
    talk.begin()
    talk.open("kafka:1", "producer")
    talk.stream(7)
    return talk


@pytest.mark.parametrize(
    "rule",
    [
        "lint-hello",
        "lint-high-seqnos",
        "lint-compression",
        "lint-flatbuffers",
        "lint-purge-seqno",
        "lint-manifest-uid",
    ],
)
def test_what_was_said_before_the_capture_began_is_not_known(rule: str) -> None:
    assert said(rule, begun_late()) == "NA"


def test_settings_are_known_from_the_open_on() -> None:
    assert said("lint-noop", begun_late()) == "FAIL"


def test_without_the_open_there_is_no_verdict() -> None:
    talk = Told("kafka:1")
    talk.open("kafka:1", "producer")
    talk.begin()
    talk.stream(7)
    assert verdicts(talk) == []


def test_a_hello_in_a_hole() -> None:
    talk = Told("kafka:1")
    with talk.lost():
        talk.hello("kafka/1.0", "SNAPPY")
    talk.open("kafka:1", "producer")
    assert said("lint-hello", talk) == "NA"


def test_newest_seqnos_in_a_hole_of_another_connection() -> None:
    other = Told("", port=50_001)
    other.stat("", {"a": "b"})
    assert said("lint-high-seqnos", other, streaming("high_seqnos")) == "FAIL"
    with other.lost():
        other.high_seqnos({7: 900})
    other.stat("", {"a": "b"})
    assert said("lint-high-seqnos", other, streaming("high_seqnos")) == "NA"


def test_a_request_after_the_rollback_in_a_hole() -> None:
    talk = client()
    talk.stream(7, start=150, uuid=0xA, rollback=100)
    with talk.lost():
        talk.stream(7, start=100, uuid=0xB, rollback=0)
    talk.stream(7, log=LOG)
    assert said("lint-failover-log", talk) == "NA"
    assert said("lint-failover-log", rolled_back(100)) == "PASS"


def test_the_end_of_the_snapshot_in_a_hole() -> None:
    talk = client()
    stream = talk.stream(7, log=LOG)
    stream.snapshot(0, 100, "memory")
    stream.mutation(50, "k")
    with talk.lost():
        stream.mutation(100, "l")
    stream.close()
    talk.stream(7, log=LOG, start=50, uuid=0xB)
    assert said("lint-resume-range", talk) == "NA"
    assert said("lint-resume-range", resumed()) == "PASS"


def test_a_stream_between_two_in_a_hole_may_have_told_no_purge_seqno() -> None:
    talk = client()
    stream = talk.stream(7, log=LOG)
    stream.snapshot(
        0,
        100,
        "memory",
        version="v2.2",
        max_visible_seqno=100,
        high_completed_seqno=0,
        purge_seqno=3,
        high_prepared_seqno=0,
    )
    stream.end("state-changed")
    with talk.lost():
        talk.stream(7, log=LOG).end("state-changed")
    talk.stream(7, log=LOG, start=50, uuid=0xB)
    assert said("lint-purge-seqno", talk) == "NA"


def test_acknowledgements_behind_a_hole_are_not_counted() -> None:
    talk = acknowledging((158,) * 3, connection_buffer_size="20000")
    with talk.lost():
        talk.noop()
    talk.noop()
    assert said("lint-ack-pace", talk) == "NA"


@each("rule", LINT)
def test_every_rule_has_a_case_it_fires_on(rule: str) -> None:
    assert rule in {one for one, *_ in FIRING} or rule == "lint-connections"


@pytest.mark.parametrize("make", [streaming, resumed])
def test_a_whole_connection_has_a_verdict_by_every_rule(make: Callable[[], Told]) -> None:
    assert [one.rule for one in verdicts(make())] == LINT
