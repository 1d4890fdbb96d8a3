"""The numbers in fields of the tracker's records: kinds of messages, bits, sources of values."""

from __future__ import annotations

(
    LOST, FACT, CLOSE, CLOSE_ANSWER, ANSWER, NOOP_ANSWER, MARKER_ANSWER, REQUEST, UNREADABLE_REQUEST, CONTROL, ACK, UNREADABLE_ACK,
    SEQNO_ACK, NOOP, FLUSH, END, MARKER, EVENT, SYSTEM_EVENT, PREPARE, COMMIT, ABORT, SEQNO_ADVANCED, OSO, CACHE, CACHE_END, SET_STATE,
    UNREADABLE, KINDS,
) = range(1, 30)  # fmt: skip
"""Kinds of messages. From REQUEST to SEQNO_ACK: what only consumers send; from NOOP on, what only
producers send; from END on, what flow control counts. LOST is no message: bytes before the next one
of its direction could not be read. FACT: something known of a connection from now on.
UNREADABLE_REQUEST: only the header was captured. UNREADABLE_ACK: the number of bytes cannot be
read.
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

(
    IS_LOST, IS_ADVANCED, IS_TAIL, IN_RANGE, BOTH_EVENTS, NO_MARKER, FROM_START, AT_EDGE, IN_OSO, OF_ROLLBACK, OF_RESUMPTION,
) = (1 << bit for bit in range(11))  # fmt: skip
"""Bits of ``Gap.flags``. IS_LOST: bytes between the two messages were lost. IS_ADVANCED: the gap
ends with a SeqnoAdvanced. IS_TAIL: it is at the end of a snapshot. IN_RANGE: ``before`` is an event
inside its snapshot's range. BOTH_EVENTS: both are events of that snapshot. NO_MARKER: the
snapshot's marker was not captured. FROM_START: ``after`` is where the stream began. AT_EDGE:
``after`` is that, or the end of a snapshot, or a seqno inside the range of its own snapshot. The
kernel writes none of the others. IN_OSO: an OSO snapshot is complete without it. OF_ROLLBACK: it is
what a request has above the seqno to roll back to. OF_RESUMPTION: it lies between two streams.
"""
