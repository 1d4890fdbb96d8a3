"""Lint rules: each by the smallest conversation that it does not like, and by those that it has
nothing to say about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dcpinspect.findings.lint import RULES
from dcpinspect.findings.recommended import CHECKS
from tests.catalogue import each
from tests.encode import encode
from tests.findings.checked import findings, found_in, verdicts, verdicts_of
from tests.streams.told import Told, opened, packets

LINT = [rule.id for rule in RULES]
SETTINGS = {
    "enable_noop": "true",
    "set_noop_interval": "120",
    "connection_buffer_size": "10000",
    "supports_cursor_dropping": "true",
    "send_stream_end_on_client_close_stream": "true",
    "enable_expiry_opcode": "true",
    "flatbuffers_system_events": "true",
    "max_marker_version": "2.2",
    "enable_out_of_order_snapshots": "true_with_seqno_advanced",
    "force_value_compression": "true",
    "v7_dcp_status_codes": "true",
}
"""As recommended."""
LOG = ((0xB, 100), (0xA, 0))


def client(
    *without: str,
    name: str = "kafka:1",
    features: tuple[str, ...] = ("SNAPPY", "Collections"),
    port: int = 50_000,
    **others: str,
) -> Told:
    """A connection that is as recommended up to its first stream request, without these settings or
    with others.
    """
    talk = Told(name, port=port)
    if features:
        talk.hello("kafka/1.0", *features)
    talk.open(name, "producer")
    for key, value in (SETTINGS | others).items():
        if key not in without:
            talk.control(key, value)
    if "high_seqnos" not in without:
        talk.high_seqnos({7: 900})
    return talk


def streaming(*without: str, **others: Any) -> Told:
    """The same with a stream."""
    talk = client(*without, **others)
    talk.stream(7, flags=["active-only"])
    return talk


def says(rule: str, *talks: Told) -> str:
    """The verdict on the last conversation."""
    return next(one.says for one in reversed(verdicts(*talks, rules=[rule])))


def resumed(
    *,
    start: int = 50,
    snapshot: tuple[int, int] = (0, 100),
    last: int = 50,
    value: dict[str, str] | None = None,
) -> Told:
    """A stream that is closed at ``last`` of snapshot 0–100, and asked for again."""
    talk = client()
    stream = talk.stream(7, log=LOG, flags=["active-only"])
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
    stream.mutation(last, "k")
    stream.close()
    stream.end("closed")
    talk.stream(
        7, log=LOG, start=start, uuid=0xB, snapshot=snapshot, flags=["active-only"], value=value
    )
    return talk


def acknowledging(sizes: tuple[int, ...], each: int = 1, **others: Any) -> Told:
    """Mutations of 158 bytes, ``each`` before every acknowledgement."""
    talk = streaming(**others)
    stream = talk.stream(8)
    stream.snapshot(0, 1000, "memory")
    seqno = 0
    for size in sizes:
        for _ in range(each):
            seqno += 1
            stream.mutation(seqno, f"{seqno:02d}"[-2:], b"x" * 100)
        talk.send("client", encode("dcp_buffer_acknowledgement", ack_bytes=size))
    return talk


def rolled_back(start: int, *without: str, rollback: int = 100) -> Told:
    talk = client(*without)
    talk.stream(7, start=150, uuid=0xA, rollback=rollback)
    talk.stream(7, start=start, uuid=0xB if start else 0, log=LOG)
    return talk


def closed(*without: str) -> Told:
    talk = client(*without)
    talk.stream(7).close()
    return talk


def late_noop() -> Told:
    talk = streaming("enable_noop")
    talk.control("enable_noop", "true")
    return talk


def refused() -> Told:
    talk = client("v7_dcp_status_codes")
    talk.control("v7_dcp_status_codes", "true", status=4)
    talk.stream(7)
    return talk


def keyless() -> Told:
    talk = Told("kafka:1")
    talk.hello("kafka/1.0", "SNAPPY")
    talk.open("kafka:1", "producer", "no-value")
    talk.stream(7)
    return talk


def not_consuming() -> Told:
    talk = Told("loader:n1->n2", producer="client")
    talk.hello("proxy/1.0", "SNAPPY")
    talk.open("loader:n1->n2")
    return talk


def test_there_is_a_check_for_every_rule_in_their_order() -> None:
    assert list(CHECKS) == LINT


def test_who_does_as_recommended_hears_nothing() -> None:
    assert findings(resumed(value={"uid": "1", "purge_seqno": "3"}), rules=LINT) == []


FIRING: list[tuple[str, Callable[[], Told], str]] = [
    ("lint-name", lambda: streaming(name="kafka"), "name kafka is not of the form service:unique"),
    (
        "lint-name",
        lambda: streaming(name="kafka:" + "x" * 200),
        "the name has 206 bytes, more than 200",
    ),
    ("lint-hello", lambda: streaming(features=()), "no HELLO before the open"),
    ("lint-noop", lambda: streaming("enable_noop"), "enable_noop is not set"),
    ("lint-noop", lambda: streaming(enable_noop="false"), "enable_noop is false"),
    ("lint-noop", late_noop, "enable_noop is true only after the first stream request"),
    (
        "lint-noop-interval",
        lambda: streaming("set_noop_interval"),
        "set_noop_interval is not set although noops are on",
    ),
    (
        "lint-flow-control",
        lambda: streaming("connection_buffer_size"),
        "connection_buffer_size is not set",
    ),
    (
        "lint-flow-control",
        lambda: streaming(connection_buffer_size="0"),
        "connection_buffer_size is 0",
    ),
    (
        "lint-ack-pace",
        lambda: acknowledging((158,) * 4, connection_buffer_size="20000"),
        "4 acknowledgements of 158 bytes on average, less than 1 % of the window of 20,000",
    ),
    (
        "lint-ack-pace",
        lambda: acknowledging((316,) * 4, each=2, connection_buffer_size="500"),
        "4 of 4 acknowledgements come when more than half of the window of 500 is used",
    ),
    (
        "lint-cursor-dropping",
        lambda: streaming("supports_cursor_dropping"),
        "supports_cursor_dropping is not set",
    ),
    (
        "lint-high-seqnos",
        lambda: streaming("high_seqnos"),
        "a stream from 0 is requested before the high seqnos",
    ),
    (
        "lint-failover-log",
        lambda: rolled_back(0),
        "vbucket 7 was rolled back to 100, and is requested from 0",
    ),
    (
        "lint-resume-range",
        lambda: resumed(snapshot=(50, 50)),
        "vbucket 7 resumes at 50 inside snapshot 0–100, but sends 50–50",
    ),
    (
        "lint-stream-end-on-close",
        lambda: closed("send_stream_end_on_client_close_stream"),
        "send_stream_end_on_client_close_stream is not set",
    ),
    (
        "lint-active-only",
        closed,
        "1 of 1 stream requests have neither flag 0x04 (to latest) nor 0x10 (active only)",
    ),
    ("lint-expiry", lambda: streaming("enable_expiry_opcode"), "enable_expiry_opcode is not set"),
    (
        "lint-flatbuffers",
        lambda: streaming("flatbuffers_system_events"),
        "flatbuffers_system_events is not set",
    ),
    (
        "lint-purge-seqno",
        resumed,
        "1 resumed streams are requested without the purge_seqno of an earlier marker",
    ),
    (
        "lint-oso-mode",
        lambda: streaming(enable_out_of_order_snapshots="true"),
        "enable_out_of_order_snapshots is true",
    ),
    (
        "lint-manifest-uid",
        resumed,
        "1 of 1 resumed streams are requested without the manifest's uid",
    ),
    (
        "lint-compression",
        lambda: streaming("force_value_compression"),
        "force_value_compression is not set",
    ),
    (
        "lint-compression",
        lambda: streaming(features=("Collections",)),
        "Snappy is not granted by HELLO",
    ),
    (
        "lint-compression",
        lambda: streaming(features=()),
        "Snappy is not requested, because there is no HELLO",
    ),
    ("lint-v7-status", lambda: streaming("v7_dcp_status_codes"), "v7_dcp_status_codes is not set"),
    ("lint-v7-status", refused, "v7_dcp_status_codes is not set: true was answered einval"),
]


@each(("rule", "told", "message"), FIRING)
def test_what_is_not_as_recommended(rule: str, told: Callable[[], Told], message: str) -> None:
    (one,) = findings(told(), rules=[rule])
    assert (one.rule, one.message) == (rule, message)
    assert one.places
    (verdict,) = verdicts(told(), rules=[rule])
    assert (verdict.says, verdict.why, verdict.places) == ("FAIL", message, one.places)


def test_late_acknowledgements_are_a_note_and_frequent_ones_a_warning() -> None:
    frequent, late = (
        acknowledging((size,) * 4, size // 158, connection_buffer_size=window)
        for size, window in ((158, "20000"), (316, "500"))
    )
    assert [
        (one.severity, one.cause)
        for one in findings(frequent, rules=LINT)
        if one.rule == "lint-ack-pace"
    ] == [("warning", "too-often")]
    assert [
        (one.severity, one.cause)
        for one in findings(late, rules=LINT)
        if one.rule == "lint-ack-pace"
    ] == [("note", "late")]


@each(
    ("rule", "told"),
    [
        ("lint-noop", lambda: client("enable_noop")),
        ("lint-noop-interval", lambda: streaming("enable_noop", "set_noop_interval")),
        ("lint-flow-control", lambda: client("connection_buffer_size")),
        (
            "lint-flow-control",
            lambda: streaming("connection_buffer_size", name="replication:n1->n2"),
        ),
        ("lint-flow-control", not_consuming),
        ("lint-ack-pace", lambda: acknowledging((158,) * 3, connection_buffer_size="20000")),
        ("lint-ack-pace", lambda: streaming("connection_buffer_size")),
        ("lint-cursor-dropping", lambda: client("supports_cursor_dropping")),
        ("lint-high-seqnos", lambda: rolled_back(100, "high_seqnos")),
        ("lint-failover-log", lambda: rolled_back(0, rollback=0)),
        ("lint-failover-log", streaming),
        ("lint-resume-range", lambda: resumed(start=100, snapshot=(100, 100), last=100)),
        ("lint-resume-range", streaming),
        ("lint-stream-end-on-close", lambda: streaming("send_stream_end_on_client_close_stream")),
        ("lint-active-only", client),
        ("lint-expiry", lambda: client("enable_expiry_opcode")),
        ("lint-flatbuffers", lambda: streaming("flatbuffers_system_events", features=("SNAPPY",))),
        ("lint-purge-seqno", lambda: streaming("max_marker_version")),
        ("lint-oso-mode", lambda: streaming("enable_out_of_order_snapshots")),
        ("lint-manifest-uid", streaming),
        ("lint-compression", keyless),
        ("lint-v7-status", lambda: client("v7_dcp_status_codes")),
    ],
)
def test_rules_that_do_not_apply(rule: str, told: Callable[[], Told]) -> None:
    assert says(rule, told()) == "NA"
    assert findings(told(), rules=[rule]) == []


def test_names_are_not_used_again() -> None:
    assert says("lint-name", streaming(), streaming(port=50_001)) == "FAIL"
    assert says("lint-name", streaming(), streaming(port=50_001, name="kafka:2")) == "PASS"
    other = streaming(port=50_001)
    other.server = "node2"
    assert says("lint-name", streaming(), other) == "PASS"
    assert says("lint-name", streaming(name='{"a":"go","i":"x/1"}')) == "PASS"
    assert says("lint-name", streaming(name='{"a":"go"}')) == "FAIL"


def test_the_newest_seqnos_may_be_asked_for_on_another_connection() -> None:
    other = Told("", port=50_001)
    other.high_seqnos({7: 900})
    assert says("lint-high-seqnos", other, streaming("high_seqnos")) == "NA"
    assert says("lint-high-seqnos", streaming("high_seqnos"), other) == "FAIL"


def test_a_resumed_stream_of_another_connection() -> None:
    first = client()
    first.stream(7, start=150, uuid=0xA, rollback=100)
    again = client(name="kafka:2", port=50_001)
    again.stream(7)
    assert says("lint-failover-log", first, again) == "FAIL"
    stranger = client(name="elastic:2", port=50_001)
    stranger.stream(7)
    assert says("lint-failover-log", first, stranger) == "NA"


def test_two_connections_at_a_time() -> None:
    first = packets(streaming())
    both = packets(streaming(), streaming(name="kafka:2", port=50_001))
    later = [replace(packet, time_ns=both[-1].time_ns) for packet in first[-2:]]
    captured = [*first[:-2], *both[len(first) :], *later]
    found = verdicts_of(captured, ["lint-connections"])
    assert [one.says for one in found] == ["PASS", "FAIL"]
    failed = found[1].occurrence
    assert (failed.rule, failed.severity, failed.connection) == ("lint-connections", "warning", 2)
    assert failed.message == "2 DCP connections of 10.0.0.1 kafka to 10.0.0.2:11210 at a time"
    assert [place.connection for place in failed.places] == [2, 1]
    (told,) = found_in(captured, rules=["lint-connections"])
    assert (told.message, told.connections) == (failed.message, (2,))


def test_connections_one_after_the_other_are_one_at_a_time() -> None:
    first = streaming()
    first.close()
    assert says("lint-connections", first, streaming(name="kafka:2", port=50_001)) == "PASS"


def test_a_client_that_does_not_consume_is_asked_for_name_and_hello() -> None:
    told = {one.rule: one.says for one in verdicts(not_consuming())}
    assert {rule for rule, said in told.items() if said != "NA"} == {
        "lint-name",
        "lint-hello",
        "lint-connections",
    }


def test_a_refused_open_has_no_verdicts() -> None:
    talk = Told("kafka:1")
    talk.open("kafka:1", "producer", status=0x24)
    assert verdicts(talk) == []


def test_nobody_hears_of_it_who_did_not_ask() -> None:
    assert not {one.rule for one in findings(opened())} & {*LINT}
    assert verdicts(streaming(), rules=["rollback"]) == []
