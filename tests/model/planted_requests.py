"""Faults planted into stream requests, rollbacks, and the ends of streams."""

from __future__ import annotations

from collections.abc import Mapping

from tests.model.plants import (
    EACCESS,
    EINVAL,
    ERANGE,
    ETMPFAIL,
    KEY_EEXISTS,
    LOG,
    MANIFEST_AHEAD,
    NEWER,
    NOT_MY_VBUCKET,
    NOT_SUPPORTED,
    OLDER,
    VB,
    Plants,
)
from tests.model.talk import UUID, Talk
from tests.model.tape import Said

PLANTS = Plants()
plant, bare = PLANTS.opened, PLANTS.bare

# -- stream requests
# --------------------------------------------------------------------------------------------------

RANGES: Mapping[str, tuple[int, int, tuple[int, int]]] = {
    "above its snapshot": (20, 1 << 40, (5, 10)),
    "below its snapshot": (3, 1 << 40, (5, 10)),
    "above its end": (20, 15, (20, 20)),
}
for _where, (_start, _end, _range) in RANGES.items():

    @plant(f"a stream is asked for from a start {_where}", "bad-stream-range")
    def _(
        talk: Talk, start: int = _start, end: int = _end, snapshot: tuple[int, int] = _range
    ) -> Said:
        asked = talk.request(VB, start, end, uuid=UUID, snapshot=snapshot)
        talk.answer(asked, ERANGE)
        return asked


@plant("a client stores a marker without an item of it, and resumes there", "bad-stream-range")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    last = 5 + talk.dice.below(50)
    talk.snapshot(VB, 0, last)
    talk.marker(VB, last + 1, last + 9)
    talk.end(VB, "disconnected")
    asked = talk.request(VB, last, uuid=UUID, snapshot=(last + 1, last + 9))
    talk.answer(asked, ERANGE)
    again = talk.stream(VB, last, uuid=UUID)
    assert again is not asked
    return asked


@plant("a stream is asked for that runs", "duplicate-stream-request")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.snapshot(VB, 0, 3)
    running = talk.opaques[VB, 0]
    asked = talk.request(VB, 3, uuid=UUID)
    talk.answer(asked, KEY_EEXISTS)
    talk.opaques[VB, 0] = running
    talk.snapshot(VB, 4, 6, first=4)
    return asked


@plant("a stream is granted while another one runs", "stream-already-open")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.snapshot(VB, 0, 3)
    asked = talk.request(VB, 3, uuid=UUID)
    answer = talk.answer(asked)
    talk.snapshot(VB, 3, 6)
    return answer


for _name, _status in {
    "range": ERANGE,
    "argument": EINVAL,
    "vbucket": NOT_MY_VBUCKET,
    "privilege": EACCESS,
    "while": ETMPFAIL,
}.items():

    @plant(f"a stream is refused for its {_name}", "stream-refused")
    def _(talk: Talk, status: int = _status) -> Said:
        asked = talk.request(VB)
        talk.answer(asked, status)
        return asked


@plant("a client knows a newer manifest than the server", "manifest-ahead")
def _(talk: Talk) -> Said:
    asked = talk.request(VB, value='{"uid":"9"}')
    talk.answer(asked, MANIFEST_AHEAD)
    return asked


@bare("noops have to be on", "noop-required")
def _(talk: Talk) -> Said:
    talk.open(features=("XATTR", "JSON", "Collections"))
    asked = talk.request(VB)
    talk.answer(asked, NOT_SUPPORTED)
    return asked


@plant("a request from 0 ends at 0 after a rollback", "end-zero-reopen")
def _(talk: Talk) -> Said:
    talk.answer(talk.request(VB, 9, uuid=UUID), rollback=0)
    asked = talk.stream(VB, 0, 0)
    talk.end(VB)
    return asked


# -- rollbacks
# --------------------------------------------------------------------------------------------------


@plant("a rollback", "rollback")
def _(talk: Talk) -> Said:
    talk.failover_log(VB, LOG)
    start = 60 + talk.dice.below(90)
    asked = talk.request(VB, start, uuid=OLDER)
    answer = talk.answer(asked, rollback=50)
    talk.stream(VB, 50, uuid=NEWER, log=LOG)
    return answer


@plant("a rollback above what was asked for", "rollback-above-start")
def _(talk: Talk) -> Said:
    talk.failover_log(VB, LOG)
    answer = talk.answer(talk.request(VB, 60, uuid=NEWER), rollback=61 + talk.dice.below(90))
    talk.stream(VB, 60, uuid=NEWER, log=LOG)
    return answer


@plant("a rollback is not heeded", "rollback-not-honoured")
def _(talk: Talk) -> Said:
    talk.failover_log(VB, LOG)
    talk.answer(talk.request(VB, 90, uuid=OLDER), rollback=50)
    again = talk.request(VB, 60 + talk.dice.below(29), uuid=OLDER)
    talk.answer(again, rollback=50)
    talk.stream(VB, 50, uuid=NEWER, log=LOG)
    return again


@plant("after a rollback nothing is asked for any more", "rollback-not-followed")
def _(talk: Talk) -> Said:
    talk.failover_log(VB, LOG)
    answer = talk.answer(talk.request(VB, 90, uuid=OLDER), rollback=50)
    talk.wait(2.5)
    talk.stream(VB + 1)
    talk.wait(2.5)
    talk.snapshot(VB + 1, 0, 3)
    return answer


@plant("one rollback after the other", "rollback-loop")
def _(talk: Talk) -> Said:
    talk.failover_log(VB, LOG)
    said = []
    for _ in range(3):
        said.append(talk.answer(talk.request(VB, 90, uuid=NEWER, snapshot=(0, 100)), rollback=0))
        talk.stream(VB, 0, log=LOG)
        talk.marker(VB, 0, 100, "disk", "checkpoint")
        talk.mutation(VB, 90)
        talk.end(VB, "disconnected")
    talk.stream(VB, 90, uuid=NEWER, snapshot=(0, 100), log=LOG)
    return said[0]


@plant("a retry with the uuid of an older branch", "wrong-failover-entry")
def _(talk: Talk) -> Said:
    talk.failover_log(VB, LOG)
    talk.answer(talk.request(VB, 90, uuid=NEWER, snapshot=(60, 90)), rollback=60)
    again = talk.request(VB, 60, uuid=OLDER)
    talk.answer(again, rollback=50)
    talk.stream(VB, 50, uuid=NEWER, log=LOG)
    return again


@plant("a uuid that no log has", "unknown-vbucket-uuid")
def _(talk: Talk) -> Said:
    talk.stream(VB + 1, log=((UUID, 0),))
    talk.failover_log(VB, LOG)
    asked = talk.request(VB, 30 + talk.dice.below(9), uuid=0xBAD0BAD0)
    talk.answer(asked, rollback=0)
    talk.stream(VB, log=LOG)
    return asked


@plant("a bucket was made anew", "no-common-history")
def _(talk: Talk) -> Said:
    said = []
    for vbucket in range(VB, VB + 3):
        said.append(talk.request(vbucket, 9 + vbucket, uuid=0xBAD + vbucket))
        talk.answer(said[-1], rollback=0)
    for vbucket in range(VB, VB + 3):
        talk.stream(vbucket, log=((UUID + vbucket, 0),))
    return said[0]


# -- the ends of streams
# --------------------------------------------------------------------------------------------------

for _reason in ("too-slow", "backfill-failed", "rollback", "lost-privileges", 99):

    @plant(f"a stream ends: {_reason}", "stream-end-reason")
    def _(talk: Talk, reason: str | int = _reason) -> Said:
        talk.stream(VB)
        talk.snapshot(VB, 0, 3)
        ended = talk.end(VB, reason)
        talk.stream(VB, 3, uuid=UUID)
        return ended


@plant("a vbucket that moved is never asked for again", "orphaned-vbucket")
def _(talk: Talk) -> Said:
    ends = []
    for vbucket in (VB, VB + 1, VB + 2):
        talk.stream(vbucket)
        talk.snapshot(vbucket, 0, 3)
        ends.append(talk.end(vbucket, "state-changed"))
    for vbucket in (VB, VB + 2):
        talk.stream(vbucket, 3, uuid=UUID)
    talk.wait(2.5)
    talk.snapshot(VB, 3, 6)
    return ends[1]


@plant("a vbucket that was refused for now is never asked for again", "orphaned-vbucket")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    answers = [talk.answer(talk.request(vbucket), ETMPFAIL) for vbucket in (VB + 1, VB + 2)]
    talk.wait(0.2)
    talk.stream(VB + 2)
    talk.wait(5)
    talk.snapshot(VB, 0, 3)
    return answers[0]


@plant("a stream that ended before its end is asked for without it", "end-lost")
def _(talk: Talk) -> Said:
    for vbucket in (VB, VB + 1):
        talk.stream(vbucket, 0, 90)
        talk.snapshot(vbucket, 0, 3)
    talk.end(VB, "state-changed")
    return talk.stream(VB, 3, uuid=UUID)


@plant("a vbucket is read from 0 because no list has it", "start-not-listed")
def _(talk: Talk) -> Said:
    seqnos = [{"vbucket": VB + number, "seqno": 3} for number in range(3)]
    talk.ask("get_all_vb_seqnos", {"seqnos": seqnos})
    for number in range(3):
        talk.stream(VB + number, 3, uuid=UUID)
    asked = talk.stream(VB + 4)
    talk.snapshot(VB + 4, 0, 3)
    return asked


@plant("a client reads a vbucket from 0 again and again", "reconnect-loop")
def _(talk: Talk) -> Said:
    for _ in range(5 + talk.dice.below(4)):
        asked = talk.stream(VB)
        talk.marker(VB, 0, 9)
        talk.mutation(VB, 4)
        talk.ask("dcp_close_stream", vbucket=VB)
    return asked


@plant("a client closes a stream and asks again for what it has", "read-again")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    start, last = 4, 5 + talk.dice.below(50)
    talk.marker(VB, 0, last)
    for seqno in (start, last):
        talk.mutation(VB, seqno)
    talk.ask("dcp_close_stream", vbucket=VB)
    asked = talk.stream(VB, start, uuid=UUID)
    talk.marker(VB, start + 1, last)
    talk.mutation(VB, last)
    return asked


@plant("the end is reached, and no stream end comes", "stream-end-missing")
def _(talk: Talk) -> Said:
    talk.stream(VB, 0, 4)
    talk.stream(VB + 1)
    last = talk.snapshot(VB, 0, 4)
    talk.wait(3)
    talk.snapshot(VB + 1, 0, 4)
    return last


@plant("a client closes before its finite streams have ended", "closed-before-stream-end")
def _(talk: Talk) -> Said:
    asked = talk.stream(VB, 0, 100)
    talk.marker(VB, 0, 100)
    talk.mutation(VB, 20 + talk.dice.below(9))
    talk.close()
    return asked


@plant("an event after the end of its stream", "message-after-stream-end")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.snapshot(VB, 0, 3)
    talk.end(VB, "too-slow")
    stray = talk.mutation(VB, 4)
    talk.stream(VB, 3, uuid=UUID)
    return stray


@plant("a server keeps the last change for itself", "server-owes-seqno")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    last = talk.snapshot(VB, 0, 4)
    for _ in range(2):
        talk.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": VB, "seqno": 5}]}, state="active")
        talk.wait(3)
    talk.ask("get_all_vb_seqnos", {"seqnos": [{"vbucket": VB, "seqno": 5}]}, state="active")
    return last


@plant("a client resumes above what it has received", "resume-skipped")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.snapshot(VB, 0, 4)
    talk.end(VB, "disconnected")
    return talk.stream(VB, 6 + talk.dice.below(9), uuid=UUID)


@plant("a server accepts a uuid that its log does not have", "wrong-rollback")
def _(talk: Talk) -> Said:
    return talk.stream(VB, 6 + talk.dice.below(9), uuid=0xBAD)


@plant(
    "a client resumes inside an OSO snapshot",
    "oso-resume-point",
    enable_out_of_order_snapshots="true",
)
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.of(VB, "dcp_oso_snapshot", flags=["start"])
    for seqno in (9, 3, 7):
        talk.mutation(VB, seqno)
    talk.end(VB, "disconnected")
    return talk.stream(VB, 9, uuid=UUID)


@plant("a state is set that nobody takes over", "takeover-sequence")
def _(talk: Talk) -> Said:
    asked = talk.stream(VB)
    state = talk.of(VB, "dcp_set_vbucket_state", state="active")
    talk.say(True, "dcp_set_vbucket_state", "response", opaque=asked.parts["opaque"], status=0)
    return state


@plant("nothing is ever persisted", "never-persisted")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.snapshot(VB, 0, 4)
    said = []
    for _ in range(3):
        told = {
            "observed_vbucket": VB,
            "vbucket_uuid": UUID,
            "last_persisted_seqno": 0,
            "current_seqno": 4,
        }
        said.append(talk.ask("observe_seqno", told, vbucket=VB, vbucket_uuid=UUID)[1])
        talk.wait(3)
    talk.failover_log(VB)
    return said[0]


@plant("a stream falls back to disk", "slow-stream")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.snapshot(VB, 0, 4)
    marker = talk.marker(VB, 5, 9, "disk", "checkpoint")
    talk.mutation(VB, 9)
    return marker


@plant("vbuckets that nobody asks for", "vbuckets-not-requested")
def _(talk: Talk) -> Said:
    listed = talk.ask(
        "get_all_vb_seqnos",
        {"seqnos": [{"vbucket": vb, "seqno": 0} for vb in range(VB, VB + 9)]},
        state="active",
    )[1]
    talk.stream(VB)
    talk.wait(3)
    talk.failover_log(VB)
    return listed
