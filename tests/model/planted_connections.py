"""Faults planted into what connections agree on, into flow control and noops, and into the layout
of messages.
"""

from __future__ import annotations

from typing import Any

from dcpinspect.protocol.header import HEADER_SIZE
from tests.encode import encode, encode_parts
from tests.model.plants import EACCESS, EINVAL, ERANGE, ETMPFAIL, LOG, VB, Plants
from tests.model.producer import CAS
from tests.model.talk import UUID, Talk
from tests.model.tape import Said

PLANTS = Plants()
plant, bare = PLANTS.opened, PLANTS.bare

# -- what was agreed on
# --------------------------------------------------------------------------------------------------


@bare("a setting before the open", "dcp-before-open")
def _(talk: Talk) -> Said:
    talk.hello(("JSON", "Collections"))
    early = talk.ask("dcp_control", {"status": EINVAL}, key="enable_noop", value="true")[0]
    talk.ask("dcp_open", key=talk.name, flags=["producer"])
    talk.stream(VB)
    return early


@plant("a second open", "open-twice")
def _(talk: Talk) -> Said:
    return talk.ask("dcp_open", {"status": EINVAL}, key="again:1", flags=["producer"])[0]


@bare("an open is refused", "open-refused")
def _(talk: Talk) -> Said:
    talk.hello(("JSON",))
    asked = talk.ask("dcp_open", {"status": EACCESS}, key=talk.name, flags=["producer"])[0]
    talk.close()
    return asked


@bare("an open is not answered", "missing-response")
def _(talk: Talk) -> Said:
    talk.hello(("JSON",))
    asked = talk.say(True, "dcp_open", opaque=9, key=talk.name, flags=["producer"])
    talk.wait(2.5)
    talk.close("server")
    return asked


@plant("two connections have one name", "name-clash")
def _(talk: Talk) -> Said:
    first = talk.number
    talk.stream(VB)
    talk.snapshot(VB, 0, 3)
    talk.connect()
    talk.hello(("JSON", "Collections"))
    asked = talk.ask("dcp_open", key=talk.name, flags=["producer"])[0]
    talk.close("server", number=first)
    talk.stream(VB, 3, uuid=UUID)
    return asked


@plant("a request is not answered", "missing-response")
def _(talk: Talk) -> Said:
    asked = talk.say(True, "dcp_get_failover_log", opaque=9, vbucket=VB)
    talk.wait(30)
    talk.failover_log(VB)
    return asked


@plant("a stream request is not answered", "missing-response")
def _(talk: Talk) -> Said:
    asked = talk.request(VB)
    talk.wait(30)
    talk.failover_log(VB)
    return asked


@plant("an answer that nobody asked for", "unmatched-response")
def _(talk: Talk) -> Said:
    talk.failover_log(VB)
    return talk.say(
        False, "dcp_get_failover_log", "response", opaque=0xBAD, status=0, log=[(UUID, 0)]
    )


@plant("an event is answered", "unexpected-reply")
def _(talk: Talk) -> Said:
    asked = talk.stream(VB)
    talk.snapshot(VB, 0, 3)
    reply = talk.say(True, "dcp_mutation", "response", opaque=asked.parts["opaque"], status=0)
    talk.failover_log(VB)
    return reply


@plant("a marker is answered that does not ask for it", "unexpected-reply")
def _(talk: Talk) -> Said:
    asked = talk.stream(VB)
    talk.snapshot(VB, 0, 3)
    reply = talk.say(
        True, "dcp_snapshot_marker", "response", opaque=asked.parts["opaque"], status=0
    )
    talk.failover_log(VB)
    return reply


@plant("an event is refused", "consumer-refused")
def _(talk: Talk) -> Said:
    asked = talk.stream(VB)
    talk.snapshot(VB, 0, 3)
    status = (EINVAL, ERANGE, ETMPFAIL)[talk.dice.below(3)]
    reply = talk.say(True, "dcp_mutation", "response", opaque=asked.parts["opaque"], status=status)
    if talk.dice.chance(50):
        talk.close("server")
    return reply


@plant("a marker is refused", "consumer-refused")
def _(talk: Talk) -> Said:
    asked = talk.stream(VB)
    talk.marker(VB, 0, 3, "memory", *(["ack"] if talk.dice.chance(50) else []))
    return talk.say(
        True, "dcp_snapshot_marker", "response", opaque=asked.parts["opaque"], status=EINVAL
    )


@plant("a setting is refused", "control-rejected")
def _(talk: Talk) -> Said:
    return talk.ask("dcp_control", {"status": EINVAL}, key="enable_noop", value="perhaps")[0]


@plant("a setting that nobody knows", "control-unknown-key")
def _(talk: Talk) -> Said:
    return talk.ask("dcp_control", key="enable_magic", value="true")[0]


@plant("a status of version 7", "status-v7")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.snapshot(VB, 0, 3)
    return talk.ask("dcp_close_stream", {"status": 0x0A}, vbucket=VB + 1)[1]


@bare("an open where answers may overtake each other", "unordered-with-dcp")
def _(talk: Talk) -> Said:
    talk.hello(("JSON", "UnorderedExecution"))
    return talk.ask("dcp_open", key=talk.name, flags=["producer"])[0]


@bare("a password in clear", "credentials-in-clear")
def _(talk: Talk) -> Said:
    asked = talk.ask("sasl_auth", key="PLAIN", value="\0reader\0secret")[0]
    talk.open()
    return asked


@plant("a stream-id that was never enabled", "sid-unexpected")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 5)
    stray = 2 + talk.dice.below(4)
    opaque = talk.opaques[VB, 0]
    said = [
        talk.mutation(VB, seqno, sid=3 if seqno == stray else 0, opaque=opaque)
        for seqno in range(1, 6)
    ]
    talk.end(VB, "disconnected")
    talk.stream(VB, 5, uuid=UUID)
    return said[stray - 1]


@plant("a stream-id is left out", "sid-missing", enable_stream_id="true")
def _(talk: Talk) -> Said:
    talk.stream(VB, value='{"sid":3}', sid=3)
    talk.opaques[VB, 0] = talk.opaques[VB, 3]
    talk.marker(VB, 0, 5, sid=3)
    stray = 2 + talk.dice.below(4)
    said = [talk.mutation(VB, seqno, sid=0 if seqno == stray else 3) for seqno in range(1, 6)]
    talk.end(VB, "disconnected", sid=3)
    talk.stream(VB, 5, uuid=UUID, value='{"sid":3}', sid=3)
    return said[stray - 1]


@plant("a marker of a later version", "marker-version-not-negotiated")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    parts: dict[str, Any] = {
        "max_visible_seqno": 0,
        "high_completed_seqno": 0,
        "high_prepared_seqno": 0,
        "purge_seqno": 0,
    }
    marker = talk.marker(VB, 0, 3, "disk", "checkpoint", generation="v2.2", **parts)
    talk.mutation(VB, 3)
    return marker


@plant("an OSO snapshot that nobody wanted", "oso-not-negotiated")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    begins = talk.of(VB, "dcp_oso_snapshot", flags=["start"])
    for seqno in (3, 1, 2):
        talk.mutation(VB, seqno)
    talk.of(VB, "dcp_oso_snapshot", flags=["end"])
    return begins


@bare("SeqnoAdvanced without collections", "seqno-advanced-without-collections")
def _(talk: Talk) -> Said:
    talk.open(features=("JSON",))
    talk.stream(VB)
    talk.marker(VB, 0, 5)
    talk.mutation(VB, 3)
    return talk.of(VB, "dcp_seqno_advanced", by_seqno=5)


@plant("an expiration that was not requested", "expiry-not-negotiated")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 2)
    said = talk.mutation(VB, 1, name="dcp_expiration", generation="v2", delete_time=1_712_000_000)
    talk.mutation(VB, 2)
    return said


@plant("a deletion with a time that was not requested", "delete-times-mismatch")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 2)
    said = talk.mutation(VB, 1, name="dcp_deletion", generation="v2", delete_time=1_712_000_000)
    talk.mutation(VB, 2)
    return said


@plant("a prepare that was not requested", "prepare-not-negotiated")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 2)
    said = talk.mutation(
        VB, 1, name="dcp_prepare", value="{}", datatype=1, deleted=0, durability_level="majority"
    )
    talk.mutation(VB, 2)
    return said


@plant("a producer asks for a stream", "role-violation")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.snapshot(VB, 0, 3)
    parts: dict[str, Any] = {
        "start_seqno": 0,
        "end_seqno": 9,
        "vbucket_uuid": 0,
        "snapshot_start_seqno": 0,
        "snapshot_end_seqno": 0,
    }
    return talk.say(False, "dcp_stream_req", opaque=0x77, vbucket=VB + 1, flags=[], **parts)


@plant("a producer sets something", "role-violation")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    said = talk.say(False, "dcp_control", opaque=0x77, key="connection_buffer_size", value="9")
    talk.say(True, "dcp_control", "response", opaque=0x77, status=0)
    talk.snapshot(VB, 0, 30)
    return said


@plant("a consumer sends an event", "role-violation")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.snapshot(VB, 0, 3)
    parts: dict[str, Any] = {
        "opaque": talk.opaques[VB, 0],
        "by_seqno": 4,
        "rev_seqno": 1,
        "cas": CAS,
        "key": "k",
        "collection": 0,
        "generation": "v1",
    }
    return talk.say(True, "dcp_mutation", vbucket=VB, **parts)


# -- flow control
# --------------------------------------------------------------------------------------------------


def _stream(talk: Talk, count: int, **parts: Any) -> list[Said]:
    talk.stream(VB)
    talk.marker(VB, 0, 1 << 20)
    return [talk.mutation(VB, seqno, **parts) for seqno in range(1, count + 1)]


@plant(
    "a window is full, and nobody acknowledges", "flow-control-stall", connection_buffer_size="500"
)
def _(talk: Talk) -> Said:
    said = _stream(talk, 9)
    sizes = [24 + 20] + [len(one.data) for one in said]
    assert sum(sizes) > 500
    kept = 0
    while sum(sizes[: kept + 1]) < 500:
        kept += 1
    talk.entries = [entry for entry in talk.entries if entry not in said[kept:]]
    talk.wait(9)
    talk.failover_log(VB)
    return said[kept - 1]


@plant("a producer goes on past the window", "flow-control-overrun", connection_buffer_size="500")
def _(talk: Talk) -> Said | None:
    talk.stream(VB)
    talk.marker(VB, 0, 1 << 20)
    for seqno in range(1, 40):
        talk.mutation(VB, seqno)
        talk.wait(0.02)
    talk.acknowledge(500)
    talk.failover_log(VB)
    return None


@plant(
    "a client acknowledges more than it got", "over-acknowledged", connection_buffer_size="50000"
)
def _(talk: Talk) -> Said:
    sizes = sum(len(one.data) for one in _stream(talk, 9)) + 44
    acks = [talk.acknowledge(sizes // 2), talk.acknowledge(sizes + talk.dice.below(300))]
    talk.wait(1)  # longer than any answer took: what was acknowledged is not under way
    talk.failover_log(VB)
    return acks[1]


@plant(
    "a client does not count some bytes of each message",
    "under-acknowledged",
    connection_buffer_size="50000",
)
def _(talk: Talk) -> Said:
    talk.stream(VB)
    acks = []
    seqno = 1
    marker = talk.marker(VB, 0, 1 << 20)
    uncounted = len(marker.data) - 24
    for _ in range(6):
        for _ in range(3 + talk.dice.below(5)):
            uncounted += len(talk.mutation(VB, seqno).data) - 24
            seqno += 1
        acks.append(talk.acknowledge(uncounted))
        uncounted = 0
    talk.failover_log(VB)
    return acks[0]


@plant("a client acknowledges without a window", "ack-without-window")
def _(talk: Talk) -> Said:
    _stream(talk, 9)
    return talk.acknowledge(90)


# -- noops
# --------------------------------------------------------------------------------------------------

_NOOPS = {"enable_noop": "true", "set_noop_interval": "20"}


@plant("a noop is not answered", "noop-unanswered", **_NOOPS)
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.noop(0x10, 0x10)
    (noop,) = talk.noop(0x11)
    for _ in range(3):
        talk.wait(3)
        talk.failover_log(VB)
    return noop


@plant("a noop is not answered until the server closes", "noop-unanswered", **_NOOPS)
def _(talk: Talk) -> Said:
    talk.stream(VB)
    (noop,) = talk.noop(0x11)
    talk.wait(9)
    talk.close("server")
    return noop


@plant("a noop is sent before the last is answered", "noop-overlap", **_NOOPS)
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.noop(0x10)
    talk.wait(1)
    (second,) = talk.noop(0x11)
    talk.wait(0.5)
    talk.failover_log(VB)
    for opaque in (0x10, 0x11):
        talk.say(True, "dcp_noop", "response", opaque=opaque, status=0)
    talk.failover_log(VB)
    return second


@plant(
    "a noop is answered with the bytes of its opaque the other way round", "noop-opaque", **_NOOPS
)
def _(talk: Talk) -> Said:
    talk.stream(VB)
    answer = talk.noop(0x81969800, 0x00989681)[1]
    if talk.dice.chance(50):
        talk.wait(9)
        talk.close("server")
    return answer


@plant("nothing comes any more, not even a noop", "silent-connection", **_NOOPS)
def _(talk: Talk) -> Said | None:
    talk.stream(VB)
    talk.noop(0x10, 0x10)
    last = talk.snapshot(VB, 0, 3)
    talk.wait(60)
    talk.acknowledge(0)
    return last


# -- the layout of messages
# --------------------------------------------------------------------------------------------------


def _put(said: Said, at: int, value: bytes) -> Said:
    said.data = said.data[:at] + value + said.data[at + len(value) :]
    return said


def _last(talk: Talk, *, count: int = 5) -> Said:
    """The last event of a snapshot."""
    talk.stream(VB)
    return talk.snapshot(VB, 0, count)


@plant("bytes that begin no message", "bad-magic")
def _(talk: Talk) -> None:
    _last(talk)
    talk.raw(False, bytes([0x42]) * (1 + talk.dice.below(60)))
    for opaque in range(5):
        talk.failover_log(VB + opaque)


@plant("a command that nobody knows", "unknown-opcode")
def _(talk: Talk) -> Said:
    _last(talk)
    return talk.raw(False, encode_parts(0x80, 0x7A + talk.dice.below(3), opaque=9))


@plant("a datatype with bits that mean nothing", "undefined-datatype")
def _(talk: Talk) -> Said:
    return _put(_last(talk), 5, bytes([0x01 | 8 << talk.dice.below(5)]))


@plant("key and extras are longer than the message", "length-mismatch")
def _(talk: Talk) -> Said:
    said = talk.say(True, "dcp_get_failover_log", opaque=9, vbucket=VB)
    _put(said, 2, b"\0\x09")
    talk.say(False, "dcp_get_failover_log", "response", opaque=9, status=EINVAL)
    return said


@plant("an acknowledgement with extras too long", "extras-length", connection_buffer_size="5000")
def _(talk: Talk) -> Said:
    _last(talk)
    said = talk.raw(True, encode_parts(0x80, 0x5D, extras=bytes(5)))
    talk.failover_log(VB)
    return said


@plant("an event with extras too short", "extras-length")
def _(talk: Talk) -> Said:
    asked = talk.stream(VB)
    talk.marker(VB, 0, 3)
    said = talk.raw(
        False,
        encode_parts(
            0x80,
            0x57,
            extras=bytes(25),
            key=b"\0k",
            specific=VB,
            opaque=asked.parts["opaque"],
            cas=9,
        ),
    )
    talk.mutation(VB, 2)
    talk.mutation(VB, 3)
    return said


@plant("a stream end with a value", "unexpected-section")
def _(talk: Talk) -> Said:
    _last(talk)
    said = talk.end(VB, "disconnected")
    said.data = encode(
        "dcp_stream_end",
        end_reason="disconnected",
        vbucket=VB,
        opaque=said.parts["opaque"],
        value=b"x",
    )
    talk.stream(VB, 5, uuid=UUID)
    return said


@plant("framing extras that run over", "bad-framing-extras")
def _(talk: Talk) -> Said:
    asked = talk.stream(VB)
    talk.marker(VB, 0, 3)
    extras = (1).to_bytes(8, "big") + (1).to_bytes(8, "big") + bytes(15)
    said = talk.raw(
        False,
        encode_parts(
            0x08,
            0x57,
            framing=b"\x25",
            extras=extras,
            key=b"\0k",
            specific=VB,
            opaque=asked.parts["opaque"],
            cas=CAS,
        ),
    )
    talk.mutation(VB, 2)
    talk.mutation(VB, 3)
    return said


@plant("a lock time that events do not have", "reserved-nonzero")
def _(talk: Talk) -> Said:
    return _put(_last(talk), HEADER_SIZE + 24, (1 + talk.dice.below(99)).to_bytes(4, "big"))


@plant("flags of a request that mean nothing", "unknown-flag-bits")
def _(talk: Talk) -> Said:
    asked = talk.request(VB)
    _put(asked, HEADER_SIZE, (1 << (12 + talk.dice.below(19))).to_bytes(4, "big"))
    talk.answer(asked, EINVAL)
    return asked


@plant("a marker of memory and disk at once", "flag-combination")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    marker = talk.marker(VB, 0, 3, "memory", "disk")
    talk.mutation(VB, 3)
    return marker


@plant("a marker whose value is too short", "marker-value-length", max_marker_version="2.2")
def _(talk: Talk) -> Said:
    asked = talk.stream(VB)
    said = talk.raw(
        False,
        encode_parts(
            0x80, 0x56, extras=b"\x02", value=bytes(50), specific=VB, opaque=asked.parts["opaque"]
        ),
    )
    for seqno in (1, 2):
        talk.mutation(VB, seqno)
    talk.marker(VB, 3, 5, "memory", "checkpoint")
    talk.mutation(VB, 5)
    return said


@plant("a failover log that is cut", "failover-log-size")
def _(talk: Talk) -> Said:
    asked, answer = talk.failover_log(VB)
    answer.data = encode(
        "dcp_get_failover_log",
        "response",
        opaque=asked.parts["opaque"],
        value=bytes(1 + talk.dice.below(15)),
    )
    return answer


@plant("a failover log the wrong way round", "failover-log-order")
def _(talk: Talk) -> Said:
    return talk.failover_log(VB, LOG[::-1])[1]


@plant("a key without a collection", "bad-collection-prefix")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 3)
    said = talk.mutation(VB, 2, collection=None)
    said.data = encode("dcp_mutation", **(said.parts | {"key": b"\x80\x00k", "collection": None}))
    talk.mutation(VB, 3)
    return said


@plant("a value that does not decompress", "bad-snappy")
def _(talk: Talk) -> Said:
    return _put(_last(talk), 5, b"\x02")


@plant("a value that is no JSON", "json-bit-not-json")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 3)
    said = talk.mutation(VB, 2, value='{"n":')
    talk.mutation(VB, 3)
    return said


@plant("xattrs that run over", "bad-xattr-section")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 3)
    said = talk.mutation(VB, 2, value=b"\0\0\1\0abc", datatype=4)
    talk.mutation(VB, 3)
    return said


@plant("a deletion with a body", "deletion-with-body")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 3)
    said = talk.mutation(VB, 2, name="dcp_deletion", generation="v1", value=b"left over")
    talk.mutation(VB, 3)
    return said


@plant("an event without CAS", "cas-zero")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 3)
    said = talk.mutation(VB, 2, cas=0)
    talk.mutation(VB, 3)
    return said


@plant("a seqno that cannot be", "seqno-huge")
def _(talk: Talk) -> Said:
    talk.stream(VB)
    talk.marker(VB, 0, 1 << 60)
    talk.mutation(VB, 2)
    return talk.mutation(VB, (1 << 49) + talk.dice.below(1 << 20), cas=CAS + (9 << 16))


@plant("a state that is none", "vbucket-state-value")
def _(talk: Talk) -> Said:
    asked = talk.stream(VB, flags=("takeover",))
    talk.snapshot(VB, 0, 3)
    state = talk.of(VB, "dcp_set_vbucket_state", state=5 + talk.dice.below(200))
    talk.say(True, "dcp_set_vbucket_state", "response", opaque=asked.parts["opaque"], status=EINVAL)
    return state


@plant("a system event that is cut", "system-event-length")
def _(talk: Talk) -> Said:
    asked = talk.stream(VB)
    talk.marker(VB, 0, 3)
    extras = (1).to_bytes(8, "big") + (0).to_bytes(4, "big") + b"\0"
    said = talk.raw(
        False,
        encode_parts(
            0x80,
            0x5F,
            extras=extras,
            key=b"beers",
            value=bytes(9),
            specific=VB,
            opaque=asked.parts["opaque"],
        ),
    )
    talk.mutation(VB, 3)
    return said


@plant("a connection is closed with a stream open", "connection-closed")
def _(talk: Talk) -> Said:
    last = _last(talk)
    talk.close("server", reset=talk.dice.chance(50))
    return last
