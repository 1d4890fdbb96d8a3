from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dcpinspect.findings.logs.log_events import LogEvent
from dcpinspect.findings.logs.memcached import MemcachedLog
from tests.captures import REAL_SERVER
from tests.catalogue import each
from tests.findings.logs.written import NAME, TIME, TIME_NS, json_line, line, producer, rollback

ENDLESS = 2**64 - 1
CREATED = (
    f"Creating stream with start seqno 5 and end seqno {ENDLESS}; requested end seqno was {ENDLESS}"
)
NAMES = {
    "time": TIME_NS,
    "conn_id": 57,
    "bucket": "beer",
    "role": "producer",
    "name": NAME,
    "vbucket": 417,
}
SNAPSHOT = {"snapshot_start": 4, "snapshot_end": 9}
ASKED = {"start_seqno": 5, "end_seqno": ENDLESS, "requested_end": ENDLESS}
ROLLED = {
    "start_seqno": 1000,
    "end_seqno": ENDLESS,
    "snapshot_start": 1000,
    "snapshot_end": 1000,
    "vbucket_uuid": 0xA1,
    "rollback_seqno": 900,
}
AHEAD = "consumer ahead of producer - producer upper at 900"
HIGH = "the start seqno (9) is larger than the vb highSeqno (7)"
IDLE = (
    "a message has not been received for the DCP idle timeout of 360s. Received last message "
    "361s ago."
)
DISCONNECTED = "The stream closed early because the conn was disconnected"
PAUSED = "paused connection now that DcpProducer::BufferLog is"
SAME_NAME = "existing Dcp Producer"
BRANCH = "created new failover entry with uuid:161 and seqno:900"

LINES: list[tuple[str, str, str, dict[str, Any]]] = [
    (producer(CREATED, old=True), "stream-created", "5.0–6.0", NAMES | ASKED),
    (
        producer(f"{CREATED}, collections-manifest uid:none, sid:none"),
        "stream-created",
        "6.5–6.6",
        NAMES | ASKED,
    ),
    (
        producer(f"(sid:2) {CREATED}, collections-filter-size:1 sid:2"),
        "stream-created",
        "7.0",
        NAMES | ASKED | {"sid": 2},
    ),
    (
        producer(f"{CREATED}, snapshot:{{4,9}} collections-filter-size:0 sid:none"),
        "stream-created",
        "7.1–7.2",
        NAMES | ASKED | SNAPSHOT,
    ),
    (
        producer(f"{CREATED}, flags:40, snapshot:{{4,9}} filter:{{passthrough, size:0}}, sid:none"),
        "stream-created",
        "7.6",
        NAMES | ASKED | SNAPSHOT,
    ),
    (
        json_line(
            "Creating stream",
            f'"vb":"vb:417","takeover":false,"start_seqno":5,"end_seqno":{ENDLESS},"requested_end_seqno":{ENDLESS},"flags":"None",'
            '"snapshot":[4,9],"filter":"x"',
        ),
        "stream-created",
        "8.0–",
        NAMES | ASKED | SNAPSHOT,
    ),
    (
        producer(
            "Stream closing, sent until seqno 12 remaining items 0, reason: The stream was "
            "closed early because it was too slow"
        ),
        "stream-closed",
        "5.0–7.6",
        NAMES | {"last_seqno": 12, "reason": "too-slow"},
    ),
    (
        json_line(
            "Stream closing",
            '"vb":"vb:417","sid":"sid:3","last_sent_seqno":12,"ready_queue_size":0,"status":"The stream closed early because the vbucket'
            ' state changed"',
            "WARNING",
        ),
        "stream-closed",
        "8.0–",
        NAMES | {"last_seqno": 12, "reason": "state-changed", "sid": 3, "level": "warning"},
    ),
    (rollback(), "rollback", "5.0–7.6", NAMES | ROLLED | {"reason": AHEAD}),
    (
        json_line(
            "Stream request requires rollback to seqno",
            f'"vb":"vb:417","rollback_seqno":900,"rollback_reason":"{AHEAD}","start_seqno":1000,"end_seqno":{ENDLESS},"snapshot":[1000,1000],'
            '"vb_uuid":161',
            "WARNING",
        ),
        "rollback",
        "8.0–",
        NAMES | ROLLED | {"reason": AHEAD},
    ),
    (
        producer(
            f"Stream request failed because {HIGH}, stream request flags is 0, vb_uuid 161, "
            "snapStartSeqno 9, snapEndSeqno 9; should have"
            " rolled back instead"
        ),
        "stream-refused",
        "5.0–7.6",
        NAMES
        | {
            "reason": HIGH,
            "start_seqno": 9,
            "high_seqno": 7,
            "vbucket_uuid": 161,
            "snapshot_start": 9,
            "snapshot_end": 9,
        },
    ),
    (
        producer(
            "Stream request failed because a stream already exists for this vbucket", old=True
        ),
        "stream-refused",
        "5.0–7.6",
        NAMES | {"reason": "a stream already exists for this vbucket"},
    ),
    (
        json_line("Stream request failed because this vbucket doesn't exist", '"vb":"vb:417"'),
        "stream-refused",
        "8.0–",
        NAMES | {"reason": "this vbucket doesn't exist"},
    ),
    (
        producer(
            "Handling slow stream; state_ : in-memory, lastReadSeqno : 7, lastSentSeqno : 6, "
            "vBucketHighSeqno : 90, isBackfillTaskRunning :"
            " False"
        ),
        "slow-stream",
        "5.0–7.6",
        NAMES | {"state": "in-memory", "last_seqno": 6, "high_seqno": 90},
    ),
    (
        json_line(
            "Waited for the consumer to free up space in the buffer window",
            '"since_last_paused":"61 s"',
        ),
        "buffer-full",
        "8.0–",
        NAMES | {"vbucket": None, "reason": "61 s"},
    ),
    (
        producer(
            "ActiveStream::transitionState: (vb 417) Transitioning from backfilling to in-memory",
            None,
        ),
        "stream-state",
        "5.0–7.6",
        NAMES | {"state": "in-memory"},
    ),
    (
        json_line(
            "ActiveStream::transitionState: Transitioning",
            '"vb":"vb:417","from":"in-memory","to":"takeover-send","details":null',
        ),
        "stream-state",
        "8.0–",
        NAMES | {"state": "takeover-send", "reason": None},
    ),
    (
        producer(
            f"Attempting to add stream: opaque_:1, start_seqno_:5, end_seqno_:{ENDLESS}, "
            "vb_uuid:161, snap_start_seqno_:4,"
            ' snap_end_seqno_:9, last_seqno:5, stream_req_value:{"uid":"0"}'
        ),
        "stream-requested",
        "5.0–7.6",
        NAMES
        | SNAPSHOT
        | {"start_seqno": 5, "end_seqno": ENDLESS, "vbucket_uuid": 161, "last_seqno": 5},
    ),
    (
        producer(
            "(sid:2) ActiveStream::scheduleBackfill_UNLOCKED register cursor with name "
            '"eq_dcpq:a b" backfill:true, seqno:37'
        ),
        "cursor-registered",
        "6.0–7.6",
        NAMES | {"sid": 2, "start_seqno": 37},
    ),
    (
        producer(
            (
                "Stream closed, 9 items sent from backfill phase, 0 items sent from memory phase, "
                "12 was last seqno sent"
            ),
            old=True,
        ),
        "stream-sent",
        "5.0–7.6",
        NAMES | {"last_seqno": 12},
    ),
    (
        producer(
            "Setting stream to dead state, last_seqno is 12, unAckedBytes is 0, status is "
            f"{DISCONNECTED}"
        ),
        "stream-closed",
        "5.0–7.6",
        NAMES | {"last_seqno": 12, "reason": "disconnected"},
    ),
    (
        json_line(
            "Setting stream to dead state",
            f'"vb":"vb:417","last_seqno":12,"unacked_bytes":0,"status":"{DISCONNECTED}"',
        ),
        "stream-closed",
        "8.0–",
        NAMES | {"last_seqno": 12, "reason": "disconnected"},
    ),
    (
        producer("End stream received with reason 2"),
        "end-received",
        "5.0–7.6",
        NAMES | {"reason": "state-changed"},
    ),
    (
        json_line("End stream received", f'"vb":"vb:417","status":"{DISCONNECTED}"'),
        "end-received",
        "8.0–",
        NAMES | {"reason": "disconnected"},
    ),
    (
        producer("Vbucket marked as dead, last sent seqno: 12, high seqno: 14"),
        "takeover",
        "6.5–7.6",
        NAMES | {"last_seqno": 12, "high_seqno": 14},
    ),
    (
        producer(
            f"Notifying {PAUSED} no longer full; ackedBytes:60329, bytesSent:0, maxBytes:20000",
            None,
        ),
        "window-state",
        "5.0–7.6",
        NAMES | {"vbucket": None, "state": "no longer full"},
    ),
    (
        producer("Received rollback request. Rolling back to seqno:900"),
        "rollback-received",
        "5.0–7.6",
        NAMES | {"rollback_seqno": 900},
    ),
    (
        json_line("Received rollback request. Rolling back", '"vb":"vb:417","rollback_seqno":900'),
        "rollback-received",
        "8.0–",
        NAMES | {"rollback_seqno": 900},
    ),
    (
        json_line("Invalid ctrl parameter", '"value":"2.3","key":"max_marker_version"'),
        "request-refused",
        "8.0–",
        NAMES
        | {"vbucket": None, "reason": "Invalid ctrl parameter: value 2.3, key max_marker_version"},
    ),
    (
        producer(
            f"Disconnecting {SAME_NAME} 0x7f3 as it has the same name as a new connection 0x7f4",
            None,
        ),
        "disconnect",
        "5.0–7.6",
        NAMES
        | {
            "vbucket": None,
            "reason": f"{SAME_NAME} 0x7f3 as it has the same name as a new connection 0x7f4",
        },
    ),
    (
        producer(
            (
                'Removing connection [ {"ip":"127.0.0.1","port":54862} - '
                '{"ip":"127.0.0.1","port":11210} (<ud>@admin</ud>) ]'
            ),
            None,
        ),
        "connection-removed",
        "5.0–7.6",
        NAMES | {"vbucket": None},
    ),
    (
        json_line(
            "Removing connection",
            '"description":{"termination_reason":"Client closed connection: EOF"}',
        ),
        "connection-removed",
        "8.0–",
        NAMES
        | {"vbucket": None, "reason": '{"termination_reason":"Client closed connection: EOF"}'},
    ),
    (
        producer(f"Disconnecting because {IDLE}", None),
        "disconnect",
        "5.0–7.6",
        NAMES | {"vbucket": None, "reason": IDLE},
    ),
    (
        producer("Scheduling backfill from 6 to 900, uid:4, reschedule flag : False"),
        "backfill-scheduled",
        "5.0–7.6",
        NAMES | {"start_seqno": 6, "end_seqno": 900},
    ),
    (
        producer(
            "ActiveStream::markDiskSnapshot: Sending disk snapshot with start 1, end 900, and "
            "high completed none, max visible 900"
        ),
        "disk-snapshot",
        "6.5–7.1",
        NAMES | {"snapshot_start": 1, "snapshot_end": 900},
    ),
    (
        producer(
            "Backfill complete, 9 items read from disk, 0 from memory, last seqno read: 900, "
            "pendingBackfill : False"
        ),
        "backfill-complete",
        "5.0–7.0",
        NAMES | {"last_seqno": 900},
    ),
    (
        line(
            "(beer) VBucket::setState: transitioning vb:3 with high seqno:44 from:active to:replica"
        ),
        "vbucket-state",
        "6.5–7.6",
        {"bucket": "beer", "vbucket": 3, "high_seqno": 44, "state": "replica", "conn_id": None},
    ),
    (
        line(f"(No Engine) KVBucket::setVBucketState: vb:3 {BRANCH}"),
        "failover-entry",
        "5.0–",
        {"bucket": None, "vbucket": 3, "vbucket_uuid": 161, "start_seqno": 900},
    ),
    (
        line(
            f"Warmup(beer)::createVBuckets: vb:3 {BRANCH} due to unclean shutdown "
            f'{{"bucket":"beer"}}'
        ),
        "failover-entry",
        "6.5–",
        {"bucket": "beer", "vbucket": 3, "vbucket_uuid": 161, "reason": "unclean shutdown"},
    ),
    (
        line(
            "57: DCP connection opened successfully. PRODUCER, [ 127.0.0.1:4000 - "
            "127.0.0.1:11210 (reader) ]"
        ),
        "connection-opened",
        "5.0–7.6",
        {"conn_id": 57, "name": None},
    ),
]


def taken(text: str | bytes) -> LogEvent | bool | None:
    return MemcachedLog("memcached.log").take(7, text if isinstance(text, bytes) else text.encode())


@each(("text", "event", "versions", "values"), LINES)
def test_a_line_of_each_form_is_read(
    text: str, event: str, versions: str, values: dict[str, Any]
) -> None:
    found = taken(text)
    assert isinstance(found, LogEvent)
    assert (found.event, found.versions, found.line) == (event, versions, 7)
    assert {name: getattr(found, name) for name in values} == values


@each(("text", "event"), [(text, event) for text, event, _, _ in LINES])
def test_a_line_that_is_cut_is_never_guessed(text: str, event: str) -> None:
    open_end = (
        "stream-refused",
        "disconnect",
        "connection-opened",
        "connection-removed",
        "request-refused",
        "window-state",
        "other",
    )
    for size in range(len(text)):
        found = taken(text[:size])
        if isinstance(found, LogEvent) and event not in open_end:
            whole = taken(text)
            assert isinstance(whole, LogEvent)
            assert found.event == event
            numbers = ("rollback_seqno", "vbucket_uuid", "last_seqno", "start_seqno")
            assert all(
                str(getattr(whole, name)).startswith(str(getattr(found, name))) for name in numbers
            )


@pytest.mark.parametrize(
    "text",
    [
        producer("ActiveStream::dance: Transitioning from backfilling to in-memory"),
        producer("End stream received with reason 99"),
        producer("Stream closed, 9 items sent from backfill"),
        json_line("Setting stream to sleep", '"vb":"vb:417"'),
        producer(
            "Stream closing, sent until seqno 12 remaining items 0, reason: The stream felt like it"
        ),
        producer(CREATED, 70000),
        rollback(uuid=2**64),
        json_line("Creating stream", '"vb":"vb:417","start_seqno":-1'),
        json_line("Connection created", f'"x":{"[" * 1010}{"]" * 1010}'),
        json_line("Removing connection", f'"description":{"[" * 300}{"]" * 300}'),
        producer('ActiveStream::registerCursor name "' + '" ' * 30_000),
        json_line("Creating stream", '"vb":"vb:417","snapshot":[1,2,3]'),
        json_line("Stream closing", '"vb":"vb:417","last_sent_seqno":12,"status":7'),
    ],
)
def test_what_has_no_known_form_is_counted(text: str) -> None:
    log = MemcachedLog("memcached.log")
    assert log.take(1, text.encode()) is None
    assert (log.events, log.unknown, log.others) == (0, 1, 0)


REAL = sorted((REAL_SERVER / "logs").glob("*.txt"))


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_every_line_about_dcp_that_real_servers_wrote_is_known(path: Path) -> None:
    log = MemcachedLog(path.name)
    with path.open("rb") as lines:
        found = [log.take(number, line.rstrip(b"\n")) for number, line in enumerate(lines, 1)]
    assert log.unknown == 0
    assert all(
        event.role and event.name
        for event in found
        if isinstance(event, LogEvent) and event.event == "stream-state"
    )


def test_every_transition_of_real_servers_names_its_vbucket_and_state() -> None:
    lines = [
        line
        for path in REAL
        for line in path.read_bytes().splitlines()
        if b"transitionState" in line
    ]
    events = [MemcachedLog("memcached.log").take(1, line) for line in lines]
    assert len(events) == 88
    assert all(
        isinstance(event, LogEvent) and event.state and event.vbucket is not None
        for event in events
    )


def test_lines_about_other_things_are_counted_apart() -> None:
    log = MemcachedLog("memcached.log")
    assert log.take(1, line("58: HELO [regular]").encode()) is None
    assert (log.unknown, log.others) == (0, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#",
        f"{TIME} LOUD something",
        "2026-13-01T10:00:00.250000+01:00 INFO x",
        "0001-01-01T00:00:00.0+23:59 INFO x",
        "0001-01-01T00:00:00.0Z INFO x",
        "2263-01-01T00:00:00.0Z INFO x",
        b"\xff\x00" * 500,
    ],
)
def test_what_is_no_line_of_a_log_is_told_apart(text: str | bytes) -> None:
    assert taken(text) is False


def test_the_time_zone_counts() -> None:
    for zone, hours in (("Z", 0), ("+00:00", 0), ("-0230", 2.5), ("+01:00", -1)):
        found = taken(rollback(time=f"2026-03-01T10:00:00.25{zone}"))
        assert isinstance(found, LogEvent)
        assert found.time == TIME_NS + int((hours + 1) * 3600) * 10**9


def test_a_bucket_or_name_with_bytes_that_are_no_text_is_read() -> None:
    found = taken(rollback().encode().replace(b"reader", b"re\xff\x1bder"))
    assert isinstance(found, LogEvent)
    assert found.name == "eq_dcpq:re\udcff\x1bder:1"
