"""What servers do since 8.5 is nobody's fault: SeqnoAdvanced in the middle of a backfill, documents
of a cache transfer that come twice.
"""

from __future__ import annotations

from dcpinspect.findings.registry import ORDINARY
from tests.findings.checked import checked
from tests.streams.told import Told, opened, packets, tables

ENDLESS = 2**64 - 1


def told(talk: Told) -> list[str]:
    """The rules that speak of a conversation that goes on for a while."""
    talk.wait(3)
    checker, engine = checked(packets(talk), (), ORDINARY)
    return [finding.rule for finding in checker.findings(engine.links, engine.coverage)]


def filtered_backfill() -> Told:
    talk = opened()
    stream = talk.stream(7, value={"collections": ["8"]})
    stream.snapshot(0, 40_000, "disk")
    stream.mutation(5, "a", collection=8)
    stream.seqno_advanced(10_005)
    stream.mutation(10_006, "b", collection=8)
    for seqno in (20_006, 30_006, 40_000):
        stream.seqno_advanced(seqno)
    stream.snapshot(40_001, 40_001, "memory")
    stream.mutation(40_001, "c", collection=8)
    return talk


def test_a_filtered_backfill_may_say_how_far_it_is_every_ten_thousand_items() -> None:
    assert told(filtered_backfill()) == []


def test_what_such_a_backfill_leaves_out_is_explained_by_each_seqno_advanced() -> None:
    causes = [(gap["after_seqno"], gap["cause"]) for gap in tables(filtered_backfill()).gaps]
    assert [after for after, cause in causes if cause == "seqno-advanced"] == [
        5,
        10_006,
        20_006,
        30_006,
    ]


def test_a_cache_transfer_may_send_a_document_twice() -> None:
    talk = opened()
    stream = talk.stream(7, start=20, uuid=0xD0C5_0000_0000_0001, flags=("cache-transfer",))
    for seqnos in ((3, 9), (9, 12)):
        stream.cache_transfer(
            [
                {"cas": 5, "by_seqno": seqno, "rev_seqno": 1, "key": f"k{seqno}", "value": b"{}"}
                for seqno in seqnos
            ]
        )
    stream.cache_transfer_end()
    stream.snapshot(20, 21, "memory")
    stream.mutation(21, "x")
    assert told(talk) == []


def test_a_backfill_that_fails_may_take_the_connection_with_it() -> None:
    talk = opened()
    stream, other = talk.stream(7), talk.stream(8)
    other.snapshot(0, 1, "memory")
    other.mutation(1, "x")
    stream.snapshot(0, 9, "disk")
    stream.mutation(1, "a")
    stream.end("backfill-failed")
    talk.close("server")
    checker, engine = checked(packets(talk), (), ORDINARY)
    found = [
        (one.rule, one.whose)
        for one in checker.findings(engine.links, engine.coverage)
        if one.severity != "note"
    ]
    assert found == [("stream-end-reason", "server")]
