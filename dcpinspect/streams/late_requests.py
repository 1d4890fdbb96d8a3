"""Stream requests that are read after their answers, because a hole before them held them back."""

from __future__ import annotations

from dcpinspect.kernels.kernel import kernel_function
from dcpinspect.protocol.flags import FROM_LATEST
from dcpinspect.streams.lookup import BACK, losses_of, open_stream
from dcpinspect.streams.record_codes import ANSWER_LOST, BY_START, IS_LOST, POSITION_UNSURE
from dcpinspect.streams.records import (
    CUT_VALUE,
    ConnectionRow,
    EarlyAnswer,
    Message,
    Stream,
    StreamKey,
)
from dcpinspect.streams.state import ReadingState


@kernel_function
def question_before_answer(state: ReadingState, message: Message, key: StreamKey) -> int:
    """Returns the question before a late request, with its key and opaque, whose answer came after
    the late request; -1 for none.

    A client that asks again under an opaque has had its first answer. So that first answer was
    lost, and the answer given to the question belongs to the late request.
    """
    time = message.place.time
    for back in range(1, BACK + 1):
        q = state.counts.questions - back
        if q < 0:
            break
        stream = state.streams[state.questions[q].stream]
        is_same = stream.opaque == message.opaque and stream.connection == key.connection
        if is_same and stream.vbucket == key.vbucket and stream.sid == key.sid:
            is_answered = stream.answered.row > 0 and stream.answered.time > time
            return int(q) if is_answered and stream.opened.time < time else -1
    return -1


@kernel_function
def ask_instead(state: ReadingState, message: Message, key: StreamKey, q: int) -> None:
    """Puts a request in the place of question ``q``, now a stream with an unknown answer."""
    number = state.questions[q].stream
    old = state.streams[number]
    st = open_stream(state, message, key)
    stream = state.streams[st]
    stream.doubt |= ANSWER_LOST
    stream.request = old.request
    stream.opened = old.opened
    stream.latest = old.opened
    old.request = state.requests[message.detail]
    old.opened = message.place
    if old.has_position and old.position_by == BY_START:
        old.position = old.request.start
        old.has_position = 1 if old.request.is_captured != 0 else 0
    state.questions[q].stream = st
    q = state.counts.questions
    state.counts.questions = q + 1
    state.questions[q].row = message.place.row
    state.questions[q].stream = number


@kernel_function
def implicit_stream(state: ReadingState, message: Message, st: int) -> int:
    """Returns the first stream, from ``st`` backwards, that may have begun with a request that was
    not read by then; -1 for none.
    """
    stream_number = -1
    for _ in range(BACK):
        if st < 0:
            break
        stream = state.streams[st]
        is_unasked = (
            stream.request.is_captured == 0
            and stream.request.filter != CUT_VALUE
            and stream.opaque == message.opaque
        )
        if (
            is_unasked
            and stream.latest.time > message.place.time
            and not 0 < stream.finished.time < message.place.time
        ):
            stream_number = st
        st = stream.previous
    return int(stream_number)


@kernel_function
def begin_late(state: ReadingState, message: Message, stream: Stream) -> None:
    """The stream had begun by the time its request was read: what it did not bring from the seqno
    asked for on is a gap all the same.
    """
    if stream.request.is_captured == 0 or stream.request.flags & FROM_LATEST != 0:
        return
    losses = losses_by(state, state.connections[stream.connection], message.place.time)
    answer_place = stream.answered if stream.answered.row > 0 else message.place
    if stream.has_position == 0 and stream.seen == 0:
        stream.has_position = 1
        stream.position = stream.request.start
        stream.position_by = BY_START
        stream.position_losses = losses
        stream.doubt &= ~POSITION_UNSURE
        stream.at = answer_place
    elif stream.open_gap >= 0 and stream.request.start < state.gaps[stream.open_gap].before - 1:
        gap = state.gaps[stream.open_gap]
        gap.after = stream.request.start
        gap.begins = answer_place
        gap.losses -= losses
        if gap.losses == 0 and gap.unreadable < 0:
            gap.flags &= ~IS_LOST
            gap.loss = -1


@kernel_function
def losses_by(state: ReadingState, connection: ConnectionRow, time: int) -> int:
    """Losses in the producer's direction of a connection before a time."""
    losses, loss = losses_of(connection), connection.last_loss[connection.producer]
    while loss >= 0 and state.losses[loss].after_time > time:
        loss = state.losses[loss].previous
        losses -= 1
    return int(losses)


@kernel_function
def is_answered_between(state: ReadingState, answer: EarlyAnswer, stream: Stream) -> bool:
    """Returns whether another request with its opaque was answered after this answer and before the
    stream began.
    """
    for r in range(len(state.early_answers)):
        early_answer = state.early_answers[r]
        is_same = (
            early_answer.connection == answer.connection and early_answer.opaque == answer.opaque
        )
        if is_same and answer.place.row < early_answer.place.row < stream.opened.row:
            return True
    return False


@kernel_function
def first_answer_after(state: ReadingState, message: Message) -> int:
    """Returns the first answer after a request, with its opaque, among answers that found no
    request; -1 for none.
    """
    answer_number = -1
    for r in range(len(state.early_answers)):
        answer = state.early_answers[r]
        is_its = (
            answer.connection == message.connection
            and answer.opaque == message.opaque
            and answer.place.time > message.place.time
        )
        if is_its and (
            answer_number < 0 or answer.place.row < state.early_answers[answer_number].place.row
        ):
            answer_number = r
    return answer_number
