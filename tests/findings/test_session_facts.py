"""What holds at each message: settings that were asked for and answered, and where clients
asked.
"""

from __future__ import annotations

import numpy as np

from dcpinspect.findings.finding import MessagePlace
from dcpinspect.findings.session_facts import (
    OFF,
    ON,
    STREAM_IDS,
    UNKNOWN,
    SessionFacts,
    SessionPlaces,
)
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.reading.engine import Engine
from dcpinspect.streams.tracker import Tracker
from dcpinspect.tables.messages import MessageBatch
from tests.damage import PORT, batches
from tests.streams.told import Told, opened, packets


def taken(talk: Told) -> tuple[SessionFacts, SessionPlaces, MessageBatch]:
    engine, tracker, facts, places = (
        Engine(["told.pcap"], ports=(PORT,)),
        Tracker(),
        SessionFacts(),
        SessionPlaces(),
    )
    (batch,) = [
        one
        for one in [*(engine.feed(part) for part in batches(packets(talk), [])), engine.finish()]
        if one is not None and len(one)
    ]
    tracker.feed(batch)
    facts.feed(batch, tracker.conversation.news, tracker.state.producers)
    places.feed(batch)
    return facts, places, batch


def test_a_setting_is_unknown_from_its_request_to_its_answer() -> None:
    talk = opened()
    talk.control("enable_stream_id", "true")
    facts, _, batch = taken(talk)
    held = facts.values_at(STREAM_IDS, batch, np.arange(len(batch)))
    asked = max(np.flatnonzero(batch.decoded.opcode == Opcode.DCP_CONTROL).tolist()) - 1
    assert batch.key_of(asked) == b"enable_stream_id"
    assert held[:asked].tolist() == [OFF] * asked
    assert held[asked:].tolist() == [UNKNOWN, ON]


def test_places_are_those_of_requests_for_the_whole_connection() -> None:
    talk = opened()
    talk.stream(7)
    _, places, batch = taken(talk)
    asked = np.isin(
        batch.decoded.opcode,
        (Opcode.HELLO, Opcode.DCP_OPEN, Opcode.DCP_CONTROL, Opcode.SELECT_BUCKET, Opcode.SASL_AUTH),
    )
    assert sorted(places.by_row) == batch.row[asked].tolist()
    assert {place.row for place in places.by_row.values()} == set(places.by_row)


def test_places_of_several_readings_are_in_order_of_rows_with_the_numbers_of_all() -> None:
    parts = [SessionPlaces({row: MessagePlace(row, 1, "c2s", 0, 0, row, row)}) for row in (5, 3)]
    joined = SessionPlaces.joined(parts, [np.array([0, 2]), np.array([0, 7])])
    assert [(row, place.connection) for row, place in joined.by_row.items()] == [(3, 7), (5, 2)]
