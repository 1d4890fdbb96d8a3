"""The server's log, beside a capture and alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.findings.log_findings import findings_alone
from dcpinspect.findings.logs.log_evidence import LogEvidence
from dcpinspect.findings.registry import ORDINARY
from dcpinspect.output.render.verdict import verdict
from dcpinspect.protocol.statuses import Status
from tests.captures import REAL_SERVER
from tests.findings.checked import checked
from tests.findings.logs.written import producer, rollback, seqnos
from tests.findings.test_flow_rules import ack, stalled
from tests.findings.test_opens import overlapping
from tests.streams.told import Told, opened, packets

OLD, NEW = 0xA1, 0xB2
CLOSING = "Stream closing, sent until seqno 12 remaining items 0, reason: "
SLOW = "The stream was closed early because it was too slow"
MOVED = "The stream closed early because the vbucket state changed"
IDLE = (
    "a message has not been received for the DCP idle timeout of 360s. Received last message "
    "361s ago."
)
AT = "2023-11-14T22:13:20.100000+00:00"
"""When ``START_NS`` is, at which captures begin."""
CLASH = "as it has the same name as a new connection"
NO_MEMORY = "as there is no memory to complete replication"


def read(path: Path, *lines: str) -> LogEvidence:
    path.write_text("\n".join(lines))
    return LogEvidence.read([str(path)], [])


def alone(path: Path, *lines: str) -> list[Finding]:
    return findings_alone(read(path, *lines), ORDINARY)


def beside(evidence: LogEvidence, *talks: Told) -> list[Finding]:
    checker, engine = checked(packets(*talks), (), ORDINARY)
    checker.evidence = evidence
    return [
        one
        for one in checker.findings(engine.links, engine.coverage)
        if one.rule.startswith("server-")
    ]


def rolled_back(name: str = "reader:1") -> Told:
    talk = opened(name)
    talk.stream(417, start=1000, uuid=OLD, rollback=900)
    return talk


@pytest.mark.parametrize(
    ("line", "rule", "cause", "severity"),
    [
        (rollback(), "server-rollback", "consumer-ahead", "warning"),
        (rollback(reason="something new"), "server-rollback", "unknown", "warning"),
        (
            producer("Stream request failed because this vbucket doesn't exist"),
            "server-refused",
            "this-vbucket-doesn-t-exist",
            "warning",
        ),
        (producer(CLOSING + SLOW), "server-ended", "too-slow", "warning"),
        (producer(CLOSING + MOVED), "server-ended", "state-changed", "note"),
        (producer(f"Disconnecting because {IDLE}", None), "server-disconnect", "idle", "warning"),
        (
            producer(f"Disconnecting existing Dcp Producer 0x7 {CLASH} 0x8", None),
            "server-disconnect",
            "name-clash",
            "warning",
        ),
        (
            producer(f"Disconnecting the connection {NO_MEMORY}"),
            "server-disconnect",
            "no-memory",
            "warning",
        ),
        (
            producer("Unexpected dcp event (x), disconnecting", None),
            "server-disconnect",
            "unexpected",
            "warning",
        ),
        (
            producer("Invalid ctrl parameter '1' for nonsense", None),
            "server-refused",
            "invalid-ctrl-parameter-for-nonsense",
            "note",
        ),
        (
            producer(
                "Erroneous mutation [sequence number does not fall in the expected snapshot "
                "range]; Dropping the mutation!"
            ),
            "server-refused",
            "seqno-outside-snapshot",
            "warning",
        ),
        (
            producer(
                "Handling slow stream; state_ : in-memory, lastReadSeqno : 7, lastSentSeqno : "
                "6, vBucketHighSeqno : 90,"
                " isBackfillTaskRunning : False"
            ),
            "server-slow-stream",
            "slow-stream",
            "warning",
        ),
    ],
)
def test_a_line_is_a_finding_without_a_capture(
    tmp_path: Path, line: str, rule: str, cause: str, severity: str
) -> None:
    (one,) = alone(tmp_path / "memcached.log", line)
    assert (one.rule, one.cause, one.severity) == (rule, cause, severity)
    assert one.message.endswith("(memcached.log:1)")


def test_an_end_in_a_log_has_the_advice_of_its_reason(tmp_path: Path) -> None:
    (one,) = alone(tmp_path / "memcached.log", producer(CLOSING + MOVED))
    assert one.next.startswith("expected in a rebalance or failover; the client has to ask")


def every(seconds: float, times: int, **changes: int) -> list[str]:
    return [
        rollback(
            start=1000 + number * changes.get("step", 0),
            time=f"2026-03-01T10:00:{number * seconds:09.6f}+01:00",
        )
        for number in range(times)
    ]


def test_a_client_that_asks_the_same_after_each_rollback_loops(tmp_path: Path) -> None:
    (one,) = alone(tmp_path / "memcached.log", *every(0.3, 5))
    assert (one.rule, one.severity, one.cause, one.whose, one.count) == (
        "server-rollback",
        "error",
        "repeated",
        "client",
        5,
    )
    assert one.next.startswith("stop or update the client")


@pytest.mark.parametrize("order", [(0, 1, 0), (1, 0)], ids=["and one twice", "newest first"])
def test_a_log_in_several_files_is_one(tmp_path: Path, order: tuple[int, ...]) -> None:
    paths = [tmp_path / "memcached.log.000001", tmp_path / "memcached.log.000002"]
    lines = every(0.3, 4)
    paths[0].write_text("\n".join(lines[:2]))
    paths[1].write_text("\n".join(lines[2:]))
    evidence = LogEvidence.read([str(paths[number]) for number in order], [])
    (one,) = findings_alone(evidence, ORDINARY)
    assert (one.severity, one.cause, one.count) == ("error", "repeated", 4)


@pytest.mark.parametrize(
    "lines",
    [every(0.3, 2), every(0.001, 5), every(0.3, 5, step=1)],
    ids=["twice", "at once, as with stream-ids", "from further each time"],
)
def test_other_rollbacks_are_no_loop(tmp_path: Path, lines: list[str]) -> None:
    assert {
        (one.severity, one.cause, one.whose) for one in alone(tmp_path / "memcached.log", *lines)
    } == {("warning", "consumer-ahead", "normal")}


@pytest.mark.parametrize(
    ("text", "whose", "advice"),
    [
        (
            "because the start seqno (50) is larger than the end seqno (10)",
            "client",
            "look whether the client has all up to the end",
        ),
        ("because a stream already exists for this vbucket", "client", "report the client's"),
        ("because this vbucket doesn't exist", "normal", "change what the reason names"),
        ("because memory usage is above quota", "unknown", "change what the reason names"),
    ],
)
def test_what_to_do_about_a_refusal_goes_by_its_reason_as_in_a_capture(
    tmp_path: Path, text: str, whose: str, advice: str
) -> None:
    lines = [producer(f"Stream request failed {text}", vbucket) for vbucket in (3, 4)]
    for count in (1, 2):
        (one,) = alone(tmp_path / f"{count}.log", *lines[:count])
        assert (one.rule, one.severity, one.whose) == ("server-refused", "warning", whose)
        assert one.next.startswith(advice)


def test_what_the_client_did_is_no_finding(tmp_path: Path) -> None:
    ends = [
        "The stream closed early due to a close stream message",
        "The stream ended due to all items being streamed",
    ]
    assert (
        alone(
            tmp_path / "memcached.log", *(producer(CLOSING + end) for end in ends), seqnos(417, 5)
        )
        == []
    )


def test_the_reason_of_a_rollback_that_the_capture_has_is_a_note_at_its_answer(
    tmp_path: Path,
) -> None:
    (one,) = beside(read(tmp_path / "memcached.log", rollback()), rolled_back())
    assert (one.rule, one.severity, one.connections, one.vbuckets) == (
        "server-rollback",
        "note",
        (1,),
        (417,),
    )
    assert [place.direction for place in one.places] == ["s2c", "c2s"]
    assert "consumer ahead of producer - producer upper at 900" in one.message
    assert one.facts["clock of the log"]


@pytest.mark.parametrize(
    "line",
    [
        rollback(to=899, time=AT),
        rollback(start=1001, snapshot=(1001, 1001), time=AT),
        rollback(uuid=NEW, time=AT),
        rollback(416, time=AT),
    ],
)
def test_another_rollback_is_not_the_one_of_the_capture(tmp_path: Path, line: str) -> None:
    (one,) = beside(read(tmp_path / "memcached.log", line), rolled_back())
    assert (one.severity, one.places, one.connections) == ("warning", (), ())


def test_each_rollback_of_the_capture_is_taken_once(tmp_path: Path) -> None:
    found = beside(read(tmp_path / "memcached.log", rollback(), rollback()), rolled_back())
    assert sorted(one.severity for one in found) == ["note", "warning"]


def test_a_log_of_other_clients_has_no_connection(tmp_path: Path) -> None:
    (one,) = beside(read(tmp_path / "memcached.log", rollback(to=1)), rolled_back("other:1"))
    assert (one.connections, one.who) == ((), "client eq_dcpq:reader:1")


def ended(name: str = "reader:1", reason: str = "too-slow") -> Told:
    """Vbucket 416 is refused, and 417 ended."""
    talk = opened(name)
    talk.stream(416, status=Status.NOT_MY_VBUCKET)
    talk.stream(417).end(reason)
    return talk


ENDED = producer(CLOSING + SLOW, time=AT)
REFUSED = producer("Stream request failed because this vbucket doesn't exist", 416, time=AT)


def test_what_the_capture_tells_of_a_stream_itself_is_not_told_twice(tmp_path: Path) -> None:
    evidence = read(tmp_path / "memcached.log", ENDED, REFUSED)
    assert beside(evidence, ended()) == []
    assert len(beside(evidence, ended("other:1"))) == 2


@pytest.mark.parametrize(
    "line",
    [
        ENDED.replace(AT, "2023-11-14T19:13:20.100000+00:00"),
        REFUSED.replace(AT, "2023-11-14T19:13:20.100000+00:00"),
        producer(CLOSING + "The stream closed early due to backfill failure", time=AT),
        ENDED.replace("(vb:417)", "(vb:416)"),
        REFUSED.replace("(vb:416)", "(vb:417)"),
    ],
    ids=["an end before", "a refusal before", "another reason", "no end", "no refusal"],
)
def test_an_end_or_refusal_that_the_capture_does_not_have_is_told_without_its_connection(
    tmp_path: Path, line: str
) -> None:
    (one,) = beside(read(tmp_path / "memcached.log", line), ended())
    assert (one.severity, one.connections, one.who) == ("warning", (), "client eq_dcpq:reader:1")


@pytest.mark.parametrize(("time", "told"), [(AT, 0), ("2023-11-14T19:13:20.100000+00:00", 1)])
def test_a_refused_control_of_a_connection_that_the_capture_has_is_left_to_the_rules_of_the_capture(
    tmp_path: Path, time: str, told: int
) -> None:
    control = producer("Invalid ctrl parameter '1' for nonsense", None, time=time)
    assert len(beside(read(tmp_path / "memcached.log", control), rolled_back())) == told
    assert len(beside(read(tmp_path / "memcached.log", control), rolled_back("other:1"))) == 1


@pytest.mark.parametrize("name", ["v85-a", "v66or60-a"])
def test_a_message_that_the_server_refused_is_told_once_also_where_the_log_has_two_lines(
    name: str,
) -> None:
    found = findings_alone(
        LogEvidence.read([str(REAL_SERVER / "logs" / f"{name}.txt")], []), ORDINARY
    )
    assert [(one.rule, one.severity, one.vbuckets) for one in found] == [
        ("server-refused", "warning", (vb,)) for vb in range(4)
    ]
    assert [one.cause for one in found] == [
        *("seqno-not-increasing", "seqno-outside-snapshot"),
        *("seqno-outside-snapshot", "marker-behind"),
    ]
    assert {one.whose for one in found} == {"client"}
    assert all(one.next.startswith("report this message and the one before it") for one in found)
    assert verdict(found) == "4 vbuckets have messages that break the protocol"


@pytest.mark.parametrize(
    ("time", "goes_on", "connections"),
    [(AT, 0, (1,)), ("2023-11-07T22:13:20.100000+00:00", 0, ()), (AT, 100, ())],
    ids=["of its time", "a week before", "of a connection that goes on"],
)
def test_a_disconnect_is_told_of_its_connection(
    tmp_path: Path, time: str, goes_on: float, connections: tuple[int, ...]
) -> None:
    talk = rolled_back()
    talk.wait(goes_on)
    talk.noop()
    line = producer(f"Disconnecting because {IDLE}", None, time=time)
    (one,) = beside(read(tmp_path / "memcached.log", line), talk)
    assert (one.rule, one.connections) == ("server-disconnect", connections)


@pytest.mark.parametrize(("vbucket", "connections"), [(417, (1,)), (500, ())])
def test_a_slow_stream_is_told_of_the_connection_that_has_it(
    tmp_path: Path, vbucket: int, connections: tuple[int, ...]
) -> None:
    line = producer(
        "Handling slow stream; state_ : in-memory, lastReadSeqno : 7, lastSentSeqno : 6, "
        "vBucketHighSeqno : 90, isBackfillTaskRunning : False",
        vbucket,
        time=AT,
    )
    (one,) = beside(read(tmp_path / "memcached.log", line), ended())
    assert (one.rule, one.connections) == ("server-slow-stream", connections)


@pytest.mark.parametrize(
    ("time", "effects"),
    [(AT, ["server-disconnect"]), ("2023-11-14T19:13:20.100000+00:00", [])],
    ids=["then", "hours before"],
)
def test_a_disconnect_for_a_name_is_of_the_older_connection_and_told_under_the_clash(
    tmp_path: Path, time: str, effects: list[str]
) -> None:
    line = producer(f"Disconnecting existing Dcp Producer 0x7 {CLASH} 0x8", None, time=time)
    line = line.replace("reader:1", "x:1")
    checker, engine = checked(overlapping(), (), ORDINARY)
    checker.evidence = read(tmp_path / "memcached.log", line)
    found = checker.findings(engine.links, engine.coverage)
    (clash,) = (one for one in found if one.rule == "name-clash")
    (told,) = (one for one in found if one.rule == "server-disconnect")
    assert (told.effect_of == clash.id, told.connections) == (
        (True, (1,)) if effects else (False, ())
    )


@pytest.mark.parametrize(("pause", "severity"), [(6, "warning"), (2, "note")])
def test_a_slow_stream_is_no_worse_than_the_full_window_that_the_capture_shows(
    tmp_path: Path, pause: float, severity: str
) -> None:
    line = producer(
        "Handling slow stream; state_ : in-memory, lastReadSeqno : 7, lastSentSeqno : 6, "
        "vBucketHighSeqno : 90, isBackfillTaskRunning : False",
        7,
        time=AT,
    ).replace("reader:1", "test:1")
    talk = stalled(pause)
    ack(talk, 400)
    (one,) = beside(read(tmp_path / "memcached.log", line), talk)
    assert (one.rule, one.severity, one.effect_of is None) == (
        "server-slow-stream",
        severity,
        False,
    )


def test_hostile_names_and_reasons_are_escaped(tmp_path: Path) -> None:
    line = rollback(reason="\x1b[31mred").replace("reader", "re\x1b]der")
    (one,) = alone(tmp_path / "memcached.log", line)
    assert "\x1b" not in one.message + one.who
