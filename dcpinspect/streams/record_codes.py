"""The numbers in fields of the tracker's records: kinds of messages, bits, sources of values."""

from __future__ import annotations

(
    LOST, FACT, CLOSE, CLOSE_ANSWER, ANSWER, NOOP_ANSWER, MARKER_ANSWER, MARKER_REFUSAL, REFUSAL, REQUEST, UNREADABLE_REQUEST, CONTROL,
    ACK, UNREADABLE_ACK, SEQNO_ACK, NOOP, FLUSH, END, MARKER, EVENT, SYSTEM_EVENT, PREPARE, COMMIT, ABORT, SEQNO_ADVANCED, OSO, CACHE,
    CACHE_END, SET_STATE, UNREADABLE, KINDS,
) = range(1, 32)  # fmt: skip
"""Kinds of messages. From REQUEST to SEQNO_ACK: what only consumers send; from NOOP on, what only
producers send; from END on, what flow control counts. LOST is no message: bytes before the next one
of its direction could not be read. FACT: something known of a connection from now on.
UNREADABLE_REQUEST: only the header was captured. UNREADABLE_ACK: the number of bytes cannot be
read. REFUSAL: an answer to an event, other than success; MARKER_REFUSAL: to a marker.
"""

FACT_END_ON_CLOSE, FACT_OSO, FACT_HISTORY, FACT_WINDOW, FACT_PRODUCER = range(5)
"""What a FACT tells of its connection: the field of that name gets ``Extra.value``."""
ASKED, REFUSED = -2, -3
"""Values of a FACT about a setting that is on, off or unknown: it was asked for, and the answer was
no. In between it is unknown.
"""

IS_EVENT, IS_SUSPENDED, IS_WHOLE, IS_ASKED = (1 << bit for bit in range(4))
"""Bits of ``Message.standing``: the message is an event of a stream; something was lost since the
stream's last marker; nothing of the stream was lost since its answer; its request was captured.
"""

BY_START, BY_EVENT, BY_ADVANCED, BY_END = range(4)
"""What gave the position of a stream: its start, an event, a SeqnoAdvanced, or the end of a
snapshot that did not bring its last seqno.
"""

HAS_VISIBLE, HAS_COMPLETED, HAS_PURGE, HAS_PREPARED = (1 << bit for bit in range(4))
"""Bits of ``OptionalSeqnos.present``: which of its seqnos a marker has."""

UPR_LAYOUT, OSO_LAYOUT = 0, -1
"""Layouts of snapshots without a range: the marker of UPR, and an OSO snapshot."""

ANSWER_LOST, SID_UNKNOWN, POSITION_UNSURE = (1 << bit for bit in range(3))
"""Bits of ``Stream.doubt``. ANSWER_LOST: its answer or its end may be lost, though nothing is known
to be lost since its latest message. SID_UNKNOWN: it may be of any stream-id. POSITION_UNSURE: what
came after its position may be lost, or could not be read.
"""

(
    IS_LOST, IS_ADVANCED, IS_TAIL, IN_RANGE, SAME_SNAPSHOT, MARKER_LOST, FROM_START, AFTER_IN_RANGE, IN_OSO, OF_ROLLBACK, OF_RESUMPTION,
    BEGINS_IN_RANGE, AFTER_EVENT, AFTER_UNMARKED, MAY_LACK_MARKERS,
) = (1 << bit for bit in range(15))  # fmt: skip
"""Bits of ``Gap.flags``, each of which says one thing; ``gaps.py`` concludes from them. IS_LOST:
bytes between the two messages were lost. IS_ADVANCED: the gap ends with a SeqnoAdvanced. IS_TAIL:
it is at the end of a snapshot.

IN_RANGE: ``before`` is in the range of its snapshot, and so is, if BEGINS_IN_RANGE, the first seqno
of the gap. SAME_SNAPSHOT: ``after`` came in that snapshot, too. MARKER_LOST: ``before`` has no
snapshot, and something was lost since the last marker. FROM_START: ``after`` is where the stream
began; AFTER_EVENT: it is an event; AFTER_UNMARKED: it came in no snapshot; AFTER_IN_RANGE: it is in
the range of its own snapshot. MAY_LACK_MARKERS: a marker of the stream may not have been captured.

The kernel writes none of the others. IN_OSO: an OSO snapshot is complete without it. OF_ROLLBACK:
it is what a request has above the seqno to roll back to. OF_RESUMPTION: it lies between two
streams.
"""
