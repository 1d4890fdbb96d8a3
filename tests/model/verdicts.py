"""How connections, streams and vbuckets are at the end: the precedence of verdicts, and what
streams show of each other's gaps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.model.facts import Connection, Event, OneOf, Record, Snapshot, Stream

if TYPE_CHECKING:
    from tests.model.expect import Tables

PATIENCE_NS = 2_000_000_000


def finish(tables: Tables) -> None:
    """States, reasons and verdicts, once nothing more is heard."""
    for stream in tables.streams:
        end = tables.ends.get(stream.connection - 1)
        if stream.is_running:
            tables.close_snapshot(stream, stream.current, "cut" if end else "open")
        if stream.state in ("accepted", "closing") and end is not None:
            stream.state = "ended"
            stream.record["end_reason"] = "connection-closed"
        stream.record["first_seqno"], stream.record["last_seqno"] = _extremes(stream)
        for snapshot in stream.snapshots:
            snapshot.record["first_seqno"], snapshot.record["last_seqno"] = _extremes(snapshot)
        _forgive_resuming(tables, stream)
    _compare_streams(tables)
    for stream in tables.streams:
        stream.record["verdict"] = _verdict(tables, stream)
        blind = [
            _verdict(tables, stream, flow=flow, highs=highs)
            for flow in (True, False)
            for highs in (True, False)
        ]
        stream.verdicts = {
            word for one in blind for word in (one.values if isinstance(one, OneOf) else [one])
        }
    for connection in tables.connections:
        _finish_connection(tables, connection)


def _forgive_resuming(tables: Tables, stream: Stream) -> None:
    """What lies between is no gap where the client was sent more by another node at the same
    time.
    """
    mine = [
        one
        for one in tables.streams
        if (one.client, one.vbucket, one.sid) == (stream.client, stream.vbucket, stream.sid)
    ]
    taken = [one for one in mine[: mine.index(stream)] if one.record["answer"] == "accepted"]
    if taken and any(one.last_heard_ns > taken[-1].request.time_ns for one in taken[:-1]):
        kept = [gap for gap in stream.gaps if gap["cause"] != "resumed"]
        stream.record["gaps"] -= len(stream.gaps) - len(kept)
        stream.gaps = kept


def _extremes(of: Stream | Snapshot) -> tuple[OneOf, OneOf]:
    """First and last seqno; whether SeqnoAdvanced counts, and which is the first of an unordered
    snapshot, is left open.
    """
    if not of.seqnos and not of.advanced:
        return OneOf(None), OneOf(None)
    all_of_them = [*of.seqnos, *of.advanced]
    first = OneOf(*of.seqnos[:1], *of.advanced[:1], min(all_of_them), min(of.seqnos, default=None))
    return first, OneOf(max(all_of_them), max(of.seqnos, default=None))


def _compare_streams(tables: Tables) -> None:
    """What another stream of the same branch shows of a gap's seqnos."""
    by_place: dict[tuple[int, int | None], list[Stream]] = defaultdict(list)
    for stream in tables.streams:
        if stream.branch is not None:
            by_place[stream.vbucket, stream.branch].append(stream)
    for streams in by_place.values():
        for stream in streams:
            for gap in stream.gaps:
                if gap["cause"] not in ("rollback", "resumed", "oso", "seqno-advanced"):
                    told = [
                        _told(tables, stream, other, gap)
                        for other in streams
                        if other is not stream
                    ]
                    if "invisible" in told:
                        gap["cause"] = "invisible"
                    elif "filtered" in told and gap["cause"] == "deduplicated":
                        gap["cause"] = "filtered"


def _told(tables: Tables, stream: Stream, other: Stream, gap: Record) -> str | None:
    """What another stream tells of a gap: that nothing in it is for this client, or that some of it
    is not.
    """
    shown = {
        event.seqno: event
        for event in other.events
        if gap["after_seqno"] < event.seqno < gap["before_seqno"]
    }
    left_out = sum(_is_left_out(tables, stream, other, gap, event) for event in shown.values())
    is_all = left_out == gap["before_seqno"] - gap["after_seqno"] - 1
    return "invisible" if is_all else "filtered" if left_out else None


def _is_left_out(tables: Tables, stream: Stream, other: Stream, gap: Record, event: Event) -> bool:
    """Whether an event is not for a client, or a prepare that was completed and that a snapshot
    from disk leaves out.
    """
    connection, snapshot = tables.connections[stream.connection - 1], gap["_snapshot"]
    if event.name == "dcp_system_event":
        return not connection.collections
    if event.name in ("dcp_prepare", "dcp_abort") and not connection.sync_writes:
        return True
    if event.collection and not connection.collections:
        return True
    if (
        event.name != "dcp_prepare"
        or snapshot is None
        or snapshot.record["type"] != "disk"
        or snapshot.end is None
    ):
        return False
    return event.seqno <= (snapshot.record["high_completed_seqno"] or 0) or any(
        event.seqno < one.seqno <= snapshot.end
        and one.name in ("dcp_commit", "dcp_abort")
        and (one.key, one.collection) == (event.key, event.collection)
        for one in other.events
    )


def _verdict(tables: Tables, stream: Stream, *, flow: bool = True, highs: bool = True) -> Any:
    connection = tables.connections[stream.connection - 1]
    record = stream.record
    now_ns = tables.last_ns[connection.number - 1]
    if stream.state == "requested":
        waited = now_ns - stream.request.time_ns
        if tables.ends.get(stream.connection - 1) is not None or waited > max(
            PATIENCE_NS, 10 * connection.slowest_answer_ns
        ):
            return "never-answered"
        record["answer"] = OneOf("unanswered", "unknown")
        return OneOf(
            "silent",
            "unknown-capture",
            None,
            "never-answered" if waited > PATIENCE_NS else "silent",
        )
    if stream.state in ("refused", "rolled-back", "ended"):
        return stream.state
    if flow and _is_starved(connection):
        return "starved-by-flow-control"
    snapshot = stream.current
    quiet: Any = "caught-up" if snapshot is not None else "silent"
    if snapshot is not None and snapshot.record["state"] == "open":
        quiet = "advancing" if snapshot.record["type"] == "memory" else "backfilling"
    if snapshot is None and stream.heard:
        quiet = OneOf("silent", "advancing", "backfilling", "caught-up")  # cache transfer only
    if snapshot is not None and snapshot.end is None and snapshot.record["type"] != "oso":
        quiet = OneOf("unknown-capture", "advancing", "caught-up", "behind")
    since_ns, may_wait = _waits_since(tables, stream, connection) if highs else (None, False)
    if since_ns is not None and now_ns - max(since_ns, stream.last_heard_ns) > max(
        PATIENCE_NS, 10 * connection.slowest_answer_ns
    ):
        # what a server reads from disk may have to wait for other streams
        is_on_disk = snapshot is None or (
            snapshot.record["state"] == "open" and snapshot.record["type"] != "memory"
        )
        if not is_on_disk and not may_wait:
            return "behind" if not isinstance(quiet, OneOf) else quiet
        may_wait = True
    return (
        OneOf("behind", *(quiet.values if isinstance(quiet, OneOf) else [quiet]))
        if may_wait
        else quiet
    )


def _waits_since(tables: Tables, stream: Stream, connection: Connection) -> tuple[int | None, bool]:
    """When the server first told of more than a stream has, and still does; and whether that
    depends on what it said of a replica.
    """
    if (
        stream.last is None
        or stream.state != "accepted"
        or stream.last >= stream.record["requested_end"]
    ):
        return None, False
    if (
        stream.current is not None
        and stream.current.record["type"] == "oso"
        and stream.current.record["state"] == "open"
    ):
        return None, False
    told: list[tuple[int, str, int]] = []
    for other in tables.connections:
        is_same_bucket = (
            other.record["bucket"] == connection.record["bucket"]
            or other.client == connection.client
        )
        if other.server == connection.server and is_same_bucket:
            for time_ns, seqno, is_replica in tables.told[other.number, stream.vbucket]:
                told.append((time_ns, "replica" if is_replica else "high", seqno))
            for one in tables.streams:
                if one.connection == other.number and one.vbucket == stream.vbucket:
                    if one.state == "rolled-back":
                        told.append(
                            (one.record["last_time"], "rollback", one.record["rollback_seqno"])
                        )
                    elif one.branch is not None:
                        told.append((one.opened_at, "branch", one.branch))
    since_ns, newest, branch = None, -1, None
    for time_ns, kind, number in sorted(told):
        if kind == "high":
            newest = number
            since_ns = None if number <= stream.last else since_ns or time_ns
        elif (kind == "rollback" and number < newest) or (
            kind == "branch" and branch not in (None, number)
        ):
            since_ns = None
        branch = number if kind == "branch" else branch
    return since_ns, any(kind == "replica" for _, kind, _ in told)


def _is_starved(connection: Connection) -> bool:
    record = connection.record
    return (
        connection.flow
        and record["counted_bytes"] - record["acked_bytes"] >= record["window_bytes"] > 0
    )


def _finish_connection(tables: Tables, connection: Connection) -> None:
    record = connection.record
    end = tables.ends.get(connection.number - 1)
    now_ns = tables.last_ns.get(connection.number - 1, 0)
    record["closed_by"] = end.by if end else None
    if connection.flow:
        record["outstanding_bytes"] = max(0, record["counted_bytes"] - record["acked_bytes"])
    else:
        for name in ("counted_bytes", "acked_bytes", "outstanding_bytes"):
            del record[name]  # without a window nobody counts
        record["window_bytes"] = OneOf(0, None)
    if connection.open_refused:
        verdict: Any = "refused"
    elif not connection.is_open:
        verdict = "without-dcp"
    elif end is not None:
        verdict = "closed"
    elif _is_starved(connection):
        verdict = "starved-by-flow-control"
    else:
        mine = [
            stream.record["verdict"]
            for stream in tables.streams
            if stream.connection == connection.number
        ]
        flowing = [verdict for verdict in mine if verdict in ("backfilling", "advancing")]
        open_ended = any(isinstance(one, OneOf) for one in mine)
        verdict = OneOf("streaming", "idle") if open_ended else "streaming" if flowing else "idle"
        noops = [
            heard
            for key, waiting in connection.pending.items()
            if key[1] == "dcp_noop"
            for heard in waiting
        ]
        if any(now_ns - heard.time_ns > 500_000_000 for heard in noops):
            verdict = OneOf("noop-dead", "streaming", "idle")
    record["verdict"] = verdict


def vbuckets(tables: Tables) -> list[Record]:
    """One record a client and vbucket."""
    groups: dict[tuple[tuple[str, str], int], list[Stream]] = defaultdict(list)
    for stream in tables.streams:
        groups[stream.client, stream.vbucket].append(stream)
    out = []
    for (client, vbucket), unsorted in groups.items():
        # a request that was refused because a stream is there: that stream goes on
        streams = sorted(unsorted, key=lambda stream: stream.record["status"] != "key_eexists")
        newest = streams[-1].record
        highs = [
            known.get((client, vbucket), (None, 0))[0] for known in (tables.highs, tables.all_highs)
        ]
        highs += [
            seqno
            for (_, place), told in tables.told.items()
            if place == vbucket
            for _, seqno, _ in told
        ]
        out.append(
            {
                "client": " ".join(client).rstrip(),
                "vbucket": vbucket,
                "verdict": newest["verdict"],
                "connections": sorted({stream.connection for stream in streams}),
                "streams": len(streams),
                "requested_end": newest["requested_end"],
                "first_seqno": _least(streams),
                "last_seqno": _of_any(streams[::-1], "last_seqno"),
                "bytes": OneOf(
                    sum(s.bytes for s in streams), sum(s.bytes + 2 * s.prepares for s in streams)
                ),
                "high_seqno": OneOf(*highs),
                "items": sum(stream.record["items"] for stream in streams),
                "gaps": _counts([gap["cause"] for stream in streams for gap in stream.gaps]),
                "snapshots": sum(len(stream.snapshots) for stream in streams),
                "rollbacks": sum(stream.state == "rolled-back" for stream in streams),
            }
        )
    return out


def _counts(causes: Sequence[Any]) -> OneOf:
    """How many gaps have each cause, for every choice that is left open."""
    counts: list[dict[Any, int]] = [{}]
    for cause in causes:
        words = cause.values if isinstance(cause, OneOf) else (cause,)
        counts = [
            known | {word: known.get(word, 0) + 1}
            for known in counts
            for word in dict.fromkeys(words)
        ]
        counts = [known for at, known in enumerate(counts) if known not in counts[:at]]
    return OneOf(*counts)


def _least(streams: Sequence[Stream]) -> OneOf:
    """The least of what was received on any stream, for every choice that is left open."""
    firsts = [
        [seqno for seqno in stream.record["first_seqno"].values if seqno is not None]
        for stream in streams
        if stream.seqnos or stream.advanced
    ]
    greatest = min(map(max, firsts), default=None)
    least = [seqno for seqnos in firsts for seqno in seqnos if seqno <= greatest]
    return OneOf(*least or [None])


def _of_any(streams: Sequence[Stream], key: str) -> Any:
    """Of the first one that received anything."""
    return next(
        (stream.record[key] for stream in streams if stream.seqnos or stream.advanced), None
    )
