"""The rule about logins: who is refused, who came in after all, and what a hole may hide."""

from __future__ import annotations

from typing import Any

from dcpinspect.findings.finding import Finding
from dcpinspect.protocol.statuses import Status
from tests.findings.checked import findings
from tests.streams.told import Told


def found(*talks: Told, **options: Any) -> list[Finding]:
    whole = findings(*talks, rules=["login-refused"], **options)
    assert findings(*talks, rules=["login-refused"], sizes=[1] * 200) == whole
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
    assert (one.severity, one.cause, one.count, one.connections) == ("warning", "auth-error", 3, (1, 2, 3))
    assert one.message.startswith("sasl_step: auth_error, Authentication failed on 3 connections")
    assert {place.direction for place in one.places} == {"s2c"}


def test_a_bucket_that_is_not_there() -> None:
    talk = asking()
    talk.sasl_plain("user", "secret")
    talk.ask("select_bucket", key="travle", status=Status.KEY_ENOENT)
    (one,) = found(talk)
    assert one.message == "select_bucket: key_enoent, there is no bucket of that name"


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
