"""What is kept of the conversation on all connections."""

from __future__ import annotations

import numpy as np

from dcpinspect.streams.conversation import Conversation


def test_a_filter_is_kept_once() -> None:
    conversation = Conversation()
    assert conversation.filter_of(b'{"sid":5,"collections":["8"]}') == 0
    assert conversation.filter_of(b'{"uid":"1"}') == 1
    assert conversation.filter_of(b'{"sid":5,"collections":["8"]}') == 0


def test_a_failover_log_is_kept_once_and_only_when_it_is_one() -> None:
    conversation = Conversation()
    assert (
        conversation.log_of(bytes(16)),
        conversation.log_of(bytes(32)),
        conversation.log_of(bytes(16)),
    ) == (0, 1, 0)
    assert conversation.log_of(b"") == conversation.log_of(bytes(15)) == -1


def test_joined_sessions_are_in_order_of_their_new_numbers() -> None:
    first, second = Conversation(), Conversation()
    first.session_of(2).bucket = "b"
    first.session_of(1).bucket = "d"
    second.session_of(1).bucket = "a"
    joined, _, _ = Conversation.joined([first, second], [np.array([0, 4, 2]), np.array([0, 1])])
    buckets = [(number, session.bucket) for number, session in joined.sessions.items()]
    assert buckets == [(1, "a"), (2, "b"), (4, "d")]
