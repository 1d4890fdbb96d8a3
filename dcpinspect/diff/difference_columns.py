"""The words and columns of the table of differences. Keys are only ever added within a version."""

from __future__ import annotations

from dcpinspect.tables.column_kinds import columns
from dcpinspect.tables.messages import DIRECTIONS
from dcpinspect.tables.record_tables import RecordTable
from dcpinspect.text import entries

SIDES = ("a", "b")

MEANINGS = dict(
    entries(
        """
        differs: both sides have the event, and it is not the same
        not-sent: the stream of this side accounts for the seqno, nothing was lost, and neither the
            event nor a later version came
        other-history: this side follows another branch of the history
        filter: the two sides asked for different things
        capture-loss: the capture of this side lacks packets there, so the event may have come
        before-capture: the capture of this side began later
        not-asked: the client of this side did not ask for this seqno
        no-stream: the capture of this side has no stream of the vbucket
        not-reached: it is behind the last that the capture of this side has of the stream
        unknown: nothing in the capture of this side tells why
        rolled-back: the other side itself was rolled back from it later
        deduplicated: a later version of the key stands for it, or the key's collection ended
        filtered: the client of this side did not ask for events of this kind or collection, or may
            not see them
        purged: compaction may have removed it before this side read it from disk
        snapshot: snapshots end at different seqnos, where both sides have the stream
        """
    )
)
"""Every kind of difference, with what it says of the side that lacks the event, or of both sides.
"""
KINDS = tuple(MEANINGS)
"""All kinds of difference, worst first."""

VERDICTS = ("different", "not-compared", "alike")
"""What a kind of difference amounts to: a difference, none, or the captures do not tell."""
VERDICT_OF = {
    kind: "different"
    if kind in ("differs", "not-sent", "other-history", "filter")
    else "alike"
    if kind in ("rolled-back", "deduplicated", "filtered", "purged", "snapshot")
    else "not-compared"
    for kind in KINDS
}
SINGLE = ("differs", "not-sent")
"""Kinds with one record for each event; others have one for events in a row."""

FIELDS = ("key", "state", "cas", "datatype", "value")
"""The parts in which an event may differ: its key, whether it stores or deletes, its CAS, its
datatype, its value.
"""


def _of_both(text: str) -> str:
    """Returns the entries of a text for each side."""
    return "".join(
        f"{side}_{head}: {side.upper()}: {doc}\n" for head, doc in entries(text) for side in SIDES
    )


DIFFERENCES = RecordTable(
    "difference",
    columns(
        f"""
        kind word: what it is
        verdict word: whether the sides differ, the captures do not tell, or it is no difference
        bucket text: bucket; null where neither capture names it
        vbucket i64: vbucket
        vbucket_uuid hex64: branch of the history; null where neither capture names it
        lacks word: the side that does not have the events; null where both have them
        first_seqno u64: seqno of the event, or of the first one
        last_seqno u64: seqno of the last one
        events i64: events, of the side that has them
        collection_id i64: collection of the first event; null if unknown
        key text: key of the first event; null where it is not in the capture
        fields words: in what both sides differ: {", ".join(FIELDS)}
        """,
        _of_both(
            """
            name text: command of the first event
            cas hex64: its CAS
            datatype words: bits of its datatype, by name
            connection i64: its connection
            row i64: its row, as read shows it
            time time: its capture time
            """
        ),
        "evidence text: what shows it",
        kind=KINDS,
        verdict=VERDICTS,
        lacks=SIDES,
    ),
)

PATHS = RecordTable(
    "path",
    columns(
        _of_both("connection i64: the connection"),
        """
        direction word: from client to server, or back
        a_client text: A: address of the client
        a_server text: A: address of the server
        b_client text: B: address of the client
        b_server text: B: address of the server
        client_side word: the side whose capture is nearer to the client; null where nothing is
            between the two
        clock_offset_ns i64: B's clock less A's
        clock_error_ns i64: by how much that may be wrong at most, either way
        clock_from word: what the two clocks were compared by
        segments i64: segments that end at the same byte in both captures
        delay_min_ns i64: least time from the sender's tap to the receiver's, by these clocks
        delay_median_ns i64: median of it
        delay_p99_ns i64: 99th percentile of it
        delay_max_ns i64: greatest
        lost i64: ranges of bytes that were lost between the taps, and sent again
        lost_bytes i64: bytes in them
        a_missed_bytes i64: bytes of capture loss in A that B has, between the first and the last
            that both have
        b_missed_bytes i64: the other way round
        answers i64: requests of this direction whose answer both captures have
        answer_median_ns i64: median time from request to answer at the tap of who asked
        answerer_median_ns i64: the same at the tap of who answered
        network_median_ns i64: median of the time between the taps, there and back
        answer_max_ns i64: longest time from request to answer at the tap of who asked
        first_time time: time of the connection's first packet in A
        last_time time: time of its latest packet in A
        """,
        direction=DIRECTIONS,
        client_side=SIDES,
        clock_from=("handshake", "quickest-packets"),
    ),
)
