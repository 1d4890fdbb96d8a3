"""Connections of the first generation, UPR: their numbers mean what its specification says, and
nobody is accused of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dcpinspect.kernels.kernel import Kernel
from dcpinspect.output.export.json import dump, message_object
from dcpinspect.output.export.json_programs import JsonRows
from dcpinspect.output.render.message_lines import summary
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.reading.engine import Engine
from dcpinspect.tables.arrow import record_batch
from dcpinspect.tables.messages import MessageBatch
from tests.damage import PORT, batches
from tests.encode import encode
from tests.findings.checked import told
from tests.peers.script import Stream, failover_entries
from tests.streams.told import Told, opened, packets, tables


def upr(vbucket: int = 7, *, request: str = "upr") -> tuple[Told, Stream]:
    """A connection that begins as the UPR transport specification has it, and its stream."""
    talk = Told("ebucketmigrator")
    talk.open("bucketstream vb[7]", "producer")
    return talk, asked(talk, vbucket, request=request)


def asked(talk: Told, vbucket: int, *, request: str = "upr", start: int = 0) -> Stream:
    opaque = talk.opaque()
    talk.send(
        "client",
        encode(
            "dcp_stream_req",
            generation=request,
            vbucket=vbucket,
            opaque=opaque,
            start_seqno=start,
            end_seqno=ENDLESS,
        ),
    )
    talk.answer("dcp_stream_req", opaque, **failover_entries([(1, 0)]))
    return Stream(talk, vbucket, opaque)


def told_items(stream: Stream) -> None:
    stream.send("dcp_snapshot_marker", generation="upr")
    stream.send("dcp_mutation", generation="upr", key=b"hello", value=b"world", by_seqno=4, cas=1)


def read(*talks: Told, sizes: tuple[int, ...] = ()) -> list[MessageBatch]:
    engine = Engine(["told.pcap"], ports=(PORT,))
    made = [*(engine.feed(part) for part in batches(packets(*talks), list(sizes))), engine.finish()]
    return [batch for batch in made if batch is not None]


def said(
    talk: Told, opcode: int, name: str, *, sizes: tuple[int, ...] = ()
) -> list[tuple[int, str | None, object, object]]:
    """(coded value, meaning, the word in JSON, the word in the table) of a field, of every message
    that has it.
    """
    found = []
    for batch in read(talk, sizes=sizes):
        column = record_batch(batch, np.arange(len(batch)), [name]).column(0).to_pylist()
        for row in np.flatnonzero(
            (batch.decoded.opcode == opcode) & ~batch.decoded.is_response
        ).tolist():
            field = batch.annotate(row).field(name)
            assert field is not None
            assert isinstance(field.value, int)
            found.append(
                (field.value, field.meaning, message_object(batch, row)[name], column[row])
            )
    return found


FIRST = (1, "state-changed, as servers before 3.0 number it", "state-changed", "state-changed")
LATER = (1, "closed", "closed", "closed")
BOTH = (1, "closed; from a server before 3.0: state-changed", "closed", "closed")


@pytest.mark.parametrize("sizes", [(), (1,), (3, 2)])
def test_a_stream_end_of_1_is_state_changed(sizes: tuple[int, ...]) -> None:
    talk, stream = upr()
    told_items(stream)
    stream.send("dcp_stream_end", end_reason=1)
    assert said(talk, 0x55, "end_reason", sizes=sizes) == [FIRST]
    assert [record["end_reason"] for record in tables(talk, sizes=sizes).streams] == [
        "state-changed"
    ]


def test_a_stream_end_of_1_is_a_note_that_the_state_changed() -> None:
    talk, stream = upr()
    told_items(stream)
    stream.send("dcp_stream_end", end_reason=1)
    found = told(talk)
    assert ("note", "stream-end-reason", "state-changed") in found
    assert [one for one in found if one[0] != "note"] == []


@pytest.mark.parametrize(("is_closed", "accused"), [(False, ["orphaned-vbucket"]), (True, [])])
def test_a_client_that_had_asked_to_close_the_stream_owes_no_other(
    is_closed: bool, accused: list[str]
) -> None:
    talk, stream = upr()
    other = asked(talk, 8)
    for one in (stream, other):
        told_items(one)
    if is_closed:
        talk.send("client", encode("dcp_close_stream", vbucket=7, opaque=99))
    stream.send("dcp_stream_end", end_reason=1)
    if is_closed:
        talk.answer("dcp_close_stream", 99)
    other.send("dcp_stream_end", end_reason=1)
    talk.wait(0.5)
    again = asked(talk, 8, start=4)
    talk.wait(10)
    again.send("dcp_snapshot_marker", generation="upr")
    assert [rule for severity, rule, _ in told(talk) if severity != "note"] == accused


def test_vbucket_states_are_numbered_as_the_page_has_them() -> None:
    talk, stream = upr()
    for state in (1, 2, 3, 4):
        stream.send("dcp_set_vbucket_state", state=state)
    note = ", as servers before 3.0 number it"
    assert said(talk, 0x5B, "state") == [
        (1, "active", "active", "active"),
        (2, f"pending{note}", "pending", "pending"),
        (3, f"replica{note}", "replica", "replica"),
        (4, "dead", "dead", "dead"),
    ]


EVIDENCE: dict[str, Callable[[Stream], None]] = {
    "a marker without extras": lambda stream: stream.send("dcp_snapshot_marker", generation="upr"),
    "a mutation of 30 bytes": lambda stream: stream.send(
        "dcp_mutation", generation="upr", key=b"k", by_seqno=4
    ),
}


@pytest.mark.parametrize("name", EVIDENCE)
def test_each_layout_of_the_first_generation_shows_it(name: str) -> None:
    talk = Told("ebucketmigrator")
    stream = Stream(talk, 7, 1)
    EVIDENCE[name](stream)
    stream.send("dcp_stream_end", end_reason=1)
    assert said(talk, 0x55, "end_reason") == [FIRST]


def test_a_rollback_in_the_extras_shows_it() -> None:
    talk = Told("ebucketmigrator")
    talk.send(
        "server", encode("dcp_stream_req", "response", generation="upr", status=0x23, opaque=9)
    )
    Stream(talk, 7, 1).send("dcp_stream_end", end_reason=1)
    assert said(talk, 0x55, "end_reason") == [FIRST]


NEWER: dict[str, Callable[[Told, Stream], object]] = {
    "HELLO": lambda talk, _: talk.hello("x", "JSON"),
    "a control": lambda talk, _: talk.control("enable_noop", "true"),
    "a noop": lambda talk, _: talk.noop(),
    "flow control": lambda talk, _: talk.acknowledge(),
    "a stream request of 48 bytes": lambda talk, _: asked(talk, 8, request="v1"),
    "a mutation of 31 bytes": lambda _, stream: stream.mutation(5, "k"),
    "a deletion of 21 bytes": lambda _, stream: stream.send(
        "dcp_deletion", generation="v2", key=b"k", by_seqno=5
    ),
    "an expiration of 20 bytes": lambda _, stream: stream.send(
        "dcp_expiration", generation="v2", key=b"k", by_seqno=5
    ),
    "a v2 marker": lambda _, stream: stream.snapshot(0, 9, "memory", version="v2.0"),
    "a marker whose type is bits": lambda _, stream: stream.snapshot(0, 9, "memory", "checkpoint"),
    "a stream end above 1": lambda _, stream: stream.send("dcp_stream_end", end_reason=4),
    "an open flag above 1": lambda talk, _: talk.open("again", "producer", "include-xattrs"),
    "a seqno advanced": lambda _, stream: stream.send("dcp_seqno_advanced", by_seqno=9),
}


@pytest.mark.parametrize("name", NEWER)
def test_what_the_first_generation_lacks_makes_the_connection_a_later_one(name: str) -> None:
    talk, stream = upr()
    told_items(stream)
    NEWER[name](talk, stream)
    stream.send("dcp_stream_end", end_reason=1)
    assert said(talk, 0x55, "end_reason")[-1] == LATER


def test_a_connection_stays_a_later_one() -> None:
    talk, stream = upr(request="v1")
    told_items(stream)
    stream.send("dcp_stream_end", end_reason=1)
    assert said(talk, 0x55, "end_reason") == [LATER]


NEUTRAL: dict[str, Callable[[Stream], None]] = {
    "a marker with a number for its type, as the second page has it": lambda stream: (
        stream.snapshot(0, 9, "memory")
    ),
    "a deletion of 18 bytes": lambda stream: stream.send(
        "dcp_deletion", generation="v1", key=b"k", by_seqno=5
    ),
    "an expiration of 18 bytes": lambda stream: stream.send(
        "dcp_expiration", generation="v1", key=b"k", by_seqno=6
    ),
}


@pytest.mark.parametrize("name", NEUTRAL)
def test_what_both_have_changes_nothing(name: str) -> None:
    talk, stream = upr()
    NEUTRAL[name](stream)
    stream.send("dcp_stream_end", end_reason=1)
    assert said(talk, 0x55, "end_reason") == [FIRST]


def test_what_only_the_lost_messages_had_shown_is_not_known_and_both_readings_are_told() -> None:
    talk = Told("ebucketmigrator")
    talk.open("bucketstream vb[7]", "producer")
    with talk.lost():
        stream = asked(talk, 7)
    stream.send("dcp_stream_end", end_reason=1)
    assert said(talk, 0x55, "end_reason") == [BOTH]


def test_another_connection_is_not_meant() -> None:
    old, stream = upr()
    stream.send("dcp_stream_end", end_reason=1)
    new = opened(port=50_001)
    new.stream(7).end("closed")
    ends = [record["end_reason"] for record in tables(old, new).streams]
    assert ends == ["state-changed", "closed"]


def test_json_of_many_and_lines_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "is_compiled", True)
    talk, stream = upr()
    stream.send("dcp_stream_end", end_reason=1)
    stream.send("dcp_set_vbucket_state", state=2)
    stream.mutation(5, "k")
    stream.send("dcp_stream_end", end_reason=1)
    stream.send("dcp_set_vbucket_state", state=2)
    (batch,) = read(talk)
    rows = np.arange(len(batch))
    fast = b"".join(
        JsonRows(fields=True, values="full", after=b"\n").pieces(batch, rows)
    ).splitlines()
    assert fast == [dump(message_object(batch, row, fields=True)) for row in rows.tolist()]
    lines = [
        summary(batch, row) for row in rows.tolist() if batch.decoded.opcode[row] in (0x55, 0x5B)
    ]
    assert lines == ["state-changed", "pending", "closed", "replica"]
