"""Rules about logins: who is refused, who came in after all, and what a hole may hide."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import dcpinspect
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.logins import RULES
from dcpinspect.protocol.statuses import Status
from tests.builders import Recorded
from tests.captures import field
from tests.doubled import packets_of, tcp_of, written
from tests.encode import encode
from tests.findings.checked import findings
from tests.streams.told import Told


def found(*talks: Told, **options: Any) -> list[Finding]:
    rules = [rule.id for rule in RULES]
    whole = findings(*talks, rules=rules, **options)
    assert findings(*talks, rules=rules, sizes=[1] * 200) == whole
    return whole


def asking(port: int = 50_000) -> Told:
    talk = Told("x", port=port)
    talk.hello("x/1", "JSON")
    return talk


def test_a_password_that_is_wrong_again_and_again() -> None:
    talks = [asking(50_000 + number) for number in range(3)]
    for talk in talks:
        talk.sasl_scram("eve", status=Status.AUTH_ERROR)
        talk.close()
    (one,) = found(*talks)
    assert (one.rule, one.severity, one.cause, one.count, one.connections) == (
        "login-refused",
        "warning",
        "auth-error",
        3,
        (1, 2, 3),
    )
    assert one.message.startswith(
        "sasl_step: auth_error, Authentication failed; the client asks again every 1.2 ms on 3 "
        "connections"
    )
    assert {place.direction for place in one.places} == {"s2c"}


def test_a_bucket_that_is_not_there() -> None:
    talk = asking()
    talk.sasl_plain("user", "secret")
    talk.ask("select_bucket", key="travle", status=Status.KEY_ENOENT)
    (one,) = found(talk)
    assert one.rule == "bucket-refused", "the login itself succeeded"
    assert one.message == "select_bucket travle: key_enoent, there is no bucket of that name"
    assert one.whose == "client"


def test_another_mechanism_that_succeeds_or_may_have_done_so_is_no_refusal() -> None:
    talk = asking()
    talk.sasl_scram("user", status=Status.AUTH_ERROR)
    with talk.lost():
        talk.sasl_plain("user", "secret")
    talk.select_bucket("travel")
    assert found(talk) == []
    talk = asking()
    talk.sasl_scram("user", status=Status.AUTH_ERROR)
    talk.sasl_plain("user", "secret")
    assert found(talk) == []


def test_who_comes_in_with_a_later_connection_is_told_as_over() -> None:
    first, later = asking(), asking(50_001)
    first.ask("select_bucket", key="travel", status=Status.ETMPFAIL)
    first.close()
    later.select_bucket("travel")
    later.open("", "producer")
    (one,) = found(first, later)
    assert (one.severity, one.over) == ("note", "recovered")


def refused(bucket: str, port: int, server: str = "node1", times: int = 1) -> Told:
    talk = asking(port)
    talk.server = server
    for _ in range(times):
        talk.wait(0.5)
        talk.ask("select_bucket", key=bucket, status=Status.KEY_ENOENT)
    talk.close()
    return talk


def chosen(bucket: str, port: int, server: str = "node1", agent: str = "x/1") -> Told:
    talk = Told("x", port=port)
    talk.server = server
    talk.hello(agent, "JSON")
    talk.select_bucket(bucket)
    talk.open("kafka:1", "producer")
    return talk


def test_a_bucket_that_a_node_has_only_later_is_temporary() -> None:
    talks = [
        chosen("orders", 50_000),
        *(refused("orders", 50_001 + one, "node2") for one in range(3)),
        chosen("orders", 50_009, "node2"),
    ]
    (one,) = found(*talks)
    assert (one.severity, one.cause, one.whose, one.over, one.count) == (
        "note",
        "not-yet",
        "normal",
        "recovered",
        3,
    )
    assert one.what == (
        "select_bucket orders: key_enoent, 10.0.0.3:11210 did not have the bucket yet, and had "
        "it later"
    )
    assert one.next == (
        "operators have nothing to do, because a node has a bucket only some time after the bucket "
        "was created, or the node was added; a client should ask again with growing pauses"
    )


def test_a_bucket_is_had_later_after_more_connections_than_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dcpinspect.findings.logins.MOST", 2)
    before = [chosen("travel", 50_000 + number, agent="y/1") for number in range(6)]
    one = refused("travel", 50_100)
    (finding,) = found(*before, one, chosen("travel", 50_200))
    assert (finding.cause, finding.severity, finding.over) == ("not-yet", "note", "recovered")


def test_a_bucket_that_another_program_got_later_leaves_the_refused_one_without_it() -> None:
    (one,) = found(refused("orders", 50_001), chosen("orders", 50_009, agent="y/2"))
    assert (one.severity, one.cause, one.whose, one.over) == (
        "warning",
        "not-yet",
        "normal",
        "unknown",
    )


def test_a_bucket_that_only_other_nodes_have_is_no_wrong_name() -> None:
    (one,) = found(chosen("orders", 50_000), refused("orders", 50_001, "node2"))
    assert (one.severity, one.cause, one.whose) == ("warning", "other-nodes-only", "server")
    assert one.next == (
        "the name is right; see in the cluster why this node does not have the bucket; a client"
        " should ask again with growing pauses"
    )


def test_a_bucket_that_an_answer_which_was_lost_may_show_later_blames_nobody() -> None:
    later = asking(50_009)
    with later.lost():
        later.select_bucket("orders")
    later.open("kafka:1", "producer")
    (one,) = found(refused("orders", 50_001), later)
    assert (one.severity, one.cause, one.whose) == ("warning", "key-enoent", "unknown")
    (one,) = found(refused("orders", 50_001), asking(50_009))
    assert one.whose == "client"


def test_a_bucket_that_was_there_is_gone() -> None:
    (one,) = found(chosen("orders", 50_000), refused("orders", 50_001))
    assert (one.cause, one.whose) == ("gone", "unknown")


def test_other_buckets_that_were_chosen_say_nothing_of_a_name() -> None:
    (one,) = found(
        chosen("orders", 50_000), refused("orderz", 50_001, times=4), chosen("orders", 50_002)
    )
    assert (one.severity, one.cause, one.whose, one.count) == ("warning", "key-enoent", "client", 4)
    assert one.message.endswith(
        "orderz: key_enoent, there is no bucket of that name; the client asks again every 500 ms"
    )


def test_two_names_are_two_things() -> None:
    assert [
        one.connections
        for one in found(
            refused("orderz", 50_000), refused("order", 50_001), refused("orderz", 50_002)
        )
    ] == [
        (1, 3),
        (2,),
    ]


def unbound(*, selects: bool = False, opens: bool = True) -> Told:
    talk = asking()
    talk.sasl_plain("user", "secret")
    for number in range(3):
        talk.ask(
            "collections_get_id", value=f"shop.orders{number}".encode(), status=Status.NO_BUCKET
        )
    if opens:
        talk.ask("dcp_open", key="reader:1", flags=1, status=Status.NO_BUCKET)
        talk.wait(1)
        talk.ask("dcp_control", key="enable_noop", value=b"true", status=Status.NO_BUCKET)
    if selects:
        talk.select_bucket("travel")
    talk.close()
    return talk


def test_who_selects_no_bucket_is_told_to_and_the_refused_open_is_an_effect() -> None:
    told = findings(unbound())
    (one,) = (finding for finding in told if finding.rule == "bucket-refused")
    assert (one.severity, one.cause, one.whose, one.count) == ("error", "no-bucket", "client", 5)
    assert one.message.startswith("collections_get_id, dcp_open, dcp_control: no_bucket, ")
    assert one.next == (
        "look whether the client's settings name a bucket; it has to send SELECT_BUCKET after "
        "the login, before the first command that needs a bucket"
    )
    assert [(other.rule, other.effect_of) for other in told if other.severity != "note"] == [
        ("bucket-refused", None),
        ("open-refused", one.id),
    ]


@pytest.mark.parametrize("count", [7, 40])
def test_refusals_of_a_connection_are_named_as_far_as_there_is_room(count: int) -> None:
    talk = asking()
    for number in range(count):
        talk.ask("collections_get_id", value=b"a.%d" % number, status=Status.NO_BUCKET)
    talk.close()
    (one,) = found(talk)
    rows = [place.row for place in one.places]
    assert (one.count, len(rows), one.left_out) == (count, min(count, 16), max(0, count - 16))
    assert rows == sorted(rows)
    assert rows[-1] - rows[0] == 2 * (count - 1), "the first and the latest are among them"


def test_commands_without_a_bucket_are_told_without_any_open() -> None:
    (one,) = found(unbound(opens=False))
    assert (one.cause, one.count) == ("no-bucket", 3)
    assert one.message == "collections_get_id: no_bucket, no bucket is selected on the connection"


def test_a_bucket_that_is_selected_after_all_is_no_trouble() -> None:
    assert found(unbound(selects=True)) == []


def test_a_cluster_map_is_asked_for_without_a_bucket() -> None:
    talk = asking()
    talk.ask("get_cluster_config", status=Status.NO_BUCKET)
    assert found(talk) == []


def test_a_refused_bucket_is_why_there_is_none() -> None:
    talk = asking()
    talk.ask("select_bucket", key="travle", status=Status.KEY_ENOENT)
    talk.ask("dcp_open", key="reader:1", flags=1, status=Status.NO_BUCKET)
    told = findings(talk)
    (one,) = (finding for finding in told if finding.rule == "bucket-refused")
    assert (one.cause, one.count) == ("key-enoent", 1)
    assert [other.effect_of for other in told if other.rule == "open-refused"] == [one.id]


@pytest.mark.parametrize(
    ("status", "has_none"), [(Status.SUCCESS, False), (Status.NO_BUCKET, True)]
)
def test_a_connection_keeps_the_bucket_that_it_had(status: Status, *, has_none: bool) -> None:
    """Where it answers that there is none, the refusal cost the client its bucket."""
    talk = chosen("travel", 50_000)
    talk.ask("select_bucket", key="other", status=Status.EACCESS)
    talk.ask("collections_get_id", value=b"a.b", status=status)
    (one,) = (finding for finding in findings(talk) if finding.rule == "bucket-refused")
    assert (one.severity, one.over) == ("warning" if has_none else "note", "unknown")
    assert one.message.endswith("; the connection keeps bucket travel") == (not has_none)


def shut_out(
    pause: float = 2.0, times: int = 4, status: Status = Status.KEY_ENOENT, port: int = 50_000
) -> list[Told]:
    """A client that asks for a bucket again and again, on connections of its own."""
    talks: list[Told] = []
    for number in range(times):
        talk = asking(port + number)
        talk.wait(number * pause)
        talk.sasl_plain("user", "secret")
        talk.ask("select_bucket", key="orderz", status=status)
        talk.close()
        talks.append(talk)
    return talks


def reading(host: str = "10.0.0.1", *, is_begun: bool = False) -> Told:
    talk = Told("x", port=51_000, host=host)
    talk.hello("x/1", "JSON")
    talk.open("x", "producer")
    if is_begun:
        talk.begin()
        talk.noop()
    return talk


@pytest.mark.parametrize("others", [(), (reading("10.0.0.9"),)], ids=["alone", "beside others"])
def test_a_client_that_never_gets_in_is_an_error(others: tuple[Told, ...]) -> None:
    (one,) = found(*shut_out(), *others)
    assert (one.severity, one.whose, one.count) == ("error", "client", 4)


@pytest.mark.parametrize(
    "talks",
    [
        shut_out(times=2, pause=9),
        shut_out(pause=0.5),
        shut_out(status=Status.ETMPFAIL),
        [*shut_out(), reading()],
        [*shut_out(), reading(is_begun=True)],
    ],
    ids=["two times", "not for long", "the server's", "its host is in", "its host may be in"],
)
def test_a_client_that_may_get_in_is_a_warning(talks: list[Told]) -> None:
    (one,) = found(*talks)
    assert one.severity == "warning"


def test_a_bucket_that_an_earlier_connection_may_have_had_accuses_nobody() -> None:
    (one,) = found(reading(is_begun=True), refused("orders", 50_001))
    assert (one.severity, one.cause, one.whose) == ("warning", "key-enoent", "unknown")
    assert one.next.startswith("see in the cluster's log whether the bucket was dropped")
    (one,) = found(reading("10.0.0.9", is_begun=True), refused("orders", 50_001))
    assert one.whose == "client", "another host"


def test_a_bucket_whose_name_was_lost_may_be_the_one_that_the_client_had() -> None:
    nameless = asking(50_001)
    with nameless.lost():
        nameless.send("client", encode("select_bucket", opaque=77, key="orders"))
    nameless.answer("select_bucket", 77, status=Status.KEY_ENOENT)
    (one,) = found(chosen("orders", 50_000), nameless)
    assert (one.cause, one.whose) == ("key-enoent", "unknown")
    assert one.next.startswith("see in the cluster's log whether the bucket was dropped")
    assert one.message == (
        "select_bucket: key_enoent, 10.0.0.2:11210 does not have the bucket, whose name was not "
        "captured"
    )
    (one,) = found(nameless)
    assert one.whose == "client", "nobody had a bucket"


@pytest.mark.parametrize("status", [Status.ETMPFAIL, Status.ENOMEM, Status.EBUSY])
def test_a_node_that_is_not_ready_has_its_own_advice(status: Status) -> None:
    (one,) = found(*shut_out(status=status))
    assert one.whose == "server"
    assert one.next.startswith("look in the server's log for why the bucket is not ready")


@pytest.mark.parametrize("lost", range(3, 12))
def test_a_bucket_whose_name_was_asked_for_unseen_accuses_nobody_once_the_client_got_one(
    lost: int, tmp_path: Path
) -> None:
    packets_of_client = defaultdict[int, list[Recorded]](list)
    for packet in packets_of(field("p02-select-bucket-one-node")):
        packets_of_client[min(tcp_of(packet).source, tcp_of(packet).target, key=_is_port)].append(
            packet
        )
    begun = sorted(
        chain.from_iterable(packets[lost:] for packets in packets_of_client.values()),
        key=lambda packet: packet.time_ns,
    )
    with dcpinspect.open(str(written(tmp_path, begun))) as recording:
        told = [one for one in recording.findings() if one.rule == "bucket-refused"]
    assert {one.severity for one in told} <= {"note"}


def _is_port(port: int) -> bool:
    """Whether servers listen there."""
    return port == 11_210


def test_another_name_that_is_known_does_not_end_a_refusal_of_an_unknown_one() -> None:
    refused, later = asking(), asking(50_001)
    refused.ask("select_bucket", key="travel", status=Status.KEY_ENOENT)
    later.ask("select_bucket", key="beer")
    (one,) = found(refused, later)
    assert one.severity == "warning"
