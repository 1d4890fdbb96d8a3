"""The numbers that fields of the tracker's records have: kinds of messages, bits, and where something comes from."""

from __future__ import annotations

(
    LOST, FACT, CLOSE, CLOSE_ANSWER, ANSWER, NOOP_ANSWER, MARKER_ANSWER, REQUEST, UNREADABLE_REQUEST, CONTROL, ACK, UNREADABLE_ACK,
    SEQNO_ACK, NOOP, FLUSH, END, MARKER, EVENT, SYSTEM_EVENT, PREPARE, COMMIT, ABORT, SEQNO_ADVANCED, OSO, CACHE, CACHE_END, SET_STATE,
    UNREADABLE, KINDS,
) = range(1, 30)  # fmt: skip
"""Kinds of messages. From REQUEST to SEQNO_ACK: what only consumers send; from NOOP on, what only producers send; from END on, what flow
control counts. LOST is no message: bytes before the next one of its direction could not be read. FACT: something that is known of its
connection from now on. UNREADABLE_REQUEST: of which there is the header only. UNREADABLE_ACK: of so many bytes that nobody knows how
many."""

FACT_END_ON_CLOSE, FACT_OSO, FACT_HISTORY, FACT_WINDOW, FACT_PRODUCER = range(5)
"""What a FACT tells of its connection: the field of that name, with ``Extra.value``."""

IS_EVENT, IS_SUSPENDED, IS_WHOLE, IS_ASKED = (1 << bit for bit in range(4))
"""Bits of ``Message.standing``: the message is an event of a stream; something was lost since the stream's last marker; nothing of the
stream was lost, from its answer on; its request was captured."""

BY_START, BY_EVENT, BY_ADVANCED, BY_END = range(4)
"""What gave the position of a stream: its start, an event, a SeqnoAdvanced, the end of a snapshot that did not bring it."""

UPR_LAYOUT, OSO_LAYOUT = 0, -1
"""Layouts of snapshots without a range: of the marker of UPR, and of an OSO snapshot."""

IS_LOST, IS_ADVANCED, IS_TAIL, IN_RANGE, BOTH_EVENTS, NO_MARKER, FROM_START, AT_EDGE = (1 << bit for bit in range(8))
"""Bits of ``Gap.flags``: bytes between the two messages were lost; it ends with a SeqnoAdvanced; it is at the end of a snapshot;
``before`` is an event inside its snapshot's range; both are events of that snapshot; the snapshot's marker was not captured; ``after``
is where the stream began; it is that, or where a snapshot ended, or a seqno inside the range of its own."""
