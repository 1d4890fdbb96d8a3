"""Whose a rollback is: the position of a request may be one that no server gave."""

from __future__ import annotations

import pytest

from dcpinspect.findings.finding import Finding
from dcpinspect.protocol.statuses import Status
from tests.findings.checked import findings
from tests.streams.told import Told, opened

OWN, OTHER, NOBODYS = 0xA, 0xB, 0xC
LOG = ((OWN, 0),)


def received(talk: Told, upto: int, vbucket: int = 7, uuid: int = OWN) -> Told:
    """The client receives a vbucket up to a seqno, on a stream that ends."""
    stream = talk.stream(vbucket, log=((uuid, 0),))
    stream.snapshot(0, upto, "memory")
    for seqno in range(1, upto + 1):
        stream.mutation(seqno, "k")
    stream.end("state-changed")
    return talk


def rollback(*talks: Told) -> Finding:
    (one,) = findings(*talks, rules=["rollback"])
    return one


def said(*talks: Told) -> tuple[str | None, str, str]:
    one = rollback(*talks)
    return one.cause, one.whose, one.message.rpartition("; ")[2]


def test_a_uuid_of_another_vbucket_is_the_clients() -> None:
    talk = received(received(opened(), 5), 5, vbucket=8, uuid=OTHER)
    talk.stream(7, start=5, uuid=OTHER, rollback=0)
    assert said(talk) == ("uuid-of-another-vbucket", "client", "it is the uuid of vbucket 8")
    assert rollback(talk).next == (
        "let the client discard what is above 0, and resume at 0 with uuid 0x000000000000000a; "
        "store the uuid together with the seqno, from the failover log of the vbucket's own "
        "stream"
    )


def test_a_uuid_that_no_server_gave_a_client_which_had_the_log_is_the_clients() -> None:
    talk = received(opened(), 5)
    talk.stream(7, start=5, uuid=NOBODYS, rollback=0)
    assert said(talk) == (
        "uuid-never-given",
        "client",
        "the client had the log, and no server gave it this uuid",
    )


def test_who_has_a_stream_again_need_not_discard_anything_for_its_wrong_uuid() -> None:
    talk = received(opened(), 5)
    talk.stream(7, start=5, uuid=NOBODYS, rollback=0)
    talk.stream(7, start=3, uuid=OWN, log=LOG)
    assert (rollback(talk).whose, rollback(talk).over) == ("client", "recovered")
    assert str(rollback(talk).next).startswith(
        "operators have nothing to do, a later request was granted; store the uuid"
    )


def test_a_uuid_may_be_older_than_the_capture() -> None:
    talk = opened()
    talk.stream(7, start=5, uuid=NOBODYS, rollback=0)
    talk.stream(7, log=LOG)
    assert (rollback(talk).cause, rollback(talk).whose) == ("unknown-uuid", "normal")


@pytest.mark.parametrize("start", [5, 9])
@pytest.mark.parametrize(("begins", "cause"), [(0, "uuid-never-given"), (3, "unknown-uuid")])
def test_a_client_may_have_a_uuid_from_before_the_capture_unless_it_began_anew(
    begins: int, cause: str, start: int
) -> None:
    talk = opened()
    stream = talk.stream(7, start=begins, log=LOG)
    stream.snapshot(begins, 5, "memory")
    stream.mutation(5, "k")
    stream.end("state-changed")
    talk.stream(7, start=start, uuid=NOBODYS, rollback=0)
    assert rollback(talk).cause == cause


@pytest.mark.parametrize("has_request", [True, False])
def test_a_uuid_may_be_of_a_log_that_was_lost_with_its_request(has_request: bool) -> None:
    """A hole on the server's side alone hides no log: each of them answers a request."""
    talk = received(opened(), 5)
    beside = talk.stream(8)
    beside.snapshot(0, 9, "memory")
    talk.failover_log(7, LOG)
    with talk.lost():
        if has_request:
            beside.mutation(1, "k", "a document")
        else:
            talk.failover_log(7, ((NOBODYS, 5), *LOG))
    beside.mutation(2, "k")
    talk.noop()
    talk.stream(7, start=5, uuid=NOBODYS, rollback=0)
    assert rollback(talk).cause == ("uuid-never-given" if has_request else "unknown-uuid")


def test_the_rule_about_unknown_uuids_says_the_same() -> None:
    talk = received(opened(), 5)
    talk.stream(7, start=5, uuid=NOBODYS, rollback=0)
    (one,) = findings(talk, rules=["unknown-vbucket-uuid"])
    assert (one.cause, one.whose) == ("uuid-never-given", "client")


def test_a_start_that_was_never_received_is_the_clients() -> None:
    talk = received(opened(), 5)
    talk.stream(7, start=90, uuid=OWN, rollback=20)
    talk.stream(7, start=20, uuid=OWN, log=LOG)
    assert said(talk)[:2] == ("start-never-received", "client")
    assert "the client had received only up to 5" in rollback(talk).message


def test_a_client_that_received_less_than_the_rollback_seqno_resumes_where_it_was() -> None:
    talk = received(opened(), 5)
    talk.stream(7, start=90, uuid=OWN, rollback=20)
    talk.stream(7, start=90, uuid=OWN, status=Status.ERANGE)
    finding = rollback(talk)
    assert finding.next is not None
    assert finding.next.startswith(
        "let the client resume at 5, the last seqno that it received, with uuid "
        "0x000000000000000a, because from 20 on it would miss what is between; "
    )
    assert (finding.facts["resume at"], finding.facts["with uuid"]) == (5, f"0x{OWN:016x}")


@pytest.mark.parametrize("start", [5, 90])
def test_a_start_may_have_been_received_where_nobody_captured(start: int) -> None:
    """Either before the capture, or in a hole that has room for a marker and an event."""
    talk = opened()
    if start == 90:
        received(talk, 5)
        with talk.lost():
            received(talk, 90)
        talk.noop()
    talk.stream(7, start=start, uuid=OWN, rollback=2)
    talk.stream(7, start=2, uuid=OWN, log=LOG)
    assert (rollback(talk).cause, rollback(talk).whose) == ("leading-consumer", "normal")


def test_a_server_that_lost_what_the_client_has_is_nobodys_fault() -> None:
    talk = received(opened(), 5)
    talk.stream(7, start=5, uuid=OWN, rollback=3)
    talk.stream(7, start=3, uuid=OWN, log=((OTHER, 3), *LOG))
    assert (rollback(talk).cause, rollback(talk).whose) == ("leading-consumer", "normal")


def test_a_seqno_without_a_uuid_is_the_clients() -> None:
    talk = received(opened(), 5)
    talk.stream(7, start=5, uuid=0, rollback=0)
    assert (rollback(talk).cause, rollback(talk).whose) == ("no-uuid", "client")
    assert rollback(talk).next == (
        "let the client ask again from what it has, with the uuid of that history; one that has no "
        f"uuid has to discard what is above 0, and to resume at 0 with uuid 0x{OWN:016x}"
    )


NEWER = 0xB
BRANCHES = ((NEWER, 3), (OWN, 0))


def of_branches(talk: Told, log: tuple[tuple[int, int], ...], start: int = 0) -> Told:
    """The client receives 1 to 8, on a stream that ends."""
    stream = talk.stream(7, start=start, log=log)
    stream.snapshot(start, 8, "memory")
    for seqno in range(start + 1, 9):
        stream.mutation(seqno, f"k{seqno}")
    stream.end("state-changed")
    return talk


@pytest.mark.parametrize(("low", "to"), [(8, 3), (2, 2)], ids=["ahead", "straddling"])
def test_a_uuid_of_an_older_branch_than_that_of_the_items_is_the_clients(low: int, to: int) -> None:
    talk = of_branches(opened(), BRANCHES)
    talk.stream(7, start=8, uuid=OWN, snapshot=(low, 9), rollback=to)
    assert (rollback(talk).cause, rollback(talk).whose) == ("uuid-of-an-older-branch", "client")
    assert rollback(talk).message == (
        f"asked for seqno 8, rolled back to {to}: the client's items up to 8 are of branch "
        "0x000000000000000b, and it named the older branch 0x000000000000000a"
    )
    assert str(rollback(talk).next).startswith(
        "let the client ask again from 8 with uuid 0x000000000000000b"
    )
    facts = rollback(talk).facts
    assert (facts["resume at"], facts["with uuid"]) == (8, "0x000000000000000b")


def test_who_followed_the_rollback_still_has_to_name_the_right_branch() -> None:
    talk = of_branches(opened(), BRANCHES)
    talk.stream(7, start=8, uuid=OWN, snapshot=(8, 8), rollback=3)
    talk.stream(7, start=3, uuid=OWN, snapshot=(3, 3), log=BRANCHES).snapshot(3, 8, "memory")
    finding = rollback(talk)
    assert (finding.cause, finding.whose, finding.severity) == (
        "uuid-of-an-older-branch",
        "client",
        "note",
    )
    assert str(finding.next).endswith(
        "it has to store the uuid of the newest entry of the failover log at or below the seqno, "
        "not of an older one"
    )


def test_who_takes_up_what_it_stored_before_the_failover_names_the_right_branch() -> None:
    talk = of_branches(opened(), LOG)
    talk.stream(7, start=8, uuid=OWN, snapshot=(8, 8), rollback=3)
    of_branches(talk, BRANCHES, 3)
    talk.stream(7, start=6, uuid=OWN, snapshot=(3, 8), rollback=3)
    stream = talk.stream(7, start=3, uuid=OWN, snapshot=(3, 3), log=BRANCHES)
    stream.snapshot(3, 9, "memory")
    stream.mutation(9, "k9")
    assert {one.whose for one in findings(talk)} == {"normal"}


@pytest.mark.parametrize("how", ["failover", "log asked for", "older", "another failover", "right"])
def test_items_above_the_branch_point_may_be_of_the_older_branch(how: str) -> None:
    """They came before the failover; or the client had them before the capture."""
    talk = opened()
    if how == "older":
        of_branches(talk, BRANCHES, 2)
    elif how in ("another failover", "right"):
        of_branches(talk, BRANCHES)
    else:
        of_branches(talk, LOG)
    if how == "log asked for":
        talk.failover_log(7, BRANCHES)
    if how in ("another failover", "right"):  # the right branch would have been rolled back, too
        uuid, to = (NEWER, 5) if how == "right" else (OWN, 3)
        log = ((0xD, 5), *BRANCHES)
        talk.stream(7, start=8, uuid=uuid, snapshot=(8, 8), rollback=to)
        talk.stream(7, start=to, uuid=uuid, snapshot=(to, to), log=log)
    else:
        talk.stream(7, start=8, uuid=OWN, snapshot=(8, 8), rollback=3)
        talk.stream(7, start=3, uuid=OWN, snapshot=(3, 3), log=BRANCHES)
    assert (rollback(talk).cause, rollback(talk).whose) == ("leading-consumer", "normal")


def test_who_asks_for_more_than_it_received_may_have_items_from_elsewhere() -> None:
    """As a tool that tries positions: where it began, it had received less."""
    talk, log = of_branches(opened(), LOG), ((NEWER, 12), (OWN, 0))
    stream = talk.stream(7, start=20, uuid=NEWER, snapshot=(20, 20), log=log)
    stream.snapshot(20, 28, "memory")
    stream.mutation(28, "k")
    stream.end("state-changed")
    talk.stream(7, start=25, uuid=OWN, snapshot=(25, 25), rollback=12)
    assert (rollback(talk).cause, rollback(talk).whose) == ("leading-consumer", "normal")
