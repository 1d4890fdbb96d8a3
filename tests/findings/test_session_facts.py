"""What holds at each message: settings that were asked for and answered, and where clients
asked.
"""

from __future__ import annotations

import numpy as np

from dcpinspect.findings.session_facts import (
    OFF,
    ON,
    STREAM_IDS,
    UNKNOWN,
    SessionFacts,
)
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.reading.engine import Engine
from dcpinspect.streams.tracker import Tracker
from dcpinspect.tables.messages import MessageBatch
from tests.damage import PORT, batches
from tests.streams.told import Told, opened, packets


def taken(talk: Told) -> tuple[SessionFacts, MessageBatch]:
    engine, tracker, facts = Engine(["told.pcap"], ports=(PORT,)), Tracker(), SessionFacts()
    (batch,) = [
        one
        for one in [*(engine.feed(part) for part in batches(packets(talk), [])), engine.finish()]
        if one is not None and len(one)
    ]
    tracker.feed(batch)
    facts.feed(batch, tracker.conversation.news, tracker.state.producers)
    return facts, batch


def test_a_setting_is_unknown_from_its_request_to_its_answer() -> None:
    talk = opened()
    talk.control("enable_stream_id", "true")
    facts, batch = taken(talk)
    held = facts.values_at(STREAM_IDS, batch, np.arange(len(batch)))
    asked = max(np.flatnonzero(batch.decoded.opcode == Opcode.DCP_CONTROL).tolist()) - 1
    assert batch.key_of(asked) == b"enable_stream_id"
    assert held[:asked].tolist() == [OFF] * asked
    assert held[asked:].tolist() == [UNKNOWN, ON]


def test_a_session_knows_where_its_open_and_its_controls_were_asked_for() -> None:
    talk = opened()
    talk.control("enable_stream_id", "true")
    _, batch = taken(talk)
    tracker = Tracker()
    tracker.feed(batch)
    session = tracker.conversation.session_of(1)
    asked = [session.open_asked, *(control.request for control in session.controls.values())]
    rows = [one.at.row for one in asked if one is not None]
    is_open = np.isin(batch.decoded.opcode, (Opcode.DCP_OPEN, Opcode.DCP_CONTROL))
    assert rows == batch.row[is_open & ~batch.decoded.is_response].tolist()
    assert session.accepted["enable_stream_id", "true"] == asked[-1]
