from __future__ import annotations

import orjson
import pytest

from dcpinspect.findings.logs.log_events import LogEvent
from dcpinspect.findings.logs.server_statistics import Statistics
from tests.findings.logs.written import failovers, seqnos

STREAM = {
    "start_seqno": 5,
    "end_seqno": 2**64 - 1,
    "vb_uuid": 161,
    "snap_start_seqno": 4,
    "snap_end_seqno": 9,
    "last_sent_seqno": 30,
}


def told(text: str) -> list[LogEvent]:
    statistics, out = Statistics("stats.log"), []
    for number, line in enumerate(text.split("\n"), 1):
        out += list(statistics.take(number, line.encode()) or ())
    return [*out, *statistics.finish()]


def test_a_failover_log_is_put_together() -> None:
    assert told(failovers(3, (0xB2, 900), (0xA1, 0))) == [
        LogEvent(
            "stats.log",
            3,
            "failover-log",
            vbucket=3,
            vbucket_uuid=0xB2,
            failover_log=[(0xB2, 900), (0xA1, 0)],
        )
    ]


def test_a_failover_log_of_which_a_line_is_missing_is_none() -> None:
    lines = failovers(3, (0xB2, 900), (0xA1, 0)).split("\n")
    for place in range(2, len(lines)):
        assert told("\n".join(lines[:place] + lines[place + 1 :])) == []


def test_seqnos_of_a_vbucket_are_read() -> None:
    assert told(seqnos(3, 1200, 40)) == [
        LogEvent(
            "stats.log",
            2,
            "vbucket-seqnos",
            vbucket=3,
            vbucket_uuid=0xA1,
            high_seqno=1200,
            purge_seqno=40,
        )
    ]


def test_buckets_are_told_apart() -> None:
    text = "\n".join(
        ["*" * 78, "beer", "", failovers(0, (1, 0)), "*" * 78, "travel", "", failovers(0, (2, 0))]
    )
    assert [(one.bucket, one.failover_log) for one in told(text)] == [
        ("beer", [(1, 0)]),
        ("travel", [(2, 0)]),
    ]


@pytest.mark.parametrize("between", [":   ", " "])
@pytest.mark.parametrize("quote", ["", '"'])
def test_streams_of_dcp_are_read_as_text(between: str, quote: str) -> None:
    lines = [
        f"eq_dcpq:reader:1:stream_3_{key}{between}{quote}{value}{quote}"
        for key, value in STREAM.items()
    ]
    found = told(
        "\n".join(
            [
                *lines,
                f"eq_dcpq:reader:1:stream_3_state{between}in-memory",
                f"eq_dcpq:reader:1:stream_3_flags{between}0",
            ]
        )
    )
    assert found == [
        LogEvent(
            "stats.log",
            1,
            "stream-state",
            name="eq_dcpq:reader:1",
            vbucket=3,
            start_seqno=5,
            end_seqno=2**64 - 1,
            vbucket_uuid=161,
            snapshot_start=4,
            snapshot_end=9,
            last_seqno=30,
            state="in-memory",
        )
    ]


def test_streams_of_dcp_are_read_in_all_forms_of_json() -> None:
    values = {key: str(value) for key, value in STREAM.items()} | {"state": "in-memory"}
    in_line = told(f"eq_dcpq:reader:1:stream_3 {orjson.dumps(values).decode()}")
    assert len(in_line) == 1
    for document in (
        {"eq_dcpq:reader:1:stream_3": values, "ep_dcp_count": 3},
        {f"eq_dcpq:reader:1:stream_3_{key}": value for key, value in values.items()},
    ):
        statistics = Statistics("stats.log")
        assert statistics.take_document(document)
        assert list(statistics.finish()) == in_line


@pytest.mark.parametrize(
    "line",
    [
        "vb_70000:0:id: 5",
        "vb_1:0:id: 99999999999999999999",
        "vb_1:high_seqno: -3",
        "a:stream_3_start_seqno: many",
        "a:stream_70000_start_seqno: 1",
        "a:stream_3 {not json}",
        "x" * 60_000,
        ":stream_" * 8000,
        f"a:stream_1_a: {' ' * 60_000}{'x' * 300}",
        "a:stream_5_start_seqno: ²",
        f'a:stream_5: {{"start_seqno":"{"9" * 5000}"}}',
        f'a:stream_5: {{"a":{"[" * 1010}{"]" * 1010}}}',
    ],
)
def test_what_is_no_statistic_is_told_apart(line: str) -> None:
    assert Statistics("stats.log").take(1, line.encode()) is None


def test_other_documents_are_refused() -> None:
    documents: list[object] = [[], {}, {"a": 1}, {"a": {"b": [1]}}, 7]
    for document in documents:
        assert not Statistics("stats.log").take_document(document)


def test_statistics_of_any_size_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcpinspect.findings.logs.server_statistics.MOST_ENTRIES", 4)
    monkeypatch.setattr("dcpinspect.findings.logs.server_statistics.MOST_STREAMS", 2)
    assert [
        one.vbucket for one in told("\n".join(failovers(vbucket, (1, 0)) for vbucket in range(5)))
    ] == [0, 1]
    assert len(told("\n".join(f"a:stream_{vbucket}_start_seqno 1" for vbucket in range(5)))) == 2
