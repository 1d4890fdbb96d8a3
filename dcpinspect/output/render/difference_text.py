"""Summarizes the differences between two sides in a few lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from dcpinspect.findings.cases import duration
from dcpinspect.text import clip, counted, escape_rest, listed, range_text

if TYPE_CHECKING:
    from dcpinspect.diff.difference_columns import DifferenceRow, Differences

Paint = Callable[[str, str], str]

EXAMPLES = 3
"""Number of records that a line of the summary names."""
_LONGEST = 100
PATHS = 3
"""Number of connections in both captures that the summary describes."""
_WAYS = {"c2s": "to the server", "s2c": "to the client"}
_LONG_NS = 60_000_000_000
"""From so far apart on, clocks are told in seconds, hours or days."""
_CLOCKS = {"handshake": "by the handshake", "quickest-packets": "by the quickest packets"}

_SAYS = {
    "differs": "{events} both sides have, but not the same",
    "not-sent": (
        "{events} not sent to {lacks}, though its stream covers the seqno and nothing is lost there"
    ),
    "other-history": "{events} of a branch of the history that {lacks} does not follow",
    "filter": "{vbuckets} for which A and B asked for different things",
    "capture-loss": "{events} may have come to {lacks}: packets are missing in its capture",
    "before-capture": "{events} before {lacks}'s capture began",
    "not-asked": "{events} that the client of {lacks} did not ask for",
    "no-stream": "{events} of {vbuckets} of which {lacks}'s capture has no stream",
    "not-reached": "{events} after the last that {lacks}'s capture has of the stream",
    "unknown": "{events} that {lacks} lacks, and its capture does not tell why",
    "rolled-back": "{events} that {has} had and was rolled back from, so {lacks} need not have them",
    "deduplicated": "{events} for which {lacks} has a later version of the key: de-duplicated",
    "filtered": "{events} of a kind or collection that {lacks} did not ask for, or may not see",
    "purged": "{events} that compaction may have removed before {lacks} read them from disk",
    "snapshot": "{vbuckets} whose snapshots end at different seqnos",
}
_HEADINGS = {
    "different": "Different:",
    "not-compared": "Not compared, because the captures do not tell:",
    "alike": "Explained, so no difference:",
}


def summary(
    comparison: Differences, paths: Sequence[DifferenceRow], names: Sequence[str], paint: Paint
) -> Iterator[str]:
    """Yields the summary. ``paths``: records of the connections that both captures have. ``names``:
    of the captures of A and B.
    """
    from dcpinspect.diff.difference_columns import VERDICT_OF

    for side, name in zip(("a", "b"), names, strict=True):
        events_of_vbuckets = (
            f"{counted(comparison.events[side], 'event')} of "
            f"{counted(comparison.vbuckets[side], 'vbucket')}"
        )
        yield f"{side.upper()}  {events_of_vbuckets}  {clip(escape_rest(name), _LONGEST)}"
    yield f"{counted(comparison.common, 'event')} on both sides"
    yield ""
    uncompared = sum(
        events
        for (kind, _), (events, _) in comparison.counts.items()
        if VERDICT_OF[kind] == "not-compared"
    )
    alike = (
        f"{'What both sides have is the same' if comparison.common else 'No event is on both sides'}; "
        f"{counted(uncompared, 'event')} on one side only could not be compared."
        if uncompared
        else "A and B do not differ, as far as both captures tell."
    )
    if comparison.why_nothing and not paths:
        alike = f"Nothing could be compared: {comparison.why_nothing}."
    yield paint("A and B differ." if comparison.is_different else alike, "bold")
    for verdict, heading in _HEADINGS.items():
        kinds = [key for key in comparison.counts if VERDICT_OF[key[0]] == verdict]
        if kinds:
            yield ""
            yield heading
        for kind, lacks in kinds:
            events, vbuckets = comparison.counts[kind, lacks]
            line = _SAYS[kind].format(
                events=counted(events, "event"),
                vbuckets=counted(vbuckets, "vbucket"),
                lacks=(lacks or "").upper(),
                has="A" if lacks == "b" else "B",
            )
            examples = _examples(
                [row for row in comparison.rows if (row["kind"], row["lacks"]) == (kind, lacks)]
            )
            yield f"  {line}" + (f": {examples}" if examples else "")
    yield from _ahead(comparison)
    yield from _same_connections(paths)
    yield from _caveats(comparison)


def _ahead(comparison: Differences) -> Iterator[str]:
    lines = []
    has_parted = any(kind in ("other-history", "rolled-back") for kind, _ in comparison.counts)
    for side, other_side in (("a", "b"), ("b", "a")):
        leads = [
            (getattr(vbucket, side) - getattr(vbucket, other_side), vbucket)
            for vbucket in comparison.reached
            if getattr(vbucket, side) > getattr(vbucket, other_side)
        ]
        if leads:
            most, vbucket = max(leads, key=lambda lead: lead[0])
            where = (
                f"vbucket {vbucket.vbucket}: {getattr(vbucket, side)} against "
                f"{getattr(vbucket, other_side)}"
                + (f" of the branch 0x{vbucket.uuid:016x}" if has_parted else "")
            )
            lines.append(
                f"  {side.upper()} on {counted(len(leads), 'vbucket')}, by up to "
                f"{counted(most, 'seqno')} ({where})"
            )
    if lines:
        yield ""
        yield "Ahead:"
        yield from lines


def _same_connections(paths: Sequence[DifferenceRow]) -> Iterator[str]:
    paths_by_connections: dict[tuple[int, int], list[DifferenceRow]] = {}
    for row in paths:
        paths_by_connections.setdefault((row["a_connection"], row["b_connection"]), []).append(row)
    if not paths_by_connections:
        return
    yield ""
    yield "The same connection in both captures:"
    for (a_connection, b_connection), rows in list(paths_by_connections.items())[:PATHS]:
        row = rows[0]
        near = row["client_side"]
        position = (
            f"; {near.upper()} is nearer to the client"
            if near
            else "; nothing is between the two captures"
        )
        position = position if row["clock_from"] else ""
        yield (
            f"  {a_connection} of A is {b_connection} of B: {row['a_client']} to "
            f"{row['a_server']}{position}"
        )
        yield f"    clocks: {_clocks(row)}"
        for path in rows:
            if text := _direction_text(path):
                yield f"    {_WAYS[path['direction']]}: {text}"
    if len(paths_by_connections) > PATHS:
        yield f"  {counted(len(paths_by_connections) - PATHS, 'more connection')}: --paths lists all"


def _clocks(row: DifferenceRow) -> str:
    """Says how far the clocks of two captures are apart."""
    offset_ns, error_ns = row["clock_offset_ns"], row["clock_error_ns"]
    if offset_ns is None:
        return "times cannot be compared, as some are before 1970 or after 2262"
    # 0 where they have the same packets
    error = f", give or take {_ms(error_ns)}" if error_ns else ""
    size_ns = abs(offset_ns)
    size = _ms(size_ns) if size_ns < _LONG_NS else duration(size_ns)
    clock = f"B's is {size} {'behind' if offset_ns < 0 else 'ahead'}" if offset_ns else "they agree"
    return f"{clock}{error} ({_CLOCKS[row['clock_from']]})"


def _direction_text(path: DifferenceRow) -> str:
    """Describes one direction of a connection; empty where nothing is between the taps."""
    is_one_tap = not (path["client_side"] or path["delay_max_ns"])
    facts = []
    if not is_one_tap:
        median, most = _ms(path["delay_median_ns"]), _ms(path["delay_max_ns"])
        facts.append(f"{median} between the taps, {most} at most")
    if path["lost"]:
        facts.append(
            f"lost there and sent again {counted(path['lost'], 'time')}, "
            f"{counted(path['lost_bytes'], 'byte')}"
        )
    missed = [(side.upper(), path[f"{side}_missed_bytes"]) for side in ("a", "b")]
    facts += [
        f"{counted(count, 'byte')} of capture loss in {side}" for side, count in missed if count
    ]
    if path["answers"] and not is_one_tap:
        answerer = "server" if path["direction"] == "c2s" else "client"
        split = f"{_ms(path['answerer_median_ns'])} {answerer} and {_ms(path['network_median_ns'])} network"
        facts.append(f"answers took {_ms(path['answer_median_ns'])}: {split}")
    return "; ".join(facts)


def _ms(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:z,.3f} ms"  # z: no zero below zero


def _caveats(comparison: Differences) -> Iterator[str]:
    lines = [
        (
            f"The capture of {side.upper()} does not tell the history of "
            f"{counted(count, 'vbucket')}; it is taken from other streams where they tell it."
        )
        for side, count in comparison.assumed.items()
        if count
    ]
    if comparison.doubted:
        lines.append(
            f"Of {counted(comparison.doubted, 'vbucket')} there are several to choose from: "
            "what differs there is not told."
        )
    if not comparison.are_shown_alike and comparison.common:
        lines.append(
            "Values and datatypes were compared only where both connections are known to be "
            "shown them in the same form."
        )
    if comparison.left_out:
        lines.append(f"{comparison.left_out:,} more events are counted, but have no record.")
    if lines:
        yield ""
        yield from lines


def _examples(rows: Sequence[DifferenceRow]) -> str:
    """Names the first vbuckets of records, and the seqnos of their events."""
    of_vbucket: dict[int, list[DifferenceRow]] = {}
    for row in rows:
        of_vbucket.setdefault(row["vbucket"], []).append(row)
    shown = len(of_vbucket) if len(of_vbucket) <= EXAMPLES + 1 else EXAMPLES
    return listed([f"vb {vbucket}{_seqnos(own)}" for vbucket, own in of_vbucket.items()], shown)


def _seqnos(rows: Sequence[DifferenceRow]) -> str:
    if rows[0]["first_seqno"] is None:
        return ""
    if len(rows) > 2:
        events = sum(row["events"] or 0 for row in rows)
        return (
            f" {events:,} of seqnos {rows[0]['first_seqno']}–"
            f"{max(row['last_seqno'] for row in rows)}"
        )
    ranges = [*dict.fromkeys(range_text(row["first_seqno"], row["last_seqno"]) for row in rows)]
    is_one = ranges == [f"{rows[0]['first_seqno']}"]
    return f" seqno{'' if is_one else 's'} {' and '.join(ranges)}"
