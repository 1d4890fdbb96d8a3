"""Streams of one history that contradict each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.cli.main import main
from dcpinspect.findings.finding import Finding
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from dcpinspect.streams import events
from tests.captures import field
from tests.doubled import packets_of, tcp_of, written
from tests.findings.checked import findings
from tests.peers.script import Stream
from tests.streams.told import Told, capture, opened

A, B, C = 0xA1, 0xB2, 0xC3
LOG = ((A, 0),)


def found(*talks: Told, **options: Any) -> list[Finding]:
    return findings(*talks, rules=["diverging-history"], **options)


def two(
    *flags: str, other_flags: tuple[str, ...] | None = None, **request: Any
) -> tuple[tuple[Told, Stream], tuple[Told, Stream]]:
    """Two clients with a stream each of vbucket 7, of the same branch."""
    one, other = (
        opened("one:1", *flags),
        opened("two:1", *(flags if other_flags is None else other_flags), port=50_001),
    )
    return (one, one.stream(7, log=LOG)), (other, other.stream(7, **{"log": LOG, **request}))


def changes(
    stream: Stream, *, at: int = 2, change: Callable[[Stream, int], None], end: int = 4
) -> None:
    stream.snapshot(0, end, "memory", "checkpoint")
    for seqno in range(1, end + 1):
        if seqno == at:
            change(stream, seqno)
        else:
            stream.mutation(seqno, f"k{seqno}")


def mutation(
    key: str = "k2", body: Any = b"", *, cas: int = 0x77, **fields: Any
) -> Callable[[Stream, int], None]:
    def change(stream: Stream, seqno: int) -> None:
        collection = 0 if stream.conversation.collections else None
        stream.send(
            "dcp_mutation",
            cas=cas,
            collection=collection,
            key=key,
            value=body,
            by_seqno=seqno,
            rev_seqno=1,
            **fields,
        )

    return change


def deletion(stream: Stream, seqno: int) -> None:
    stream.send(
        "dcp_deletion",
        generation="v1",
        cas=0x77,
        collection=0,
        key="k2",
        by_seqno=seqno,
        rev_seqno=2,
    )


def deletion_with_body(stream: Stream, seqno: int) -> None:
    stream.send(
        "dcp_deletion",
        generation="v1",
        cas=0x77,
        collection=0,
        key="k2",
        value=b"left over",
        by_seqno=seqno,
        rev_seqno=2,
    )


def expiration(stream: Stream, seqno: int) -> None:
    stream.send("dcp_expiration", cas=0x77, collection=0, key="k2", by_seqno=seqno, rev_seqno=2)


def differing(
    mine: Callable[[Stream, int], None], theirs: Callable[[Stream, int], None], **request: Any
) -> tuple[Told, Told]:
    (one, first), (other, second) = two(**request)
    changes(first, change=theirs)
    changes(second, change=mine)
    return one, other


@pytest.mark.parametrize(
    ("mine", "theirs", "cause", "message"),
    [
        (
            mutation(cas=0x99),
            mutation(cas=0x77),
            "cas",
            (
                "a mutation of k2 with CAS 0x0000000000000099 here, a mutation of k2 with CAS "
                "0x0000000000000077"
            ),
        ),
        (
            mutation("other"),
            mutation("k2"),
            "key",
            (
                "a mutation of other with CAS 0x0000000000000077 here, a mutation of k2 with CAS "
                "0x0000000000000077"
            ),
        ),
        (
            deletion,
            mutation(),
            "state",
            (
                "a deletion of k2 with CAS 0x0000000000000077 here, a mutation of k2 with CAS "
                "0x0000000000000077"
            ),
        ),
        (
            mutation(body=b"new"),
            mutation(body=b"old"),
            "value",
            (
                "a mutation of k2 with CAS 0x0000000000000077 here, another value with CAS "
                "0x0000000000000077"
            ),
        ),
    ],
)
@pytest.mark.parametrize("sizes", [(), (3,) * 60])
def test_no_history_has_both(
    mine: Callable[[Stream, int], None],
    theirs: Callable[[Stream, int], None],
    cause: str,
    message: str,
    sizes: tuple[int, ...],
) -> None:
    one, other = differing(mine, theirs)
    (it,) = found(one, other, sizes=sizes)
    assert (it.rule, it.severity, it.cause, it.vbuckets, it.seqnos, it.count) == (
        "diverging-history",
        "error",
        cause,
        (7,),
        (2,),
        1,
    )
    assert it.message == f"seqno 2 is {message} on connection 1"
    assert (it.connection, [place.row for place in it.places]) == (2, [20, 9])
    assert all(
        place.time_ns and place.stream_offset and place.direction == "s2c" for place in it.places
    )


def test_a_client_that_streams_again_is_shown_the_same() -> None:
    before = opened()
    changes(before.stream(7, log=LOG), change=mutation(cas=0x77))
    before.close()
    after = opened("test:2", port=50_001)
    changes(after.stream(7, log=LOG), change=mutation(cas=0x78))
    assert [one.cause for one in found(before, after)] == ["cas"]


@pytest.mark.parametrize("times", [1, 3, 4, 20])
def test_many_of_two_streams_are_one_finding_with_the_first_three_and_the_last(times: int) -> None:
    (one, first), (other, second) = two()
    for stream, cas in ((first, 1), (second, 2)):
        stream.snapshot(0, times, "memory", "checkpoint")
        for seqno in range(1, times + 1):
            mutation(f"k{seqno}", cas=100 * seqno + cas)(stream, seqno)
    for sizes in ((), (4,) * 100):
        (it,) = found(one, other, sizes=sizes)
        assert (it.count, it.cause) == (times, "cas")
        first_row, second_row = 8, 8 + times + 7
        seqnos = {*range(1, times + 1)} & {1, 2, 3, times}
        assert {place.row for place in it.places} == {
            row + seqno - 1 for row in (first_row, second_row) for seqno in seqnos
        }


HISTORY = [
    pytest.param({"log": ((B, 0),)}, 0, id="another branch"),
    pytest.param({"log": ((B, 1), (A, 0))}, 0, id="behind the failover"),
    pytest.param({"log": ((B, 2), (A, 0))}, 1, id="before the failover"),
    pytest.param({"log": ((B, 9), (C, 3), (A, 0))}, 1, id="before the first of two"),
    pytest.param({"log": ((B, 9), (A, 2), (C, 0))}, 0, id="below where the branch begins"),
    pytest.param({"log": ((B, 1), (A, 3))}, 0, id="in no order"),
]


@pytest.mark.parametrize(("request_", "count"), HISTORY)
def test_only_what_both_have_of_one_branch_is_compared(
    request_: dict[str, Any], count: int
) -> None:
    assert len(found(*differing(mutation(cas=1), mutation(cas=2), **request_))) == count


def test_a_stream_may_go_on_after_a_failover_that_others_know_of() -> None:
    one, other = differing(mutation(cas=1), mutation(cas=2))
    assert len(found(one, other)) == 1
    third = opened("three:1", port=50_002)
    third.failover_log(7, [(B, 1), (A, 0)])
    assert found(one, other, third) == []


def test_another_vbucket_and_another_bucket_have_their_own_history() -> None:
    one, other = opened("one:1"), opened("two:1", port=50_001)
    changes(one.stream(7, log=LOG), change=mutation(cas=1))
    changes(other.stream(8, log=LOG), change=mutation(cas=2))
    assert found(one, other) == []
    talks = []
    for number, bucket in enumerate(("a", "b")):
        talk = Told(f"{bucket}:1", port=50_000 + number)
        talk.hello("test/1.0", "JSON", "Collections")
        talk.select_bucket(bucket)
        talk.open(f"{bucket}:1", "producer")
        changes(talk.stream(7, log=LOG), change=mutation(cas=1 + number))
        talks.append(talk)
    assert found(*talks) == []


def committed(stream: Stream, seqno: int) -> None:
    stream.commit(1, seqno, "k2")


def deleted_without_cas(stream: Stream, seqno: int) -> None:
    stream.send(
        "dcp_deletion", generation="v1", cas=0, collection=0, key="k2", by_seqno=seqno, rev_seqno=2
    )


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (mutation(), mutation()),
        (mutation(cas=0), mutation(cas=5)),
        (deletion, deletion_with_body),
        (committed, mutation()),
        (committed, deletion),
        (deletion, expiration),
        (deleted_without_cas, expiration),
        (mutation(body=b"\x02\x04ab", datatype=2), mutation(body=b"ab")),
        (mutation(body=b"\x02\x04ab", datatype=2), mutation(body=b"\x02\x05ab", datatype=2)),
        (mutation(body=b"{}", datatype=1), mutation(body=b"{ }")),
    ],
    ids=[
        "same",
        "no CAS",
        "body of a deletion",
        "commit",
        "commit of a deletion",
        "expiration",
        "no CAS of a deletion",
        "compressed",
        "both",
        "datatype",
    ],
)
def test_what_clients_are_shown_in_different_ways_contradicts_nothing(
    mine: Callable[[Stream, int], None], theirs: Callable[[Stream, int], None]
) -> None:
    assert found(*differing(mine, theirs)) == []


def test_values_are_compared_only_if_both_opens_ask_for_them_alike() -> None:
    for flags, count in (
        ((), 1),
        (("no-value",), 0),
        (("include-xattrs",), 0),
        (("include-delete-times",), 1),
    ):
        (one, first), (other, second) = two(other_flags=flags)
        changes(first, change=mutation(body=b"some"))
        changes(second, change=mutation(body=b"other"))
        assert len(found(one, other)) == count, flags


def test_who_has_no_collections_is_shown_the_same_keys() -> None:
    one = opened("one:1")
    changes(one.stream(7, log=LOG), change=mutation(cas=1))
    old = Told("old:1", port=50_001)
    old.hello("old/1.0", "JSON")
    old.open("old:1", "producer")
    changes(old.stream(7, log=LOG), change=mutation(cas=1))
    assert found(one, old) == []


def test_what_was_lost_or_cut_contradicts_nothing() -> None:
    (one, first), (other, second) = two()
    changes(first, change=mutation(cas=1))
    second.snapshot(0, 4, "memory", "checkpoint")
    second.mutation(1, "k1")
    with other.lost():
        mutation(cas=2)(second, 2)
    second.mutation(3, "k3")
    assert found(one, other) == []
    long = "x" * 200
    one, other = differing(
        mutation("k" * 90 + "a", long.encode()), mutation("k" * 90 + "b", b"y" * 200)
    )
    assert [it.cause for it in found(one, other)] == ["key"]
    assert found(one, other, snaplen=150) == []


def test_a_history_whose_log_was_lost_is_not_known() -> None:
    (one, first), _ = two()
    changes(first, change=mutation(cas=1))
    other = opened("two:1", port=50_001)
    request = other.stream_request(7, 50)
    with other.lost():
        other.stream_answer(request, log=LOG)
    changes(request, change=mutation(cas=2))
    assert found(one, other) == []


def of_file(path: Path, *talks: Told, redactor: Redactor | None = None) -> list[Finding]:
    """The same of a file, which is read again."""
    path.write_bytes(capture(*talks))
    with Reading([str(path)], track=True) as reading:
        reading.check(["diverging-history"], redactor=redactor)
        for _ in reading:
            pass
        return reading.findings()


def test_a_file_is_read_again_for_as_many_vbuckets_at_a_time_as_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = opened("one:1"), opened("two:1", port=50_001)
    for vbucket in (7, 8, 9):
        for talk, cas in ((one, 1), (other, 2)):
            changes(talk.stream(vbucket, log=LOG), change=mutation(cas=cas))
    everything = [
        (case.vbuckets, case.message, case.count)
        for found in found(one, other)
        for case in found.case_of_each
    ]
    assert [vbuckets for vbuckets, _, _ in everything] == [(7,), (8,), (9,)]
    path = tmp_path / "told.pcap"
    for most, count in (
        (1 << 19, 3),
        (4, 3),
        (3, 0),
    ):  # a vbucket's eight events take the room of four, brief as they are
        monkeypatch.setattr(events, "MOST", most)
        told = [
            (case.vbuckets, case.message, case.count)
            for found in of_file(path, one, other)
            for case in found.case_of_each
        ]
        assert told == everything[:count]


def test_a_document_is_not_named_where_keys_are_not_shown(tmp_path: Path) -> None:
    (it,) = of_file(
        tmp_path / "told.pcap",
        *differing(mutation("secret", cas=1), mutation("secret", cas=2)),
        redactor=Redactor(),
    )
    assert "secret" not in it.message
    assert it.message.startswith(
        "seqno 2 is a mutation with CAS 0x0000000000000001 here, a mutation with CAS "
        "0x0000000000000002 on"
    )


@pytest.mark.parametrize("is_tagged", [True, False])
def test_servers_with_one_address_in_two_networks_have_histories_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_tagged: bool
) -> None:
    packets, others = packets_of(field("t00-base")), []
    for packet in packets:
        one = tcp_of(packet)
        seq, ack = one.seq + 0x61234567, one.ack + 0x61234567 if one.ack else 0
        link = one.link[:12] + b"\x81\x00\x00\x14" + one.link[12:] if is_tagged else one.link
        ports = (
            (one.source, one.target)
            if is_tagged
            else (one.source + one.to_server(), one.target + (not one.to_server()))
        )
        said = one.payload.replace(b"hotel|", b"motel|")
        made = replace(
            one, seq=seq, ack=ack, link=link, payload=said, source=ports[0], target=ports[1]
        )
        others.append(made.recorded(packet.time_ns + 9_000))
    path = written(tmp_path, sorted([*packets, *others], key=lambda one: one.time_ns))
    main(["check", str(path)])
    assert ("diverging-history" in capsys.readouterr().out) is not is_tagged
