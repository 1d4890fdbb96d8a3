"""The words of the tables, one list each: kernels write the numbers, tables show the words."""

from __future__ import annotations

import re

from dcpinspect.text import words_of

# -- streams

ANSWERS = ("unknown", "accepted", "rollback", "refused", "unanswered")
A_UNKNOWN, A_ACCEPTED, A_ROLLBACK, A_REFUSED, A_UNANSWERED = range(5)

STREAM_VERDICTS = words_of(
    "never-opened never-answered refused rolled-back ended unknown-capture "
    "starved-by-flow-control stalled behind backfilling advancing caught-up silent"
)
"""In order of precedence: the first verdict that holds counts."""
NEVER_OPEN = ("never-opened", "refused", "rolled-back")
"""Verdicts of requests that opened no stream."""

END_REASONS = words_of(
    "ok closed state-changed disconnected too-slow backfill-failed rollback filter-empty "
    "lost-privileges connection-closed unknown"
)
CONNECTION_CLOSED = 9
UNKNOWN_END = END_REASONS[-1]
NO_STREAM_END = END_REASONS[CONNECTION_CLOSED:]
"""Why streams ended of which no end was captured."""

# -- snapshots

SNAPSHOT_TYPES = ("memory", "disk", "oso", "unknown")
SNAPSHOT_LAYOUTS = ("upr", "v1", "v2.0", "v2.1", "v2.2")
CONVENTIONS = words_of(
    "memory-1 memory-2 memory-3 disk-1 disk-later disk-3-first-event irregular unknown"
)

FIRST, LATER, PERHAPS_FIRST, NO_POSITION, PERHAPS_LATER = range(5)
"""Place of a marker in its stream. FIRST: the first. LATER: a later one. PERHAPS_FIRST: not known,
because something before it was not captured. NO_POSITION: no marker. PERHAPS_LATER: a later one,
unless lost bytes ended the stream and asked for the next one.
"""

# -- gaps

CAUSES = words_of(
    "capture-loss rollback resumed oso seqno-advanced invisible snapshot-tail filtered "
    "deduplicated unexplained"
)
(
    LOSS,
    ROLLBACK,
    RESUMED,
    OUT_OF_ORDER,
    ADVANCED,
    INVISIBLE,
    TAIL,
    FILTERED,
    DEDUPLICATED,
    UNEXPLAINED,
) = range(10)

# -- connections and vbuckets

CONNECTION_VERDICTS = words_of(
    "not-connected without-dcp refused closed unknown-capture starved-by-flow-control stalled "
    "noop-dead "
    "streaming idle"
)
"""In order of precedence: the first verdict that holds counts."""

VBUCKET_VERDICTS = words_of(
    "never-answered rolled-back orphaned refused starved-by-flow-control stalled behind "
    "never-opened unknown-capture ended silent backfilling advancing caught-up"
)
"""Worst verdict first."""

STOOD = words_of("lost-something behind caught-up rolled-back silent")
"""How a vbucket stood before it ended: the first that holds counts."""

ROLES = ("producer", "consumer")
"""Role of the TCP server."""
SIDES = ("client", "server")
"""Who sends in each direction."""
_ROLE = re.compile(r"""(?<![\w"-])(producer|consumer)(?=(?:'?s)?(?![\w"-]))""")


def by_side(text: str, producer: int = 1) -> str:
    """Returns what is said of producer and consumer with the words for the ends of a connection:
    most often, they are the server and the client. ``producer``: direction of its
    messages; -1 if nothing tells.
    """
    return _ROLE.sub(lambda role: SIDES[(producer != 0) ^ (role[1] == "consumer")], text)
