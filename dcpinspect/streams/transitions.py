"""The life of a stream and of a snapshot: their states, and which state may follow which.

A stream is REQUESTED by the client. The server's answer makes it ACCEPTED or NOT_ACCEPTED, and its
first marker STREAMING. A client that wants no more of it asks to close it: CLOSING. Where the
server does not end closed streams, its answer to that is the last word, but messages may be under
way: DRAINING. The server's stream end makes it ENDED. Where the capture lacks the end, the next
stream of the same vbucket takes its place: LEFT. A stream whose request was not captured begins
with a message: it is STREAMING at once.

A snapshot is OPEN from its marker on, until the event or SeqnoAdvanced with its last seqno makes it
COMPLETE or COMPLETE_ADVANCED; an out-of-order snapshot is COMPLETE_OSO with its end. What comes
before that is over it: a marker of the same range with the history bit makes it CONTINUED, any
other marker INCOMPLETE, the end of the stream CUT. Where something was lost in between, it is
NOT_KNOWN. If the consumer refuses a faulty marker, its snapshot is REFUSED, and the one that it was
over is OPEN again.

``set_state`` and ``set_snapshot_state`` are the only ways to change a state. Kernels do not check
what they are told, for the wire may say anything; tests hold every change in every capture against
the tables here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dcpinspect.kernels.kernel import kernel_function
from dcpinspect.streams.records import Snapshot, Stream
from dcpinspect.text import words_of

REQUESTED, ACCEPTED, STREAMING, CLOSING, DRAINING, ENDED, LEFT, NOT_ACCEPTED = range(8)
STREAM_STATES = words_of("requested accepted streaming closing draining ended left not-accepted")

STREAM_TRANSITIONS: Mapping[int, Collection[int]] = {
    REQUESTED: (ACCEPTED, CLOSING, STREAMING, NOT_ACCEPTED),
    ACCEPTED: (STREAMING, CLOSING, DRAINING, ENDED, LEFT),
    STREAMING: (CLOSING, DRAINING, ENDED, LEFT),
    CLOSING: (DRAINING, ENDED, LEFT),
    DRAINING: (ENDED, LEFT),
    ENDED: (),
    LEFT: (),
    NOT_ACCEPTED: (),
}

SNAPSHOT_STATES = words_of(
    "open complete complete-seqno-advanced complete-oso continued cut incomplete unknown refused"
)
OPEN, COMPLETE, COMPLETE_ADVANCED, COMPLETE_OSO, CONTINUED, CUT, INCOMPLETE, NOT_KNOWN, REFUSED = (
    range(9)
)

SNAPSHOT_TRANSITIONS: Mapping[int, Collection[int]] = {
    OPEN: (
        *(COMPLETE, COMPLETE_ADVANCED, COMPLETE_OSO, CONTINUED, CUT, INCOMPLETE, NOT_KNOWN),
        REFUSED,
    ),
    COMPLETE: (),
    COMPLETE_ADVANCED: (),
    COMPLETE_OSO: (),
    CONTINUED: (OPEN,),
    CUT: (),
    INCOMPLETE: (OPEN,),
    NOT_KNOWN: (OPEN,),
    REFUSED: (),
}


@kernel_function
def set_state(stream: Stream, state: int) -> None:
    """Puts a stream into a state."""
    stream.state = state


@kernel_function
def set_snapshot_state(snapshot: Snapshot, state: int) -> None:
    """Puts a snapshot into a state."""
    snapshot.state = state


@kernel_function
def is_open(state: int) -> bool:
    """Returns whether messages may come in this state of a stream."""
    return ACCEPTED <= state <= DRAINING
