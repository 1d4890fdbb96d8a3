from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.errors import CaptureError
from dcpinspect.output.vbucket_heat import Heat
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tui.inspection import Inspection
from tests.captures import field
from tests.doubled import packets_of, passed_on, written
from tests.tui.screens import SAMPLES


def loaded(path: Path) -> Inspection:
    inspection = Inspection([str(path)])
    inspection.load()
    return inspection


def test_it_ends_with_what_check_and_streams_say() -> None:
    inspection = loaded(SAMPLES / "rollback.pcap")
    with Reading([str(SAMPLES / "rollback.pcap")]) as reading:
        reading.check()
        for _ in reading:
            pass
        findings, tables = reading.findings(), reading.by_name()
    results = inspection.results
    assert inspection.state == "done"
    assert inspection.share == 1.0
    assert results.findings == findings
    assert {name: table.records() for name, table in results.records.items()} == {
        name: table.records() for name, table in tables.items()
    }
    inspection.close()


def test_what_is_stopped_keeps_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    inspection = Inspection([str(SAMPLES / "large.pcapng.gz")])
    feed = Heat.feed

    def feed_and_stop(heat: Heat, batch: MessageBatch) -> None:
        feed(heat, batch)
        inspection.stop()

    monkeypatch.setattr(Heat, "feed", feed_and_stop)
    inspection.load()
    assert inspection.state == "stopped"
    assert 0 < inspection.results.rows == inspection.store.rows
    inspection.close()


def test_a_file_that_is_no_capture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"no capture")
    with pytest.raises(CaptureError):
        Inspection([str(tmp_path / "a")])


def test_a_file_that_changes_behind_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes((SAMPLES / "rollback.pcap").read_bytes())
    inspection = loaded(path)
    path.unlink()
    with pytest.raises((CaptureError, OSError)):
        inspection.store.messages([1])
    inspection.close()


def test_messages_of_a_copy_are_in_no_chart_or_statistic(tmp_path: Path) -> None:
    packets = packets_of(field("t00-base"))
    told = []
    for shown in (packets, passed_on(packets)):
        inspection = loaded(written(tmp_path, shown))
        results = inspection.results
        counts = [
            (row["name"], row["count"])
            for row in results.statistics
            if row["section"] == "messages"
        ]
        told.append((counts, results.charts.by_connection[1].tolist()))
        inspection.close()
    assert told[0] == told[1]
