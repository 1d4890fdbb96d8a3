"""Rules about opens: commands before one, second ones, names that clash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dcpinspect.findings.checker import Checker
from dcpinspect.findings.opens import RULES
from dcpinspect.protocol.statuses import Status
from dcpinspect.reading.engine import Engine
from dcpinspect.streams.tracker import Tracker
from tests.builders import ACK, FIN, PSH
from tests.damage import PORT, Packet, Talk, batches
from tests.encode import encode
from tests.findings.checked import findings
from tests.streams.told import Told, opened

IDS = [rule.id for rule in RULES if rule.id != "open-refused"]
"""Refusals are part of what some of these conversations are about."""


def found(*talks: Told, **options: Any) -> list[tuple[str, str]]:
    whole = findings(*talks, rules=IDS, **options)
    assert findings(*talks, rules=IDS, sizes=[1] * 200) == whole
    return [(one.rule, one.message) for one in whole]


# -- open-refused
# ---------------------------------------------------------------------------------------


def test_an_open_that_is_refused() -> None:
    talk = Told("x:1")
    talk.hello("test/1.0", "JSON")
    talk.open("x:1", "producer", status=Status.EACCESS)
    (found,) = findings(talk)
    assert (found.rule, found.severity, found.cause) == ("open-refused", "warning", "eaccess")
    assert (
        found.message
        == "DCP open x:1: eaccess, The user does not have the privilege DcpProducer or DcpConsumer"
    )
    assert [place.direction for place in found.places] == ["c2s"]


def test_what_is_wrong_with_a_long_name_stands_on_the_line_of_its_begin() -> None:
    talk = Told("x:1")
    talk.open("n" * 300, "producer", status=Status.EINVAL)
    (found,) = [one for one in findings(talk) if one.rule == "open-refused"]
    assert found.message.startswith(
        f"DCP open {'n' * 28}…: einval, the name has 300 bytes, and may have 200"
    )


@pytest.mark.parametrize(
    ("status", "whose", "advice"),
    [
        (Status.EACCESS, "client", "give the user a role"),
        (Status.ETMPFAIL, "server", "look in the server's log for why"),
        (Status.ENOMEM, "server", "look in the server's log for why"),
        (Status.UNKNOWN_COMMAND, "unknown", "check the client's settings"),
    ],
)
def test_who_has_to_act_on_a_refused_open(status: Status, whose: str, advice: str) -> None:
    talk = Told("x:1")
    talk.hello("test/1.0", "JSON")
    talk.open("x:1", "producer", status=status)
    (found,) = findings(talk)
    assert found.whose == whose
    assert found.next.startswith(advice)


def refused_again(times: int, pause: float, *, status: Status = Status.EACCESS) -> list[Told]:
    """A client whose opens are refused, on a new connection after each pause."""
    talks = list[Told]()
    for number in range(times):
        talk = Told(f"x:{number}", port=50_000 + number)
        talk.wait(pause)
        talk.hello("test/1.0", "JSON")
        talk.open(f"x:{number}", "producer", status=status)
        talk.close()
        talks.append(talk)
    return talks


@pytest.mark.parametrize(
    ("times", "pause", "status", "severity"),
    [
        (3, 4.0, Status.EACCESS, "error"),
        (2, 8.0, Status.EACCESS, "warning"),
        (4, 1.0, Status.EACCESS, "warning"),
        (3, 4.0, Status.ETMPFAIL, "warning"),
    ],
)
def test_a_client_that_no_node_lets_in(
    times: int, pause: float, status: Status, severity: str
) -> None:
    (refused,) = findings(*refused_again(times, pause, status=status), rules=["open-refused"])
    assert (refused.severity, refused.count) == (severity, times)


def test_a_client_of_which_another_connection_is_open_gets_in() -> None:
    good = opened("x:9", port=50_100)
    good.stream(7)
    (refused,) = findings(good, *refused_again(3, 4.0), rules=["open-refused"])
    assert refused.severity == "warning"


def test_a_name_that_is_too_long_is_why_an_open_is_refused() -> None:
    talk = Told("x:1")
    talk.hello("test/1.0", "JSON")
    talk.open("x" * 214, "producer", status=Status.EINVAL)
    (refused,) = findings(talk, rules=["open-refused"])
    assert refused.message.endswith(": einval, the name has 214 bytes, and may have 200")
    assert refused.next.startswith("shorten what the client makes its name of")


# -- dcp-before-open
# ------------------------------------------------------------------------------------


def test_a_client_that_never_opens() -> None:
    talk = Told("x:1")
    talk.hello("x/1", "JSON")
    talk.control("enable_noop", "true", status=Status.EINVAL)
    talk.stream_request(7, 0x700)
    found = findings(talk, rules=[*IDS, "stream-refused"])
    assert [(one.rule, one.severity, one.vbuckets) for one in found] == [
        ("dcp-before-open", "error", of) for of in ((), (7,))
    ]
    assert [one.message for one in found] == [
        "dcp_control before DCP_OPEN",
        "dcp_stream_req before DCP_OPEN",
    ]


def test_a_request_before_the_open_is_told_once_however_many_vbuckets_are_asked_for() -> None:
    talk = Told("x:1")
    for vbucket in range(40):
        talk.stream_request(vbucket, vbucket)
        talk.answer("dcp_stream_req", vbucket, status=Status.EINVAL)
    (whole,) = findings(talk)
    assert (whole.rule, whole.vbuckets, whole.whose) == (
        "dcp-before-open",
        tuple(range(40)),
        "client",
    )


def test_a_client_that_opens_too_late() -> None:
    talk = Told("x:1")
    talk.control("enable_noop", "true", status=Status.EINVAL)
    talk.open("x:1", "producer")
    talk.control("enable_noop", "true")
    assert found(talk) == [("dcp-before-open", "dcp_control before DCP_OPEN")]


def test_a_client_that_goes_on_after_its_open_was_refused() -> None:
    talk = Told("x:1")
    talk.open("x:1", "producer", status=Status.EACCESS)
    talk.wait(1)
    talk.control("enable_noop", "true", status=Status.EINVAL)
    assert found(talk) == [("dcp-before-open", "dcp_control before a DCP_OPEN that succeeds")]


def test_what_was_under_way_when_the_open_was_answered() -> None:
    for status in (Status.SUCCESS, Status.EACCESS):
        talk = Told("x:1")
        talk.send("client", encode("dcp_open", opaque=1, key="x:1", flags=["producer"]))
        talk.send("client", encode("dcp_control", opaque=2, key="enable_noop", value="true"))
        talk.answer("dcp_open", 1, status=status)
        assert found(talk) == []


def test_an_open_that_may_not_have_been_captured() -> None:
    talk = Told("x:1")
    talk.hello("x/1", "JSON")
    with talk.lost():
        talk.open("x:1", "producer")
    talk.control("enable_noop", "true")
    assert found(talk) == []
    middle = opened()
    middle.begin()
    for _ in range(3):
        middle.control("enable_noop", "true")
    assert found(middle) == []


# -- open-twice
# -----------------------------------------------------------------------------------------


def test_a_second_open() -> None:
    talk = opened()
    talk.open("other:2", "producer", status=Status.EINVAL)
    assert found(talk) == [("open-twice", "opened again as other:2")]
    (whole,) = findings(talk, rules=IDS)
    assert [place.row for place in whole.places] == [5, 3]


def test_an_open_after_one_that_failed() -> None:
    talk = Told("x:1")
    talk.open("x:1", "producer", status=Status.EACCESS)
    talk.open("x:1", "producer")
    assert found(talk) == []
    (refused,) = findings(talk)
    assert (refused.rule, refused.severity, refused.over) == ("open-refused", "note", "recovered")


def test_a_second_open_after_one_whose_answer_was_not_captured() -> None:
    talk = Told("x:1")
    talk.send("client", encode("dcp_open", opaque=1, key="x:1", flags=["producer"]))
    with talk.lost():
        talk.answer("dcp_open", 1)
    talk.open("x:1", "producer", status=Status.EINVAL)
    assert found(talk) == []


# -- name-clash
# -----------------------------------------------------------------------------------------


def overlapping(
    second: str = "x:1",
    *,
    closes: bool = True,
    first_ends: bool = False,
    status: int = 0,
    after_s: int = 1,
    again_s: Sequence[float] = (),
) -> list[Packet]:
    """Two connections that open one after the other, the first of which the server closes then;
    packets by time. ``again_s``: when the first one's last packet is sent again, as nobody
    acknowledges it.
    """
    out: list[Packet] = []
    talks = [
        Talk(50_000 + number, isn=(1000 + 9000 * number, 5000 + 9000 * number))
        for number in range(2)
    ]
    for number, (wire, name) in enumerate(zip(talks, ("x:1", second), strict=True)):
        wire.time_ns += number * after_s * 1_000_000_000
        wire.handshake()
        wire.send(0, encode("dcp_open", opaque=1, key=name, flags=["producer"]), ACK | PSH)
        wire.send(
            1, encode("dcp_open", "response", opaque=1, status=status if number else 0), ACK | PSH
        )
        if number == 0:
            wire.send(0, encode("dcp_stream_req", opaque=2, vbucket=7, end_seqno=9), ACK | PSH)
            wire.send(
                1,
                encode(
                    "dcp_stream_req", "response", opaque=2, failover_log=[{"uuid": 1, "seqno": 0}]
                ),
                ACK | PSH,
            )
            answer = wire.packets[-1]
            out += [replace(answer, time_ns=answer.time_ns + int(again * 1e9)) for again in again_s]
            if first_ends:
                wire.send(0, flags=FIN | ACK)
    if closes:
        talks[0].time_ns = talks[1].time_ns + 12_000_000
        talks[0].send(1, flags=FIN | ACK)
    for wire in talks:
        out += wire.packets
    return sorted(out, key=lambda packet: packet.time_ns)


def judged(packets: list[Packet], rules: list[str]) -> list[Any]:
    engine, tracker = Engine(["told.pcap"], ports=(PORT,)), Tracker()
    checker = Checker(tracker, rules)
    for batch in [*(engine.feed(part) for part in batches(packets)), engine.finish()]:
        if batch is not None:
            tracker.feed(batch)
            checker.feed(batch)
    return checker.findings(engine.links, engine.coverage)


def test_a_name_that_two_connections_claim_and_which_the_server_closes() -> None:
    whole, close = judged(overlapping(), [*IDS, "connection-closed"])
    assert (close.rule, close.effect_of, close.whose) == ("connection-closed", whole.id, "client")
    assert (whole.rule, whole.severity, whole.connections) == ("name-clash", "warning", (1, 2))
    assert whole.message.startswith(
        "name x:1 opened by connection 2 while connection 1 held it; server closed connection 1 "
    )
    assert [place.connection for place in whole.places] == [2, 1]


def test_a_client_that_comes_back_after_an_outage_is_no_second_instance() -> None:
    again_s = (0.3, 0.9, 2.1, 4.5, 9.3, 18.9)
    (back,) = judged(overlapping(after_s=20, again_s=again_s), IDS)
    assert (back.rule, back.severity) == ("name-clash", "note")
    assert back.next.startswith("nothing is left to do")
    (whole,) = judged(overlapping(after_s=20), IDS)
    assert whole.severity == "warning"


def test_without_the_rule_the_close_is_told() -> None:
    assert [one.rule for one in judged(overlapping(), ["connection-closed"])] == [
        "connection-closed"
    ]


def test_an_older_connection_that_had_closed_or_has_another_name() -> None:
    assert judged(overlapping(first_ends=True, closes=False), IDS) == []
    assert judged(overlapping("x:2"), IDS) == []
    assert judged(overlapping(status=Status.EACCESS), IDS) == []


def test_an_older_connection_that_shows_no_life_may_have_closed_in_a_hole() -> None:
    assert judged(overlapping(closes=False), IDS) == []


def test_no_connection_is_blamed_whose_opens_are_too_many_to_remember(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dcpinspect.findings.opens.MOST", 2)
    talks = [opened(port=50_000 + number) for number in range(5)]
    for talk in talks:
        talk.stream(7)
        talk.close()
    assert found(*talks) == []
