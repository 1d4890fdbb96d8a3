"""The words and columns of the table of differences. Keys are only ever added within a version."""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from typing import Any

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.tables.column_kinds import columns
from dcpinspect.tables.messages import DIRECTIONS
from dcpinspect.tables.record_tables import Records, RecordTable
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
        not-reached: it comes after the last that the capture of this side has of the stream
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
        clock_offset_ns i64: B's clock less A's; null, as are all delays and losses, where a capture
            has times before 1970 or after 2262
        clock_error_ns i64: by how much clock_offset_ns may be wrong at most, either way
        clock_from word: what the two clocks were compared by
        segments i64: segments that end at the same byte in both captures
        delay_min_ns i64: least time from the sender's tap to the receiver's, by both clocks
        delay_median_ns i64: median time from the sender's tap to the receiver's
        delay_p99_ns i64: 99th percentile of the time from the sender's tap to the receiver's
        delay_max_ns i64: greatest time from the sender's tap to the receiver's
        lost i64: ranges of bytes that were lost between the taps, and sent again
        lost_bytes i64: bytes that were lost between the taps, and sent again
        a_missed_bytes i64: bytes of capture loss in A that B has, between the first and the last
            that both have
        b_missed_bytes i64: bytes of capture loss in B that A has, between the first and the last
            that both have
        answers i64: requests of this direction whose answer both captures have
        answer_median_ns i64: median time from request to answer at the tap of who asked
        answerer_median_ns i64: median time from request to answer at the tap of who answered
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


DifferenceRow = dict[str, Any]

MOST = 100_000
"""Greatest number of records of one kind that one side lacks; all others are only counted."""


@dataclass(frozen=True, slots=True)
class BranchProgress:
    """How far the two sides have come on a branch on which one has come further."""

    vbucket: int
    uuid: int
    a: int
    b: int


@dataclass(slots=True)
class Differences:
    """What a comparison has found. Vbuckets are added some at a time."""

    assumed: dict[str, int]
    """For each side, the number of vbuckets with a compared stream whose history its capture does
    not show.
    """
    doubted: int
    """Number of vbuckets that may have one of several histories."""
    rows: list[DifferenceRow] = field(default_factory=list)
    """The records, whose keys are the names of the contract's columns."""
    counts: dict[tuple[str, str | None], tuple[int, int]] = field(default_factory=dict)
    """Number of events, and of vbuckets with any, by kind and by the side that lacks them."""
    events: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    """Number of different events of each side."""
    vbuckets: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    """Number of vbuckets with a stream, of each side."""
    common: int = 0
    """Number of events that both sides have."""
    reached: list[BranchProgress] = field(default_factory=list)
    shows: set[int] = field(default_factory=set)
    """The ways in which values were shown to either side, as numbers; -1 for an unknown one."""
    left_out: int = 0
    """Number of events on one side only, or that differ, and have no record."""

    @property
    def is_different(self) -> bool:
        """Whether the sides differ, whatever the captures lack."""
        return any(VERDICT_OF[kind] == "different" for kind, _ in self.counts)

    @property
    def why_nothing(self) -> str:
        """Why nothing at all could be compared; empty if something was compared."""
        if self.common or any(VERDICT_OF[kind] != "not-compared" for kind, _ in self.counts):
            return ""
        lacking = [side.upper() for side in SIDES if not self.vbuckets[side]]
        if lacking:
            return (
                f"{' and '.join(lacking)} {'have' if len(lacking) > 1 else 'has'} no stream of "
                "what was asked for"
            )
        if not any(self.events.values()):
            return "neither side has an event"
        if all(kind == "no-stream" for kind, _ in self.counts):
            return "no vbucket has a stream on both sides"
        return "no event is on both sides, and the captures do not tell why"

    @property
    def are_shown_alike(self) -> bool:
        """Whether both sides are shown values in the same form, so that they can be compared."""
        return len(self.shows) <= 1 and -1 not in self.shows

    def count(self, kind: str, lacks: str | None, events: int, vbuckets: int) -> None:
        """Adds to the counts of a kind."""
        before = self.counts.get((kind, lacks), (0, 0))
        self.counts[kind, lacks] = before[0] + events, before[1] + vbuckets

    def in_order(self) -> None:
        """Sorts the records, worst first, then by vbucket and seqno; cuts them at the limit."""
        self.counts = {
            key: self.counts[key]
            for key in sorted(self.counts, key=lambda key: (KINDS.index(key[0]), key[1] or ""))
        }
        self.rows.sort(
            key=lambda row: (
                KINDS.index(row["kind"]),
                row["vbucket"],
                row["first_seqno"] or 0,
                row["lacks"] or "",
            )
        )
        kept_rows, kept_events = Counter[object](), Counter[object]()
        rows = []
        for row in self.rows:
            key = row["kind"], row["lacks"]
            if kept_rows[key] < MOST:
                kept_rows[key] += 1
                kept_events[key] += row["events"] or 0
                rows.append(row)
        self.rows = rows
        self.left_out = sum(count - kept_events[key] for key, (count, _) in self.counts.items())

    def records(self) -> Records:
        """Returns the table of differences."""
        return Records.of_rows(DIFFERENCES, self.rows)
